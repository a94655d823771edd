// The matrix product of one thread. One .cc for each instruction set includes this header, and is
// compiled for that set and with Eigen's namespace renamed (-DEigen=…). Eigen's functions have one
// symbol for all instruction sets, so without the new name the linker would keep one body for all
// of them.
//
// This header must not instantiate a template of the standard library or of Tessera, since code for
// less capable machines would share such a symbol.
//
// C is computed tile by tile: R rows by V packets of sums stay in registers while k runs, as in
// Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), whose blocking
// and packing of large operands this follows. Small operands are read in place. Each element of C
// is one sum in the order of k in any tile, so a caller may cut C as it likes and gets the same
// bits.
#ifndef TESSERA_TENSOR_LINALG_GEMM_KERNEL_H_
#define TESSERA_TENSOR_LINALG_GEMM_KERNEL_H_

#include <Eigen/Core>
#include <cstdint>

#include "tessera/tensor/linalg/packed_product.h"
#include "tessera/tensor/packet/partial_packet.h"

#ifndef TESSERA_GEMM_NAMESPACE
#error "define TESSERA_GEMM_NAMESPACE to the kernel's instruction set"
#endif

#define TESSERA_UNROLL _Pragma("GCC unroll 32")

namespace tessera::tensor_internal::TESSERA_GEMM_NAMESPACE {
namespace {

constexpr bool kManyRegisters = EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS >= 32;

// The largest tiles whose sums, packets of B and broadcast element of A fit the registers. MaxRows
// returns the rows of a tile that is `vectors` packets wide. Wide tiles keep the adders busy if
// there are few rows.
constexpr int kMaxVectors = 6;
constexpr int MaxRows(int vectors) {
  constexpr int kMany[] = {14, 14, 8, 6, 4, 4};
  constexpr int kFew[] = {6, 6, 4, 2, 1, 1};
  return kManyRegisters ? kMany[vectors - 1] : kFew[vectors - 1];
}
constexpr int kMaxRows = MaxRows(1);

// The rows of operands that one pass takes, and the columns of a block of B. A tile's part of A
// then stays in the first-level cache, and a block of B, kDepth x kBlockColumns, in the
// second-level cache.
constexpr int64_t kDepth = 256;
constexpr int64_t kBlockColumns = 768;
// The rows of C whose part of a transposed A is packed at a time. A larger copy would push the
// block of B out of the second-level cache.
constexpr int64_t kBlockRows = 64;
// The rows of A that are multiplied by one slab of a packed B after the other. Rows of 1,024
// elements then stay in the second-level cache from slab to slab.
constexpr int64_t kSlabRows = 256;

// Rows further apart than this fall into few sets of the first-level cache.
constexpr int64_t kDirectStrideBytes = 2048;
// The rows of a transposed A are read in place if they take no more than this.
constexpr int64_t kDirectBytes = 64 * 1024;
// The rows of an operand that are packed at a time, from one end to the other.
constexpr int64_t kPackedRows = 8;
// The largest number of rows of C that are computed without tiles.
constexpr int64_t kFew = 12;
// The number of sums of such rows that are kept while B is read.
template <typename T>
constexpr int64_t kRowSums = 24 * 1024 / sizeof(T);
// The elements by which reads of a packed B are ahead. At 20 bytes a cycle they take longer than an
// access to the third-level cache.
template <typename T>
constexpr int64_t kStreamAhead = 2048 / sizeof(T);
// The number of reads of a transposed A from which packing it pays.
constexpr int64_t kDirectReads = 8;
// The locality argument of __builtin_prefetch: the second-level cache. Rows that lie far apart
// would crowd the first-level cache.
constexpr int kIntoSecondCache = 2;

constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t Max(int64_t a, int64_t b) { return a < b ? b : a; }
constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Computes C = alpha * A * B + beta * C for one tile. B is b[p * b_stride + x], filled up to
// complete packets. A is a[i * a_stride + p] if kRowMajorA, else a[p * a_stride + i]. The tile has
// the first `last` elements of C's last packet. kPartialB is for a B whose rows are no complete
// packets: V is then 1, and `last` elements of each row are read. kStreamsB is for a packed B that
// comes from beyond the first-level cache and is read once: it is prefetched across the ends of
// pages, where the machine's own prefetching stops.
template <typename T, int R, int V, bool kRowMajorA, bool kPartialB = false, bool kStreamsB = false>
void Tile(int64_t depth, const T* a, int64_t a_stride, const T* b, int64_t b_stride, T alpha,
          T beta, T* c, int64_t ldc, int64_t last) {
  using P = Packet<T>;
  P sum[R][V];
  TESSERA_UNROLL for (int i = 0; i < R; ++i) {
    TESSERA_UNROLL for (int v = 0; v < V; ++v) sum[i][v] = pk::pset1<P>(T(0));
  }
  // Three rows share an address register: base, base + stride, base + 2 * stride.
  constexpr int kGroups = (R + 2) / 3;
  const T* row[kGroups];
  TESSERA_UNROLL for (int g = 0; g < kGroups; ++g) row[g] = a + 3 * g * a_stride;
  for (int64_t p = 0; p < depth; ++p, b += b_stride) {
    P packet[V];
    if constexpr (kStreamsB) {
      constexpr int64_t kLine = 64 / sizeof(T);
      TESSERA_UNROLL for (int64_t x = 0; x < V * kLanes<T>; x += kLine) {
        __builtin_prefetch(b + kStreamAhead<T> + x);
      }
    }
    if constexpr (kPartialB) {
      packet[0] = LoadFirst<T>(b, last);
    } else {
      TESSERA_UNROLL for (int v = 0; v < V; ++v) packet[v] = pk::ploadu<P>(b + v * kLanes<T>);
    }
    TESSERA_UNROLL for (int i = 0; i < R; ++i) {
      const T element = kRowMajorA ? row[i / 3][i % 3 * a_stride] : a[i];
      const P left = pk::pset1<P>(element);
      TESSERA_UNROLL for (int v = 0; v < V; ++v) {
        sum[i][v] = pk::pmadd(left, packet[v], sum[i][v]);
      }
    }
    if constexpr (kRowMajorA) {
      TESSERA_UNROLL for (int g = 0; g < kGroups; ++g)++ row[g];
    } else {
      a += a_stride;
    }
  }
  if (alpha != T(1)) {
    const P scale = pk::pset1<P>(alpha);
    TESSERA_UNROLL for (int i = 0; i < R; ++i) {
      TESSERA_UNROLL for (int v = 0; v < V; ++v) sum[i][v] = pk::pmul(scale, sum[i][v]);
    }
  }
  const bool whole = last == kLanes<T>;
  constexpr int kLast = (V - 1) * kLanes<T>;
  if (beta != T(0)) {
    const P keep = pk::pset1<P>(beta);
    const T* from = c;
    TESSERA_UNROLL for (int i = 0; i < R; ++i, from += ldc) {
      TESSERA_UNROLL for (int v = 0; v < V - 1; ++v) {
        sum[i][v] = pk::pmadd(keep, pk::ploadu<P>(from + v * kLanes<T>), sum[i][v]);
      }
      const P old = whole ? pk::ploadu<P>(from + kLast) : LoadFirst<T>(from + kLast, last);
      sum[i][V - 1] = pk::pmadd(keep, old, sum[i][V - 1]);
    }
  }
  TESSERA_UNROLL for (int i = 0; i < R; ++i, c += ldc) {
    TESSERA_UNROLL for (int v = 0; v < V - 1; ++v) pk::pstoreu(c + v * kLanes<T>, sum[i][v]);
    if (whole) {
      pk::pstoreu(c + kLast, sum[i][V - 1]);
    } else {
      StoreFirst<T>(c + kLast, sum[i][V - 1], last);
    }
  }
}

template <typename T>
using TileFunction = void (*)(int64_t, const T*, int64_t, const T*, int64_t, T, T, T*, int64_t,
                              int64_t);

template <typename T, bool kRowMajorA>
struct TileTable {
  TileFunction<T> entry[kMaxVectors][kMaxRows];

