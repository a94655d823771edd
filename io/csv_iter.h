#ifndef TESSERA_IO_CSV_ITER_H_
#define TESSERA_IO_CSV_ITER_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/io/row_iter.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// The files of a CsvIter, and the options by which it makes batches.
struct CsvIterOptions {
  std::string data_csv;      ///< path of a CSV file, or of a folder whose files are read by name
  TShape data_shape;         ///< the shape of one example, a row; its size is the row's length
  std::string label_csv;     ///< like data_csv, with a row for each example; empty: labels are 0
  TShape label_shape = {1};  ///< the shape of one label; (1) gives labels of shape (batch)
  index_t batch_size = 128;  ///< examples in a batch, at least 1
  /// The treatment of the last examples if they do not fill a batch. True pads the batch with
  /// examples from the beginning, after which the next epoch begins. False leaves in the padding
  /// what the batch before had there.
  bool round_batch = true;
  DType dtype = DType::kFloat32;             ///< of data and labels: float32, int32 or int64
  std::string data_name = "data";            ///< the variable that the data feed
  std::string label_name = "softmax_label";  ///< the variable that the labels feed
};

/// Examples from CSV files in their order, like MXNet's CSVIter. CsvReader describes the format.
///
/// Next reads a batch's rows, so memory depends on the batch and not on the files. Batches are in a
/// ring of arrays, each of which is written again once no operation uses it.
///
/// The constructor opens the files, and throws Error: what CsvReader's constructor throws, and
/// kInvalidArgument for an impossible batch size, shape or type. Next throws what ReadRow throws,
/// and Error(kDataLoss) if there are no rows, or fewer labels than examples. Surplus labels are not
/// read. After an Error, BeforeFirst begins anew.
class CsvIter final : public RowIter {
 public:
  explicit CsvIter(const CsvIterOptions& options);
  ~CsvIter() override;

 private:
  class Rows;

  void Rewind() override;
  bool Read(index_t at) override;
  /// Leaves the rows of the batch before.
  void Pad(index_t) override {}
  void SetArrays(DataBatch* batch) override;

  const DType dtype_;
  std::unique_ptr<Rows> data_rows_;
  std::unique_ptr<Rows> label_rows_;  // null if there is no file of labels

  // The batch that is being read, which keeps its rows for the padding of the next.
  std::vector<std::byte> data_bytes_;
  std::vector<std::byte> label_bytes_;

  std::vector<std::array<NDArray, 2>> ring_;  // data and labels
  size_t slot_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_IO_CSV_ITER_H_
