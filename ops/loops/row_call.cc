#include "tessera/ops/loops/row_call.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;

// Neighbouring rows that are copied together: a cache line of floats.
constexpr index_t kTile = 16;
// The elements of an array that a thread copies at a time, unless a single row has more.
constexpr index_t kMaxCopied = index_t{1} << 20;
// The elements of a tile: 16 KiB of floats, so that a few arrays' stay in the first-level cache.
constexpr index_t kTileElements = index_t{1} << 12;
// Segments of a row from this length on are used where they lie.
constexpr index_t kLongSegment = 128;

}  // namespace

RowLayout RowLayout::Along(const TShape& shape, int axis) {
  const Shape<3> s = shape.FlatTo3D(axis);
  if (s[2] == 1) return Contiguous(s[0], s[1]);
  return {.num_outer = s[0],
          .num_inner = s[2],
          .outer_stride = s[1] * s[2],
          .segments = s[1],
          .segment_stride = s[2],
          .run = 1};
}

RowLayout RowLayout::Contiguous(index_t rows, index_t length) {
  return {.num_outer = rows, .outer_stride = length, .run = length};
}

RowLayout RowLayout::Channels(const TShape& shape, int axis) {
  const Shape<3> s = shape.FlatTo3D(axis);
  if (s[2] == 1) {
    return {.num_outer = 1,
            .num_inner = s[1],
            .outer_stride = s[0] * s[1],
            .segments = s[0],
            .segment_stride = s[1],
            .run = 1};
  }
  return {.num_outer = s[1],
          .num_inner = 1,
          .outer_stride = s[2],
          .segments = s[0],
          .segment_stride = s[1] * s[2],
          .run = s[2]};
}

RowCall& RowCall::Read(const TBlob& array) {
  TESSERA_DCHECK(num_in_ < kMaxOperands);
  in_[static_cast<size_t>(num_in_++)] = {array.dptr_, array.type_flag_};
  return *this;
}

RowCall& RowCall::Write(const TBlob& array, OpReqType req) {
  TESSERA_DCHECK(num_out_ < kMaxOperands);
  out_[static_cast<size_t>(num_out_++)] = {array.dptr_, array.type_flag_, req};
  return *this;
}

RowCall& RowCall::Then(const Epilogue* epilogue) {
  epilogue_ = epilogue;
  return *this;
}

/// The rows that one task does.
template <typename T>
class RowCall::Range {
 public:
  Range(const RowCall& call, bool takes_segments)
      : call_(call), layout_(call.layout_), segments_{.run = layout_.Length()} {
    const index_t n = std::max<index_t>(1, layout_.Length());
    tile_ = layout_.num_inner == 1 ? 1 : std::clamp<index_t>(kMaxCopied / n, 1, kTile);
    // Rows begin at different sets of the cache, and each at the start of a line.
    distance_ = (n + kTile - 1) / kTile * kTile + kTile;
    bool dense = layout_.segments == 1 && layout_.num_inner == 1;
    if (takes_segments && !dense && HasLongSegmentsInPlace()) {
      dense = true;
      segments_ = {layout_.segments, layout_.run, layout_.segment_stride};
    }
    const auto copied = [&](bool copy) -> T* {
      if (!copy) return nullptr;
      copies_.push_back(std::unique_ptr<T[]>(new T[static_cast<size_t>(tile_ * distance_)]));
      return copies_.back().get();
    };
    for (int k = 0; k < call_.num_in_; ++k) {
      in_[At(k)] = RowReader<T>(call_.in_[At(k)].data, call_.in_[At(k)].dtype);
      in_copy_[At(k)] = copied(!dense || !in_[At(k)].is_direct());
    }
    for (int k = 0; k < call_.num_out_; ++k) {
      const Output& out = call_.out_[At(k)];
      out_[At(k)] = RowWriter<T>(out.data, out.dtype, out.req);
      out_copy_[At(k)] = copied(!dense || !out_[At(k)].is_direct());
    }
  }

