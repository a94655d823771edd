// The cost of numbers of 16 bits, shapes and errors: beside Eigen's conversions, a plain loop over
// the text, a product that nobody checks, and an exception of the standard's. Nothing here is
// judged: the peers say how much of a time is the language's own.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "benchmark/benchmark.h"
#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/base/float16.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;

// In L1: the conversion's cost, not memory's.
constexpr int64_t kNumbers = 4096;

template <typename Ours, typename Theirs>
struct Numbers {
  std::vector<float> wide, ours_wide, eigen_wide;
  std::vector<Ours> narrow;
  std::vector<Theirs> eigen_narrow;

  Numbers()
      : wide(kNumbers),
        ours_wide(kNumbers),
        eigen_wide(kNumbers),
        narrow(kNumbers),
        eigen_narrow(kNumbers) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < kNumbers; ++i) {
      wide[i] = normal(random);
      narrow[i] = Ours(wide[i]);
      eigen_narrow[i] = Theirs(wide[i]);
    }
  }
  bool Agree() const {
    for (int64_t i = 0; i < kNumbers; ++i) {
      if (narrow[i].bits() != Eigen::numext::bit_cast<uint16_t>(eigen_narrow[i])) return false;
    }
    return true;
  }
};

template <typename T>
Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> View(std::vector<T>& values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

template <typename Ours, typename Theirs>
void AddConversions(const std::string& type) {
  using Data = Numbers<Ours, Theirs>;
  AddCase({.name = "round/" + type, .bytes = 6.0 * kNumbers, .make = [] {
             auto d = std::make_shared<Data>();
             const auto round = [d] {
               for (int64_t i = 0; i < kNumbers; ++i) d->narrow[i] = Ours(d->wide[i]);
             };
             const auto eigen = [d] {
               View(d->eigen_narrow) = View(d->wide).template cast<Theirs>();
             };
             return Variants{.all = {{"ours", round}, {"eigen", eigen}},
                             .results_agree = [d] { return d->Agree(); }};
           }});
  AddCase({.name = "widen/" + type, .bytes = 6.0 * kNumbers, .make = [] {
             auto d = std::make_shared<Data>();
             const auto widen = [d] {
               for (int64_t i = 0; i < kNumbers; ++i) d->ours_wide[i] = d->narrow[i];
             };
             const auto eigen = [d] {
               View(d->eigen_wide) = View(d->eigen_narrow).template cast<float>();
             };
             return Variants{.all = {{"ours", widen}, {"eigen", eigen}},
                             .results_agree = [d] { return d->ours_wide == d->eigen_wide; }};
           }});
}

// The shape of a batch of pictures, as parameters and files state it.
void AddShapes() {
  AddCase({.name = "shape/parse", .make = [] {
             const auto text = std::make_shared<std::string>("(32, 3, 224, 224)");
             const auto ours = [text] { benchmark::DoNotOptimize(TShape::Parse(*text)); };
             const auto loop = [text] {
               std::array<long, 8> extents{};
               size_t rank = 0;
               for (const char* at = text->c_str(); *at != '\0' && rank < extents.size();) {
                 char* end = nullptr;
                 const long value = std::strtol(at, &end, 10);
                 if (end == at) {
                   ++at;
                 } else {
                   extents[rank++] = value;
                   at = end;
                 }
               }
               benchmark::DoNotOptimize(extents);
             };
             return Variants{.all = {{"ours", ours}, {"strtol", loop}}};
           }});
  AddCase({.name = "shape/size", .make = [] {
             const auto shape = std::make_shared<TShape>(TShape{32, 3, 224, 224});
             const auto ours = [shape] {
               benchmark::DoNotOptimize(*shape);
               benchmark::DoNotOptimize(shape->Size());
             };
             const auto unchecked = [shape] {
               benchmark::DoNotOptimize(*shape);
               index_t product = 1;
               for (const index_t extent : *shape) product *= extent;
               benchmark::DoNotOptimize(product);
             };
             return Variants{.all = {{"ours", ours}, {"unchecked", unchecked}}};
           }});
}

// Checks that pass are in every call; what throws is paid by who made the mistake.
void AddErrors() {
  AddCase({.name = "error/none", .make = [] {
             const auto count = std::make_shared<int64_t>(1 << 20);
             const auto ours = [count] {
               benchmark::DoNotOptimize(*count);
               benchmark::DoNotOptimize((CheckedSize(*count) * 4).ValueOrThrow("bytes"));
             };
             const auto unchecked = [count] {
               benchmark::DoNotOptimize(*count);
               benchmark::DoNotOptimize(*count * 4);
             };
             return Variants{.all = {{"ours", ours}, {"unchecked", unchecked}}};
           }});
  AddCase({.name = "error/throw", .make = [] {
             const auto ours = [] {
               try {
                 throw InvalidArgument("dot: k is ", 3, ", expected ", 4);
               } catch (const Error& error) {
                 benchmark::DoNotOptimize(error.what());
               }
             };
             const auto standard = [] {
               try {
                 throw std::invalid_argument("dot: k is " + std::to_string(3) + ", expected " +
                                             std::to_string(4));
               } catch (const std::exception& error) {
                 benchmark::DoNotOptimize(error.what());
               }
             };
             return Variants{.all = {{"ours", ours}, {"standard", standard}}};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::AddConversions<tessera::half_t, Eigen::half>("half");
  tessera::AddConversions<tessera::bfloat16_t, Eigen::bfloat16>("bfloat16");
  tessera::AddShapes();
  tessera::AddErrors();
  return tessera::benchmarking::RunAll(argc, argv);
}
