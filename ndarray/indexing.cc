#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/autograd/tape.h"
#include "tessera/ndarray/call/call_plan.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/memory/array_body.h"
#include "tessera/ndarray/recorded_function.h"

namespace tessera {
namespace {

/// Puts a view of an array on the tape as the result of an operator of `inputs`, if the thread
/// records. The first input is the array.
NDArray Recorded(NDArray view, std::span<const NDArray> inputs, std::string_view op,
                 const ParameterMap& parameters) {
  if (!ShouldRecord(inputs)) return view;
  const auto plan = ndarray_internal::CallPlan::Find(op, parameters, inputs, {});
  ndarray_internal::RecordOperator(plan, {.is_train = ndarray_internal::Modes().training}, inputs,
                                   {&view, 1});
  return view;
}

std::string TupleText(std::span<const index_t> values) {
  std::string text = "(";
  for (const index_t value : values) text += std::to_string(value) + ",";
  return text + ")";
}

/// Puts a view with another shape on the tape.
NDArray RecordedReshape(NDArray view, const NDArray& array) {
  // In a traced graph, the second input of reshape_like would be an array of this call. Reshape
  // has no codes for scalars and empty arrays.
  const TShape& shape = view.shape();
  if (ndarray_internal::IsTracing() && shape.ndim() > 0 && shape.Size() > 0) {
    return Recorded(view, {&array, 1}, "Reshape",
                    {{"shape", TupleText({shape.begin(), shape.end()})}});
  }
  const NDArray inputs[] = {array, view.Detach()};
  return Recorded(std::move(view), inputs, "reshape_like", {});
}

/// The part of one axis, in the array's bounds.
struct AxisPart {
  index_t begin = 0;
  index_t count = 0;
  index_t step = 1;
  bool keeps_axis = true;
};

/// Returns the part that Python's slice takes of an axis.
AxisPart PartOf(const AxisSlice& range, int axis, index_t extent) {
  if (range.step == 0) {
    throw InvalidArgument("NDArray::Index: the step of axis ", axis, " is 0");
  }
  const bool forward = range.step > 0;
  const index_t low = forward ? 0 : -1, high = forward ? extent : extent - 1;
  const auto place = [&](const std::optional<index_t>& position, index_t otherwise) {
    if (!position) return otherwise;
    return std::clamp(*position < 0 ? *position + extent : *position, low, high);
  };
  const index_t begin = place(range.begin, forward ? low : high);
  const index_t end = place(range.end, forward ? high : low);
  const index_t length = forward ? end - begin : begin - end;
  // The unsigned size of the smallest step also fits.
  const uint64_t stride =
      forward ? static_cast<uint64_t>(range.step) : uint64_t{0} - static_cast<uint64_t>(range.step);
  const index_t count =
      length <= 0 ? 0 : static_cast<index_t>((static_cast<uint64_t>(length) - 1) / stride) + 1;
  return {begin, count, count <= 1 ? 1 : range.step, true};
}

AxisPart PartOf(index_t index, int axis, index_t extent) {
  if (index < -extent || index >= extent) {
    throw OutOfRange("NDArray::Index: index ", index, " of axis ", axis, " with extent ", extent,
                     "; expected ", -extent, " <= index < ", extent);
  }
  return {index < 0 ? index + extent : index, 1, 1, false};
}

std::vector<AxisPart> PartsOf(const TShape& shape, std::span<const AxisIndex> indices) {
  if (static_cast<int>(indices.size()) > shape.ndim()) {
    throw InvalidArgument("NDArray::Index: ", indices.size(), " axes were indexed, but shape ",
                          shape, " has ", shape.ndim());
  }
  std::vector<AxisPart> parts;
  const AxisIndex whole = AxisSlice();
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    const AxisIndex& index = at < indices.size() ? indices[at] : whole;
    parts.push_back(
        std::visit([&](const auto& chosen) { return PartOf(chosen, axis, shape[axis]); }, index));
  }
  return parts;
}

/// Returns whether the elements of the part lie one after another.
bool IsContiguous(const TShape& shape, const std::vector<AxisPart>& parts) {
  bool is_one = true;  // whether the axes so far have one index each
  for (size_t axis = 0; axis < parts.size(); ++axis) {
    const AxisPart& part = parts[axis];
    if (part.count == 0) return true;
    if (part.step != 1 && part.count > 1) return false;
    if (!is_one && part.count != shape[static_cast<int>(axis)]) return false;
    is_one = is_one && part.count == 1;
  }
  return true;
}

/// Returns the part's shape with all axes, or without those of a single index.
TShape ShapeOf(const std::vector<AxisPart>& parts, bool all_axes) {
  std::vector<index_t> extents;
  for (const AxisPart& part : parts) {
    if (all_axes || part.keeps_axis) extents.push_back(part.count);
  }
  return TShape(extents);
}

/// Returns the part as parameters of the operator slice.
ParameterMap SliceParameters(const std::vector<AxisPart>& parts) {
  std::string begin = "(", end = "(", step = "(";
  for (const AxisPart& part : parts) {
    const index_t last = part.begin + part.count * part.step;
    begin += std::to_string(part.begin) + ",";
    end += (last < 0 ? "None" : std::to_string(last)) + ",";
    step += std::to_string(part.step) + ",";
  }
  return {{"begin", begin + ")"}, {"end", end + ")"}, {"step", step + ")"}};
}

index_t OffsetOf(const TShape& shape, const std::vector<AxisPart>& parts) {
  index_t offset = 0;
  for (size_t axis = 0; axis < parts.size(); ++axis) {
    offset += parts[axis].begin * shape.ProdShape(static_cast<int>(axis) + 1, shape.ndim());
  }
  return offset;
}

/// Returns values broadcast to a shape, as NumPy does, in an element type.
NDArray BroadcastTo(const NDArray& values, const TShape& shape, DType dtype) {
  NDArray result = values.Detach();
  if (result.dtype() != dtype) result = result.AsType(dtype);
  const int missing = shape.ndim() - result.shape().ndim();
  if (missing < 0) {
    throw InvalidArgument("NDArray::Assign: values of shape ", values.shape(),
                          " do not fit a part of shape ", shape);
  }
  std::vector<index_t> extents(static_cast<size_t>(missing), 1);
  extents.insert(extents.end(), result.shape().begin(), result.shape().end());
  result = result.Reshape(TShape(extents));
  if (result.shape() == shape) return result;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (result.shape()[axis] != 1 && result.shape()[axis] != shape[axis]) {
      throw InvalidArgument("NDArray::Assign: values of shape ", values.shape(),
                            " do not fit a part of shape ", shape);
    }
  }
  return Invoke("broadcast_to", {&result, 1}, {{"shape", shape.ToString()}})[0];
}

}  // namespace