  template <int V = 1, int R = 1>
  constexpr void Fill() {
    entry[V - 1][R - 1] = Tile<T, R, V, kRowMajorA>;
    if constexpr (R < MaxRows(V)) {
      Fill<V, R + 1>();
    } else if constexpr (V < kMaxVectors) {
      Fill<V + 1, 1>();
    }
  }
  constexpr TileTable() : entry() { Fill(); }
};
template <typename T, bool kRowMajorA>
constexpr TileTable<T, kRowMajorA> kTiles{};

// Tiles of less than a packet's columns.
template <typename T, bool kRowMajorA>
struct NarrowTileTable {
  TileFunction<T> entry[kMaxRows];

  template <int R = 1>
  constexpr void Fill() {
    entry[R - 1] = Tile<T, R, 1, kRowMajorA, true>;
    if constexpr (R < kMaxRows) Fill<R + 1>();
  }
  constexpr NarrowTileTable() : entry() { Fill(); }
};
template <typename T, bool kRowMajorA>
constexpr NarrowTileTable<T, kRowMajorA> kNarrowTiles{};

// The packets in a row of wide tiles, for few rows.
constexpr int kWideVectors = 4;

// Wide tiles that have all rows of C, so that each element of a packed B is read once.
template <typename T>
struct StreamingTileTable {
  TileFunction<T> entry[MaxRows(kWideVectors)];

