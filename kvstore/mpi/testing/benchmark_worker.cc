// A rank of distributed_benchmark's jobs: sums of float32 over all ranks, ours and MPI's. Rank 0
// reads requests, "run ours/BYTES COUNT", "run mpi/BYTES COUNT" or "drop CASE", and answers with
// the seconds.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/kvstore/communicator.h"
#include "tessera/kvstore/mpi/mpi_communicator.h"
#include "tessera/kvstore/mpi/mpi_thread.h"

namespace tessera::kvstore_mpi {
namespace {

using Clock = std::chrono::steady_clock;

void Await(const std::function<void(Communicator::Done)>& call) {
  const auto complete = std::make_shared<std::promise<void>>();
  call([complete](const std::exception_ptr& error) {
    if (error) {
      complete->set_exception(error);
    } else {
      complete->set_value();
    }
  });
  complete->get_future().get();
}

class Worker {
 public:
  Worker() : communicator_(MakeMpiCommunicator()) {}

  /// Answers requests until there are no more.
  void Serve() {
    if (is_root()) Answer("ready");
    for (;;) {
      std::array<char, 128> request = {};
      std::string line;
      if (is_root() && std::getline(std::cin, line)) {
        line.copy(request.data(), request.size() - 1);
      }
      Await([&](Communicator::Done done) {
        communicator_->Broadcast(std::as_writable_bytes(std::span(request)), 0, std::move(done));
      });
      std::istringstream words(request.data());
      std::string verb, name;
      int64_t count = 0;
      if (!(words >> verb >> name)) return;
      words >> count;
      const double seconds = verb == "run" ? Run(name, count) : 0;
      if (is_root()) Answer(std::to_string(seconds));
    }
  }

 private:
  bool is_root() const { return communicator_->rank() == 0; }

  static void Answer(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

  double Run(const std::string& name, int64_t count) {
    const size_t slash = name.find('/');
    const std::string kind = name.substr(0, slash);
    Resize(std::strtoll(name.c_str() + slash + 1, nullptr, 10));
    const double seconds = kind == "ours" ? SumOurs(count) : SumByMpi(count);
    if (kind != "ours") Check();
    return seconds;
  }

  void Resize(int64_t size_bytes) {
    const auto size = static_cast<size_t>(size_bytes / static_cast<int64_t>(sizeof(float)));
    if (in_.size() == size) return;
    in_.resize(size);
    std::mt19937 random(static_cast<uint32_t>(communicator_->rank()));
    std::uniform_real_distribution<float> numbers(1, 2);
    for (float& value : in_) value = numbers(random);
    ours_.assign(size, 0);
    theirs_.assign(size, 0);
  }

  /// The end of each sum begins the next one, as in a store.
  double SumOurs(int64_t count) {
    Await([&](Communicator::Done done) { communicator_->Barrier(std::move(done)); });
    const SumBuffer buffer{in_.data(), ours_.data(), static_cast<int64_t>(in_.size())};
    const Clock::time_point start = Clock::now();
    Await([&](const Communicator::Done& done) { SumInTurn(buffer, count, done); });
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  void SumInTurn(const SumBuffer& buffer, int64_t count, const Communicator::Done& done) {
    if (count == 0) return done(nullptr);
    communicator_->SumInto(std::span(&buffer, 1), DType::kFloat32,
                           [this, buffer, count, done](const std::exception_ptr& error) {
                             if (error) return done(error);
                             SumInTurn(buffer, count - 1, done);
                           });
  }

  /// In the thread that makes every call of MPI, like our sums after the first.
  double SumByMpi(int64_t count) {
    MpiThread& thread = MpiThread::Get();
    double seconds = 0;
    thread.Call([&] {
      thread.Check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
      const Clock::time_point start = Clock::now();
      for (int64_t i = 0; i < count; ++i) {
        thread.Check(MPI_Allreduce(in_.data(), theirs_.data(), static_cast<int>(in_.size()),
                                   MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
                     "MPI_Allreduce");
      }
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    });
    return seconds;
  }

  /// The summands are positive, so that another order changes a sum by an ulp or so for each rank.
  void Check() const {
    const float tolerance = 1e-6f * static_cast<float>(communicator_->size());
    for (size_t i = 0; i < in_.size(); ++i) {
      if (ours_[i] != 0 && std::abs(ours_[i] - theirs_[i]) > tolerance * theirs_[i]) {
        throw std::runtime_error("element " + std::to_string(i) + " is " +
                                 std::to_string(ours_[i]) + ", expected " +
                                 std::to_string(theirs_[i]));
      }
    }
  }

  const std::unique_ptr<Communicator> communicator_;
  std::vector<float> in_, ours_, theirs_;
};

}  // namespace
}  // namespace tessera::kvstore_mpi

int main() {
  try {
    tessera::kvstore_mpi::Worker().Serve();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "benchmark_worker: %s\n", error.what());
    std::fflush(stderr);
    std::_Exit(3);  // mpirun ends the other ranks
  }
}
