#ifndef MSHADOW_IO_H_
#define MSHADOW_IO_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

#include "mshadow/tensor_base.h"

namespace mshadow {

namespace utils {

/// The interface through which tensors are written and read. Any class with such a Read and Write
/// works.
class IStream {
 public:
  virtual ~IStream() = default;
  /// Reads up to `size` bytes and returns the number of bytes read.
  virtual size_t Read(void* ptr, size_t size) = 0;
  /// Writes all `size` bytes.
  virtual void Write(const void* ptr, size_t size) = 0;
};

/// A file that the caller has opened and will close.
class FileStream final : public IStream {
 public:
  explicit FileStream(std::FILE* file) : file_(file) {}
  size_t Read(void* ptr, size_t size) override { return std::fread(ptr, 1, size, file_); }
  /// Throws Error(kDataLoss) if not all bytes could be written.
  void Write(const void* ptr, size_t size) override {
    const size_t written = std::fwrite(ptr, 1, size, file_);
    if (written != size) {
      throw tessera::DataLoss("FileStream: only ", written, " of ", size, " bytes were written");
    }
  }

 private:
  std::FILE* file_;
};

}  // namespace utils

namespace io_internal {

/// Reads from a program's stream, whose Read returns the number of bytes that it has read, or 1 for
/// "done" (as fread does for one item).
template <typename TStream>
class StreamReader {
 public:
  explicit StreamReader(TStream* stream) : stream_(stream) {}

  /// Reads `size` bytes. Returns false if Read returned anything else. A stream that has once
  /// returned a number of bytes above 1 counts: 1 is then too few.
  bool Read(void* to, size_t size) {
    if (size == 0) return true;
    returned_ = static_cast<int64_t>(stream_->Read(to, size));
    if (returned_ == static_cast<int64_t>(size)) {
      counts_ = counts_ || size > 1;
      return true;
    }
    return returned_ == 1 && !counts_;
  }

  /// Reads `size` bytes that are extents, which a stream that ends after one byte leaves
  /// recognizable: they are set to all ones before.
  bool ReadExtents(uint32_t* extents, size_t count) {
    const size_t size = count * sizeof(uint32_t);
    std::memset(extents, 0xff, size);
    if (!Read(extents, size)) return false;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(extents);
    return counts_ ||
           std::any_of(bytes + 1, bytes + size, [](unsigned char byte) { return byte != 0xff; });
  }

  /// Throws Error(kDataLoss) for a read of `size` bytes that has failed.
  [[noreturn]] void Fail(size_t size) const {
    if (0 <= returned_ && returned_ < static_cast<int64_t>(size)) {
      throw tessera::DataLoss("LoadBinary: the stream ends after ", returned_, " of ", size,
                              " bytes");
    }
    throw tessera::DataLoss("LoadBinary: the stream's Read returned ", returned_, " for ", size,
                            " bytes; expected ", size, ", or 1 for done");
  }

 private:
  TStream* stream_;
  int64_t returned_ = 0;  // by the last Read
  bool counts_ = false;
};

template <int dim, typename TStream>
Shape<dim> ReadShape(StreamReader<TStream>& in) {
  std::array<uint32_t, dim> extents;
  if (!in.ReadExtents(extents.data(), dim)) in.Fail(sizeof(extents));
  Shape<dim> shape;
  for (int i = 0; i < dim; ++i) shape[i] = extents[static_cast<size_t>(i)];
  return shape;
}

template <typename Device, int dim, typename DType, typename TStream>
void ReadElements(StreamReader<TStream>& in, const Tensor<Device, dim, DType>& dst) {
  if constexpr (Device::kDevCPU) {
    const Tensor<cpu, 2, DType> rows = dst.FlatTo2D();
    const size_t size = static_cast<size_t>(rows.size(1)) * sizeof(DType);
    for (index_t i = 0; i < rows.size(0); ++i) {
      if (!in.Read(rows[i].dptr_, size)) in.Fail(size);
    }
  } else {
    tessera::TensorContainer<cpu, dim, DType> host(dst.shape_);
    ReadElements(in, static_cast<const Tensor<cpu, dim, DType>&>(host));
    Copy(dst, host);
  }
}

}  // namespace io_internal

/// Writes a tensor in the format of mshadow's default build: dim extents as 32-bit unsigned
/// integers, then the elements row by row without padding, all in the machine's byte order. Throws
/// Error(kInvalidArgument) if an extent does not fit.
template <typename Device, int dim, typename DType, typename TStream>
void SaveBinary(TStream& out, const Tensor<Device, dim, DType>& src) {
  if constexpr (!Device::kDevCPU) {
    tessera::TensorContainer<cpu, dim, DType> host(src.shape_);
    Copy(host, src);
    SaveBinary(out, static_cast<const Tensor<cpu, dim, DType>&>(host));
  } else {
    std::array<uint32_t, dim> extents;
    for (int i = 0; i < dim; ++i) {
      if (src.size(i) > std::numeric_limits<uint32_t>::max()) {
        throw tessera::InvalidArgument("SaveBinary: shape ", src.shape_,
                                       " does not fit the format's 32-bit extents");
      }
      extents[static_cast<size_t>(i)] = static_cast<uint32_t>(src.size(i));
    }
    out.Write(extents.data(), sizeof(extents));
    const Tensor<cpu, 2, DType> rows = src.FlatTo2D();
    for (index_t i = 0; i < rows.size(0); ++i) {
      out.Write(rows[i].dptr_, static_cast<size_t>(rows.size(1)) * sizeof(DType));
    }
  }
}

/// Reads a tensor that SaveBinary wrote. If pre_alloc, the tensor already has memory and its shape
/// must match. Otherwise it receives memory, which FreeSpace frees. The stream's Read returns the
/// number of bytes that it has read, or 1 for "done". Throws Error(kDataLoss) for anything else,
/// such as a stream that ends early, and Error(kInvalidArgument) for another shape.
template <typename Device, int dim, typename DType, typename TStream>
void LoadBinary(TStream& in, Tensor<Device, dim, DType>* dst, bool pre_alloc) {
  io_internal::StreamReader<TStream> reader(&in);
  const Shape<dim> shape = io_internal::ReadShape<dim>(reader);
  if (!pre_alloc) {
    dst->shape_ = shape;
    AllocSpace(dst);
  } else if (shape != dst->shape_) {
    throw tessera::InvalidArgument("LoadBinary: the stream holds shape ", shape,
                                   " but the tensor has shape ", dst->shape_);
  }
  io_internal::ReadElements(reader, *dst);
}
/// Reads a tensor into a reference, which programs of early 2014 pass.
template <typename Device, int dim, typename DType, typename TStream>
void LoadBinary(TStream& in, Tensor<Device, dim, DType>& dst, bool pre_alloc) {
  LoadBinary(in, &dst, pre_alloc);
}

}  // namespace mshadow

#endif  // MSHADOW_IO_H_