  template <int R = 1>
  constexpr void Fill() {
    entry[R - 1] = Tile<T, R, kWideVectors, true, false, true>;
    if constexpr (R < MaxRows(kWideVectors)) Fill<R + 1>();
  }
  constexpr StreamingTileTable() : entry() { Fill(); }
};
template <typename T>
constexpr StreamingTileTable<T> kStreamingTiles{};

// P or its half: the packets of which a square is transposed in the fewest steps.
template <typename P, bool kWider = (sizeof(P) > 32)>
struct AtMost32Bytes {
  using type = P;
};
template <typename P>
struct AtMost32Bytes<P, true> {
  using type = typename pk::unpacket_traits<P>::half;
};

// Writes to[p * width + j] = from[j * stride + p] for p < depth and those of `columns` columns j
// that fill complete packets. Returns the number of these columns.
template <typename P, typename T>
int64_t PackSquares(const T* from, int64_t stride, int64_t columns, int64_t depth, T* to,
                    int64_t width) {
  constexpr int kSide = pk::unpacket_traits<P>::size;
  int64_t j = 0;
  for (; j + kSide <= columns; j += kSide) {
    // The prefetch brings in the rows of the next step meanwhile.
    const int64_t next = j + 2 * kSide <= columns ? kSide * stride : 0;
    int64_t p = 0;
    for (; p + kSide <= depth; p += kSide) {
      pk::PacketBlock<P, kSide> block;
      TESSERA_UNROLL for (int i = 0; i < kSide; ++i) {
        const T* const row = from + (j + i) * stride + p;
        __builtin_prefetch(row + next, 0, kIntoSecondCache);
        block.packet[i] = pk::ploadu<P>(row);
      }
      pk::ptranspose(block);
      TESSERA_UNROLL for (int i = 0; i < kSide; ++i) {
        pk::pstoreu(to + (p + i) * width + j, block.packet[i]);
      }
    }
    for (; p < depth; ++p) {
      for (int i = 0; i < kSide; ++i) to[p * width + j + i] = from[(j + i) * stride + p];
    }
  }
  return j;
}

// Writes to[p * width + j] = from[j * stride + p] for j < columns, p < depth.
template <typename T>
void PackTransposed(const T* from, int64_t stride, int64_t columns, int64_t depth, T* to,
                    int64_t width) {
  using Square = typename AtMost32Bytes<Packet<T>>::type;
  using Small = typename pk::unpacket_traits<Square>::half;
  int64_t j = PackSquares<Square>(from, stride, columns, depth, to, width);
  j += PackSquares<Small>(from + j * stride, stride, columns - j, depth, to + j, width);
  for (; j < columns; ++j) {
    for (int64_t p = 0; p < depth; ++p) to[p * width + j] = from[j * stride + p];
  }
}

// Writes to[p * width + j] = from[p * stride + j] for j < columns, p < depth.
template <typename T>
void PackRows(const T* from, int64_t stride, int64_t columns, int64_t depth, T* to, int64_t width) {
  using P = Packet<T>;
  using Half = typename pk::unpacket_traits<P>::half;
  using Quarter = typename pk::unpacket_traits<Half>::half;
  int64_t j = 0;
  const auto copy = [&]<typename Part>(Part) {
    for (int64_t p = 0; p < depth; ++p) {
      pk::pstoreu(to + p * width + j, pk::ploadu<Part>(from + p * stride + j));
    }
    j += pk::unpacket_traits<Part>::size;
  };
  while (j + pk::unpacket_traits<P>::size <= columns) copy(P());
  if (j + pk::unpacket_traits<Half>::size <= columns) copy(Half());
  if (j + pk::unpacket_traits<Quarter>::size <= columns) copy(Quarter());
  for (; j < columns; ++j) {
    for (int64_t p = 0; p < depth; ++p) to[p * width + j] = from[p * stride + j];
  }
}

// Writes zeros to columns [begin, end) of `depth` rows.
template <typename T>
void ClearColumns(int64_t begin, int64_t end, int64_t depth, T* to, int64_t width) {
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t j = begin; j < end; ++j) to[p * width + j] = T(0);
  }
}

// Computes to[i * row_step + j * column_step] = alpha * <x_i, y_j> + beta * to[…] for R vectors x
// and Q vectors y of `depth` elements each.
template <typename T, int R, int Q>
void Dots(int64_t depth, const T* x, int64_t x_stride, const T* y, int64_t y_stride, T alpha,
          T beta, T* to, int64_t row_step, int64_t column_step) {
  using P = Packet<T>;
  P sum[R][Q];
  TESSERA_UNROLL for (int i = 0; i < R; ++i) {
    TESSERA_UNROLL for (int j = 0; j < Q; ++j) sum[i][j] = pk::pset1<P>(T(0));
  }
  const auto add = [&](const auto& load) {
    P right[Q];
    TESSERA_UNROLL for (int j = 0; j < Q; ++j) right[j] = load(y + j * y_stride);
    TESSERA_UNROLL for (int i = 0; i < R; ++i) {
      const P left = load(x + i * x_stride);
      TESSERA_UNROLL for (int j = 0; j < Q; ++j) sum[i][j] = pk::pmadd(left, right[j], sum[i][j]);
    }
  };
  int64_t p = 0;
  for (; p + kLanes<T> <= depth; p += kLanes<T>) {
    add([p](const T* from) { return pk::ploadu<P>(from + p); });
  }
  if (kHasMasks && p < depth) {
    add([=](const T* from) { return LoadFirst(from + p, depth - p); });
    p = depth;
  }
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < Q; ++j) {
      T total = pk::predux(sum[i][j]);
      for (int64_t q = p; q < depth; ++q) total += x[i * x_stride + q] * y[j * y_stride + q];
      T& element = to[i * row_step + j * column_step];
      element = beta == T(0) ? alpha * total : alpha * total + beta * element;
    }
  }
}

// ForRows calls function.operator()<R>() for R = rows, which is 1 to kRowsAtOnce.
constexpr int64_t kRowsAtOnce = 4;
template <typename Function>
void ForRows(int64_t rows, const Function& function) {
  switch (rows) {
    case 1:
      return function.template operator()<1>();
    case 2:
      return function.template operator()<2>();
    case 3:
      return function.template operator()<3>();
    default:
      return function.template operator()<4>();
  }
}

// The elements of a vector that DotRows takes at a time: kDepth packets.
template <typename T>
constexpr int64_t kDotsDepth = kDepth* kLanes<T>;

