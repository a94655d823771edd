#ifndef TESSERA_IO_LIBSVM_ITER_H_
#define TESSERA_IO_LIBSVM_ITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/io/data_iter.h"
#include "tessera/io/libsvm_reader.h"

namespace tessera {

/// The files of a LibSvmIter, and the options by which it makes batches. The names are those of
/// MXNet's LibSVMIter.
struct LibSvmIterOptions {
  std::string data_libsvm;   ///< a LibSVM file of examples
  int64_t data_size = 0;     ///< the length of an example: MXNet's data_shape
  std::string label_libsvm;  ///< a LibSVM file with a row for each example; empty: data's labels
  int64_t label_size = 1;    ///< the length of such a row: MXNet's label_shape
  int num_parts = 1;         ///< the number of parts of the files, about equal in bytes
  int part_index = 0;        ///< the part that is read
  index_t batch_size = 128;  ///< examples in a batch, at least 1
  /// The treatment of the last examples if they do not fill a batch. True pads the batch with
  /// examples from the beginning, after which the next epoch begins. False pads it with zeros.
  bool round_batch = true;
  std::string data_name = "data";            ///< the variable that the data feed
  std::string label_name = "softmax_label";  ///< the variable that the labels feed
};

/// Examples from LibSVM files in their order, like MXNet's LibSVMIter, but as dense rows.
/// LibSvmReader describes the format.
///
/// Next reads a batch's rows, so memory depends on the batch and not on the files. Batches are in a
/// ring of arrays, each of which is written again once no operation uses it.
///
/// Shapes: data (batch, data_size), labels (batch), or (batch, label_size) with a file of labels;
/// float32. DataBatch::index counts the examples of the part.
///
/// The constructor opens the files, and throws Error: what LibSvmReader's constructor throws, and
/// kInvalidArgument for an impossible batch size or length. Next throws what ReadRow throws, and
/// Error(kDataLoss) if there are no rows, or fewer labels than examples. Surplus labels are not
/// read. After an Error, BeforeFirst begins anew.
class LibSvmIter final : public DataIter {
 public:
  explicit LibSvmIter(const LibSvmIterOptions& options);

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
  std::vector<int64_t> Setup() const;
  DataBatch MakeBatch() const;
  void Rewind();
  bool ReadExample(DataBatch* batch, index_t at);

  const LibSvmIterOptions options_;
  const std::vector<DataDesc> data_;
  const std::vector<DataDesc> label_;
  std::vector<LibSvmReader> readers_;  // of the data and, if there is a file, of the labels
  index_t example_ = 0;                // of the part: the next one
  std::vector<DataBatch> ring_;
  size_t slot_ = 0;
  bool has_batch_ = false;
  bool epoch_ended_ = false;
  bool next_epoch_begun_ = false;
};

}  // namespace tessera

#endif  // TESSERA_IO_LIBSVM_ITER_H_
