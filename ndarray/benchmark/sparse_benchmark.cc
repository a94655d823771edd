// Sparse arrays beside MXNet 1.9.1 and SciPy, and beside themselves.
//
// embedding_step is a step of training of an embedding of 64 columns, of which a batch uses 1,000
// rows: forward, backward, and gradient descent of these rows. Its time should be that of the
// batch, not that of all rows. A step that allocates as much as the embedding has is an error.
// --rows=N is the number of rows, by default 1,000,000.
//
// csr_dot is the product of a csr matrix, which stores 100 elements in each of 10^5 rows, and a
// dense one of 64 columns. MXNet refuses matrices of 2^31 elements, so it takes part where there
// are 20,000 columns, and not where there are 10^5.
//
// cast is cast_storage of a matrix (4096, 4096), of which a hundredth is stored, beside a copy of
// the dense matrix.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tbb/task_arena.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/sparse.h"
#include "tessera/storage/storage.h"
#include "tessera/tensor/tblob.h"
#include "tessera/tools/benchmark/peer_process.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::BesidePeers;
using benchmarking::Bound;
using benchmarking::Variants;

constexpr const char* kPeerScript = "ndarray/benchmark/sparse_peer.py";
constexpr index_t kWidth = 64;
constexpr index_t kBatch = 1000;
constexpr index_t kRows = 100'000;
constexpr index_t kFewColumns = 20'000;
constexpr index_t kManyColumns = 100'000;
constexpr index_t kPerRow = 100;
constexpr index_t kCastSize = 4096;

/// A step of training of an embedding.
class EmbeddingStep {
 public:
  explicit EmbeddingStep(index_t rows)
      : weight_({rows, kWidth}),
        gradient_(sparse::Zeros(StorageType::kRowSparse, weight_.shape())),
        lookup_({{"input_dim", std::to_string(rows)},
                 {"output_dim", std::to_string(kWidth)},
                 {"sparse_grad", "True"}}) {
    weight_ = 1;
    std::vector<float> indices;
    for (index_t i = 0; i < kBatch; ++i) {
      indices.push_back(static_cast<float>(i * (rows / kBatch)));
    }
    indices_ = NDArray::FromVector(indices, {kBatch});
    variable_ = weight_.Detach();
    const OpReqType req = kWriteTo;
    autograd::MarkVariables({&variable_, 1}, {&gradient_, 1}, {&req, 1});
  }

  void Run() {
    if (live_bytes_ < 0) {
      Storage::Get()->MarkPeak(Device::Cpu());
      live_bytes_ = Storage::Get()->Stats(Device::Cpu()).live_bytes;
    }
    NDArray out;
    {
      const autograd::Record record;
      out = Invoke("Embedding", {indices_, variable_}, lookup_)[0];
    }
    out.Backward();
    const NDArray inputs[] = {weight_, gradient_};
    Invoke("sgd_update", inputs, {&weight_, 1}, step_);
    weight_.WaitToRead();
  }

  /// Returns the sum of the first row. Throws Error(kInternal) if the steps since the first one
  /// have allocated as much as a dense gradient.
  double Check() const {
    const int64_t taken = Storage::Get()->Stats(Device::Cpu()).peak_since_mark_bytes - live_bytes_;
    const int64_t dense = weight_.shape().Size() * DTypeSizeBytes(weight_.dtype());
    if (taken >= dense) {
      throw Internal("embedding_step: took ", taken, " bytes, expected less than the ", dense,
                     " of the embedding");
    }
    double sum = 0;
    for (const float element : weight_.Slice(0, 1).ToVector()) sum += static_cast<double>(element);
    return sum;
  }

 private:
  NDArray weight_, variable_, gradient_, indices_;
  const ParameterMap lookup_, step_ = {{"lr", "0.01"}, {"wd", "0.001"}};
  int64_t live_bytes_ = -1;  // before the first step
};