// Computes all products of `rows` vectors x with `columns` vectors y. It takes a part of long
// vectors at a time and adds its sums to C, as RunTiles does, so that the sums do not stagnate.
template <typename T>
void DotRows(int64_t rows, int64_t columns, int64_t depth, const T* x, int64_t x_stride, const T* y,
             int64_t y_stride, T alpha, T beta, T* to, int64_t row_step, int64_t column_step) {
  // A single row leaves registers for more columns, whose reads then overlap.
  const int64_t together = rows == 1 ? 8 : 4;
  if (depth > kDotsDepth<T>) {
    for (int64_t j = 0; j < columns; j += together) {
      for (int64_t p = 0; p < depth; p += kDotsDepth<T>) {
        DotRows(rows, Min(columns - j, together), Min(depth - p, kDotsDepth<T>), x + p, x_stride,
                y + j * y_stride + p, y_stride, alpha, p == 0 ? beta : T(1), to + j * column_step,
                row_step, column_step);
      }
    }
    return;
  }
  for (int64_t j = 0; j < columns; j += together) {
    for (int64_t i = 0; i < rows; i += kRowsAtOnce) {
      const auto run = [&](auto function, int64_t column) {
        function(depth, x + i * x_stride, x_stride, y + column * y_stride, y_stride, alpha, beta,
                 to + i * row_step + column * column_step, row_step, column_step);
      };
      // Every pair is summed in the same order in any position.
      ForRows(Min(rows - i, kRowsAtOnce), [&]<int R>() {
        const int64_t end = Min(columns, j + together);
        int64_t q = j;
        if (rows == 1 && end - q == 8) {
          run(Dots<T, 1, 8>, q);
          q = end;
        }
        if (end - q >= 4) {
          run(Dots<T, R, 4>, q);
          q += 4;
        }
        for (; q < end; ++q) run(Dots<T, R, 1>, q);
      });
    }
  }
}

// Computes sums[i * width + x] += <a_i, column x of B> for R rows of A and kRows rows of B. The
// sums are those of Tile, in the same order. a_i is a[i * a_row], a[i * a_row + a_step] and so on.
template <typename T, int R, int kRows>
void AddRowsOfB(const T* a, int64_t a_row, int64_t a_step, const T* b, int64_t ldb, int64_t columns,
                T* sums, int64_t width) {
  using P = Packet<T>;
  P factor[kRows][R];
  TESSERA_UNROLL for (int p = 0; p < kRows; ++p) {
    TESSERA_UNROLL for (int i = 0; i < R; ++i) {
      factor[p][i] = pk::pset1<P>(a[i * a_row + p * a_step]);
    }
  }
  const auto add = [&](int64_t x, const auto& load) {
    P sum[R];
    TESSERA_UNROLL for (int i = 0; i < R; ++i) sum[i] = pk::ploadu<P>(sums + i * width + x);
    TESSERA_UNROLL for (int p = 0; p < kRows; ++p) {
      const P packet = load(b + p * ldb + x);
      TESSERA_UNROLL for (int i = 0; i < R; ++i) sum[i] = pk::pmadd(factor[p][i], packet, sum[i]);
    }
    TESSERA_UNROLL for (int i = 0; i < R; ++i) pk::pstoreu(sums + i * width + x, sum[i]);
  };
  int64_t x = 0;
  for (; x + kLanes<T> <= columns; x += kLanes<T>) {
    add(x, [](const T* from) { return pk::ploadu<P>(from); });
  }
  if (x < columns) add(x, [=](const T* from) { return LoadFirst<T>(from, columns - x); });
}

// The tiles of nearly equal size into which one side of C is cut. A last tile of few rows would
// wait for its own additions.
struct Cut {
  int64_t count, size, larger;

  Cut(int64_t extent, int64_t max)
      : count((extent + max - 1) / max), size(extent / count), larger(extent % count) {}
  int64_t Size(int64_t i) const { return i < larger ? size + 1 : size; }
  int64_t Begin(int64_t i) const { return i * size + Min(i, larger); }
  // Returns the tile that begins at `at`, or the number of tiles if that is the extent.
  int64_t At(int64_t at) const {
    const int64_t of_larger = larger * (size + 1);
    return at < of_larger ? at / (size + 1) : larger + (at - of_larger) / size;
  }
};

// Tiles [first, last) of a cut of rows, whose row 0 is row `row` of C.
struct TileRows {
  Cut cut;
  int64_t first, last, row;
};

// Writes rows [row, row + rows) of columns [column, column + columns) of a B that is not stored,
// each row `stride` elements after the one before it.
template <typename T>
using WriteRows = void (*)(const void* context, int64_t row, int64_t rows, int64_t column,
                           int64_t columns, T* to, int64_t stride);

template <typename T>
struct Product {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  T alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T beta;
  T* c;
  int64_t ldc;
  // The function that writes B from column `first_column` on, or null if B is stored.
  WriteRows<T> write = nullptr;
  const void* context = nullptr;
  int64_t first_column = 0;
  // An operand that was packed before the product: PackLeft and PackRight. 0 packets: there is
  // none.
  int vectors = 0;
  const T* left = nullptr;
  int64_t left_rows = 0;
  int64_t first_row = 0;
  const T* right = nullptr;

  // Returns the packets in a row of a tile. Wide tiles have fewer rows of C, which spares the sets
  // of the first-level cache if the rows lie far apart. Two packets leave less of a remainder if n
  // is small.
  int Vectors() const {
    if (vectors != 0) return vectors;
    if (m <= MaxRows(6)) return 6;
    if (m <= MaxRows(4)) return 4;
    if (!kManyRegisters) return 2;
    // Rows of A that lie far apart also share sets, which have room for eight of them.
    if (!transpose_a && !Near(lda) && n > 2 * kLanes<T>) return 4;
    return n >= 12 * kLanes<T> ? 3 : 2;
  }
  int64_t SlabColumns() const { return Vectors() * kLanes<T>; }
  static bool Near(int64_t stride) {
    return stride * static_cast<int64_t>(sizeof(T)) <= kDirectStrideBytes;
  }
  // Returns whether A is packed, which pays if enough reads follow: A is read once for every slab
  // of B. An A that is not transposed is read in place, in whole cache lines.
  bool PacksA() const {
    const int64_t bytes = Min(k, kDepth) * lda * static_cast<int64_t>(sizeof(T));
    return left == nullptr && transpose_a && n / SlabColumns() >= kDirectReads &&
           bytes > kDirectBytes;
  }
  // Returns whether B is packed, which pays if enough reads follow: B is read once for every tile
  // of rows.
  bool PacksB() const {
    if (transpose_b || write != nullptr) return true;
    // The rows of a near slab are whole cache lines if packets are large, and load as fast as
    // packed ones.
    if (kManyRegisters && Near(ldb) && ldb % kLanes<T> == 0) return false;
    return m > (Near(ldb) ? 16 : 8) * MaxRows(Vectors());
  }

