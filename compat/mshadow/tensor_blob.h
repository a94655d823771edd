#ifndef MSHADOW_TENSOR_BLOB_H_
#define MSHADOW_TENSOR_BLOB_H_

#include <cstdint>
#include <initializer_list>
#include <istream>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "mshadow/io.h"
#include "mshadow/tensor_base.h"
#include "tessera/base/tshape.h"

namespace mshadow {

/// A shape whose number of dimensions is known at run time, and is 0 by default. See
/// tessera::TShape.
struct TShape : tessera::TShape {
  TShape() : tessera::TShape(std::span<const index_t>()) {}
  /// Constructs a shape of `ndim` extents of 1.
  explicit TShape(index_t ndim) : tessera::TShape(tessera::TShape::OfRank(static_cast<int>(ndim))) {
    for (int i = 0; i < this->ndim(); ++i) (*this)[i] = 1;
  }
  /// Constructs a shape of `ndim` equal extents.
  TShape(int ndim, index_t extent) : TShape(static_cast<index_t>(ndim)) {
    for (int i = 0; i < ndim; ++i) (*this)[i] = extent;
  }
  TShape(std::initializer_list<index_t> extents) : tessera::TShape(extents) {}
  TShape(const index_t* begin, const index_t* end)
      : tessera::TShape(std::span<const index_t>(begin, end)) {}
  template <typename Iterator>
  requires(!std::is_arithmetic_v<Iterator>) TShape(Iterator begin, Iterator end) {
    CopyFrom(begin, end);
  }
  template <int dim>
  TShape(const Shape<dim>& shape) : tessera::TShape(shape) {}       // NOLINT: every shape is one
  TShape(const tessera::TShape& shape) : tessera::TShape(shape) {}  // NOLINT

  TShape& operator=(const std::vector<index_t>& extents) {
    return *this = TShape(extents.data(), extents.data() + extents.size());
  }
  template <typename Iterator>
  void CopyFrom(Iterator begin, Iterator end) {
    *this = std::vector<index_t>(begin, end);
  }

  /// Write and read the shape as mshadow's default build did: the number of dimensions, then the
  /// extents, each as a 32-bit unsigned integer. Load takes streams as LoadBinary does. It returns
  /// false, and changes nothing, if the stream ends early or has too many dimensions. Save throws
  /// Error(kInvalidArgument) for an extent that does not fit.
  template <typename TStream>
  void Save(TStream* stream) const {
    std::vector<uint32_t> numbers(1);
    for (const index_t extent : *this) {
      if (extent < 0 || extent > std::numeric_limits<uint32_t>::max()) {
        throw tessera::InvalidArgument("TShape::Save: shape ", *this,
                                       " does not fit the format's 32-bit extents");
      }
      numbers.push_back(static_cast<uint32_t>(extent));
    }
    numbers[0] = static_cast<uint32_t>(numbers.size() - 1);
    stream->Write(numbers.data(), numbers.size() * sizeof(uint32_t));
  }
  template <typename TStream>
  bool Load(TStream* stream) {
    io_internal::StreamReader<TStream> reader(stream);
    uint32_t count = 0;
    if (!reader.ReadExtents(&count, 1) || count > static_cast<uint32_t>(kMaxRank)) return false;
    std::vector<uint32_t> extents(count);
    if (count > 0 && !reader.ReadExtents(extents.data(), count)) return false;
    CopyFrom(extents.begin(), extents.end());
    return true;
  }

  /// Returns the number of dimensions, in the type that programs compare it with.
  index_t ndim() const { return tessera::TShape::ndim(); }

  const index_t* data() const { return begin(); }
  index_t* data() { return ndim() > 0 ? &(*this)[0] : nullptr; }

  template <int dim>
  bool operator==(const Shape<dim>& shape) const {
    return *this == TShape(shape);
  }
  bool operator==(const TShape& shape) const { return tessera::TShape::operator==(shape); }
};

/// Reads a shape that operator<< has printed, or a single number for one dimension.
inline std::istream& operator>>(std::istream& is, TShape& shape) {
  std::string text;
  char c = 0;
  if (!(is >> c)) return is;
  if (c != '(') {
    is.unget();
    index_t extent = 0;
    tessera::base_internal::ReadExtent(is, &extent);
    if (is) shape = TShape(&extent, &extent + 1);
    return is;
  }
  std::getline(is, text, ')');
  try {
    if (is.eof()) throw tessera::InvalidArgument("shape \"(", text, "\": no closing parenthesis");
    shape = tessera::TShape::Parse("(" + text + ")");
  } catch (const tessera::Error&) {
    is.setstate(std::ios::failbit);
  }
  return is;
}

/// A tensor whose device, number of dimensions and element type are known at run time. It is a
/// handle and owns no memory. Rows may be padded.
class TBlob {
 public:
  void* dptr_ = nullptr;
  TShape shape_;
  index_t stride_ = 0;  ///< elements from one row to the next
  int dev_mask_ = cpu::kDevMask;
  int type_flag_ = default_type_flag;

