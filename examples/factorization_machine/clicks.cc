#include "tessera/examples/factorization_machine/clicks.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <numbers>
#include <random>
#include <vector>

#include "tessera/base/atomic_file.h"

namespace tessera::factorization_machine {
namespace {

/// Random numbers that are the same with every standard library.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : bits_(seed) {}

  /// Returns a number in [0, 1).
  double Uniform() { return std::ldexp(static_cast<double>(bits_() >> 11), -53); }
  /// Returns an integer in [0, bound).
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(Uniform() * static_cast<double>(bound));
  }
  /// Returns a normal number (G. E. P. Box, M. E. Muller, 1958).
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  std::mt19937_64 bits_;
};

/// The traits of a user, or of an item, that decide the clicks.
struct Hidden {
  double bias;
  std::array<double, 4> vector;
};

std::vector<Hidden> Draw(int64_t count, Numbers* numbers) {
  std::vector<Hidden> all(static_cast<size_t>(count));
  for (Hidden& one : all) {
    one.bias = 0.3 * numbers->Normal();
    for (double& element : one.vector) element = numbers->Normal();
  }
  return all;
}

double ProbabilityOfClick(const Hidden& user, const Hidden& item, double price) {
  double score = user.bias + item.bias - price;
  for (size_t i = 0; i < user.vector.size(); ++i) score += user.vector[i] * item.vector[i];
  return 1 / (1 + std::exp(-score));
}

}  // namespace

void WriteClicks(const std::string& path, int64_t count, int64_t features, uint64_t part) {
  Numbers hidden(1);
  const std::vector<Hidden> users = Draw(kUsers, &hidden), items = Draw(kItems, &hidden);
  const int64_t half = (features - 1) / 2;
  Numbers numbers(2 + part);
  AtomicFile file(path, "WriteClicks");
  for (int64_t i = 0; i < count; ++i) {
    const int64_t user = numbers.Below(kUsers), item = numbers.Below(kItems);
    const double price = numbers.Uniform();
    const double probability = ProbabilityOfClick(users[static_cast<size_t>(user)],
                                                  items[static_cast<size_t>(item)], price);
    const int click = numbers.Uniform() < probability ? 1 : 0;
    char line[96];
    const int size = std::snprintf(line, sizeof line, "%d %lld:1 %lld:1 %lld:%.3f\n", click,
                                   static_cast<long long>(user * (half / kUsers)),
                                   static_cast<long long>(half + item * (half / kItems)),
                                   static_cast<long long>(features - 1), price);
    file.Write(line, size);
  }
  file.Commit();
}

}  // namespace tessera::factorization_machine