  int64_t PackedASize() const {
    return PacksA() ? RoundUp(Min(m, kBlockRows) * Min(k, kDepth), 16) : 0;
  }
  // Returns the elements for packed columns of B, or for at least one slab for a remainder of less
  // than a packet.
  int64_t PackedBSize() const {
    if (CopiesColumns()) return n * Min(k, kDotsDepth<T>);
    int64_t columns = kMaxVectors * kLanes<T>;
    if (PacksB()) columns += Min(n, kBlockColumns);
    return Max(columns * Min(k, kDepth), kRowSums<T>);
  }
  // Returns the elements for rows of B that are written to be packed.
  int64_t WrittenRowsSize() const {
    return write == nullptr ? 0 : kPackedRows * RoundUp(Min(n, kBlockColumns), kLanes<T>);
  }

  // Returns the transposed product, a row, of a transposed A times a column.
  Product Transposed() const {
    return {!transpose_b, false, 1, m, k, alpha, b, ldb, a, lda, beta, c, m};
  }
  int64_t ScratchSize() const {
    // The transposed product may pack its left operand even if this one packs nothing.
    const int64_t of_row = n == 1 && transpose_a ? Transposed().PackedASize() : 0;
    return PackedASize() + PackedBSize() + WrittenRowsSize() + of_row;
  }

  // A slab of B as the tiles read it.
  struct Slab {
    const T* data;
    int64_t stride;
    int64_t columns;
  };

  // Packs `columns` columns of `depth` rows of B, or of its stored transpose, from `from` on,
  // filled up with zeros to complete packets.
  void PackSlab(const T* from, int64_t stride, int64_t columns, int64_t depth, T* to) const {
    const int64_t width = RoundUp(columns, kLanes<T>);
    if (transpose_b) {
      PackTransposed(from, stride, columns, depth, to, width);
    } else {
      PackRows(from, stride, columns, depth, to, width);
    }
    ClearColumns(columns, width, depth, to, width);
  }

  // Packs a block of B. The rows of a B that is not stored are written to `written` first.
  void PackB(int64_t p, int64_t depth, int64_t x0, int64_t columns, T* to, T* written) const {
    const int64_t slab = SlabColumns();
    if (transpose_b) {
      for (int64_t x = 0; x < columns; x += slab) {
        PackSlab(b + (x0 + x) * ldb + p, ldb, Min(slab, columns - x), depth, to + x * depth);
      }
      return;
    }
    // Rows are packed in the order in which B lies in memory.
    for (int64_t q = 0; q < depth; q += kPackedRows) {
      const int64_t rows = Min(kPackedRows, depth - q);
      const T* from = written;
      int64_t stride = RoundUp(columns, kLanes<T>);
      if (write != nullptr) {
        write(context, p + q, rows, first_column + x0, columns, written, stride);
      } else {
        from = b + (p + q) * ldb + x0;
        stride = ldb;
      }
      for (int64_t x = 0; x < columns; x += slab) {
        const int64_t taken = Min(slab, columns - x);
        PackSlab(from + x, stride, taken, rows, to + x * depth + q * RoundUp(taken, kLanes<T>));
      }
    }
  }

