// reset_arrays: sets several arrays to 0, as training does with gradients that add up.
//
// The operator has no outputs; its inputs change. Shapes: any. Types: float32, float64, float16,
// bfloat16, each array its own. There is no gradient. Runs on the CPU.
#include <cstring>
#include <string>
#include <vector>

#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the registration of operators

struct ResetParameters {
  int64_t num_arrays = 1;

  static void Declare(ParameterSchema<ResetParameters>& schema) {
    schema.Required("num_arrays", &ResetParameters::num_arrays, "the number of arrays");
    schema.Range(1, 1 << 20);
  }
};

class ResetProperty final : public ParameterizedProperty<ResetParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names;
    for (int64_t i = 0; i < param_.num_arrays; ++i) names.push_back("array_" + std::to_string(i));
    return names;
  }
  std::vector<std::string> ListOutputs() const override { return {}; }
  std::vector<int> MutatedInputs() const override {
    std::vector<int> mutated;
    for (int i = 0; i < param_.num_arrays; ++i) mutated.push_back(i);
    return mutated;
  }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>*) const override {
    for (const TShape& shape : *in_shape) {
      if (!shape.known()) return false;
    }
    return true;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>*) const override {
    for (const DType dtype : *in_type) {
      if (dtype == DType::kUnknown) return false;
      VisitRealDType(dtype, TypeString(), [](auto) {});
    }
    return true;
  }
};

class ResetOperator final : public Operator {
 public:
  explicit ResetOperator(const ResetParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob>) override {
    for (size_t i = 0; i < in_data.size(); ++i) {
      if (req[i] == kNullOp) continue;
      const int64_t size_bytes = in_data[i].Size() * DTypeSizeBytes(in_data[i].type_flag_);
      char* const data = static_cast<char*>(in_data[i].dptr_);
      ParallelFor(size_bytes, StepsPerTask(1), [&](int64_t begin, int64_t end) {
        std::memset(data + begin, 0, static_cast<size_t>(end - begin));
      });
    }
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<ResetProperty, ResetOperator>(TESSERA_TABLE_PLACE, "reset_arrays",
                                                        "Sets several arrays to 0."),
};

}  // namespace
}  // namespace tessera
