#include "tessera/tensor/dense/tblob.h"

namespace tessera {

void TBlob::RequireDevice(int dev_mask) const {
  if (device_.dev_mask() != dev_mask) {
    throw InvalidArgument("TBlob: the memory lies on ", device_, ", but was asked for as a ",
                          dev_mask == cpu::kDevMask ? "cpu" : "gpu", " tensor");
  }
}

void TBlob::RequireType(DType dtype) const {
  if (type_flag_ != dtype) {
    throw InvalidArgument("TBlob: the elements are ", type_flag_, ", but were asked for as ",
                          dtype);
  }
}

void TBlob::RequireSize(const TShape& shape) const {
  if (shape.Size() != Size()) {
    throw InvalidArgument("TBlob: shape ", shape_, " has ", Size(),
                          " elements and cannot be seen as ", shape, ", which has ", shape.Size());
  }
}

}  // namespace tessera
