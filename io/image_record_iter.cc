#include "tessera/io/image_record_iter.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>
#include <fstream>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/engine/engine.h"
#include "tessera/image/decode.h"
#include "tessera/io/image_record.h"
#include "tessera/io/internal/record_file.h"

namespace tessera {
namespace {

using io_internal::RecordFile;

constexpr const char* kWhat = "ImageRecordIter";

const ImageRecordIterOptions& Checked(const ImageRecordIterOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    throw InvalidArgument(kWhat, ": ", name, " ", value, ", expected ", low, " to ", high);
  };
  check("batch_size", options.batch_size, 1, int64_t{1} << 24);
  check("label_width", options.label_width, 1, int64_t{1} << 24);
  check("prefetch_buffer", options.prefetch_buffer, 1, 1024);
  if (options.channels != 1 && options.channels != 3 && options.channels != 4) {
    throw InvalidArgument(kWhat, ": ", options.channels, " channels, expected 1, 3 or 4");
  }
  if (options.dtype != DType::kFloat32 && options.dtype != DType::kUint8 &&
      options.dtype != DType::kInt8) {
    throw InvalidArgument(kWhat, ": dtype ", options.dtype, ", expected float32, uint8 or int8");
  }
  for (const float deviation : options.deviation) {
    if (deviation == 0) throw InvalidArgument(kWhat, ": a deviation is 0, expected other numbers");
  }
  return options;
}

using Labels = std::unordered_map<uint64_t, std::vector<float>>;

/// Reads a list of images: lines of a number, labels and a path, separated by tabs.
Labels ReadLabels(const std::string& path) {
  Labels labels;
  if (path.empty()) return labels;
  std::ifstream file(path);
  if (!file.is_open()) throw NotFound(path, ": the list of images cannot be opened");
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    std::vector<std::string_view> fields;
    std::string_view rest = line;
    for (size_t tab = rest.find('\t'); tab != rest.npos; tab = rest.find('\t')) {
      fields.push_back(rest.substr(0, tab));
      rest.remove_prefix(tab + 1);
    }
    // The last field, a path, is of no interest.
    uint64_t id = 0;
    std::vector<float> values;
    bool is_right = fields.size() >= 2;
    for (size_t i = 0; is_right && i < fields.size(); ++i) {
      const char* const end = fields[i].data() + fields[i].size();
      const auto [stop, failure] =
          i == 0 ? std::from_chars(fields[i].data(), end, id)
                 : std::from_chars(fields[i].data(), end, values.emplace_back());
      is_right = failure == std::errc() && stop == end;
    }
    if (!is_right) {
      throw DataLoss(path, ": at line ", number, ": found \"", Excerpt(line),
                     "\", expected a number, labels and a path, separated by tabs");
    }
    labels.insert_or_assign(id, std::move(values));
  }
  return labels;
}

/// Mixes numbers to a seed (Steele et al., "Fast splittable pseudorandom number generators", 2014:
/// SplitMix64).
uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9e3779b97f4a7c15u * (b + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double DrawUnit(ImageRandom* random) { return static_cast<double>((*random)() >> 11) * 0x1p-53; }

}  // namespace

/// Makes the batches.
///
/// The batches of the ring are made in its order, again and again. For each, one operation reads
/// the records, one for each image decodes it, and a last one ends the batch. A variable for the
/// reader orders the first ones, and one for each batch its own operations. Operations keep errors
/// for Next, and fail themselves never.
class ImageRecordIter::Maker {
 public:
  explicit Maker(const ImageRecordIterOptions& options)
      : options_(Checked(options)),
        augmenter_(options.augmenter),
        labels_(ReadLabels(options.path_imglist)),
        file_(options.path_imgrec, options.num_parts, options.part_index),
        data_{DataDesc{options.data_name,
                       TShape({options.batch_size, options.channels, options.augmenter.size.height,
                               options.augmenter.size.width}),
                       options.dtype}},
        label_{DataDesc{options.label_name,
                        options.label_width == 1
                            ? TShape({options.batch_size})
                            : TShape({options.batch_size, options.label_width}),
                        DType::kFloat32}},
        engine_(Engine::Get()),
        reader_(engine_->NewVariable("image records")) {
    StartPass();
    // One for the program, and others ahead.
    slots_.resize(static_cast<size_t>(options.prefetch_buffer) + 1);
    for (Slot& slot : slots_) {
      slot.variable = engine_->NewVariable("batch of images");
      slot.batch.data.emplace_back(data_[0].shape, Device::Cpu(), data_[0].dtype);
      slot.batch.label.emplace_back(label_[0].shape, Device::Cpu(), label_[0].dtype);
      slot.data = slot.batch.data[0].data();
      slot.label = slot.batch.label[0].data();
      slot.batch.index.resize(static_cast<size_t>(options.batch_size));
      slot.examples.resize(static_cast<size_t>(options.batch_size));
    }
  }
  ~Maker() {
    try {
      WaitForAll();
    } catch (...) {
      // Of an engine that a fork has lost: nothing runs there.
    }
    for (const Slot& slot : slots_) engine_->DeleteVariable(slot.variable);
    engine_->DeleteVariable(reader_);
  }

