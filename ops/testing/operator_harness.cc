#include "tessera/ops/testing/operator_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/encoding.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_testing {
namespace {

using base_internal::At;

// The bytes of an output before it is written: a NaN in every type.
constexpr std::byte kUnset{0xFF};

// The error of differences of the reference.
constexpr double kDifferenceTolerance = 1e-7;

/// Values of head gradients, of old contents, and of inputs for which a case says nothing.
Fill DefaultFill(DType dtype) { return IsReal(dtype) ? Fill() : Fill::Integers(0, 9); }

OpReqType RequestAt(const std::vector<OpReqType>& req, size_t i) {
  return req.empty() ? kWriteTo : req[i];
}

std::vector<TBlob> WithoutMemory(std::vector<TBlob> blobs) {
  for (TBlob& blob : blobs) blob.dptr_ = nullptr;
  return blobs;
}

}  // namespace

uint64_t TestSeed() {
  const char* const text = std::getenv("TESSERA_TEST_SEED");
  return text == nullptr ? 20240229 : std::strtoull(text, nullptr, 10);
}

/// The arrays of one call, on the device.
class OperatorHarness::Call {
 public:
  Call(const OperatorHarness& harness, const CallOptions& options)
      : harness_(harness), options_(options) {}

  /// Returns an array that the call only reads, unless `targets` replaces it.
  TBlob Input(int id, const TShape& shape) {
    return Keep(id, shape, harness_.BytesOf(id), /*read_only=*/true);
  }

  /// Returns an array that the call may write, with `shape` elements at the location that the
  /// request asks for.
  TBlob Output(int id, const TShape& shape, OpReqType req, const Bytes& old) {
    for (const InplacePair& pair : options_.inplace) {
      if (pair.target != id) continue;
      Array* const source = Find(pair.source);
      source->read_only = false;
      const std::shared_ptr<GuardedBuffer> buffer = source->buffer;
      arrays_.push_back({id, buffer, false, {}});
      return Blob(buffer->data(), shape, harness_.TypeOf(id));
    }
    if (req == kNullOp && options_.null_blobs_for_null_req) {
      arrays_.push_back({id, nullptr, false, {}});
      return TBlob();
    }
    const bool keeps_old = req == kAddTo || req == kNullOp;
    return Keep(id, shape, keeps_old ? old : Bytes(old.size(), kUnset),
                /*read_only=*/false);
  }

  /// Returns an input that the call may change.
  TBlob MutatedInput(int id, const TShape& shape) {
    return Keep(id, shape, harness_.BytesOf(id), /*read_only=*/false);
  }

  OpContext Context(const std::vector<ResourceRequest>& requests) {
    constexpr ResourceRequest kSpace = {ResourceRequest::Type::kTempSpace};
    EXPECT_LE(std::count(requests.begin(), requests.end(), kSpace), 1)
        << "a device may have one workspace, which would be that of both requests";
    for (const ResourceRequest request : requests) {
      resources_.push_back(std::make_unique<TestResource>(harness_.device_, request));
      requested_.push_back(resources_.back().get());
    }
    return {.is_train = options_.is_train,
            .needs_gradient = true,
            .stream = harness_.device_->stream(),
            .requested = requested_};
  }

  /// Reports workspace beyond what the operator states.
  void CheckWorkspace(const std::optional<int64_t>& stated) const {
    if (!stated) return;
    for (const auto& resource : resources_) {
      EXPECT_LE(resource->space_bytes(), *stated) << "bytes of workspace";
    }
  }

  /// Reports arrays that the call has changed but must not change.
  void CheckPromises() {
    for (const Array& array : arrays_) {
      if (array.buffer == nullptr) continue;
      EXPECT_TRUE(array.buffer->GuardsIntact()) << "written outside the array with id " << array.id;
      if (array.read_only) {
        EXPECT_TRUE(array.buffer->Read() == array.contents)
            << "an array that is not an output changed, id " << array.id;
      }
    }
    for (const auto& resource : resources_) {
      EXPECT_TRUE(resource->GuardsIntact()) << "written outside the workspace";
      EXPECT_LE(resource->requests(), 1) << "workspace is to be asked for once";
    }
  }

