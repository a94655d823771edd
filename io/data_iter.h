#ifndef TESSERA_IO_DATA_ITER_H_
#define TESSERA_IO_DATA_ITER_H_

#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/state.h"

namespace tessera {

/// The description of one array of every batch: the network variable that it feeds, its shape and
/// types. The first dimension counts the examples.
struct DataDesc {
  std::string name;                             ///< the variable's name
  TShape shape;                                 ///< the shape of the whole batch
  DType dtype = DType::kFloat32;                ///< the elements' type
  StorageType storage = StorageType::kDefault;  ///< how the array stores its elements
};

/// A batch of examples; the first dimension of each array counts them.
struct DataBatch {
  std::vector<NDArray> data;   ///< the network's inputs, in the order of ProvideData
  std::vector<NDArray> label;  ///< the expected outputs, in the order of ProvideLabel
  /// The number of examples at the end that only pad the arrays; metrics ignore them.
  index_t pad = 0;
  /// The number of each example in its data set; may be empty if there are no such numbers.
  std::vector<index_t> index;
  /// The length to which the batch's sequences are padded; 0 if there are no buckets.
  index_t bucket_key = 0;
};

/// Iterates over a data set batch by batch, once for each epoch.
///
///     iter.BeforeFirst();
///     while (iter.Next()) module.Forward(iter.GetBatch());
///
/// Its state is its position. After LoadState there is no current batch, and Next gives the batch
/// that follows the current one of SaveState, with the same bits, also in the midst of an epoch
/// with shuffling. The iterator needs the same data and options.
///
/// Threads: one thread at a time calls an iterator; the arrays may be used from any thread.
class DataIter : public Stateful {
 public:
  DataIter(const DataIter&) = delete;
  DataIter& operator=(const DataIter&) = delete;

  /// Returns to the beginning, with a new order if the iterator shuffles. The first epoch needs no
  /// call.
  virtual void BeforeFirst() = 0;

  /// Advances to the next batch. Returns false at the end of the epoch. Throws the Error of a
  /// failure to make the batch.
  virtual bool Next() = 0;

  /// Returns the current batch. Operations that are pushed on its arrays before the next call of
  /// Next see this batch, whenever they run. Copy the arrays to use them longer. Throws
  /// Error(kFailedPrecondition) unless the last call of Next returned true.
  virtual const DataBatch& GetBatch() const = 0;

  /// Return the arrays of every batch, in the order of DataBatch::data and DataBatch::label.
  virtual const std::vector<DataDesc>& ProvideData() const = 0;
  virtual const std::vector<DataDesc>& ProvideLabel() const = 0;

  /// Returns the number of examples in each batch, including padding.
  virtual index_t batch_size() const = 0;

  /// Save and set the position. An iterator that does not override them throws
  /// Error(kUnimplemented).
  TrainingState SaveState() const override;
  void LoadState(const TrainingState& state) override;

 protected:
  DataIter() = default;
};

}  // namespace tessera

#endif  // TESSERA_IO_DATA_ITER_H_
