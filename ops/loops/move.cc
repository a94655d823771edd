#include "tessera/ops/loops/move.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/strided_walk.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using tensor_internal::Stores;

// The elements that a block of two dimensions has at most. Blocks are what threads share.
constexpr index_t kBlock = 8192;
// A transposed block is copied in tiles of so many bytes on each side, a cache line.
constexpr index_t kLineBytes = 64;

/// Elements of a size, at any address.
template <size_t kSize>
struct Bits;
template <>
struct Bits<1> {
  using type = uint8_t;
};
template <>
struct Bits<2> {
  using type = uint16_t;
};
template <>
struct Bits<4> {
  using type = uint32_t;
};
template <>
struct Bits<8> {
  using type = uint64_t;
};
template <>
struct Bits<16> {
  struct type {
    uint64_t low, high;
  };
};

template <typename T>
T Get(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void Put(char* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

/// Two dimensions of a copy, with strides in bytes.
struct Block {
  struct Dimension {
    index_t extent, in, out;
  };
  const char* in;
  char* out;
  Dimension outer, inner;
  Stores stores;
};

using BlockFunction = void (*)(const Block& block);

/// Rows whose elements are adjacent on both sides.
template <size_t kSize>
void CopyRuns(const Block& b) {
  const index_t bytes = b.inner.extent * static_cast<index_t>(kSize);
  tensor_internal::CopyRows(b.in, b.outer.in, b.out, b.outer.out, b.outer.extent, bytes, b.stores);
}

/// Rows that repeat one element.
template <size_t kSize>
void RepeatElements(const Block& b) {
  using T = typename Bits<kSize>::type;
  for (index_t i = 0; i < b.outer.extent; ++i) {
    const T value = Get<T>(b.in + i * b.outer.in);
    char* const out = b.out + i * b.outer.out;
    for (index_t j = 0; j < b.inner.extent; ++j) Put(out + j * static_cast<index_t>(kSize), value);
  }
}

/// Rows whose elements are adjacent in the output.
template <size_t kSize>
void GatherRows(const Block& b) {
  using T = typename Bits<kSize>::type;
  for (index_t i = 0; i < b.outer.extent; ++i) {
    const char* const in = b.in + i * b.outer.in;
    char* const out = b.out + i * b.outer.out;
    for (index_t j = 0; j < b.inner.extent; ++j) {
      Put(out + j * static_cast<index_t>(kSize), Get<T>(in + j * b.inner.in));
    }
  }
}

template <size_t kSize>
void CopyElements(const Block& b) {
  using T = typename Bits<kSize>::type;
  for (index_t i = 0; i < b.outer.extent; ++i) {
    const char* const in = b.in + i * b.outer.in;
    char* const out = b.out + i * b.outer.out;
    for (index_t j = 0; j < b.inner.extent; ++j) {
      Put(out + j * b.inner.out, Get<T>(in + j * b.inner.in));
    }
  }
}

/// 16 bytes of elements.
template <typename T>
using Elements [[gnu::vector_size(16)]] = T;

/// Returns the elements of the lower halves of a and b in turns, or of the upper halves.
template <typename T, size_t... kIndex>
Elements<T> Interleave(Elements<T> a, Elements<T> b, bool upper, std::index_sequence<kIndex...>) {
  constexpr size_t kCount = sizeof...(kIndex);
  if (upper) {
    return __builtin_shufflevector(a, b, (kCount / 2 + kIndex / 2 + kIndex % 2 * kCount)...);
  }
  return __builtin_shufflevector(a, b, (kIndex / 2 + kIndex % 2 * kCount)...);
}

/// Transposes as many rows as a row has elements: log2(rows) steps, each of which interleaves the
/// upper half of the rows with the lower one.
template <typename T, size_t kRows = 16 / sizeof(T)>
void TransposeRows(Elements<T>* rows) {
  constexpr auto kIndexes = std::make_index_sequence<kRows>();
  for (size_t step = 1; step < kRows; step *= 2) {
    Elements<T> mixed[kRows];
    for (size_t i = 0; i < kRows / 2; ++i) {
      mixed[2 * i] = Interleave<T>(rows[i], rows[i + kRows / 2], false, kIndexes);
      mixed[2 * i + 1] = Interleave<T>(rows[i], rows[i + kRows / 2], true, kIndexes);
    }
    std::memcpy(rows, mixed, sizeof(mixed));
  }
}

/// Copies a tile of kSide x kSide elements to a buffer, transposed.
template <typename T, index_t kSide>
void TransposeTile(const char* in, index_t stride, T (*tile)[kSide]) {
  if constexpr (sizeof(T) < 16) {
    constexpr index_t kRows = 16 / sizeof(T);
    for (index_t y = 0; y < kSide; y += kRows) {
      for (index_t x = 0; x < kSide; x += kRows) {
        Elements<T> rows[kRows];
        for (index_t k = 0; k < kRows; ++k) {
          std::memcpy(&rows[k], in + (y + k) * stride + x * static_cast<index_t>(sizeof(T)), 16);
        }
        TransposeRows<T>(rows);
        for (index_t k = 0; k < kRows; ++k) std::memcpy(&tile[x + k][y], &rows[k], 16);
      }
    }
  } else {
    for (index_t y = 0; y < kSide; ++y) {
      for (index_t x = 0; x < kSide; ++x) {
        tile[x][y] = Get<T>(in + y * stride + x * static_cast<index_t>(sizeof(T)));
      }
    }
  }
}

/// A transposed block: adjacent elements of the input lie along `outer`, of the output along
/// `inner`. Tiles of a line on each side pass through a buffer, so that each line of the input is
/// read once even where many of them fall into one set of the cache.
template <size_t kSize>
void Transpose(const Block& b) {
  using T = typename Bits<kSize>::type;
  constexpr index_t kSide = std::max<index_t>(kLineBytes / static_cast<index_t>(kSize), 16);
  constexpr index_t kBytes = static_cast<index_t>(kSize);
  T tile[kSide][kSide];
  for (index_t j = 0; j < b.inner.extent; j += kSide) {
    const index_t columns = std::min(kSide, b.inner.extent - j);
    for (index_t i = 0; i < b.outer.extent; i += kSide) {
      const index_t rows = std::min(kSide, b.outer.extent - i);
      const char* const in = b.in + i * kBytes + j * b.inner.in;
      char* const out = b.out + i * b.outer.out + j * kBytes;
      if (rows == kSide && columns == kSide) {
        TransposeTile<T, kSide>(in, b.inner.in, tile);
        if (b.stores == Stores::kStreamed) {
          tensor_internal::CopyRows(reinterpret_cast<const char*>(tile), sizeof(tile[0]), out,
                                    b.outer.out, kSide, sizeof(tile[0]), b.stores);
          continue;
        }
        for (index_t x = 0; x < kSide; ++x) {
          std::memcpy(out + x * b.outer.out, tile[x], sizeof(tile[x]));
        }
        continue;
      }
      for (index_t x = 0; x < rows; ++x) {
        for (index_t y = 0; y < columns; ++y) {
          Put(out + x * b.outer.out + y * kBytes, Get<T>(in + y * b.inner.in + x * kBytes));
        }
      }
    }
  }
}

template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else if constexpr (std::is_same_v<T, half_t> || std::is_same_v<T, bfloat16_t>) {
    return static_cast<T>(static_cast<float>(a) + static_cast<float>(b));
  } else {
    return a + b;
  }
}

template <typename T>
void AddElements(const Block& b) {
  for (index_t i = 0; i < b.outer.extent; ++i) {
    const char* const in = b.in + i * b.outer.in;
    char* const out = b.out + i * b.outer.out;
    constexpr index_t kBytes = sizeof(T);
    if (b.inner.in == kBytes && b.inner.out == kBytes) {
      const T* const row = reinterpret_cast<const T*>(in);
      T* const to = reinterpret_cast<T*>(out);
#pragma GCC ivdep
      for (index_t j = 0; j < b.inner.extent; ++j) to[j] = Sum(to[j], row[j]);
      continue;
    }
    for (index_t j = 0; j < b.inner.extent; ++j) {
      char* const to = out + j * b.inner.out;
      Put(to, Sum(Get<T>(to), Get<T>(in + j * b.inner.in)));
    }
  }
}

template <size_t kSize>
BlockFunction FunctionOfSize(const Block& block) {
  constexpr index_t kBytes = static_cast<index_t>(kSize);
  if (block.inner.out != kBytes) return &CopyElements<kSize>;
  if (block.inner.in == kBytes) return &CopyRuns<kSize>;
  if (block.inner.in == 0) return &RepeatElements<kSize>;
  if (block.outer.in == kBytes && block.outer.extent > 1) return &Transpose<kSize>;
  return &GatherRows<kSize>;
}

BlockFunction FunctionOf(const MoveArguments& a, const Block& block) {
  if (a.add) {
    return VisitDType(a.dtype, [](auto tag) -> BlockFunction {
      return &AddElements<typename decltype(tag)::type>;
    });
  }
  switch (a.element_size) {
    case 1:
      return FunctionOfSize<1>(block);
    case 2:
      return FunctionOfSize<2>(block);
    case 4:
      return FunctionOfSize<4>(block);
    case 8:
      return FunctionOfSize<8>(block);
    case 16:
      return FunctionOfSize<16>(block);
    default:
      throw Internal("Move: no elements have ", a.element_size, " bytes");
  }
}

/// A copy as blocks of two dimensions, and loops around them.
class BlockedMove {
 public:
  BlockedMove(const MoveArguments& a, Stores stores)
      : block_{a.in, a.out, {1, 0, 0}, {1, 0, 0}, stores} {
    const auto dimension = [&a](int d) {
      return Dimension{a.extents[At(d)], a.in_strides[At(d)], a.out_strides[At(d)]};
    };
    const int inner = a.num_dims - 1;
    if (inner >= 0) block_.inner = dimension(inner);
    // The other dimension of a block is the one along which the input is adjacent, else the next.
    int outer = inner - 1;
    if (!a.add && block_.inner.in != a.element_size) {
      for (int d = 0; d < inner; ++d) {
        if (a.in_strides[At(d)] == a.element_size && a.extents[At(d)] > 1) outer = d;
      }
    }
    if (outer >= 0) block_.outer = dimension(outer);
    for (int d = 0; d < inner; ++d) {
      if (d != outer) AddLoop(dimension(d));
    }
    function_ = FunctionOf(a, block_);
    // Large blocks are cut; a transposed one on both sides.
    const bool square = block_.outer.in == a.element_size && block_.inner.in != a.element_size;
    const index_t inner_part = std::min(block_.inner.extent, square ? kBlock / 64 : kBlock);
    const index_t outer_part = std::clamp<index_t>(kBlock / inner_part, 1, block_.outer.extent);
    Cut(&Block::outer, outer_part);
    Cut(&Block::inner, inner_part);
    work_ = outer_part * inner_part;
  }

  void Run() const {
    ParallelFor(count_, StepsPerTask(work_),
                [this](index_t begin, index_t end) { RunBlocks(begin, end); });
  }

 private:
  using Dimension = Block::Dimension;
  static constexpr int kMaxLoops = StridedView::kMaxRank + 2;

  void AddLoop(const Dimension& dimension) {
    extents_[num_loops_] = dimension.extent;
    in_strides_[num_loops_] = dimension.in;
    out_strides_[num_loops_++] = dimension.out;
    count_ *= dimension.extent;
  }

  /// Cuts a dimension of the block into parts, over which a loop goes.
  void Cut(Dimension Block::*which, index_t part) {
    Dimension& dimension = block_.*which;
    if (part == dimension.extent) return;
    cuts_[num_cuts_++] = {which, dimension.extent};
    AddLoop({(dimension.extent + part - 1) / part, dimension.in * part, dimension.out * part});
    dimension.extent = part;
  }

  void RunBlocks(index_t begin, index_t end) const {
    StridedWalk<2, kMaxLoops> walk(num_loops_, extents_, {in_strides_, out_strides_}, begin);
    Block block = block_;
    for (index_t i = begin; i < end; ++i, walk.Next()) {
      block.in = block_.in + walk.offset(0);
      block.out = block_.out + walk.offset(1);
      for (int k = 0; k < num_cuts_; ++k) {  // the last part may be smaller
        const auto& [which, extent] = cuts_[k];
        const index_t part = (block_.*which).extent;
        const index_t first = walk.position(num_loops_ - num_cuts_ + k) * part;
        (block.*which).extent = std::min(part, extent - first);
      }
      function_(block);
    }
    tensor_internal::FinishStores(block_.stores);
  }

  Block block_;
  BlockFunction function_;
  int num_loops_ = 0;
  index_t extents_[kMaxLoops], in_strides_[kMaxLoops], out_strides_[kMaxLoops];
  int num_cuts_ = 0;  // the last loops go over parts of dimensions that are cut
  struct {
    Dimension Block::*which;
    index_t extent;
  } cuts_[2];
  index_t work_ = 1;   // elements of a block
  index_t count_ = 1;  // blocks
};

void Swap(MoveArguments* a, int i, int j) {
  std::swap(a->extents[At(i)], a->extents[At(j)]);
  std::swap(a->in_strides[At(i)], a->in_strides[At(j)]);
  std::swap(a->out_strides[At(i)], a->out_strides[At(j)]);
}

/// Sorts dimensions by the output's strides, so that it is written in the order of memory, and
/// merges those that are adjacent on both sides.
void Simplify(MoveArguments* a) {
  for (int i = 1; i < a->num_dims; ++i) {
    for (int j = i; j > 0 && std::abs(a->out_strides[At(j - 1)]) < std::abs(a->out_strides[At(j)]);
         --j) {
      Swap(a, j - 1, j);
    }
  }
  index_t* const strides[] = {a->in_strides.data(), a->out_strides.data()};
  a->num_dims = MergeDimensions(a->num_dims, a->extents.data(), strides);
}

/// Makes one element of a short row of adjacent ones.
void JoinShortRow(MoveArguments* a) {
  const int last = a->num_dims - 1;
  if (last < 1 || a->in_strides[At(last)] != a->element_size ||
      a->out_strides[At(last)] != a->element_size) {
    return;
  }
  const index_t bytes = a->extents[At(last)] * a->element_size;
  if (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16) return;
  a->element_size = bytes;
  a->num_dims = last;
}

}  // namespace

