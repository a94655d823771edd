#ifndef TESSERA_KVSTORE_MPI_RANK_ORDERED_SUMS_H_
#define TESSERA_KVSTORE_MPI_RANK_ORDERED_SUMS_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "tessera/kvstore/communicator.h"
#include "tessera/kvstore/mpi/mpi_thread.h"

namespace tessera::kvstore_mpi {

/// Sums over all ranks whose additions are in the order of the ranks, whatever algorithms MPI has.
///
/// The elements of a sum are cut into pieces, and a piece into one part for each rank. An
/// all-to-all exchange gives a rank its part of every rank's piece; it adds these rows in the order
/// of the ranks, and an all-gather gives the result to all. So each rank sends and receives about
/// twice its bytes, as in a ring. Small pieces are gathered whole, and every rank adds them: that
/// is one step less. Some pieces are on their way at a time, and each step of MPI is begun in the
/// same order on all ranks: exchanges and whole pieces on one communicator, gatherings of parts on
/// the other.
///
/// Threads: MpiThread's thread alone. The memory of pieces is kept for later ones.
class RankOrderedSums {
 public:
  /// Borrows two communicators of the same ranks for its calls alone, which return errors.
  RankOrderedSums(MpiThread& thread, MPI_Comm scatter, MPI_Comm gather);
  ~RankOrderedSums() = default;
  RankOrderedSums(const RankOrderedSums&) = delete;
  RankOrderedSums& operator=(const RankOrderedSums&) = delete;

  /// Begins a sum; see Communicator::SumInto.
  void Begin(std::vector<SumBuffer> buffers, DType dtype, Communicator::Done done);
  /// Moves pieces forward. Returns whether anything happened.
  bool Advance();
  /// Returns whether a sum pends.
  bool IsBusy() const { return pieces_pending_ > 0; }
  /// Returns the size of the pieces that are on their way.
  int64_t bytes_on_their_way() const { return bytes_on_their_way_; }

 private:
  /// A call of Begin.
  struct Sum {
    std::vector<SumBuffer> buffers;  // without empty ones; their elements follow each other
    DType dtype;
    Communicator::Done done;
    int64_t pieces_left = 0;
  };
  /// Memory for one piece: kept for later ones.
  struct Scratch {
    std::vector<std::byte> packed;  // the piece, if it lies in several buffers
    std::vector<std::byte> rows;    // what this rank adds of every rank's piece
    std::vector<int> send_sizes, send_offsets, row_sizes, row_offsets, part_sizes;  // bytes
    std::vector<const void*> summands;
  };
  /// Elements [begin, begin + size) of a sum.
  struct Piece {
    std::shared_ptr<Sum> sum;
    int64_t begin = 0;
    int64_t size = 0;
    bool is_whole = false;  // every rank receives and adds all of it
    std::unique_ptr<Scratch> scratch;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  int64_t PartBegin(const Piece& piece, int rank) const;
  void Locate(Piece* piece) const;
  template <typename Visit>
  static void VisitBuffers(const Piece& piece, const Visit& visit);
  void Begin(Piece* piece);
  void GatherWhole(Piece* piece);
  void Scatter(Piece* piece);
  void Add(Piece* piece);
  void Gather(Piece* piece);
  void Finish(Piece* piece);
  bool IsComplete(MPI_Request* request);

  MpiThread& thread_;
  const MPI_Comm scatter_;
  const MPI_Comm gather_;
  int rank_ = 0;
  int size_ = 1;
  std::deque<Piece> waiting_, scattering_, gathering_;
  int64_t pieces_pending_ = 0;
  int64_t bytes_on_their_way_ = 0;
  std::vector<std::unique_ptr<Scratch>> free_scratch_;
};

}  // namespace tessera::kvstore_mpi

#endif  // TESSERA_KVSTORE_MPI_RANK_ORDERED_SUMS_H_