  const ImageRecordIterOptions& options() const { return options_; }
  const std::vector<DataDesc>& data() const { return data_; }
  const std::vector<DataDesc>& label() const { return label_; }
  int64_t num_damaged() const { return num_damaged_; }
  bool has_batch() const { return has_batch_; }
  const DataBatch& batch() const { return slots_[current_].batch; }

  void BeforeFirst() {
    has_batch_ = false;
    const bool is_between_epochs = std::exchange(epoch_ended_, false) && !has_failed_;
    if (is_between_epochs || !has_begun_) return;
    WaitForAll();
    has_begun_ = has_failed_ = false;
    StartPass();
  }

  bool Next() {
    has_batch_ = false;
    if (epoch_ended_) return false;
    if (!has_begun_) {
      has_begun_ = true;
      current_ = slots_.size() - 1;
      for (size_t i = 0; i + 1 < slots_.size(); ++i) Make(&slots_[i]);
    }
    // The batch that the program has used comes last.
    Make(&slots_[current_]);
    current_ = (current_ + 1) % slots_.size();
    Slot& slot = slots_[current_];
    engine_->WaitForVar(slot.variable);
    num_damaged_ += slot.num_damaged;
    if (slot.failure) {
      epoch_ended_ = has_failed_ = true;
      std::rethrow_exception(std::exchange(slot.failure, nullptr));
    }
    epoch_ended_ = slot.ends_epoch;
    has_batch_ = slot.has_examples;
    return has_batch_;
  }

 private:
  /// An image on its way into a batch.
  struct Example {
    RecordFile::Record record;
    uint64_t number = 0;  // drawn numbers depend on it
    bool is_damaged = false;
    std::exception_ptr failure;
    Image image;
  };

  struct Slot {
    Variable* variable = nullptr;
    DataBatch batch;
    TBlob data, label;  // of the batch
    std::vector<Example> examples;
    index_t count = 0;  // examples that were read
    bool has_examples = false;
    bool ends_epoch = false;
    int64_t num_damaged = 0;
    std::exception_ptr failure;
  };

  void WaitForAll() {
    for (const Slot& slot : slots_) engine_->WaitForVar(slot.variable);
  }

  /// Pushes the operations that make the slot's next batch.
  void Make(Slot* slot) {
    Variable* const data = slot->batch.data[0].var();
    Variable* const label = slot->batch.label[0].var();
    engine_->PushSync([this, slot](const RunContext&) { ReadRecords(slot); }, Device::Cpu(), {},
                      {reader_, slot->variable, data, label}, {.name = "read image records"});
    for (index_t i = 0; i < options_.batch_size; ++i) {
      engine_->PushSync([this, slot, i](const RunContext&) { DecodeExample(slot, i); },
                        Device::Cpu(), {slot->variable}, {}, {.name = "decode image"});
    }
    engine_->PushSync([this, slot](const RunContext&) { EndBatch(slot); }, Device::Cpu(), {},
                      {slot->variable, data, label}, {.name = "batch of images"});
  }

  /// Begins a pass over the records. Calls do not overlap.
  void StartPass() {
    if (options_.shuffle) {
      file_.Shuffle(Mix(options_.seed, pass_));
    } else {
      file_.Rewind();
    }
    ++pass_;
    pass_count_ = 0;
  }

  void ReadRecords(Slot* slot) {
    slot->count = 0;
    slot->has_examples = slot->ends_epoch = false;
    slot->num_damaged = 0;
    slot->failure = nullptr;
    slot->batch.pad = 0;
    try {
      const index_t batch = options_.batch_size;
      while (slot->count < batch && ReadExample(slot)) ++slot->count;
      if (slot->count == batch) {
        slot->has_examples = true;
        return;
      }
      slot->ends_epoch = true;
      slot->has_examples = slot->count > 0;
      if (pass_count_ == 0) ThrowNoRecords();
      slot->batch.pad = batch - slot->count;
      StartPass();
      if (!slot->has_examples || !options_.round_batch) return;
      while (slot->count < batch) {
        if (ReadExample(slot)) {
          ++slot->count;
        } else if (pass_count_ > 0) {
          StartPass();  // the batch is larger than the data
        } else {
          ThrowNoRecords();
        }
      }
    } catch (...) {
      slot->count = 0;
      slot->failure = std::current_exception();
    }
  }