  void Run(RowBody<T> body, const void* context, index_t begin, index_t end) const {
    while (begin < end) {
      const index_t outer = begin / layout_.num_inner;
      const index_t inner = begin - outer * layout_.num_inner;
      const index_t width = std::min({tile_, end - begin, layout_.num_inner - inner});
      const index_t offset = outer * layout_.outer_stride + inner;
      const T* in[kMaxOperands];
      T* out[kMaxOperands];
      for (int k = 0; k < call_.num_in_; ++k) {
        in[k] = in_copy_[At(k)];
        if (in[k] == nullptr) {
          in[k] = in_[At(k)].Read(offset, layout_.run, nullptr);
        } else {
          Load(in_[At(k)], offset, width, in_copy_[At(k)]);
        }
      }
      for (int k = 0; k < call_.num_out_; ++k) {
        out[k] = out_copy_[At(k)];
        if (out[k] == nullptr) out[k] = out_[At(k)].Out(offset, nullptr);
      }
      for (index_t i = 0; i < width; ++i) {
        body(context, begin + i, segments_, in, out);
        for (int k = 0; k < call_.num_in_; ++k) in[k] += distance_;
        for (int k = 0; k < call_.num_out_; ++k) out[k] += distance_;
      }
      for (int k = 0; k < call_.num_out_; ++k) {
        if (out_copy_[At(k)] != nullptr && out_[At(k)].is_wanted()) {
          Store(out_[At(k)], offset, width, out_copy_[At(k)]);
        }
      }
      if (call_.epilogue_ != nullptr && out_[0].is_wanted()) {
        // Several rows are neighbours, whose segments are single elements.
        call_.epilogue_->Run({.first = offset,
                              .run = layout_.num_inner == 1 ? layout_.run : width,
                              .count = layout_.segments,
                              .stride = layout_.segment_stride});
      }
      begin += width;
    }
  }

 private:
  /// Returns whether rows are made of long segments that a body can use where they lie.
  bool HasLongSegmentsInPlace() const {
    // Empty arrays have no address.
    if (layout_.num_inner > 1 || layout_.run < kLongSegment || layout_.segments == 0) return false;
    for (int k = 0; k < call_.num_in_; ++k) {
      if (!RowReader<T>(call_.in_[At(k)].data, call_.in_[At(k)].dtype).is_direct()) return false;
    }
    for (int k = 0; k < call_.num_out_; ++k) {
      const Output& out = call_.out_[At(k)];
      if (!RowWriter<T>(out.data, out.dtype, out.req).is_direct()) return false;
    }
    return true;
  }

  void Load(const RowReader<T>& array, index_t offset, index_t width, T* copy) const {
    if (layout_.run == 0) return;  // however many segments there are
    for (index_t s = 0; s < layout_.segments; ++s, offset += layout_.segment_stride) {
      if (layout_.num_inner == 1) {
        array.Copy(offset, layout_.run, copy + s * layout_.run);
        continue;
      }
      T converted[kTile];
      const T* const elements = array.Read(offset, width, converted);
      for (index_t i = 0; i < width; ++i) copy[i * distance_ + s] = elements[i];
    }
  }

  void Store(const RowWriter<T>& array, index_t offset, index_t width, const T* copy) const {
    if (layout_.run == 0) return;
    for (index_t s = 0; s < layout_.segments; ++s, offset += layout_.segment_stride) {
      if (layout_.num_inner == 1) {
        array.Write(offset, layout_.run, copy + s * layout_.run);
        continue;
      }
      T gathered[kTile];
      T* const elements = array.Out(offset, gathered);
      for (index_t i = 0; i < width; ++i) elements[i] = copy[i * distance_ + s];
      array.Write(offset, width, elements);
    }
  }

  const RowCall& call_;
  const RowLayout& layout_;
  RowSegments segments_;
  index_t tile_;
  index_t distance_;
  std::vector<std::unique_ptr<T[]>> copies_;
  std::array<RowReader<T>, kMaxOperands> in_{};
  std::array<RowWriter<T>, kMaxOperands> out_{};
  // Null where a row of the array lies in memory as the body takes it.
  std::array<T*, kMaxOperands> in_copy_{};
  std::array<T*, kMaxOperands> out_copy_{};
};

/// The tiles that one task does. Tiles of rows that are neighbours in memory are used where they
/// are, unless an array has another type or is added to; short rows are transposed.
template <typename T>
class RowCall::Tiles {
 public:
  explicit Tiles(const RowCall& call)
      : call_(call),
        layout_(call.layout_),
        n_(layout_.Length()),
        width_(WidthOf(layout_)),
        is_direct_(layout_.num_inner > 1) {
    for (int k = 0; k < call_.num_in_; ++k) {
      in_[At(k)] = RowReader<T>(call_.in_[At(k)].data, call_.in_[At(k)].dtype);
      is_direct_ = is_direct_ && in_[At(k)].is_direct();
    }
    for (int k = 0; k < call_.num_out_; ++k) {
      const Output& out = call_.out_[At(k)];
      out_[At(k)] = RowWriter<T>(out.data, out.dtype, out.req);
      is_direct_ = is_direct_ && out_[At(k)].is_direct();
    }
    if (is_direct_) return;
    const index_t tile = std::max<index_t>(1, n_) * width_;
    copies_.reset(new T[static_cast<size_t>((call_.num_in_ + call_.num_out_ + 1) * tile)]);
    for (int k = 0; k < call_.num_in_ + call_.num_out_ + 1; ++k) {
      copy_[At(k)] = copies_.get() + k * tile;
    }
  }

  /// The rows of a tile.
  static index_t WidthOf(const RowLayout& layout) {
    const index_t wanted = kTileElements / std::max<index_t>(1, layout.Length());
    return std::clamp<index_t>(wanted / kTile * kTile, kTile, kMaxTileWidth);
  }

