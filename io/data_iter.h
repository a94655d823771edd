#ifndef TESSERA_IO_DATA_ITER_H_
#define TESSERA_IO_DATA_ITER_H_

#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// One array of every batch: which variable of a network it feeds, and how it looks. The first
/// dimension counts the examples.
struct DataDesc {
  std::string name;               ///< of the variable
  TShape shape;                   ///< of the whole batch
  DType dtype = DType::kFloat32;  ///< of the elements
};

/// Some examples, side by side in the first dimension of each array.
struct DataBatch {
  std::vector<NDArray> data;   ///< what the network reads, in the order of ProvideData
  std::vector<NDArray> label;  ///< what it should say, in the order of ProvideLabel
  /// How many examples at the end only fill up the arrays; measures leave them out.
  index_t pad = 0;
  /// The number of each example in its data set; may be empty where there are no such numbers.
  std::vector<index_t> index;
};

/// Goes through a data set batch by batch, once for each epoch.
///
///     iter.BeforeFirst();
///     while (iter.Next()) module.Forward(iter.GetBatch());
///
/// Threads: one thread at a time calls an iterator; the arrays may be used from any thread.
class DataIter {
 public:
  virtual ~DataIter() = default;
  DataIter(const DataIter&) = delete;
  DataIter& operator=(const DataIter&) = delete;

  /// Back to the beginning, in a new order where the iterator shuffles. The first epoch needs no
  /// such call.
  virtual void BeforeFirst() = 0;

  /// Goes to the next batch; false, at the end of the epoch, if there is none. Throws the Error of
  /// whatever went wrong on the way to the batch.
  virtual bool Next() = 0;

  /// The present batch. Operations that are pushed on its arrays before the next call of Next see
  /// this batch, whenever they run; whoever wants the numbers for longer copies them. Throws
  /// Error(kFailedPrecondition) where the last call of Next did not give true.
  virtual const DataBatch& GetBatch() const = 0;

  /// The arrays of every batch, in the order of DataBatch::data and DataBatch::label.
  virtual const std::vector<DataDesc>& ProvideData() const = 0;
  virtual const std::vector<DataDesc>& ProvideLabel() const = 0;

  /// Examples in each batch, padding included.
  virtual index_t batch_size() const = 0;

 protected:
  DataIter() = default;
};

}  // namespace tessera

#endif  // TESSERA_IO_DATA_ITER_H_