  [[noreturn]] void ThrowNoRecords() const {
    throw DataLoss(file_.path(), ": found no records in part ", options_.part_index, " of ",
                   options_.num_parts, ", expected one at least");
  }

  /// Reads the next record that is not left out. Returns false at the end of the pass.
  bool ReadExample(Slot* slot) {
    Example& example = slot->examples[static_cast<size_t>(slot->count)];
    while (true) {
      try {
        if (!file_.Read(&example.record)) return false;
      } catch (const Error&) {
        if (options_.damaged == DamagedImages::kThrow) throw;
        ++slot->num_damaged;
        continue;
      }
      if (!labels_.empty()) {
        // A damaged record is found when it is decoded.
        uint64_t id = 0;
        constexpr size_t kIdOffset = 8;
        if (example.record.bytes.size() >= kIdOffset + sizeof id) {
          std::memcpy(&id, example.record.bytes.data() + kIdOffset, sizeof id);
          if (!labels_.contains(id)) continue;
        }
      }
      example.number = Mix(pass_, pass_count_++);
      return true;
    }
  }

  void DecodeExample(Slot* slot, index_t i) {
    if (i >= slot->count) return;
    Example& example = slot->examples[static_cast<size_t>(i)];
    example.is_damaged = false;
    example.failure = nullptr;
    try {
      Decode(slot, i, &example);
    } catch (const Error& error) {
      example.is_damaged =
          error.code() == Error::kDataLoss || error.code() == Error::kResourceExhausted;
      example.failure = std::current_exception();
    } catch (...) {
      example.failure = std::current_exception();
    }
  }

  void Decode(Slot* slot, index_t i, Example* example) {
    const std::string name =
        file_.path() + ": the record at byte " + std::to_string(example->record.offset);
    const ImageRecord record = ParseImageRecord(example->record.bytes, name);
    const auto found = labels_.find(record.id);
    const std::vector<float>& labels = found == labels_.end() ? record.label : found->second;
    if (static_cast<int64_t>(labels.size()) != options_.label_width) {
      throw InvalidArgument(name, ": found ", labels.size(), " labels, expected label_width ",
                            options_.label_width);
    }
    DecodeImage(record.file, name, {.channels = static_cast<int>(options_.channels)},
                &example->image);
    ImageRandom random(Mix(options_.seed, example->number));
    augmenter_.Augment(&random, &example->image);
    Store(example->image, i, &random, slot->data);
    auto* const to = static_cast<float*>(slot->label.dptr_);
    std::copy(labels.begin(), labels.end(), to + i * options_.label_width);
    slot->batch.index[static_cast<size_t>(i)] = static_cast<index_t>(record.id);
  }

  /// Writes an image as example `i`: mirrored, normalized, and channel by channel.
  void Store(const Image& image, index_t i, ImageRandom* random, const TBlob& out) const {
    const double coin = DrawUnit(random), contrast_draw = DrawUnit(random),
                 illumination_draw = DrawUnit(random);
    const bool is_mirrored = options_.mirror || (options_.rand_mirror && coin < 0.5);
    const auto contrast = static_cast<float>(
        1 + (2 * contrast_draw - 1) * static_cast<double>(options_.max_random_contrast));
    const auto illumination = static_cast<float>(
        (2 * illumination_draw - 1) * static_cast<double>(options_.max_random_illumination));
    const index_t first = i * image.height * image.width * image.channels;
    void* const to = out.dptr_;
    if (options_.dtype == DType::kUint8) {
      StorePlanes(image, is_mirrored, static_cast<uint8_t*>(to) + first,
                  [](uint8_t level, int64_t) { return level; });
    } else if (options_.dtype == DType::kInt8) {
      StorePlanes(image, is_mirrored, static_cast<int8_t*>(to) + first,
                  [this](uint8_t level, int64_t channel) {
                    const float value =
                        static_cast<float>(level) - options_.mean[static_cast<size_t>(channel)];
                    return static_cast<int8_t>(std::clamp(value, -128.0f, 127.0f));
                  });
    } else {
      std::array<float, 4> factor, shift;
      for (size_t c = 0; c < factor.size(); ++c) {
        const float unit = options_.scale / options_.deviation[c];
        factor[c] = contrast * unit;
        shift[c] = (illumination - options_.mean[c] * contrast) * unit;
      }
      StorePlanes(image, is_mirrored, static_cast<float*>(to) + first,
                  [&](uint8_t level, int64_t channel) {
                    const auto c = static_cast<size_t>(channel);
                    return static_cast<float>(level) * factor[c] + shift[c];
                  });
    }
  }