NDArray NDArray::View(const TShape& shape, index_t offset) const {
  if (body_->sparse != nullptr) {
    throw InvalidArgument("NDArray: no array shares the elements of the ", body_->sparse->type(),
                          " array of shape ", body_->shape,
                          "; expected a dense array, as sparse::Cast makes");
  }
  auto body = std::make_shared<Body>(*body_);
  body->shape = shape;
  body->offset += offset;
  body->entry = {};
  return NDArray(std::move(body));
}

NDArray NDArray::Slice(index_t begin, index_t end) const {
  RequireBody("Slice");
  if (shape().ndim() < 1) throw InvalidArgument("NDArray::Slice: a scalar has no rows");
  if (begin < 0 || begin > end || end > shape()[0]) {
    throw OutOfRange("NDArray::Slice: rows [", begin, ", ", end, ") of shape ", shape(),
                     "; expected 0 <= begin <= end <= ", shape()[0]);
  }
  const std::string first = std::to_string(begin), last = std::to_string(end);
  if (body_->sparse != nullptr) {
    // A copy: the parts of the rows are not shared.
    return Invoke("slice", {this, 1},
                  {{"begin", "(" + first + ",)"}, {"end", "(" + last + ",)"}})[0];
  }
  TShape part = shape();
  part[0] = end - begin;
  return Recorded(View(part, begin * shape().ProdShape(1, shape().ndim())), {this, 1}, "slice_axis",
                  {{"axis", "0"}, {"begin", first}, {"end", last}});
}

