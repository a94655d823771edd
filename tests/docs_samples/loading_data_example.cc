// The sample of docs/loading-data.md.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/io/data_loader.h"
#include "tessera/io/text.h"

using namespace tessera;  // NOLINT

void Print(const char* name, const DataBatch& batch) {
  std::printf("%-8s", name);
  for (const float value : batch.data[0].ToVector()) std::printf(" %g", value);
  for (const NDArray& label : batch.label) {
    std::printf(" |");
    for (const float value : label.ToVector()) std::printf(" %g", value);
  }
  std::printf("\n");
}

// A data set of one's own: example i is the number i, and its label is the square.
class Squares final : public Dataset {
 public:
  index_t size() const override { return 6; }
  Example Get(index_t index) const override {
    const auto number = static_cast<float>(index);
    return {HostArray::Scalar(number), HostArray::Scalar(number * number)};
  }
};

// Worker threads call it. Every run draws the same numbers.
Example AddNoise(Example example, const ExampleInfo& info) {
  if (info.random % 2 == 0) example[0].mutable_values<float>()[0] += 0.5f;
  return example;
}

void Batches() {
  const DataLoaderOptions options = {.batching = {.batch_size = 2, .shuffle = true, .seed = 1},
                                     .transform = AddNoise};
  DataLoader loader(std::make_shared<Squares>(), options);
  while (loader.Next()) Print("batch", loader.GetBatch());

  loader.BeforeFirst();  // another order
  loader.Next();
  Print("second", loader.GetBatch());
  const TrainingState position = loader.SaveState();

  DataLoader resumed(std::make_shared<Squares>(), options);
  resumed.LoadState(position);
  while (resumed.Next()) Print("resumed", resumed.GetBatch());
}

void Words() {
  const std::vector<std::string_view> words = SplitWords("the cat and the dog and the end");
  const Vocabulary vocabulary(words);
  const std::vector<int32_t> tokens = vocabulary.Tokens(SplitWords("the cat saw the dog"));
  std::printf("%s:", vocabulary.Text(tokens).c_str());
  for (const int32_t token : tokens) std::printf(" %d", token);
  std::printf("\n");

  // Windows of three tokens; the label is one token further.
  DataLoader windows(std::make_shared<NextTokenDataset>(vocabulary.Tokens(words), 3),
                     {.batching = {.batch_size = 1}});
  while (windows.Next()) Print("window", windows.GetBatch());

  // Sequences of several lengths, padded to those of buckets.
  const std::vector<std::vector<int32_t>> sequences = {{1, 3, 2}, {1, 4}, {1, 3, 2, 1, 4}};
  const auto dataset = std::make_shared<NextTokenDataset>(sequences);
  const std::vector<index_t> buckets = {2, 5};
  DataLoader loader(dataset,
                    {.sampler = InBuckets(dataset->Lengths(), buckets,
                                          {.batch_size = 2, .last_batch = LastBatch::kKeep}),
                     .pad_values = {0, -1}});
  while (loader.Next()) {
    std::printf("bucket %d\n", static_cast<int>(loader.GetBatch().bucket_key));
    Print("tokens", loader.GetBatch());
  }
}

// An iterator of one's own, whose batches have one number.
class Countdown final : public DataIter {
 public:
  void BeforeFirst() override { left_ = 3; }
  bool Next() override {
    if (left_ == 0) return false;
    const std::vector<float> number = {static_cast<float>(left_--)};
    batch_.data = {NDArray::FromVector(number, {1})};
    return true;
  }
  const DataBatch& GetBatch() const override { return batch_; }
  const std::vector<DataDesc>& ProvideData() const override { return data_; }
  const std::vector<DataDesc>& ProvideLabel() const override { return label_; }
  index_t batch_size() const override { return 1; }
  TrainingState SaveState() const override { return {.integers = {{"left", {left_}}}}; }
  void LoadState(const TrainingState& state) override { left_ = state.Integer("left"); }

 private:
  const std::vector<DataDesc> data_ = {{"data", {1}}};
  const std::vector<DataDesc> label_;
  int64_t left_ = 3;
  DataBatch batch_;
};

int main() {
  Batches();
  Words();
  Countdown countdown;
  while (countdown.Next()) Print("count", countdown.GetBatch());
}
