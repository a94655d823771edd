// An epoch of shuffled batches out of arrays in memory, and training steps on batches that worker
// threads load meanwhile. Loading beside steps should cost what both cost alone on the same
// threads.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/io/data_loader.h"
#include "tessera/io/dataset.h"
#include "tessera/io/ndarray_iter.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;

void AddShuffledEpoch(index_t batch_size) {
  constexpr int64_t kExamples = 4096, kPixels = 28 * 28;
  AddCase({.name = "shuffled_epoch/" + std::to_string(batch_size),
           .bytes = 2.0 * kExamples * kPixels * sizeof(float),
           .items = kExamples,
           .make = [batch_size] {
             NDArray images(TShape{kExamples, kPixels}), labels(TShape{kExamples});
             images = 0.5f;
             labels = 1.0f;
             const auto batches = std::make_shared<NDArrayIter>(
                 NamedArrays{{"data", images}}, NamedArrays{{"softmax_label", labels}},
                 BatchingOptions{.batch_size = batch_size, .shuffle = true, .seed = 1});
             return Variants{.all = {{"ours", [batches] {
                                        batches->BeforeFirst();
                                        while (batches->Next()) {
                                          batches->GetBatch().data[0].WaitToRead();
                                        }
                                      }}}};
           }});
}

constexpr index_t kBatch = 32;
// Many: at the end of a run a thread is idle for up to the load of a batch.
constexpr index_t kBatches = 64;
constexpr index_t kImages = kBatch * kBatches;
constexpr index_t kPixels = 3 * 64 * 64;
constexpr index_t kNeurons = 256;

/// Corrects the image's gamma and mirrors every other image. An image costs some 100 microseconds,
/// about as much as its decoding would.
Example Augment(Example example, const ExampleInfo& info) {
  const std::span<const uint8_t> from = example[0].values<uint8_t>();
  HostArray image{DType::kFloat32, example[0].shape, std::vector<uint8_t>(4 * from.size())};
  const std::span<float> to = image.mutable_values<float>();
  const bool mirrored = info.random % 2 == 0;
  for (size_t i = 0; i < from.size(); ++i) {
    const uint8_t pixel = from[mirrored ? from.size() - 1 - i : i];
    to[i] = std::pow(static_cast<float>(pixel) / 255, 0.45f);
  }
  example[0] = std::move(image);
  return example;
}

/// A loader of images, and a step that computes on its batches.
class Training {
 public:
  Training()
      : loader_(Images(), {.batching = {.batch_size = kBatch, .shuffle = true, .seed = 1},
                           .transform = Augment}),
        batch_({kBatch, kPixels}),
        weight_({kNeurons, kPixels}),
        bias_({kNeurons}),
        result_({kBatch, kNeurons}) {
    batch_ = 0.5f;
    weight_ = 0.01f;
    bias_ = 0.0f;
  }

  /// An epoch whose batches are loaded while earlier ones are computed.
  void Together() {
    Run([this] { Step(loader_.GetBatch().data[0]); });
  }

  /// The loads of an epoch, and then its steps.
  void Alone() {
    Run([] {});
    for (index_t i = 0; i < kBatches; ++i) Step(batch_);
    NDArray::WaitAll();
  }

  index_t examples() const { return examples_; }

 private:
  static std::shared_ptr<const Dataset> Images() {
    std::vector<uint8_t> pixels(static_cast<size_t>(kImages * kPixels));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 97 / 64);
    const std::vector<int32_t> labels(static_cast<size_t>(kImages), 1);
    return std::make_shared<ArrayDataset>(
        std::vector<HostArray>{HostArray::FromValues<uint8_t>(pixels, {kImages, kPixels}),
                               HostArray::FromValues<int32_t>(labels, {kImages})});
  }

  // Waits for the loads of the next epoch, too, so that each run loads as many batches.
  template <typename Work>
  void Run(const Work& work) {
    loader_.BeforeFirst();
    examples_ = 0;
    while (loader_.Next()) {
      examples_ += static_cast<index_t>(loader_.GetBatch().index.size());
      work();
    }
    NDArray::WaitAll();
  }

  void Step(const NDArray& batch) {
    Invoke("FullyConnected", {batch, weight_, bias_}, {result_},
           {{"num_hidden", std::to_string(kNeurons)}});
  }

  DataLoader loader_;
  NDArray batch_;
  NDArray weight_;
  NDArray bias_;
  NDArray result_;
  index_t examples_ = 0;
};

void AddPrefetched() {
  AddCase({.name = "prefetched/2048_images",
           .bounds = {{.peer = "alone", .at_least = 0.95}},
           .flops = 2.0 * kImages * kPixels * kNeurons,
           .items = kImages,
           .make = [] {
             const auto ours = std::make_shared<Training>(), alone = std::make_shared<Training>();
             return Variants{.all = {{"ours", [ours] { ours->Together(); }},
                                     {"alone", [alone] { alone->Alone(); }}},
                             .results_agree = [ours, alone] {
                               return ours->examples() == kImages && alone->examples() == kImages;
                             }};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  // A small batch, where each costs most, and a large one, where its memory does.
  tessera::AddShuffledEpoch(32);
  tessera::AddShuffledEpoch(512);
  tessera::AddPrefetched();
  return tessera::benchmarking::RunAll(argc, argv);
}