StridedView::StridedView(const TBlob& blob, const TShape& shape)
    : data(blob.dptr_), dtype(blob.type_flag_), device(blob.device_), num_dims(shape.ndim()) {
  // An empty array's other extents may have a product beyond 63 bits.
  index_t stride = shape.Size() == 0 ? 0 : 1;
  for (int d = num_dims - 1; d >= 0; --d) {
    extents[At(d)] = shape[d];
    strides[At(d)] = stride;
    stride *= shape[d];
  }
}

void StridedView::Append(index_t extent, index_t stride) {
  TESSERA_DCHECK(num_dims < kMaxRank);
  extents[At(num_dims)] = extent;
  strides[At(num_dims++)] = stride;
}

void StridedView::Split(int axis, index_t outer, index_t inner) {
  TESSERA_DCHECK(num_dims < kMaxRank && outer * inner == extents[At(axis)]);
  for (int d = num_dims++; d > axis; --d) {
    extents[At(d)] = extents[At(d - 1)];
    strides[At(d)] = strides[At(d - 1)];
  }
  extents[At(axis)] = outer;
  strides[At(axis)] *= inner;
  extents[At(axis + 1)] = inner;
}

void StridedView::Slice(int axis, index_t begin, index_t step, index_t count) {
  const index_t offset = count == 0 ? 0 : begin * strides[At(axis)];
  data = static_cast<char*>(data) + offset * DTypeSizeBytes(dtype);
  extents[At(axis)] = count;
  strides[At(axis)] *= count > 1 ? step : 1;
}