  Bytes Read(int id) {
    const Array* const array = Find(id);
    return array->buffer == nullptr ? Bytes() : array->buffer->Read();
  }

 private:
  struct Array {
    int id;
    std::shared_ptr<GuardedBuffer> buffer;
    bool read_only;
    Bytes contents;
  };

  Array* Find(int id) {
    for (Array& array : arrays_) {
      if (array.id == id) return &array;
    }
    throw Internal("operator harness: no array has the id ", id);
  }

  TBlob Keep(int id, const TShape& shape, const Bytes& contents, bool read_only) {
    const DType dtype = harness_.TypeOf(id);
    const int64_t misalignment = options_.misaligned_elements * DTypeSizeBytes(dtype);
    auto buffer = std::make_shared<GuardedBuffer>(harness_.device_, contents, misalignment);
    void* const data = buffer->data();
    arrays_.push_back({id, std::move(buffer), read_only, contents});
    return Blob(data, shape, dtype);
  }

  TBlob Blob(void* data, const TShape& shape, DType dtype) const {
    return TBlob(data, shape, dtype, harness_.device_->device());
  }

  const OperatorHarness& harness_;
  const CallOptions& options_;
  std::vector<Array> arrays_;
  std::vector<std::unique_ptr<TestResource>> resources_;
  std::vector<Resource*> requested_;
};

OperatorHarness::OperatorHarness(const OperatorRow& row, const OperatorCase& test_case, DType dtype,
                                 TestDevice* device, std::string_view implementation)
    : row_(row),
      case_(test_case),
      dtype_(dtype),
      device_(device),
      property_(OperatorRegistry::Get().Create(row.name, test_case.parameters)) {
  shapes_.in = test_case.inputs;
  shapes_.out = test_case.outputs;
  shapes_.out.resize(property_->ListOutputs().size());
  mutated_ = property_->MutatedInputs();
  if (!property_->InferShape(&shapes_.in, &shapes_.out)) {
    throw Internal(row.name, ": shapes do not follow from those of all arguments");
  }
  InferTypes();
  operator_ = implementation.empty()
                  ? property_->CreateOperator(device->device(), shapes_.in, in_types_)
                  : property_->CreateImplementation(implementation, device->device(), shapes_.in,
                                                    in_types_);

  std::mt19937_64 random(TestSeed());
  const auto draw = [&](const Fill& fill, const TShape& shape, DType type,
                        std::vector<Bytes>* bytes, std::vector<Values>* values) {
    bytes->push_back(Encode(fill.Make(shape, &random), type));
    if (values != nullptr) values->push_back(Decode(bytes->back(), shape, type));
  };
  const auto fill_at = [&](size_t i) {
    return i < case_.fills.size() ? case_.fills[i] : DefaultFill(in_types_[i]);
  };
  for (size_t i = 0; i < shapes_.in.size(); ++i) {
    draw(fill_at(i), shapes_.in[i], in_types_[i], &in_bytes_, &in_);
    draw(DefaultFill(in_types_[i]), shapes_.in[i], in_types_[i], &old_in_grad_bytes_, nullptr);
  }
  for (size_t i = 0; i < shapes_.out.size(); ++i) {
    // No graph reads a hidden output, so it has no head gradient.
    const bool visible = i < static_cast<size_t>(property_->NumVisibleOutputs());
    draw(visible ? DefaultFill(out_types_[i]) : Fill::Given({0}), shapes_.out[i], out_types_[i],
         &out_grad_bytes_, &out_grad_);
    draw(DefaultFill(out_types_[i]), shapes_.out[i], out_types_[i], &old_out_bytes_, nullptr);
  }
}

