#ifndef MSHADOW_TENSOR_CONTAINER_H_
#define MSHADOW_TENSOR_CONTAINER_H_

#include "mshadow/io.h"
#include "mshadow/tensor_base.h"

namespace mshadow {

/// A tensor that owns its memory: tessera::TensorContainer with mshadow's file functions.
template <typename Device, int dim, typename DType = default_real_t>
class TensorContainer : public tessera::TensorContainer<Device, dim, DType> {
 public:
  using Base = tessera::TensorContainer<Device, dim, DType>;
  using Base::Base;
  using Base::operator=;

  TensorContainer() = default;

  /// Write and read a file; see mshadow::SaveBinary and LoadBinary.
  template <typename TStream>
  void SaveBinary(TStream& out) const {
    mshadow::SaveBinary(out, static_cast<const Tensor<Device, dim, DType>&>(*this));
  }
  template <typename TStream>
  void LoadBinary(TStream& in) {
    io_internal::StreamReader<TStream> reader(&in);
    this->Resize(io_internal::ReadShape<dim>(reader));
    io_internal::ReadElements(reader, static_cast<const Tensor<Device, dim, DType>&>(*this));
  }
};

}  // namespace mshadow

#endif  // MSHADOW_TENSOR_CONTAINER_H_