  void Run(TileBody<T> body, const void* context, index_t begin, index_t end) const {
    const T* in[kMaxOperands];
    T* out[kMaxOperands];
    while (begin < end) {
      const bool short_rows = layout_.num_inner == 1;
      const index_t outer = begin / layout_.num_inner;
      const index_t inner = begin - outer * layout_.num_inner;
      const index_t left = short_rows ? end - begin : layout_.num_inner - inner;
      const index_t width = std::min({width_, end - begin, left});
      const index_t offset = outer * layout_.outer_stride + inner;
      for (int k = 0; k < call_.num_in_; ++k) {
        in[k] = is_direct_ ? in_[At(k)].Read(offset, width, nullptr) : copy_[At(k)];
        if (!is_direct_) Load(in_[At(k)], offset, width, copy_[At(k)]);
      }
      for (int k = 0; k < call_.num_out_; ++k) {
        out[k] = is_direct_ ? out_[At(k)].Out(offset, nullptr) : copy_[At(call_.num_in_ + k)];
      }
      body(context, width, is_direct_ ? layout_.segment_stride : width_, in, out);
      for (int k = 0; k < call_.num_out_ && !is_direct_; ++k) {
        if (out_[At(k)].is_wanted()) Store(out_[At(k)], offset, width, out[k]);
      }
      begin += width;
    }
  }

 private:
  T* Spare() const { return copy_[At(call_.num_in_ + call_.num_out_)]; }

  void Load(const RowReader<T>& array, index_t offset, index_t width, T* copy) const {
    if (layout_.num_inner > 1) {
      for (index_t s = 0; s < n_; ++s) {
        array.Copy(offset + s * layout_.segment_stride, width, copy + s * width_);
      }
      return;
    }
    const T* const rows = array.Read(offset, width * n_, Spare());
    Tensor<cpu, 2, T> side_by_side(copy, Shape2(n_, width), width_, nullptr);
    side_by_side = Tensor<cpu, 2, T>(const_cast<T*>(rows), Shape2(width, n_)).T();
  }

  void Store(const RowWriter<T>& array, index_t offset, index_t width, const T* copy) const {
    if (layout_.num_inner > 1) {
      for (index_t s = 0; s < n_; ++s) {
        array.Write(offset + s * layout_.segment_stride, width, copy + s * width_);
      }
      return;
    }
    T* const rows = array.Out(offset, Spare());
    Tensor<cpu, 2, T> contiguous(rows, Shape2(width, n_));
    contiguous = Tensor<cpu, 2, T>(const_cast<T*>(copy), Shape2(n_, width), width_, nullptr).T();
    array.Write(offset, width * n_, rows);
  }

  const RowCall& call_;
  const RowLayout& layout_;
  const index_t n_;
  const index_t width_;
  bool is_direct_;
  std::array<RowReader<T>, kMaxOperands> in_{};
  std::array<RowWriter<T>, kMaxOperands> out_{};
  std::unique_ptr<T[]> copies_;
  std::array<T*, 2 * kMaxOperands + 1> copy_{};
};

template <typename T>
void RowCall::RunTilesOf(index_t cost, TileBody<T> body, const void* context) const {
  const index_t rows = layout_.NumRows();
  // A task has complete tiles.
  const index_t width = Tiles<T>::WidthOf(layout_);
  const index_t tiles = (rows + width - 1) / width;
  const index_t work = width * layout_.Length() * std::max(1, num_in_ + num_out_);
  ParallelFor(tiles, StepsPerTask(work, cost), [&](index_t begin, index_t end) {
    Tiles<T>(*this).Run(body, context, begin * width, std::min(rows, end * width));
  });
}

template <typename T>
void RowCall::RunRows(index_t cost, index_t unit, bool takes_segments, RowBody<T> body,
                      const void* context) const {
  const index_t rows = layout_.NumRows();
  const index_t units = (rows + unit - 1) / unit;
  const index_t work = unit * layout_.Length() * std::max(1, num_in_ + num_out_);
  index_t grain = StepsPerTask(work, cost);
  if (layout_.num_inner > 1) grain = std::max(grain, (kTile + unit - 1) / unit);
  ParallelFor(units, grain, [&](index_t begin, index_t end) {
    Range<T>(*this, takes_segments).Run(body, context, begin * unit, std::min(rows, end * unit));
  });
}

template void RowCall::RunRows(index_t, index_t, bool, RowBody<float>, const void*) const;
template void RowCall::RunRows(index_t, index_t, bool, RowBody<double>, const void*) const;
template void RowCall::RunTilesOf(index_t, TileBody<float>, const void*) const;
template void RowCall::RunTilesOf(index_t, TileBody<double>, const void*) const;

}  // namespace tessera::ops_internal