void OperatorHarness::InferTypes() {
  in_types_.assign(shapes_.in.size(), dtype_);
  out_types_.assign(shapes_.out.size(), DType::kUnknown);
  for (size_t i = 0; i < std::min(in_types_.size(), case_.fixed_types.size()); ++i) {
    if (case_.fixed_types[i] != DType::kUnknown) in_types_[i] = case_.fixed_types[i];
  }
  if (!property_->InferType(&in_types_, &out_types_)) {
    throw Internal(row_.name, ": types do not follow from those of all arguments");
  }
}

DType OperatorHarness::TypeOf(int id) const {
  const size_t i = static_cast<size_t>(id % 100);
  const bool of_input = id / 100 == 1 || id / 100 == 4;
  return of_input ? in_types_[i] : out_types_[i];
}

OperatorHarness::~OperatorHarness() = default;

PreparedForm OperatorHarness::FormOf(size_t input) const {
  return operator_->InputForm(static_cast<int>(input), device_->device(), shapes_.in, in_types_);
}

bool OperatorHarness::HasForms() const {
  for (size_t i = 0; i < num_inputs(); ++i) {
    if (FormOf(i).size_bytes > 0) return true;
  }
  return false;
}

CallResult OperatorHarness::Forward(const CallOptions& options) {
  Call call(*this, options);
  std::vector<TBlob> in, out;
  std::vector<OpReqType> req;
  for (size_t i = 0; i < shapes_.in.size(); ++i) {
    const int id = InDataIds()[i];
    in.push_back(IsMutated(i) && options.mutate ? call.MutatedInput(id, shapes_.in[i])
                                                : call.Input(id, shapes_.in[i]));
  }
  for (size_t i = 0; i < shapes_.out.size(); ++i) {
    req.push_back(RequestAt(options.req, i));
    out.push_back(call.Output(OutDataIds()[i], shapes_.out[i], req[i], old_out_bytes_[i]));
  }
  req.insert(req.end(), mutated_.size(), options.mutate ? kWriteInplace : kNullOp);
  OpContext context = call.Context(property_->ForwardResource(shapes_.in));
  std::vector<std::unique_ptr<GuardedBuffer>> forms;
  std::vector<const void*> prepared(in.size(), nullptr);
  for (size_t i = 0; options.prepares_inputs && i < in.size(); ++i) {
    const PreparedForm form = FormOf(i);
    if (form.size_bytes == 0) continue;
    forms.push_back(std::make_unique<GuardedBuffer>(device_, Bytes(At(form.size_bytes), kUnset)));
    form.make({.stream = device_->stream()}, in[i], forms.back()->data());
    prepared[i] = forms.back()->data();
  }
  if (options.prepares_inputs) context.prepared = prepared;
  operator_->Forward(context, in, req, out);
  call.CheckPromises();
  for (const auto& form : forms) EXPECT_TRUE(form->GuardsIntact()) << "written outside a form";
  call.CheckWorkspace(operator_->ForwardWorkspaceBytes(ParallelWidth(), WithoutMemory(in), req,
                                                       WithoutMemory(out)));
  CallResult result;
  for (const int id : OutDataIds()) result.values.push_back(call.Read(id));
  for (const int i : mutated_) result.mutated.push_back(call.Read(InDataIds()[At(i)]));
  return result;
}

