// What optimizer steps do with a row_sparse gradient.
//
// A lazy update takes the step of the rows that the gradient stores, and leaves weight and states
// of the others as they are: no decay of weights or momenta reaches them. With lazy_update = False,
// or for a step that MXNet has in no lazy form, the gradient of the other rows is 0, and every row
// takes its step. Both call the operator on rows, so that a step is written once.
//
// A row_sparse weight or state gets all of its rows before the first step.
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using base_internal::At;

/// The elements of every standard step's block: gradients of rows that are not stored.
constexpr index_t kBlockElements = index_t{1} << 16;

/// The elements of some rows of an array, in memory of their own.
class RowCopy {
 public:
  /// Makes room for `count` rows like those of `array`.
  RowCopy(const TBlob& array, index_t count)
      : width_bytes_(array.shape_.ProdShape(1, array.ndim()) * DTypeSizeBytes(array.type_flag_)),
        memory_(std::make_unique_for_overwrite<char[]>(At(count * width_bytes_))) {
    TShape shape = array.shape_;
    shape[0] = count;
    blob_ = TBlob(memory_.get(), shape, array.type_flag_, array.device_);
  }

  const TBlob& blob() const { return blob_; }

  /// Copies rows from the array, or back to it.
  void Gather(const TBlob& array, std::span<const int64_t> rows) const {
    ForEach(array, rows, [this](char* row, char* copy) { Copy(row, copy); });
  }
  void Scatter(const TBlob& array, std::span<const int64_t> rows) const {
    ForEach(array, rows, [this](char* row, char* copy) { Copy(copy, row); });
  }

 private:
  template <typename Function>
  void ForEach(const TBlob& array, std::span<const int64_t> rows, const Function& function) const {
    char* const begin = static_cast<char*>(array.dptr_);
    ParallelFor(static_cast<index_t>(rows.size()), StepsPerTask(width_bytes_ / 4),
                [&](index_t first, index_t last) {
                  for (index_t i = first; i < last; ++i) {
                    function(begin + rows[At(i)] * width_bytes_, memory_.get() + i * width_bytes_);
                  }
                });
  }
  void Copy(const char* from, char* to) const { std::memcpy(to, from, At(width_bytes_)); }

  const index_t width_bytes_;
  const std::unique_ptr<char[]> memory_;
  TBlob blob_;
};

/// The step of an operator whose inputs are a weight, a gradient and states, on whole arrays:
/// `arrays` are its inputs, and the weight is its output too.
class Step {
 public:
  Step(const OperatorProperty& property, const SparseBlob& gradient, std::vector<TBlob> arrays,
       std::span<const OpReqType> state_req)
      : property_(property),
        gradient_(gradient),
        arrays_(std::move(arrays)),
        req_({kWriteInplace}) {
    req_.insert(req_.end(), state_req.begin(), state_req.end());
  }

  /// Takes the step of the rows that the gradient stores.
  void RunLazily() const {
    if (gradient_.count() == 0) return;
    const bool stores_all = gradient_.count() == gradient_.shape[0];
    std::vector<TBlob> rows = arrays_;
    rows[1] = gradient_.values;
    if (stores_all) return Run(rows);
    std::vector<std::unique_ptr<RowCopy>> copies(arrays_.size());
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (i == 1 || !HasRows(i)) continue;
      copies[i] = std::make_unique<RowCopy>(arrays_[i], gradient_.count());
      copies[i]->Gather(arrays_[i], gradient_.indices);
      rows[i] = copies[i]->blob();
    }
    Run(rows);
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (copies[i] != nullptr && Changes(i)) copies[i]->Scatter(arrays_[i], gradient_.indices);
    }
  }

  /// Takes the step of every row, by blocks, so that no gradient of the whole shape is needed.
  void RunOnAll() const {
    const index_t num_rows = gradient_.shape[0];
    const index_t width = std::max<index_t>(1, gradient_.width());
    const index_t block = std::max<index_t>(1, kBlockElements / width);
    const int64_t row_bytes = gradient_.width() * DTypeSizeBytes(gradient_.values.type_flag_);
    index_t stored = 0;
    for (index_t begin = 0; begin < num_rows; begin += block) {
      const index_t count = std::min(block, num_rows - begin);
      std::vector<TBlob> rows = arrays_;
      for (size_t i = 0; i < arrays_.size(); ++i) {
        if (i != 1 && HasRows(i)) rows[i] = RowsOf(arrays_[i], begin, count);
      }
      const RowCopy gradient(arrays_[0], count);
      char* const to = static_cast<char*>(gradient.blob().dptr_);
      std::fill_n(to, count * row_bytes, 0);
      for (; stored < gradient_.count() && gradient_.indices[At(stored)] < begin + count;
           ++stored) {
        const char* const from = static_cast<const char*>(gradient_.values.dptr_);
        std::memcpy(to + (gradient_.indices[At(stored)] - begin) * row_bytes,
                    from + stored * row_bytes, At(row_bytes));
      }
      rows[1] = gradient.blob();
      Run(rows);
    }
  }

 private:
  /// Returns whether input i has a row for each of the weight's; others, such as a factor of the
  /// gradient, belong to all rows.
  bool HasRows(size_t i) const {
    return arrays_[i].ndim() > 0 && arrays_[i].size(0) == gradient_.shape[0];
  }
  bool Changes(size_t i) const {
    const std::vector<int> mutated = property_.MutatedInputs();
    return i == 0 ||
           std::find(mutated.begin(), mutated.end(), static_cast<int>(i)) != mutated.end();
  }

  static TBlob RowsOf(const TBlob& array, index_t begin, index_t count) {
    const index_t row_bytes =
        array.shape_.ProdShape(1, array.ndim()) * DTypeSizeBytes(array.type_flag_);
    TShape shape = array.shape_;
    shape[0] = count;
    return TBlob(static_cast<char*>(array.dptr_) + begin * row_bytes, shape, array.type_flag_,
                 array.device_);
  }

  void Run(const std::vector<TBlob>& inputs) const {
    std::vector<TShape> shapes;
    std::vector<DType> types;
    for (const TBlob& input : inputs) {
      shapes.push_back(input.shape_);
      types.push_back(input.type_flag_);
    }
    property_.CreateOperator(Device::Cpu(), shapes, types)
        ->Forward(OpContext(), inputs, req_, {inputs.data(), 1});
  }

  const OperatorProperty& property_;
  const SparseBlob& gradient_;
  const std::vector<TBlob> arrays_;
  std::vector<OpReqType> req_;
};

