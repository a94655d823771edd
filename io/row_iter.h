#ifndef TESSERA_IO_ROW_ITER_H_
#define TESSERA_IO_ROW_ITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/io/data_iter.h"

namespace tessera {

/// The form of a RowIter's batches.
struct RowIterOptions {
  const char* name = "";    ///< of the derived class, for states
  std::string path;         ///< of the data, for errors
  DataDesc data;            ///< the data of a batch, whose first extent is the batch size
  DataDesc label;           ///< the labels of a batch
  bool round_batch = true;  ///< pads the last batch with examples from the beginning
  /// More numbers on which batches depend: a state is of an iterator with the same ones.
  std::vector<int64_t> setup = {};
};

/// An iterator over examples that files hold one after the other. It counts them and decides which
/// ones make a batch; a derived class reads them. Memory depends on the batch, not on the files.
///
/// With round_batch, the first examples of the files pad the last batch, and the next epoch begins
/// after them. After an Error of Next, BeforeFirst begins anew.
class RowIter : public DataIter {
 public:
  void BeforeFirst() final;
  /// Throws what reading throws, and Error(kDataLoss) if there is no example.
  bool Next() final;
  const DataBatch& GetBatch() const final;
  const std::vector<DataDesc>& ProvideData() const final { return data_; }
  const std::vector<DataDesc>& ProvideLabel() const final { return label_; }
  index_t batch_size() const final { return batch_size_; }
  TrainingState SaveState() const final;
  /// Reads the examples before the position again. Throws what Next throws.
  void LoadState(const TrainingState& state) final;

 protected:
  /// The derived class is then at the first example.
  explicit RowIter(RowIterOptions options);

  /// Goes to the first example.
  virtual void Rewind() = 0;
  /// Reads the next example to position `at` of the batch; positions rise from 0. Returns false at
  /// the end of the files.
  virtual bool Read(index_t at) = 0;
  /// Fills positions from `begin` on, for which there is no example.
  virtual void Pad(index_t begin) = 0;
  /// Sets the batch's arrays to what was read.
  virtual void SetArrays(DataBatch* batch) = 0;

  /// Returns the number of examples read since the first one.
  index_t examples_read() const { return example_; }

 private:
  std::vector<int64_t> Setup() const;
  void ReadFromBeginning();
  bool ReadExample(index_t at);

  const RowIterOptions options_;
  const std::vector<DataDesc> data_, label_;
  const index_t batch_size_;
  index_t example_ = 0;            // the number of the next example in the files
  bool epoch_ended_ = false;       // the epoch has no further batch
  bool next_epoch_begun_ = false;  // its first examples padded the last batch
  bool has_batch_ = false;
  std::vector<index_t> index_;
  DataBatch batch_;
};

}  // namespace tessera

#endif  // TESSERA_IO_ROW_ITER_H_