CallResult OperatorHarness::Backward(const CallOptions& options) {
  if (out_bytes_.empty()) out_bytes_ = Forward().values;
  Call call(*this, options);
  const std::vector<int> needed = BackwardDependency();
  const auto inputs = [&](const std::vector<int>& ids, const std::vector<TShape>& shapes) {
    std::vector<TBlob> blobs;
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool given = std::find(needed.begin(), needed.end(), ids[i]) != needed.end();
      blobs.push_back(given ? call.Input(ids[i], shapes[i]) : TBlob());
    }
    return blobs;
  };
  const std::vector<TBlob> out_grad = inputs(OutGradIds(), shapes_.out);
  const std::vector<TBlob> in_data = inputs(InDataIds(), shapes_.in);
  const std::vector<TBlob> out_data = inputs(OutDataIds(), shapes_.out);
  std::vector<TBlob> in_grad;
  const std::vector<OpReqType> req = BackwardRequests(options.req);
  for (size_t i = 0; i < shapes_.in.size(); ++i) {
    in_grad.push_back(call.Output(InGradIds()[i], shapes_.in[i], req[i], old_in_grad_bytes_[i]));
  }
  const OpContext context = call.Context(property_->BackwardResource(shapes_.in));
  operator_->Backward(context, out_grad, in_data, out_data, req, in_grad);
  call.CheckPromises();
  call.CheckWorkspace(operator_->BackwardWorkspaceBytes(
      ParallelWidth(), WithoutMemory(out_grad), WithoutMemory(in_data), WithoutMemory(out_data),
      req, WithoutMemory(in_grad)));
  CallResult result;
  for (const int id : InGradIds()) result.values.push_back(call.Read(id));
  return result;
}

void OperatorHarness::ExpectForward(const CallResult& result, const std::vector<OpReqType>& req) {
  const Tolerance& tolerance = row_.forward_tolerance;
  Expect(result, req, ReferenceOutputs(), out_types_, old_out_bytes_, tolerance, 0,
         property_->ListOutputs());
  std::vector<std::string> names;
  std::vector<DType> types;
  std::vector<Bytes> old;
  for (const int i : mutated_) {
    names.push_back(property_->ListArguments()[At(i)]);
    types.push_back(in_types_[At(i)]);
    old.push_back(in_bytes_[At(i)]);
  }
  const CallResult mutated{.values = result.mutated, .mutated = {}};
  Expect(mutated, {}, reference_mutated_, types, old, tolerance, 0, names);
}

void OperatorHarness::ExpectBackward(const CallResult& result, const std::vector<OpReqType>& req) {
  const double floor = row_.backward == nullptr ? kDifferenceTolerance : 0;
  std::vector<std::string> names = property_->ListArguments();
  for (std::string& name : names) name = "gradient of " + name;
  Expect(result, BackwardRequests(req), ReferenceGradients(), in_types_, old_in_grad_bytes_,
         row_.backward_tolerance, floor, names);
}

void OperatorHarness::Expect(const CallResult& result, const std::vector<OpReqType>& req,
                             const std::vector<Values>& reference, const std::vector<DType>& types,
                             const std::vector<Bytes>& old, const Tolerance& tolerance,
                             double floor, const std::vector<std::string>& names) const {
  ASSERT_EQ(result.values.size(), reference.size());
  for (size_t k = 0; k < reference.size(); ++k) {
    const OpReqType request = RequestAt(req, k);
    if (request == kNullOp) {
      EXPECT_TRUE(result.values[k].empty() || result.values[k] == old[k])
          << names[k] << " was not wanted but has changed";
      continue;
    }
    const Values actual = Decode(result.values[k], reference[k].shape, types[k]);
    Values expected = reference[k];
    if (request == kAddTo) {
      const Values before = Decode(old[k], expected.shape, types[k]);
      for (index_t i = 0; i < expected.size(); ++i) {
        expected[i] += before[i];
        if (types[k] == DType::kBool) expected[i] = expected[i] != 0;  // a sum of bool is or
      }
    }
    double magnitude = 0;
    for (const double x : reference[k].data) magnitude = std::max(magnitude, std::abs(x));
    index_t worst = -1;
    const double of_type = IsReal(types[k]) ? tolerance.For(types[k]) : 0;
    const double bound = std::max({tolerance.For(dtype_), of_type, floor});
    double worst_error = bound;
    for (index_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
      if (expected[i] == actual[i]) continue;
      const double scale = tolerance.of_largest ? magnitude : std::abs(expected[i]);
      const double error = std::abs(actual[i] - expected[i]) / (1 + scale);
      if (!(error <= worst_error)) {
        worst = i;
        worst_error = std::isnan(error) ? HUGE_VAL : error;
      }
    }
    EXPECT_EQ(worst, -1) << names[k] << " of shape " << expected.shape << ", element " << worst
                         << ": got " << actual[worst] << ", expected " << expected[worst]
                         << ", relative error " << worst_error << " above " << bound << " (seed "
                         << TestSeed() << ")";
  }
}