/// The product of a csr matrix and a dense one, on some threads.
class CsrDot {
 public:
  CsrDot(index_t num_columns, int threads)
      : num_columns_(num_columns),
        arena_(threads),
        values_(static_cast<size_t>(kRows * kPerRow)),
        columns_(values_.size()),
        ends_(static_cast<size_t>(kRows) + 1),
        factor_(static_cast<size_t>(num_columns * kWidth)),
        product_(static_cast<size_t>(kRows * kWidth)) {
    for (index_t i = 0; i < kRows; ++i) {
      const auto begin = columns_.begin() + i * kPerRow;
      for (index_t k = 0; k < kPerRow; ++k) begin[k] = (i * 7919 + k * 997) % num_columns;
      std::sort(begin, begin + kPerRow);
      ends_[static_cast<size_t>(i) + 1] = (i + 1) * kPerRow;
    }
    for (size_t k = 0; k < values_.size(); ++k) {
      values_[k] = static_cast<float>(static_cast<int>(k % 17) - 8) / 8;
    }
    for (index_t k = 0; k < num_columns * kWidth; ++k) {
      const auto number = static_cast<int>((k / kWidth * 13 + k % kWidth * 7) % 19);
      factor_[static_cast<size_t>(k)] = static_cast<float>(number - 9) / 8;
    }
  }

  void Run() {
    SparseBlob in[] = {{.storage = StorageType::kCsr,
                        .shape = {kRows, num_columns_},
                        .values = Blob(&values_, {kRows * kPerRow}),
                        .indices = columns_,
                        .indptr = ends_},
                       Dense(&factor_, num_columns_)};
    SparseBlob out[] = {Dense(&product_, kRows)};
    const OpReqType req[] = {kWriteTo};
    arena_.execute([&] { FindSparseForm("dot")->Forward(*dot_, in, req, out); });
  }

  /// Returns the sum of the elements' sizes.
  double Check() const {
    double sum = 0;
    for (const float element : product_) sum += std::abs(static_cast<double>(element));
    return sum;
  }

 private:
  static TBlob Blob(std::vector<float>* elements, const TShape& shape) {
    return TBlob(elements->data(), shape, DType::kFloat32, Device::Cpu());
  }
  static SparseBlob Dense(std::vector<float>* elements, index_t rows) {
    return {.shape = {rows, kWidth}, .values = Blob(elements, {rows, kWidth})};
  }

  const std::shared_ptr<const OperatorProperty> dot_ =
      OperatorRegistry::Get().FindOrCreate("dot", {});

  const index_t num_columns_;
  tbb::task_arena arena_;
  std::vector<float> values_;
  std::vector<int64_t> columns_, ends_;
  std::vector<float> factor_, product_;
};

void AddEmbeddingCases(index_t rows) {
  const std::string name = "embedding_step/" + std::to_string(rows);
  AddCase(
      {.name = name,
       .bounds = {{.peer = "mxnet", .at_least = 5}},
       .items = static_cast<double>(kBatch),
       .make = [name, rows] {
         const auto step = std::make_shared<EmbeddingStep>(rows);
         return BesidePeers(
             name, {.run = [step] { step->Run(); }, .check = [step] { return step->Check(); }},
             {.script = kPeerScript, .frameworks = {"mxnet"}, .arguments = std::to_string(rows)});
       }});
  AddCase({.name = "embedding_step/growth",
           .bounds = {{.peer = "a_tenth_of_the_rows", .at_least = 1 / 1.5}},
           .make = [rows] {
             const auto step = std::make_shared<EmbeddingStep>(rows);
             const auto few = std::make_shared<EmbeddingStep>(rows / 10);
             return Variants{.all = {{"ours", [step] { step->Run(); }},
                                     {"a_tenth_of_the_rows", [few] { few->Run(); }}}};
           }});
}