/// When a step is lazy.
enum class Lazy {
  kByParameter,       ///< unless the parameter lazy_update is False
  kWithSparseWeight,  ///< for a row_sparse weight
  kNever,
};

class StepForm final : public SparseForm {
 public:
  explicit StepForm(Lazy lazy) : lazy_(lazy) {}

  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (in[1] != StorageType::kRowSparse) return std::nullopt;
    if (std::find(in.begin(), in.end(), StorageType::kCsr) != in.end()) return std::nullopt;
    return StorageTypes{in[0]};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] != kWriteTo && req[0] != kWriteInplace) {
      throw Unimplemented(property.TypeString(),
                          ": with a row_sparse gradient the new weight is "
                          "written, not added or left out");
    }
    // The step works in place, on the output.
    SparseBlob& weight = out[0];
    if (weight.storage == StorageType::kRowSparse) {
      if (in[0].values.dptr_ != weight.values.dptr_) {
        ops_internal::CopyParts(in[0], kWriteTo, &weight);
      }
      ops_internal::StoreAllRows(&weight);
    } else if (in[0].values.dptr_ != weight.values.dptr_) {
      const TBlob& from = in[0].values;
      std::memcpy(weight.values.dptr_, from.dptr_,
                  At(from.Size() * DTypeSizeBytes(from.type_flag_)));
    }
    std::vector<TBlob> arrays = {weight.values, TBlob()};
    for (size_t i = 2; i < in.size(); ++i) {
      if (in[i].storage == StorageType::kRowSparse) ops_internal::StoreAllRows(&in[i]);
      arrays.push_back(in[i].values);
    }
    const Step step(property, in[1], std::move(arrays), req.subspan(1));
    IsLazy(property, weight.storage) ? step.RunLazily() : step.RunOnAll();
  }

 private:
  bool IsLazy(const OperatorProperty& property, StorageType weight) const {
    if (lazy_ != Lazy::kByParameter) {
      return lazy_ == Lazy::kWithSparseWeight && weight == StorageType::kRowSparse;
    }
    const ParameterMap parameters = property.GetParams();
    const auto lazy = parameters.find("lazy_update");
    return lazy == parameters.end() || lazy->second == "True";
  }

  const Lazy lazy_;
};

/// Gives operators their forms. Which steps are lazy is as in MXNet 1.9.1.
bool RegisterSteps() {
  const auto give = [](std::initializer_list<const char*> names, Lazy lazy) {
    for (const char* const name : names) {
      RegisterSparseForm(name, std::make_unique<StepForm>(lazy));
    }
  };
  give({"sgd_update", "sgd_mom_update", "adam_update", "_sparse_adagrad_update",
        "_contrib_group_adagrad_update"},
       Lazy::kByParameter);
  // The weight that a first step of ftrl computes from states of 0 is 0.
  give({"ftrl_update"}, Lazy::kWithSparseWeight);
  give({"mp_sgd_update", "mp_sgd_mom_update", "_adamw_update", "_mp_adamw_update"}, Lazy::kNever);
  return true;
}

[[maybe_unused]] const bool kRegistered = RegisterSteps();

}  // namespace
}  // namespace tessera