  // Packs a transposed A, some of its rows at a time, in the order in which they lie in memory.
  void PackA(int64_t p, int64_t depth, int64_t y, int64_t rows, T* to) const {
    const Cut tiles(rows, MaxRows(Vectors()));
    for (int64_t q = 0; q < depth; q += kPackedRows) {
      const int64_t taken = Min(kPackedRows, depth - q);
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t at = tiles.Begin(t), r = tiles.Size(t);
        const T* const rows_now = a + (p + q) * lda + y + at;
        for (int64_t i = 0; i < taken; ++i) __builtin_prefetch(rows_now + (kPackedRows + i) * lda);
        PackRows(rows_now, lda, r, taken, to + at * depth + q * r, r);
      }
    }
  }

  // Computes one tile. B is read in place if the slab has less than a packet, `partial`.
  void RunTile(const Slab& slab, bool partial, int64_t depth, const T* from, int64_t stride,
               bool row_major, int64_t rows, T scale_c, T* to) const {
    const int64_t vectors = (slab.columns + kLanes<T> - 1) / kLanes<T>;
    const auto function = partial     ? (row_major ? kNarrowTiles<T, true>.entry[rows - 1]
                                                   : kNarrowTiles<T, false>.entry[rows - 1])
                          : row_major ? kTiles<T, true>.entry[vectors - 1][rows - 1]
                                      : kTiles<T, false>.entry[vectors - 1][rows - 1];
    // The sums are added to C at the end; by then the prefetched lines have arrived.
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < slab.columns; j += kLanes<T>) __builtin_prefetch(to + i * ldc + j, 1);
    }
    function(depth, from, stride, slab.data, slab.stride, alpha, scale_c, to, ldc,
             slab.columns - (vectors - 1) * kLanes<T>);
  }

  // Adds the products of rows [p, p + depth) of B to rows of C. The packed operands are those of
  // the block, or null.
  void RunBlock(int64_t p, int64_t depth, const TileRows& rows, int64_t x0, int64_t columns,
                const T* packed_a, const T* packed_b, T* tail) const {
    const T scale_c = p == 0 ? beta : T(1);
    const bool row_major = packed_a == nullptr && !transpose_a;
    const Cut& tiles = rows.cut;
    const int64_t y = rows.row;
    const int64_t slab_columns = SlabColumns();
    const int64_t last = columns % slab_columns;
    if (packed_b == nullptr && last > kLanes<T> && last % kLanes<T> != 0) {
      PackSlab(b + p * ldb + x0 + columns - last, ldb, last, depth, tail);
    }
    for (int64_t t = rows.first; t < rows.last; ++t) {
      const int64_t at = tiles.Begin(t), r = tiles.Size(t);
      const T* from;
      int64_t stride;
      if (packed_a != nullptr) {
        from = packed_a + at * depth;
        stride = r;
      } else {
        from = transpose_a ? a + p * lda + y + at : a + (y + at) * lda + p;
        stride = lda;
      }
      for (int64_t x = 0; x < columns; x += slab_columns) {
        const int64_t width = Min(columns - x, slab_columns);
        const int64_t padded = RoundUp(width, kLanes<T>);
        const bool partial = packed_b == nullptr && width < kLanes<T>;
        const Slab slab = packed_b != nullptr          ? Slab{packed_b + x * depth, padded, width}
                          : partial || padded == width ? Slab{b + p * ldb + x0 + x, ldb, width}
                                                       : Slab{tail, padded, width};
        RunTile(slab, partial, depth, from, stride, row_major, r, scale_c,
                c + (y + at) * ldc + x0 + x);
      }
    }
  }

  // Computes a product that is one tile of less than a packet's columns. It omits cutting C and
  // packing B, which are more work than the product itself. Returns false for any other product.
  bool RunNarrow() const {
    if (transpose_b || n >= kLanes<T> || m > kMaxRows || k > kDepth) return false;
    const auto function =
        transpose_a ? kNarrowTiles<T, false>.entry[m - 1] : kNarrowTiles<T, true>.entry[m - 1];
    function(k, a, lda, b, ldb, alpha, beta, c, ldc, n);
    return true;
  }

  // Returns whether `rows` rows are so few that DotRows pays. Packing B would then cost more than
  // multiplying by it, unless the rows are so short that most of the work is adding up packets.
  bool DotsPay(int64_t rows) const {
    return (rows <= 4 && 2 * k > rows * kLanes<T>) || (rows <= kFew && k >= 64 * rows);
  }

  // Returns whether the few columns of B are copied to rows, which DotRows takes.
  bool CopiesColumns() const {
    return write == nullptr && vectors == 0 && !transpose_a && !transpose_b && DotsPay(n);
  }

  // Returns whether a product with these extents packs a stored B each time.
  bool PacksStoredB() const {
    if (transpose_a || n == 1) return false;
    const bool adds_up_rows = transpose_b ? DotsPay(m) || DotsPay(n) : CopiesColumns();
    return !adds_up_rows && PacksB();
  }

  // Packs all of an A that is not transposed, for tiles of `vectors` packets: for each part of k,
  // the tiles one after the other, and in a tile the rows' elements side by side.
  void PackLeft(T* to) const {
    const Cut tiles(m, MaxRows(vectors));
    for (int64_t p = 0; p < k; p += kDepth) {
      const int64_t depth = Min(k - p, kDepth);
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t y = tiles.Begin(t), r = tiles.Size(t);
        PackTransposed(a + y * lda + p, lda, r, depth, to + p * m + y * depth, r);
      }
    }
  }

  // Packs all of B: slab after slab, each from its first row to its last. The columns from a slab's
  // first one on are then a packed B, too.
  void PackRight(T* to) const {
    const int64_t slab = SlabColumns();
    for (int64_t x = 0; x < n; x += slab) {
      const int64_t columns = Min(slab, n - x);
      for (int64_t p = 0; p < k; p += kDepth) {
        PackSlab(transpose_b ? b + x * ldb + p : b + p * ldb + x, ldb, columns, Min(k - p, kDepth),
                 to + x * k + p * RoundUp(columns, kLanes<T>));
      }
    }
  }

  void Run(T* scratch) const {
    if (write != nullptr || vectors != 0) {
      RunTiles(scratch);
      return;
    }
    if (!transpose_a && transpose_b && DotsPay(m)) {
      DotRows(m, n, k, a, lda, b, ldb, alpha, beta, c, ldc, int64_t{1});
      return;
    }
    if (!transpose_a && ((transpose_b && DotsPay(n)) || (n == 1 && ldb == 1))) {
      DotRows(n, m, k, b, ldb, a, lda, alpha, beta, c, int64_t{1}, ldc);
      return;
    }
    if (RunNarrow()) return;
    if (CopiesColumns()) {
      for (int64_t p = 0; p < k; p += kDotsDepth<T>) {
        const int64_t depth = Min(k - p, kDotsDepth<T>);
        PackTransposed(b + p * ldb, ldb, depth, n, scratch, depth);
        DotRows(n, m, depth, scratch, depth, a + p, lda, alpha, p == 0 ? beta : T(1), c, int64_t{1},
                ldc);
      }
      return;
    }
    if (n == 1 && ldc == 1 && transpose_a) {
      Transposed().RunTiles(scratch);
      return;
    }
    RunTiles(scratch);
  }

  // Returns whether the product reads whole rows of B. Tiles of a B larger than the caches read
  // pieces of rows that lie far apart, at a third of the speed of whole rows. The sums of few rows
  // of C stay in a near cache beside whole rows.
  bool ReadsWholeRows() const {
    constexpr int64_t kPastCaches = 8 << 20;
    return write == nullptr && vectors == 0 && m <= kFew && !transpose_b && !Near(ldb) &&
           k * n * static_cast<int64_t>(sizeof(T)) > kPastCaches;
  }

  void RunWholeRows(T* sums) const {
    constexpr int kRowsOfB = 8;
    const int64_t a_row = transpose_a ? 1 : lda, a_step = transpose_a ? lda : 1;
    const int64_t block = kRowSums<T> / m / kLanes<T> * kLanes<T>;
    for (int64_t x = 0; x < n; x += block) {
      const int64_t columns = Min(n - x, block), width = RoundUp(columns, kLanes<T>);
      for (int64_t begin = 0; begin < k; begin += kDepth) {
        const int64_t end = Min(begin + kDepth, k);
        for (int64_t i = 0; i < m * width; ++i) sums[i] = T(0);
        for (int64_t p = begin; p < end;) {
          const bool all = end - p >= kRowsOfB;
          for (int64_t i = 0; i < m; i += kRowsAtOnce) {
            ForRows(Min(m - i, kRowsAtOnce), [&]<int R>() {
              const auto function = all ? AddRowsOfB<T, R, kRowsOfB> : AddRowsOfB<T, R, 1>;
              function(a + i * a_row + p * a_step, a_row, a_step, b + p * ldb + x, ldb, columns,
                       sums + i * width, width);
            });
          }
          p += all ? kRowsOfB : 1;
        }
        AddSums(sums, width, columns, begin == 0 ? beta : T(1), c + x);
      }
    }
  }

  // Computes to = alpha * sums + keep * to, as Tile does at its end.
  void AddSums(const T* sums, int64_t width, int64_t columns, T keep, T* to) const {
    using P = Packet<T>;
    const P scale = pk::pset1<P>(alpha), old = pk::pset1<P>(keep);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < columns; j += kLanes<T>) {
        T* const at = to + i * ldc + j;
        const int64_t last = Min(columns - j, kLanes<T>);
        P sum = pk::ploadu<P>(sums + i * width + j);
        if (alpha != T(1)) sum = pk::pmul(scale, sum);
        if (keep != T(0)) sum = pk::pmadd(old, LoadFirst<T>(at, last), sum);
        StoreUpTo<T>(at, sum, last, false);
      }
    }
  }

  // Runs the product by a packed B slab by slab, for some rows of A at a time. B is read from one
  // end to the other, and a part of a slab is multiplied by all of these rows while it is in a near
  // cache.
  void RunSlabs(bool backwards) const {
    const int64_t slab = SlabColumns(), count = (n + slab - 1) / slab;
    for (int64_t y = 0; y < m; y += kSlabRows) {
      const Cut tiles(Min(m - y, kSlabRows), MaxRows(vectors));
      for (int64_t i = 0; i < count; ++i) RunSlab((backwards ? count - 1 - i : i) * slab, y, tiles);
    }
  }

  // Multiplies the rows of A from y on by the slab of a packed B that begins at column x.
  void RunSlab(int64_t x, int64_t y, const Cut& tiles) const {
    const int64_t columns = Min(SlabColumns(), n - x), width = RoundUp(columns, kLanes<T>);
    const bool streams =
        tiles.count == 1 && vectors == kWideVectors && width == SlabColumns() && !transpose_a;
    for (int64_t p = 0; p < k; p += kDepth) {
      const int64_t depth = Min(k - p, kDepth);
      const Slab part{right + x * k + p * width, width, columns};
      const T scale_c = p == 0 ? beta : T(1);
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t row = y + tiles.Begin(t), rows = tiles.Size(t);
        const T* const from = transpose_a ? a + p * lda + row : a + row * lda + p;
        T* const to = c + row * ldc + x;
        if (streams) {
          kStreamingTiles<T>.entry[rows - 1](depth, from, lda, part.data, width, alpha, scale_c, to,
                                             ldc, columns - (width - kLanes<T>));
        } else {
          RunTile(part, false, depth, from, lda, !transpose_a, rows, scale_c, to);
        }
      }
    }
  }

  void RunTiles(T* scratch) const {
    if (ReadsWholeRows()) {
      RunWholeRows(scratch);
      return;
    }
    T* const packed_a = PacksA() ? scratch : nullptr;
    T* const packed_b = PacksB() ? scratch + PackedASize() : nullptr;
    T* const tail = scratch + PackedASize();
    T* const written = tail + PackedBSize();
    for (int64_t x = 0; x < n; x += kBlockColumns) {
      const int64_t columns = Min(n - x, kBlockColumns);
      for (int64_t p = 0; p < k; p += kDepth) {
        const int64_t depth = Min(k - p, kDepth);
        if (packed_b != nullptr) PackB(p, depth, x, columns, packed_b, written);
        if (left != nullptr) {
          const Cut tiles(left_rows, MaxRows(vectors));
          const TileRows rows = {tiles, tiles.At(first_row), tiles.At(first_row + m), -first_row};
          RunBlock(p, depth, rows, x, columns, left + p * left_rows, packed_b, tail);
          continue;
        }
        for (int64_t y = 0; y < m; y += kBlockRows) {
          const int64_t rows = Min(m - y, kBlockRows);
          if (packed_a != nullptr) PackA(p, depth, y, rows, packed_a);
          const Cut tiles(rows, MaxRows(Vectors()));
          RunBlock(p, depth, {tiles, 0, tiles.count, y}, x, columns, packed_a, packed_b, tail);
        }
      }
    }
  }
};