void AddProductCases() {
  const double flops = 2.0 * static_cast<double>(kRows * kPerRow * kWidth);
  for (const index_t columns : {kFewColumns, kManyColumns}) {
    const std::string name = "csr_dot/" + std::to_string(columns) + "_columns";
    AddCase({.name = name,
             .bounds = {{.peer = Bound::kBest, .at_least = 1}},
             .flops = flops,
             .make = [name, columns] {
               const auto product = std::make_shared<CsrDot>(columns, 1);
               std::vector<std::string> frameworks = {"scipy1"};
               if (columns == kFewColumns) frameworks.insert(frameworks.begin(), "mxnet1");
               return BesidePeers(name,
                                  {.run = [product] { product->Run(); },
                                   .check = [product] { return product->Check(); }},
                                  {.script = kPeerScript,
                                   .frameworks = frameworks,
                                   .arguments = std::to_string(columns)});
             }});
  }
  AddCase({.name = "csr_dot/two_threads",
           .bounds = {{.peer = "one_thread", .at_least = 1.6}},
           .flops = flops,
           .make = [] {
             const auto two = std::make_shared<CsrDot>(kManyColumns, 2);
             const auto one = std::make_shared<CsrDot>(kManyColumns, 1);
             return Variants{
                 .all = {{"ours", [two] { two->Run(); }}, {"one_thread", [one] { one->Run(); }}},
                 .results_agree = [two, one] { return two->Check() == one->Check(); }};
           }});
}

/// Removes --rows=N from the arguments and returns N, or 1,000,000 without it. Throws Error if N is
/// not a multiple of 10,000.
index_t TakeRows(int* argc, char** argv) {
  index_t rows = 1'000'000;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view flag = argv[i];
    if (!flag.starts_with("--rows=")) {
      argv[kept++] = argv[i];
      continue;
    }
    rows = std::strtoll(argv[i] + 7, nullptr, 10);
  }
  *argc = kept;
  if (rows >= 10'000 && rows % 10'000 == 0) return rows;
  throw InvalidArgument("--rows: ", rows, ", expected a multiple of 10000 above 0");
}

/// A matrix of which every hundredth row, or every hundredth element, is not 0.
NDArray CastMatrix(StorageType type) {
  std::vector<float> elements(static_cast<size_t>(kCastSize * kCastSize), 0);
  const index_t run = type == StorageType::kRowSparse ? kCastSize : 1;
  for (index_t i = 0; i < kCastSize * kCastSize; ++i) {
    if (i / run % 100 == 0) elements[static_cast<size_t>(i)] = 1;
  }
  return NDArray::FromVector(elements, {kCastSize, kCastSize});
}

void AddCastCases() {
  const double bytes = 2.0 * sizeof(float) * static_cast<double>(kCastSize * kCastSize);
  for (const StorageType type : {StorageType::kRowSparse, StorageType::kCsr}) {
    for (const bool to_dense : {false, true}) {
      const std::string kind(StorageTypeName(type));
      AddCase({.name = to_dense ? "cast/" + kind + "_to_dense" : "cast/dense_to_" + kind,
               .bounds = {{.peer = "copy", .at_least = 0.7}},
               .bytes = bytes,
               .make = [type, to_dense] {
                 const NDArray dense = CastMatrix(type);
                 const NDArray from = to_dense ? sparse::Cast(dense, type) : dense;
                 const NDArray to =
                     to_dense ? NDArray(dense.shape()) : sparse::Zeros(type, dense.shape());
                 const NDArray copy(dense.shape());
                 const auto run = [](const NDArray& source, const NDArray& target) {
                   CopyFromTo(source, target);
                   target.WaitToRead();
                 };
                 return Variants{
                     .all = {{"ours", [=] { run(from, to); }}, {"copy", [=] { run(dense, copy); }}},
                     .results_agree = [=] { return to.ToVector() == copy.ToVector(); }};
               }});
    }
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    tessera::AddEmbeddingCases(tessera::TakeRows(&argc, argv));
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "sparse_benchmark: %s\n", error.what());
    return 2;
  }
  tessera::AddProductCases();
  tessera::AddCastCases();
  return tessera::benchmarking::RunAll(argc, argv);
}