NDArray NDArray::At(index_t i) const {
  RequireBody("At");
  if (shape().ndim() < 1) throw InvalidArgument("NDArray::At: a scalar has no rows");
  if (i < 0 || i >= shape()[0]) {
    throw OutOfRange("NDArray::At: row ", i, " of shape ", shape(), "; expected 0 <= row < ",
                     shape()[0]);
  }
  return Slice(i, i + 1).Reshape(
      TShape(std::span<const index_t>(shape().begin() + 1, shape().end())));
}

NDArray NDArray::Reshape(const TShape& new_shape) const {
  RequireBody("Reshape");
  if (!new_shape.rank_known()) {
    throw InvalidArgument("NDArray::Reshape: the new shape of ", shape(), " has no rank");
  }
  TShape wanted = new_shape;
  int open = -1;
  CheckedSize rest = 1;
  for (int i = 0; i < new_shape.ndim(); ++i) {
    if (new_shape[i] != TShape::kUnknown) {
      rest = rest * new_shape[i];
    } else if (open < 0) {
      open = i;
    } else {
      throw InvalidArgument("NDArray::Reshape: shape ", new_shape,
                            " has several unknown extents; expected at most one");
    }
  }
  const index_t size = shape().Size();
  const index_t known = rest.value().value_or(-1);
  if (open >= 0 && known > 0 && size % known == 0) {
    wanted[open] = size / known;
  } else if (open >= 0 || known != size) {
    throw InvalidArgument("NDArray::Reshape: shape ", shape(), " with ", size,
                          " elements cannot be seen as ", new_shape);
  }
  return RecordedReshape(View(wanted, 0), *this);
}

NDArray NDArray::Reshape(std::span<const index_t> codes, bool reverse) const {
  RequireBody("Reshape");
  const ParameterMap parameters = {{"shape", TupleText(codes)},
                                   {"reverse", reverse ? "True" : "False"}};
  const auto plan = ndarray_internal::CallPlan::Find("Reshape", parameters, {this, 1}, {});
  return RecordedReshape(View(plan->signature().out_shape[0], 0), *this);
}

NDArray NDArray::Index(std::span<const AxisIndex> indices) const {
  RequireBody("Index");
  const std::vector<AxisPart> parts = PartsOf(shape(), indices);
  const ParameterMap parameters = SliceParameters(parts);
  const TShape all_axes = ShapeOf(parts, true);
  const NDArray part =
      IsContiguous(shape(), parts)
          ? Recorded(View(all_axes, all_axes.Size() == 0 ? 0 : OffsetOf(shape(), parts)), {this, 1},
                     "slice", parameters)
          : Invoke("slice", {this, 1}, parameters)[0];
  const TShape result = ShapeOf(parts, false);
  return result == all_axes ? part : part.Reshape(result);
}

void NDArray::Assign(std::initializer_list<AxisIndex> indices, const NDArray& values) {
  RequireBody("Assign");
  ndarray_internal::RequireOffTape("NDArray::Assign", {this, 1});
  const std::vector<AxisPart> parts = PartsOf(shape(), {indices.begin(), indices.size()});
  const TShape all_axes = ShapeOf(parts, true);
  if (all_axes.Size() == 0) return;
  const NDArray target = Detach();
  const NDArray given = BroadcastTo(values, ShapeOf(parts, false), dtype()).Reshape(all_axes);
  if (IsContiguous(shape(), parts)) {
    CopyFromTo(given, target.View(all_axes, OffsetOf(shape(), parts)));
    return;
  }
  const NDArray inputs[] = {target, given};
  Invoke("_slice_assign", inputs, {&target, 1}, SliceParameters(parts));
}

void NDArray::Assign(std::initializer_list<AxisIndex> indices, const Number& value) {
  NDArray number({1}, Device::Cpu(), dtype());
  number = value;
  Assign(indices, number.Reshape(TShape({})).AsInContext(device()));
}

}  // namespace tessera