template <typename T>
Product<T> ProductOf(const PackedProduct<T>& g) {
  return {.transpose_a = g.transpose_a,
          .transpose_b = g.transpose_b,
          .m = g.m,
          .n = g.n,
          .k = g.k,
          .alpha = g.alpha,
          .a = g.a,
          .lda = g.lda,
          .b = g.b,
          .ldb = g.ldb,
          .beta = g.beta,
          .c = g.c,
          .ldc = g.ldc,
          .write = g.write,
          .context = g.context,
          .first_column = g.first_column,
          .vectors = g.vectors,
          .left = g.left,
          .left_rows = g.left_rows,
          .first_row = g.first_row,
          .right = g.right};
}

}  // namespace

// The packets in a row of the tiles of products with a packed operand; 0 if packing does not pay.

int GemmLeftVectors(const PackedProduct<float>& g) {
  // A packed A has no far rows, and few rows of A stay in the first-level cache.
  PackedProduct<float> near = g;
  near.lda = 0;
  return g.m <= kFew ? 0 : ProductOf(near).Vectors();
}

int GemmRightVectors(const PackedProduct<float>& g) {
  const Product<float> product = ProductOf(g);
  return product.PacksStoredB() ? product.Vectors() : 0;
}

// Tiles for few rows are wide, as Product::Vectors explains.
int GemmStreamVectors(int64_t rows) { return rows <= MaxRows(kWideVectors) ? kWideVectors : 2; }