std::vector<InplacePair> OperatorHarness::ForwardInplaceOption() const {
  return OfOneSize(property_->ForwardInplaceOption(InDataIds(), OutDataIds()));
}

std::vector<InplacePair> OperatorHarness::BackwardInplaceOption() const {
  return OfOneSize(
      property_->BackwardInplaceOption(OutGradIds(), InDataIds(), OutDataIds(), InGradIds()));
}

std::vector<InplacePair> OperatorHarness::OfOneSize(std::vector<InplacePair> pairs) const {
  const auto size = [this](int id) {
    const bool of_input = id / 100 == 1 || id / 100 == 4;
    return (of_input ? shapes_.in : shapes_.out)[static_cast<size_t>(id % 100)].Size();
  };
  std::erase_if(pairs,
                [&](const InplacePair& pair) { return size(pair.source) != size(pair.target); });
  return pairs;
}

std::vector<int> OperatorHarness::BackwardDependency() const {
  return property_->DeclareBackwardDependency(OutGradIds(), InDataIds(), OutDataIds());
}

std::vector<OpReqType> OperatorHarness::BackwardRequests(const std::vector<OpReqType>& req) const {
  std::vector<OpReqType> result;
  for (size_t i = 0; i < shapes_.in.size(); ++i) {
    const bool exists = property_->ArgumentHasGradient(static_cast<int>(i));
    result.push_back(exists ? RequestAt(req, i) : kNullOp);
  }
  return result;
}

bool OperatorHarness::IsMutated(size_t input) const {
  return std::find(mutated_.begin(), mutated_.end(), static_cast<int>(input)) != mutated_.end();
}

bool OperatorHarness::NoneWanted(const std::vector<OpReqType>& req) const {
  const std::vector<OpReqType> actual = BackwardRequests(req);
  return std::all_of(actual.begin(), actual.end(), [](OpReqType r) { return r == kNullOp; });
}

std::vector<int> OperatorHarness::Ids(int base, size_t count) {
  std::vector<int> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = base + static_cast<int>(i);
  return ids;
}

const Bytes& OperatorHarness::BytesOf(int id) const {
  const size_t i = static_cast<size_t>(id % 100);
  switch (id / 100) {
    case 1:
      return in_bytes_[i];
    case 2:
      return out_bytes_[i];
    default:
      return out_grad_bytes_[i];
  }
}

const std::vector<Values>& OperatorHarness::ReferenceOutputs() {
  if (reference_out_.empty() && reference_mutated_.empty()) {
    for (const int i : mutated_) reference_mutated_.push_back(in_[At(i)]);
    reference_out_ = row_.forward(case_.parameters, in_, &reference_mutated_);
    for (size_t i = 0; i < shapes_.out.size(); ++i) {
      EXPECT_EQ(reference_out_[i].shape, shapes_.out[i]) << "inferred shape of output " << i;
    }
  }
  return reference_out_;
}

const std::vector<Values>& OperatorHarness::ReferenceGradients() {
  if (reference_grad_.empty()) {
    reference_grad_ =
        row_.backward == nullptr
            ? DifferenceGradient(row_.forward, case_.parameters, out_grad_, in_, mutated_)
            : row_.backward(case_.parameters, out_grad_, in_, ReferenceOutputs());
  }
  return reference_grad_;
}

}  // namespace tessera::ops_testing
