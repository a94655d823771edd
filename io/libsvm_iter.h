#ifndef TESSERA_IO_LIBSVM_ITER_H_
#define TESSERA_IO_LIBSVM_ITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/io/libsvm_reader.h"
#include "tessera/io/row_iter.h"

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
  /// examples from the beginning, after which the next epoch begins. False pads it with rows of
  /// zeros.
  bool round_batch = true;
  std::string data_name = "data";            ///< the variable that the data feed
  std::string label_name = "softmax_label";  ///< the variable that the labels feed
};

/// Examples from LibSVM files in their order, like MXNet's LibSVMIter. LibSvmReader describes the
/// format.
///
/// Shapes: data (batch, data_size), a csr array; labels (batch), dense, or with a file of labels
/// (batch, label_size), a csr array; float32. DataBatch::index counts the examples of the part.
/// Each batch has new arrays, and memory depends on what a batch stores.
///
/// The constructor opens the files, and throws Error: what LibSvmReader's constructor throws, and
/// kInvalidArgument for an impossible batch size or length. Next throws what ReadRow throws, and
/// Error(kDataLoss) if there are no rows, or fewer labels than examples. Surplus labels are not
/// read. After an Error, BeforeFirst begins anew.
class LibSvmIter final : public RowIter {
 public:
  explicit LibSvmIter(const LibSvmIterOptions& options);
  ~LibSvmIter() override;

 private:
  /// The rows of a batch that have been read so far.
  struct Rows;

  void Rewind() override;
  bool Read(index_t at) override;
  void Pad(index_t begin) override;
  void SetArrays(DataBatch* batch) override;

  const LibSvmIterOptions options_;
  std::vector<LibSvmReader> readers_;  // of the data and, if there is a file, of the labels
  std::unique_ptr<Rows> rows_;
};

}  // namespace tessera

#endif  // TESSERA_IO_LIBSVM_ITER_H_
