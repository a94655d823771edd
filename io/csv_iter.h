#ifndef TESSERA_IO_CSV_ITER_H_
#define TESSERA_IO_CSV_ITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/io/data_iter.h"

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
class CsvIter final : public DataIter {
 public:
  explicit CsvIter(const CsvIterOptions& options);
  ~CsvIter() override;

  void BeforeFirst() override;
  bool Next() override;
  const DataBatch& GetBatch() const override;
  const std::vector<DataDesc>& ProvideData() const override { return data_; }
  const std::vector<DataDesc>& ProvideLabel() const override { return label_; }
  index_t batch_size() const override { return options_.batch_size; }
  TrainingState SaveState() const override;
  /// Reads the rows before the position again. Throws what Next throws.
  void LoadState(const TrainingState& state) override;

 private:
  class Rows;

  std::vector<int64_t> Setup() const;

  void Rewind();
  bool ReadExample(index_t at);
  void Publish(index_t pad);

  const CsvIterOptions options_;
  const std::vector<DataDesc> data_;
  const std::vector<DataDesc> label_;
  std::unique_ptr<Rows> data_rows_;
  std::unique_ptr<Rows> label_rows_;  // null if there is no file of labels

  // The batch that is being read, which keeps its rows for the padding of the next.
  std::vector<std::byte> data_bytes_;
  std::vector<std::byte> label_bytes_;
  std::vector<index_t> index_;

  index_t example_ = 0;            // the number of the next example in the files
  bool epoch_ended_ = false;       // the epoch has no further batch
  bool next_epoch_begun_ = false;  // its first examples padded the last batch
  bool has_batch_ = false;
  std::vector<DataBatch> ring_;
  size_t slot_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_IO_CSV_ITER_H_