  template <typename T, typename Convert>
  static void StorePlanes(const Image& image, bool is_mirrored, T* to, const Convert& convert) {
    const int64_t channels = image.channels, width = image.width;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t y = 0; y < image.height; ++y, to += width) {
        const uint8_t* const row = image.view().row(y) + c;
        if (is_mirrored) {
          for (int64_t x = 0; x < width; ++x) to[x] = convert(row[(width - 1 - x) * channels], c);
        } else {
          for (int64_t x = 0; x < width; ++x) to[x] = convert(row[x * channels], c);
        }
      }
    }
  }

  /// Leaves out the damaged examples, or keeps the first failure for Next.
  void EndBatch(Slot* slot) {
    if (slot->failure || !slot->has_examples) return;
    const index_t batch = options_.batch_size, given = batch - slot->batch.pad;
    index_t kept = 0, kept_of_given = 0;
    for (index_t i = 0; i < slot->count; ++i) {
      const Example& example = slot->examples[static_cast<size_t>(i)];
      if (example.failure) {
        if (!example.is_damaged || options_.damaged == DamagedImages::kThrow) {
          slot->failure = example.failure;
          return;
        }
        ++slot->num_damaged;
        continue;
      }
      if (kept != i) CopyExample(slot, i, kept);
      ++kept;
      if (i < given) ++kept_of_given;
    }
    slot->batch.pad = batch - kept_of_given;
    for (; kept < batch; ++kept) ClearExample(slot, kept);
  }

  /// Returns the bytes of example `i` in an array of the batch.
  static std::span<std::byte> BytesOf(const TBlob& array, index_t i) {
    const TShape& shape = array.shape_;
    const auto size_bytes =
        static_cast<size_t>(shape.Size() / shape[0] * DTypeSizeBytes(array.type_flag_));
    return {static_cast<std::byte*>(array.dptr_) + static_cast<size_t>(i) * size_bytes, size_bytes};
  }

  static void CopyExample(Slot* slot, index_t from, index_t to) {
    for (const TBlob* const array : {&slot->data, &slot->label}) {
      const std::span<const std::byte> bytes = BytesOf(*array, from);
      std::memcpy(BytesOf(*array, to).data(), bytes.data(), bytes.size());
    }
    slot->batch.index[static_cast<size_t>(to)] = slot->batch.index[static_cast<size_t>(from)];
  }

  static void ClearExample(Slot* slot, index_t i) {
    for (const TBlob* const array : {&slot->data, &slot->label}) {
      std::ranges::fill(BytesOf(*array, i), std::byte{0});
    }
    slot->batch.index[static_cast<size_t>(i)] = 0;
  }

  const ImageRecordIterOptions options_;
  const ImageAugmenter augmenter_;
  const Labels labels_;
  RecordFile file_;
  const std::vector<DataDesc> data_;
  const std::vector<DataDesc> label_;

  Engine* const engine_;
  Variable* const reader_;
  std::vector<Slot> slots_;
  // Of the operations that read records.
  uint64_t pass_ = 0;        // passes that have begun
  uint64_t pass_count_ = 0;  // records that the pass has read

  // Of the program's thread.
  size_t current_ = 0;  // the slot of the last batch
  bool has_begun_ = false;
  bool epoch_ended_ = false;
  bool has_failed_ = false;
  bool has_batch_ = false;
  int64_t num_damaged_ = 0;
};

ImageRecordIter::ImageRecordIter(const ImageRecordIterOptions& options)
    : maker_(std::make_unique<Maker>(options)) {}

ImageRecordIter::~ImageRecordIter() = default;

void ImageRecordIter::BeforeFirst() { maker_->BeforeFirst(); }

bool ImageRecordIter::Next() { return maker_->Next(); }

const DataBatch& ImageRecordIter::GetBatch() const {
  if (!maker_->has_batch()) {
    throw FailedPrecondition(
        "DataIter::GetBatch: there is no batch; expected a call of Next that gave true before it");
  }
  return maker_->batch();
}

const std::vector<DataDesc>& ImageRecordIter::ProvideData() const { return maker_->data(); }
const std::vector<DataDesc>& ImageRecordIter::ProvideLabel() const { return maker_->label(); }
index_t ImageRecordIter::batch_size() const { return maker_->options().batch_size; }
int64_t ImageRecordIter::num_damaged() const { return maker_->num_damaged(); }

}  // namespace tessera
