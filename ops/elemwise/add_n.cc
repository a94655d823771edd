// add_n: out = arg0 + arg1 + …, num_args arrays of one shape, from left to right. The gradient of
// each is g. Types: float32, float64, float16, bfloat16, and on the host integers, whose sums wrap
// around. The output may replace arg0.
#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

struct AddNParameters {
  int num_args = 1;

  static void Declare(ParameterSchema<AddNParameters>& schema) {
    schema.Required("num_args", &AddNParameters::num_args, "number of arrays");
    schema.Range(1, 1 << 20);
  }
};

/// Sums integers on the host.
class AddIntegers final : public Operator {
 public:
  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    for (size_t i = 0; i < in_data.size(); ++i) {
      Add(in_data[i], /*adds=*/i > 0 || req[0] == kAddTo, out_data[0]);
    }
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    for (size_t i = 0; i < in_grad.size(); ++i) {
      if (req[i] != kNullOp) Add(out_grad[0], req[i] == kAddTo, in_grad[i]);
    }
  }

 private:
  static void Add(const TBlob& in, bool adds, const TBlob& out) {
    VisitDType(out.type_flag_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        using Wrapping = std::make_unsigned_t<T>;
        const T* const from = static_cast<const T*>(in.dptr_);
        T* const to = static_cast<T*>(out.dptr_);
        const index_t size = out.Size();
        if (!adds) {
          std::copy_n(from, size, to);
          return;
        }
        for (index_t k = 0; k < size; ++k) {
          to[k] = static_cast<T>(static_cast<Wrapping>(from[k]) + static_cast<Wrapping>(to[k]));
        }
      }
    });
  }
};

class AddNProperty final : public ParameterizedProperty<AddNParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names;
    for (int i = 0; i < param_.num_args; ++i) names.push_back("arg" + std::to_string(i));
    return names;
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape shape = (*out_shape)[0];
    for (size_t i = 0; i < in_shape->size(); ++i) {
      MergeShape(*this, "arg" + std::to_string(i), &(*in_shape)[i], shape);
      shape = (*in_shape)[i];
    }
    (*out_shape)[0] = shape;
    std::fill(in_shape->begin(), in_shape->end(), shape);
    return shape.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    for (int i = 0; i < param_.num_args; ++i) builder->SetInGrad(i, builder->OutGrad(0));
    return true;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override {
    const DType dtype = in_type[0];
    if (device.dev_mask() == cpu::kDevMask && !IsReal(dtype) && dtype != DType::kBool) {
      return std::make_unique<AddIntegers>();
    }
    return OperatorProperty::CreateOperator(device, in_shape, in_type);
  }
};

template <typename Device, typename T>
class AddNOp final : public Operator {
 public:
  explicit AddNOp(const AddNParameters&) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    auto* stream = context.get_stream<Device>();
    auto out = out_data[0].FlatTo1D<Device, T>(stream);
    const auto in = [&](size_t i) { return in_data[i].FlatTo1D<Device, T>(stream); };
    size_t next = 1;
    if (in_data.size() == 1) {
      AssignTo(out, req[0], F<op::identity>(in(0)));
    } else {
      AssignTo(out, req[0], in(0) + in(1));
      next = 2;
    }
    for (; next < in_data.size(); ++next) out += in(next);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const auto g = out_grad[0].FlatTo1D<Device, T>(stream);
    for (size_t i = 0; i < in_grad.size(); ++i) {
      if (req[i] == kNullOp) continue;
      AssignTo(in_grad[i].FlatTo1D<Device, T>(stream), req[i], F<op::identity>(g));
    }
  }
};

TESSERA_REGISTER_OPERATOR(add_n, AddNProperty, AddNOp)
    .Describe("The sum of several arrays of one shape.");

}  // namespace
}  // namespace tessera
