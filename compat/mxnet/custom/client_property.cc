#include "tessera/compat/mxnet/custom/client_property.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/extents.h"

namespace tessera::mxnet {
namespace {

std::vector<std::string> Joined(std::vector<std::string> list,
                                const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

bool AllKnown(const std::vector<TShape>& shapes) {
  return std::all_of(shapes.begin(), shapes.end(),
                     [](const TShape& shape) { return shape.known(); });
}

bool AllKnown(const std::vector<DType>& types) {
  return std::find(types.begin(), types.end(), DType::kUnknown) == types.end();
}

}  // namespace

std::vector<std::string> TextsUntilNull(const char* const* list, const char* name) {
  if (list == nullptr) throw InvalidArgument(name, " has given a null pointer");
  std::vector<std::string> texts;
  for (; *list != nullptr; ++list) texts.emplace_back(*list);
  return texts;
}

std::vector<std::string> ClientProperty::ListArguments() const {
  return Joined(arguments_, aux_states_);
}

std::vector<int> ClientProperty::MutatedInputs() const {
  std::vector<int> inputs;
  for (size_t i = 0; i < num_aux_states(); ++i) {
    inputs.push_back(static_cast<int>(num_arguments() + i));
  }
  return inputs;
}

void ClientProperty::SetNames(std::vector<std::string> arguments, std::vector<std::string> outputs,
                              std::vector<std::string> aux_states) {
  if (outputs.empty()) throw InvalidArgument(Describe(), ": it lists no outputs, expected one");
  arguments_ = std::move(arguments);
  outputs_ = std::move(outputs);
  aux_states_ = std::move(aux_states);
}

void ClientProperty::SetBackwardReads(std::span<const int> ids) {
  backward_reads_.assign(num_arguments() + 2 * num_outputs(), false);
  for (const int id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= backward_reads_.size()) {
      throw InvalidArgument(Describe(), ": the backward dependency ", id,
                            " is no id that was given, expected 0 to ", backward_reads_.size() - 1);
    }
    backward_reads_[static_cast<size_t>(id)] = true;
  }
}

std::vector<int> ClientProperty::DeclareBackwardDependency(std::span<const int> out_grad,
                                                           std::span<const int> in_data,
                                                           std::span<const int> out_data) const {
  std::vector<int> ids;
  size_t id = 0;
  for (const auto list : {out_grad, in_data.first(num_arguments()), out_data}) {
    for (const int given : list) {
      if (Reads(id++)) ids.push_back(given);
    }
  }
  const auto aux_states = in_data.subspan(num_arguments());
  ids.insert(ids.end(), aux_states.begin(), aux_states.end());
  return ids;
}

bool ClientProperty::IsLoss() const {
  const auto end = backward_reads_.begin() + static_cast<ptrdiff_t>(num_outputs());
  return std::find(backward_reads_.begin(), end, true) == end;
}

bool ClientProperty::ArgumentHasGradient(int argument) const {
  return static_cast<size_t>(argument) < num_arguments();
}

template <typename T>
T& ClientProperty::At(size_t i, std::vector<T>* in, std::vector<T>* out) const {
  if (i < num_arguments()) return (*in)[i];
  const size_t behind_arguments = i - num_arguments();
  return behind_arguments < num_outputs() ? (*out)[behind_arguments] : (*in)[i - num_outputs()];
}

std::vector<std::string> ClientProperty::Names() const {
  return Joined(Joined(arguments_, outputs_), aux_states_);
}

bool ClientProperty::InferShape(std::vector<TShape>* in_shape,
                                std::vector<TShape>* out_shape) const {
  const size_t count = num_arguments() + num_outputs() + num_aux_states();
  std::vector<int> ranks(count, 0);
  std::vector<std::vector<int>> given(count);
  std::vector<int*> extents(count, nullptr);
  bool has_known = num_arguments() == 0, is_complete = true;
  for (size_t i = 0; i < num_arguments(); ++i) {
    const TShape& shape = (*in_shape)[i];
    has_known |= shape.rank_known();
    is_complete &= shape.known();
    given[i] = ExtentsForClient<int>(Describe(), shape);
    ranks[i] = static_cast<int>(given[i].size());
    extents[i] = given[i].data();
  }
  // A function that knows nothing prints an error of Python's.
  if (!has_known) return false;
  if (!CallInferShape(&ranks, &extents)) {
    // It may succeed when other operators have completed the shapes.
    if (!is_complete) return false;
    throw InvalidArgument(Describe(),
                          ": the client's infer_shape has failed; its error is printed");
  }
  const std::vector<std::string> names = Names();
  for (size_t i = 0; i < count; ++i) {
    if (ranks[i] > 0 && extents[i] == nullptr) {
      throw InvalidArgument(Describe(), ": the client's infer_shape has given no extents of ",
                            names[i]);
    }
    const TShape shape = ranks[i] < 0
                             ? TShape()
                             : ShapeFromApi(Describe(), extents[i], static_cast<size_t>(ranks[i]));
    MergeShape(*this, names[i], &At(i, in_shape, out_shape), shape);
  }
  return AllKnown(*in_shape) && AllKnown(*out_shape);
}

bool ClientProperty::InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const {
  const size_t count = num_arguments() + num_outputs() + num_aux_states();
  std::vector<int> types(count);
  bool has_known = num_arguments() == 0, is_complete = true;
  for (size_t i = 0; i < count; ++i) {
    const DType type = At(i, in_type, out_type);
    types[i] = static_cast<int>(type);
    if (i >= num_arguments()) continue;
    has_known |= type != DType::kUnknown;
    is_complete &= type != DType::kUnknown;
  }
  if (!has_known) return false;
  if (!CallInferType(&types)) {
    if (!is_complete) return false;
    throw InvalidArgument(Describe(), ": the client's infer_type has failed; its error is printed");
  }
  for (size_t i = 0; i < count; ++i) {
    if (types[i] == static_cast<int>(DType::kUnknown)) continue;
    DType& type = At(i, in_type, out_type);
    const DType inferred = TypeOf(types[i]);
    if (type != DType::kUnknown && type != inferred) {
      throw InvalidArgument(Describe(), ": ", Names()[i], " is ", type,
                            ", but the client's infer_type expects ", inferred);
    }
    type = inferred;
  }
  return AllKnown(*in_type) && AllKnown(*out_type);
}

}  // namespace tessera::mxnet