// Pack the operands of a product with `vectors`.
void GemmPackLeft(const PackedProduct<float>& g, float* to) { ProductOf(g).PackLeft(to); }
void GemmPackRight(const PackedProduct<float>& g, float* to) { ProductOf(g).PackRight(to); }
void GemmPackRight(const PackedProduct<double>& g, double* to) { ProductOf(g).PackRight(to); }

// Return the first row, or column, of block i of `count` blocks of whole tiles.
int64_t GemmBlockRow(const PackedProduct<float>& g, int64_t i, int64_t count) {
  const Cut tiles(g.m, MaxRows(g.vectors));
  return tiles.Begin(i * tiles.count / count);
}
int64_t GemmBlockColumn(const PackedProduct<float>& g, int64_t i, int64_t count) {
  const int64_t slab = ProductOf(g).SlabColumns(), slabs = (g.n + slab - 1) / slab;
  return Min(g.n, i * slabs / count * slab);
}

int64_t GemmPackedScratch(const PackedProduct<float>& g) { return ProductOf(g).ScratchSize(); }
void GemmPacked(const PackedProduct<float>& g, float* scratch) { ProductOf(g).Run(scratch); }

// Run the product by a packed B, the last slab first if `backwards`.
void GemmSlabs(const PackedProduct<float>& g, bool backwards) { ProductOf(g).RunSlabs(backwards); }
void GemmSlabs(const PackedProduct<double>& g, bool backwards) { ProductOf(g).RunSlabs(backwards); }

// Returns the elements of scratch memory that the product needs.
int64_t GemmScratchFloat(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                         int64_t lda, int64_t ldb) {
  return Product<float>{transpose_a, transpose_b, m, n, k, 1, nullptr, lda, nullptr, ldb}
      .ScratchSize();
}

int64_t GemmScratchDouble(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                          int64_t lda, int64_t ldb) {
  return Product<double>{transpose_a, transpose_b, m, n, k, 1, nullptr, lda, nullptr, ldb}
      .ScratchSize();
}

void GemmFloat(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
               int64_t ldc, float* scratch) {
  Product<float>{transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}.Run(
      scratch);
}

// The product by a B that `write` writes when it is packed, and the scratch memory for it.

int64_t GemmWrittenScratchFloat(bool transpose_a, int64_t m, int64_t n, int64_t k, int64_t lda,
                                WriteRows<float> write) {
  return Product<float>{.transpose_a = transpose_a,
                        .transpose_b = false,
                        .m = m,
                        .n = n,
                        .k = k,
                        .alpha = 1,
                        .a = nullptr,
                        .lda = lda,
                        .b = nullptr,
                        .ldb = n,
                        .beta = 0,
                        .c = nullptr,
                        .ldc = n,
                        .write = write}
      .ScratchSize();
}

void GemmWrittenFloat(bool transpose_a, int64_t m, int64_t n, int64_t k, float alpha,
                      const float* a, int64_t lda, WriteRows<float> write, const void* context,
                      int64_t first_column, float beta, float* c, int64_t ldc, float* scratch) {
  Product<float>{.transpose_a = transpose_a,
                 .transpose_b = false,
                 .m = m,
                 .n = n,
                 .k = k,
                 .alpha = alpha,
                 .a = a,
                 .lda = lda,
                 .b = nullptr,
                 .ldb = n,
                 .beta = beta,
                 .c = c,
                 .ldc = ldc,
                 .write = write,
                 .context = context,
                 .first_column = first_column}
      .Run(scratch);
}

void GemmDouble(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
                const double* a, int64_t lda, const double* b, int64_t ldb, double beta, double* c,
                int64_t ldc, double* scratch) {
  Product<double>{transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}.Run(
      scratch);
}

}  // namespace tessera::tensor_internal::TESSERA_GEMM_NAMESPACE

#undef TESSERA_UNROLL

#endif  // TESSERA_TENSOR_LINALG_GEMM_KERNEL_H_