void Move(const StridedView& from, const StridedView& to, OpReqType req, const OpContext& context) {
  if (req == kNullOp || (req == kWriteInplace && from.data == to.data)) return;
  TESSERA_DCHECK(from.dtype == to.dtype && from.num_dims == to.num_dims);
  MoveArguments a;
  a.in = static_cast<const char*>(from.data);
  a.out = static_cast<char*>(to.data);
  a.element_size = DTypeSizeBytes(from.dtype);
  a.dtype = from.dtype;
  a.add = req == kAddTo;
  for (int d = 0; d < from.num_dims; ++d) {
    TESSERA_DCHECK(from.extents[At(d)] == to.extents[At(d)]);
    if (from.extents[At(d)] == 0) return;
  }
  a.num_dims = from.num_dims;
  a.extents = from.extents;
  index_t size = 1;
  for (int d = 0; d < from.num_dims; ++d) {
    size *= from.extents[At(d)];
    a.in_strides[At(d)] = from.strides[At(d)] * a.element_size;
    a.out_strides[At(d)] = to.strides[At(d)] * a.element_size;
  }
  Simplify(&a);
  if (to.device.dev_mask() == gpu::kDevMask) {
    GetMoveOnGpu().move(a, size, context.get_stream<gpu>());
    return;
  }
  if (a.add) return BlockedMove(a, Stores::kCached).Run();
  const index_t size_bytes = size * a.element_size;
  const Stores stores = tensor_internal::StoresFor(size_bytes, size_bytes);
  JoinShortRow(&a);
  BlockedMove(a, stores).Run();
}

void MoveFlat(const TBlob& from, const TBlob& to, OpReqType req, const OpContext& context) {
  if (req == kNullOp) return;
  const TShape flat = {to.Size()};
  Move(StridedView(from, flat), StridedView(to, flat), req, context);
}

void MoveZeros(const TBlob& to, OpReqType req, const OpContext& context) {
  if (req == kNullOp || req == kAddTo) return;
  const index_t size_bytes = to.Size() * DTypeSizeBytes(to.type_flag_);
  if (size_bytes == 0) return;
  if (to.dev_mask() == gpu::kDevMask) {
    GetMoveOnGpu().zero(to.dptr_, size_bytes, context.get_stream<gpu>());
    return;
  }
  char* const out = static_cast<char*>(to.dptr_);
  tensor_internal::ParallelForLines(size_bytes, StepsPerTask(1) * 8, out, 1,
                                    [out](index_t begin, index_t end) {
                                      std::memset(out + begin, 0, static_cast<size_t>(end - begin));
                                    });
}

MoveOnGpu& GetMoveOnGpu() {
  static MoveOnGpu code;
  return code;
}

}  // namespace tessera::ops_internal
