#include "tessera/kvstore/mpi/rank_ordered_sums.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/kvstore/row_sum.h"

namespace tessera::kvstore_mpi {
namespace {

/// The most bytes of a piece, and of a rank's part of it: large enough that latencies do not count,
/// and small enough that the exchange, the additions and the gathering of different pieces overlap.
/// A part is added while it is in a core's cache.
constexpr int64_t kPieceBytes = int64_t{4} << 20, kPartBytes = int64_t{256} << 10;

/// A piece is gathered whole if a rank then receives at most this. A step costs some 20 us, in
/// which a core adds as much.
constexpr int64_t kWholeBytes = int64_t{128} << 10;

/// Pieces on their way at a time.
constexpr size_t kPieces = 4;

void Resize(std::vector<std::byte>* memory, int64_t size_bytes) {
  if (memory->size() < static_cast<size_t>(size_bytes)) {
    memory->resize(static_cast<size_t>(size_bytes));
  }
}

}  // namespace

RankOrderedSums::RankOrderedSums(MpiThread& thread, MPI_Comm scatter, MPI_Comm gather)
    : thread_(thread), scatter_(scatter), gather_(gather) {
  thread_.Check(MPI_Comm_rank(scatter_, &rank_), "MPI_Comm_rank");
  thread_.Check(MPI_Comm_size(scatter_, &size_), "MPI_Comm_size");
}

void RankOrderedSums::Begin(std::vector<SumBuffer> buffers, DType dtype, Communicator::Done done) {
  std::erase_if(buffers, [](const SumBuffer& buffer) { return buffer.size == 0; });
  int64_t size = 0;
  for (const SumBuffer& buffer : buffers) size += buffer.size;
  if (size == 0) return done(nullptr);
  const auto sum = std::make_shared<Sum>(Sum{std::move(buffers), dtype, std::move(done)});
  const int64_t piece_size = std::min(kPieceBytes, kPartBytes * size_) / DTypeSizeBytes(dtype);
  for (int64_t begin = 0; begin < size; begin += piece_size) {
    waiting_.push_back({sum, begin, std::min(piece_size, size - begin)});
    ++sum->pieces_left;
    ++pieces_pending_;
  }
}

/// Tests the first piece of each stage alone, so that the next stage begins in the same order on
/// all ranks. A test moves every request forward.
bool RankOrderedSums::Advance() {
  bool has_progress = false;
  while (!gathering_.empty() && IsComplete(&gathering_.front().request)) {
    Piece piece = std::move(gathering_.front());
    gathering_.pop_front();
    Finish(&piece);
    has_progress = true;
  }
  while (!scattering_.empty() && IsComplete(&scattering_.front().request)) {
    Piece piece = std::move(scattering_.front());
    scattering_.pop_front();
    Add(&piece);
    if (piece.is_whole) {
      Finish(&piece);
    } else {
      Gather(&piece);
      gathering_.push_back(std::move(piece));
    }
    has_progress = true;
  }
  while (!waiting_.empty() && scattering_.size() + gathering_.size() < kPieces) {
    scattering_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    Begin(&scattering_.back());
    has_progress = true;
  }
  return has_progress;
}

bool RankOrderedSums::IsComplete(MPI_Request* request) {
  int is_complete = 0;
  thread_.Check(MPI_Test(request, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
  return is_complete != 0;
}

/// Returns where a rank's part of the piece begins: the first size % ranks parts have one element
/// more than the others.
int64_t RankOrderedSums::PartBegin(const Piece& piece, int rank) const {
  return piece.size / size_ * rank + std::min<int64_t>(rank, piece.size % size_);
}

/// Calls visit(buffer, first, count, offset) for the elements [first, first + count) of each buffer
/// that the piece has from its element `offset` on.
template <typename Visit>
void RankOrderedSums::VisitBuffers(const Piece& piece, const Visit& visit) {
  int64_t buffer_begin = 0;
  for (const SumBuffer& buffer : piece.sum->buffers) {
    const int64_t begin = std::max(piece.begin, buffer_begin);
    const int64_t end = std::min(piece.begin + piece.size, buffer_begin + buffer.size);
    if (begin < end) visit(buffer, begin - buffer_begin, end - begin, begin - piece.begin);
    buffer_begin += buffer.size;
  }
}

/// Sets the piece's memory: that of its buffer, or if it lies in several a copy of them.
void RankOrderedSums::Locate(Piece* piece) const {
  const int64_t element = DTypeSizeBytes(piece->sum->dtype);
  VisitBuffers(*piece, [&](const SumBuffer& buffer, int64_t first, int64_t count, int64_t) {
    if (count != piece->size) return;
    piece->in = static_cast<const std::byte*>(buffer.in) + first * element;
    piece->out = static_cast<std::byte*>(buffer.out) + first * element;
  });
  if (piece->in != nullptr) return;
  Resize(&piece->scratch->packed, piece->size * element);
  std::byte* const packed = piece->scratch->packed.data();
  VisitBuffers(*piece, [&](const SumBuffer& buffer, int64_t first, int64_t count, int64_t offset) {
    std::memcpy(packed + offset * element,
                static_cast<const std::byte*>(buffer.in) + first * element,
                static_cast<size_t>(count * element));
  });
  piece->in = piece->out = packed;
}

void RankOrderedSums::Begin(Piece* piece) {
  if (free_scratch_.empty()) {
    piece->scratch = std::make_unique<Scratch>();
  } else {
    piece->scratch = std::move(free_scratch_.back());
    free_scratch_.pop_back();
  }
  Locate(piece);
  const int64_t size_bytes = piece->size * DTypeSizeBytes(piece->sum->dtype);
  bytes_on_their_way_ += size_bytes;
  piece->is_whole = size_bytes * (size_ - 1) <= kWholeBytes;
  if (piece->is_whole) {
    GatherWhole(piece);
  } else {
    Scatter(piece);
  }
}

void RankOrderedSums::GatherWhole(Piece* piece) {
  const int64_t size_bytes = piece->size * DTypeSizeBytes(piece->sum->dtype);
  Scratch& scratch = *piece->scratch;
  Resize(&scratch.rows, size_ * size_bytes);
  thread_.Check(
      MPI_Iallgather(piece->in, static_cast<int>(size_bytes), MPI_BYTE, scratch.rows.data(),
                     static_cast<int>(size_bytes), MPI_BYTE, scatter_, &piece->request),
      "MPI_Iallgather");
}

/// Begins to send each rank its part. A rank's own part stays where it is.
void RankOrderedSums::Scatter(Piece* piece) {
  Scratch& scratch = *piece->scratch;
  const int64_t element = DTypeSizeBytes(piece->sum->dtype);
  const auto ranks = static_cast<size_t>(size_);
  for (auto* const list : {&scratch.send_sizes, &scratch.send_offsets, &scratch.row_sizes,
                           &scratch.row_offsets, &scratch.part_sizes}) {
    list->resize(ranks);
  }
  const int64_t own_bytes = (PartBegin(*piece, rank_ + 1) - PartBegin(*piece, rank_)) * element;
  for (int rank = 0; rank < size_; ++rank) {
    const auto r = static_cast<size_t>(rank);
    const int64_t begin = PartBegin(*piece, rank) * element;
    scratch.part_sizes[r] = static_cast<int>(PartBegin(*piece, rank + 1) * element - begin);
    scratch.send_offsets[r] = static_cast<int>(begin);
    scratch.send_sizes[r] = rank == rank_ ? 0 : scratch.part_sizes[r];
    scratch.row_offsets[r] = static_cast<int>(rank * own_bytes);
    scratch.row_sizes[r] = rank == rank_ ? 0 : static_cast<int>(own_bytes);
  }
  Resize(&scratch.rows, size_ * own_bytes);
  thread_.Check(MPI_Ialltoallv(piece->in, scratch.send_sizes.data(), scratch.send_offsets.data(),
                               MPI_BYTE, scratch.rows.data(), scratch.row_sizes.data(),
                               scratch.row_offsets.data(), MPI_BYTE, scatter_, &piece->request),
                "MPI_Ialltoallv");
}

/// Adds the rows of this rank's part, or of the whole piece.
void RankOrderedSums::Add(Piece* piece) {
  Scratch& scratch = *piece->scratch;
  const DType dtype = piece->sum->dtype;
  const int64_t element = DTypeSizeBytes(dtype);
  const int64_t begin = piece->is_whole ? 0 : PartBegin(*piece, rank_);
  const int64_t end = piece->is_whole ? piece->size : PartBegin(*piece, rank_ + 1);
  scratch.summands.resize(static_cast<size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    scratch.summands[static_cast<size_t>(rank)] =
        rank == rank_ ? piece->in + begin * element
                      : scratch.rows.data() + rank * (end - begin) * element;
  }
  kvstore_internal::SumRows(scratch.summands, piece->out + begin * element, end - begin, dtype);
}

void RankOrderedSums::Gather(Piece* piece) {
  const Scratch& scratch = *piece->scratch;
  thread_.Check(
      MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, piece->out, scratch.part_sizes.data(),
                      scratch.send_offsets.data(), MPI_BYTE, gather_, &piece->request),
      "MPI_Iallgatherv");
}

void RankOrderedSums::Finish(Piece* piece) {
  const int64_t element = DTypeSizeBytes(piece->sum->dtype);
  const std::byte* const packed = piece->scratch->packed.data();
  if (piece->out == packed) {
    VisitBuffers(*piece,
                 [&](const SumBuffer& buffer, int64_t first, int64_t count, int64_t offset) {
                   std::memcpy(static_cast<std::byte*>(buffer.out) + first * element,
                               packed + offset * element, static_cast<size_t>(count * element));
                 });
  }
  free_scratch_.push_back(std::move(piece->scratch));
  bytes_on_their_way_ -= piece->size * element;
  --pieces_pending_;
  if (--piece->sum->pieces_left == 0) piece->sum->done(nullptr);
}

}  // namespace tessera::kvstore_mpi
