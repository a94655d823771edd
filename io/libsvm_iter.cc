#include "tessera/io/libsvm_iter.h"

#include <cstddef>
#include <utility>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/io/internal/csr_rows.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"

namespace tessera {
namespace {

const LibSvmIterOptions& Checked(const LibSvmIterOptions& options) {
  // Shapes of two such extents have fewer than 2^63 elements.
  const auto check = [](const char* name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return;
    throw InvalidArgument("LibSvmIter: ", name, " ", value, ", expected 1 to ", most);
  };
  constexpr int64_t kMostColumns = int64_t{1} << 40;
  check("batch_size", options.batch_size, int64_t{1} << 22);
  check("data_size", options.data_size, kMostColumns);
  check("label_size", options.label_size, kMostColumns);
  return options;
}

RowIterOptions Describe(const LibSvmIterOptions& options) {
  const auto matrix = [&options](const std::string& name, int64_t size) {
    return DataDesc{name, TShape{options.batch_size, size}, DType::kFloat32, StorageType::kCsr};
  };
  return {.name = "LibSvmIter",
          .path = options.data_libsvm,
          .data = matrix(options.data_name, options.data_size),
          .label = options.label_libsvm.empty()
                       ? DataDesc{options.label_name, TShape{options.batch_size}, DType::kFloat32}
                       : matrix(options.label_name, options.label_size),
          .round_batch = options.round_batch,
          .setup = {options.num_parts, options.part_index}};
}

}  // namespace

struct LibSvmIter::Rows {
  LibSvmRow row;
  io_internal::CsrRows data{DType::kFloat32};
  io_internal::CsrRows label{DType::kFloat32};
  std::vector<float> labels;  // of the data's file
};

LibSvmIter::LibSvmIter(const LibSvmIterOptions& options)
    : RowIter(Describe(Checked(options))), options_(options), rows_(std::make_unique<Rows>()) {
  Rewind();
}

LibSvmIter::~LibSvmIter() = default;

void LibSvmIter::Rewind() {
  std::vector<LibSvmReader> readers;
  readers.emplace_back(options_.data_libsvm, options_.num_parts, options_.part_index);
  if (!options_.label_libsvm.empty()) {
    readers.emplace_back(options_.label_libsvm, options_.num_parts, options_.part_index);
  }
  readers_ = std::move(readers);
}

bool LibSvmIter::Read(index_t at) {
  Rows& rows = *rows_;
  if (!readers_[0].ReadRow(options_.data_size, &rows.row)) return false;
  if (at == 0) {
    rows.data.Clear();
    rows.label.Clear();
    rows.labels.clear();
  }
  rows.data.Append(rows.row.columns, rows.row.values.data());
  rows.labels.push_back(rows.row.label);
  if (readers_.size() == 1) return true;
  if (!readers_[1].ReadRow(options_.label_size, &rows.row)) {
    throw DataLoss(options_.label_libsvm, ": ends after ", examples_read(),
                   " rows, expected one for each row of ", options_.data_libsvm);
  }
  rows.label.Append(rows.row.columns, rows.row.values.data());
  return true;
}

void LibSvmIter::Pad(index_t begin) {
  for (index_t at = begin; at < batch_size(); ++at) {
    rows_->data.Append({}, nullptr);
    rows_->label.Append({}, nullptr);
    rows_->labels.push_back(0);
  }
}

void LibSvmIter::SetArrays(DataBatch* batch) {
  batch->data = {rows_->data.ToArray(options_.data_size)};
  batch->label = {readers_.size() == 1 ? NDArray::FromVector(rows_->labels, ProvideLabel()[0].shape)
                                       : rows_->label.ToArray(options_.label_size)};
}

}  // namespace tessera