  TBlob() = default;
  /// Constructs a blob of contiguous memory. dev_mask is cpu::kDevMask or gpu::kDevMask.
  template <typename DType>
  TBlob(DType* dptr, const TShape& shape, int dev_mask)
      : TBlob(dptr, shape, dev_mask, DataType<DType>::kFlag) {}
  TBlob(void* dptr, const TShape& shape, int dev_mask, int type_flag)
      : dptr_(dptr),
        shape_(shape),
        stride_(shape.ndim() > 0 ? shape.end()[-1] : 1),
        dev_mask_(dev_mask),
        type_flag_(type_flag) {}
  template <typename Device, int dim, typename DType>
  TBlob(const Tensor<Device, dim, DType>& tensor)  // NOLINT: every tensor is a blob
      : TBlob(tensor.dptr_, tensor.shape_, Device::kDevMask, DataType<DType>::kFlag) {
    stride_ = tensor.stride_;
  }

  index_t ndim() const { return shape_.ndim(); }
  index_t size(index_t i) const { return shape_[static_cast<int>(i)]; }
  index_t Size() const { return shape_.Size(); }
  bool CheckContiguous() const { return ndim() == 0 || shape_.end()[-1] == stride_; }

  /// Returns the memory as DType*. Throws Error(kInvalidArgument) if the elements have another
  /// type.
  template <typename DType>
  DType* dptr() const {
    if (type_flag_ != DataType<DType>::kFlag) {
      throw tessera::InvalidArgument(
          "TBlob: the elements are ", static_cast<tessera::DType>(type_flag_),
          ", but were asked for as ", static_cast<tessera::DType>(DataType<DType>::kFlag));
    }
    return static_cast<DType*>(dptr_);
  }

  /// Return the blob as a tensor. Each throws Error(kInvalidArgument) if device, element type or
  /// number of dimensions differs, or if it would join padded rows. get_with_shape also throws if
  /// the number of elements differs.
  template <typename Device, int dim, typename DType>
  Tensor<Device, dim, DType> get(Stream<Device>* stream = nullptr) const {
    RequireDevice(Device::kDevMask);
    if (ndim() != dim) {
      throw tessera::InvalidArgument("TBlob: shape ", shape_, " has ", ndim(),
                                     " dimensions, but was asked for as a tensor of ", dim);
    }
    return Tensor<Device, dim, DType>(dptr<DType>(), shape_.get<dim>(), stride_, stream);
  }
  template <typename Device, int dim, typename DType>
  Tensor<Device, dim, DType> get_with_shape(const Shape<dim>& shape,
                                            Stream<Device>* stream = nullptr) const {
    RequireDevice(Device::kDevMask);
    if (!CheckContiguous()) {
      throw tessera::InvalidArgument("TBlob: rows of shape ", shape_, " lie ", stride_,
                                     " elements apart and cannot be seen as ", shape);
    }
    if (shape.Size() != Size()) {
      throw tessera::InvalidArgument("TBlob: shape ", shape_, " has ", Size(),
                                     " elements and cannot be seen as ", shape, ", which has ",
                                     shape.Size());
    }
    return Tensor<Device, dim, DType>(dptr<DType>(), shape, stream);
  }
  template <typename Device, typename DType>
  Tensor<Device, 1, DType> FlatTo1D(Stream<Device>* stream = nullptr) const {
    return get_with_shape<Device, 1, DType>(tessera::Shape1(Size()), stream);
  }
  /// Returns a matrix, keeping the padding between rows.
  template <typename Device, typename DType>
  Tensor<Device, 2, DType> FlatTo2D(Stream<Device>* stream = nullptr) const {
    RequireDevice(Device::kDevMask);
    return Tensor<Device, 2, DType>(dptr<DType>(), shape_.FlatTo2D(), stride_, stream);
  }
  template <typename Device, typename DType>
  Tensor<Device, 3, DType> FlatTo3D(int axis, Stream<Device>* stream = nullptr) const {
    return FlatTo3D<Device, DType>(axis, axis, stream);
  }
  template <typename Device, typename DType>
  Tensor<Device, 3, DType> FlatTo3D(int axis_begin, int axis_end,
                                    Stream<Device>* stream = nullptr) const {
    return get_with_shape<Device, 3, DType>(shape_.FlatTo3D(axis_begin, axis_end), stream);
  }
  /// Joins leading dimensions, or puts extents of 1 in front, until there are dim dimensions.
  template <typename Device, int dim, typename DType>
  Tensor<Device, dim, DType> FlatToKD(Stream<Device>* stream = nullptr) const {
    const int joined = static_cast<int>(ndim()) - dim + 1;
    Shape<dim> shape;
    for (int i = 0; i < dim; ++i) shape[i] = joined + i > 0 ? shape_[joined + i - 1] : 1;
    if (joined > 0) shape[0] = shape_.ProdShape(0, joined);
    return get_with_shape<Device, dim, DType>(shape, stream);
  }

 private:
  void RequireDevice(int dev_mask) const {
    if (dev_mask_ == dev_mask) return;
    const auto name = [](int mask) { return mask == cpu::kDevMask ? "cpu" : "gpu"; };
    throw tessera::InvalidArgument("TBlob: the memory lies on a ", name(dev_mask_),
                                   ", but was asked for as a ", name(dev_mask), " tensor");
  }
};

}  // namespace mshadow

#endif  // MSHADOW_TENSOR_BLOB_H_
