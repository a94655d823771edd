#include "tessera/tools/im2rec/records.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/image/decode.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/image/resize.h"
#include "tessera/io/image_record.h"
#include "tessera/io/record_writer.h"

namespace tessera::im2rec {
namespace {

std::vector<uint8_t> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file.is_open()) throw NotFound(path, ": the image cannot be opened");
  const auto size = static_cast<std::streamoff>(file.tellg());
  // A folder can be opened, and claims more bytes than there is memory.
  constexpr std::streamoff kMostBytes = std::streamoff{1} << 32;
  if (size < 0 || size > kMostBytes) throw FailedPrecondition(path, ": is no file of an image");
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), size);
  if (file.gcount() != size) throw FailedPrecondition(path, ": the file cannot be read");
  return bytes;
}

/// Keeps the middle square.
void CropToSquare(Image* image) {
  const int64_t side = std::min(image->height, image->width);
  const int64_t top = (image->height - side) / 2, left = (image->width - side) / 2;
  Image square;
  square.Resize(side, side, image->channels);
  for (int64_t y = 0; y < side; ++y) {
    const uint8_t* const from = image->view().row(top + y) + left * image->channels;
    std::copy_n(from, side * image->channels, square.view().row(y));
  }
  *image = std::move(square);
}

void ResizeShorterSide(int64_t length, Image* image) {
  const int64_t shorter = std::min(image->height, image->width);
  if (shorter == length) return;
  const int64_t height = length * image->height / shorter, width = length * image->width / shorter;
  constexpr int64_t kMostPixels = int64_t{1} << 28;
  if (height > kMostPixels / width) {
    throw InvalidArgument("an image of height ", image->height, " and width ", image->width,
                          " would get height ", height, " and width ", width, ", expected at most ",
                          kMostPixels, " pixels");
  }
  Image resized;
  resized.Resize(height, width, image->channels);
  ResizeImage(std::as_const(*image).view(), resized.view(), Interpolation::kBilinear);
  *image = std::move(resized);
}

/// An image on its way into the file.
struct Slot {
  Variable* variable = nullptr;
  const ListedImage* image = nullptr;
  std::string record;
  std::exception_ptr failure;
};

/// Makes records by operations of an engine, and writes them in their order.
class Writer {
 public:
  Writer(const Options& options, const std::string& name)
      : options_(options),
        engine_(Engine::Create({.kind = EngineKind::kThreaded, .workers = options.num_thread})),
        writer_(name + ".rec"),
        index_(name + ".idx", "im2rec"),
        // Twice as many as run, so that one slow image does not stop the others.
        slots_(2 * static_cast<size_t>(engine_->num_workers())) {
    for (Slot& slot : slots_) slot.variable = engine_->NewVariable("image");
  }
  ~Writer() {
    for (const Slot& slot : slots_) engine_->DeleteVariable(slot.variable);
    // Operations use the slots until the engine has ended.
    engine_->Shutdown();
  }

  void Add(const ListedImage& image) {
    Slot& slot = slots_[next_++ % slots_.size()];
    Write(&slot);
    slot.image = &image;
    engine_->PushSync(
        [this, &slot](const RunContext&) {
          try {
            slot.record = MakeRecord(options_, *slot.image);
          } catch (...) {
            slot.failure = std::current_exception();
          }
        },
        Device::Cpu(), {}, {slot.variable}, {.name = "image"});
  }

  RecordCount Finish() {
    for (size_t i = 0; i < slots_.size(); ++i) Write(&slots_[next_++ % slots_.size()]);
    writer_.Close();
    index_.Commit();
    return count_;
  }

 private:
  /// Waits for the record of a slot, if there is one, and writes it.
  void Write(Slot* slot) {
    if (slot->image == nullptr) return;
    engine_->WaitForVar(slot->variable);
    const ListedImage& image = *std::exchange(slot->image, nullptr);
    if (slot->failure) {
      try {
        std::rethrow_exception(std::exchange(slot->failure, nullptr));
      } catch (const Error& error) {
        if (!options_.skip_damaged) throw;
        std::cerr << "im2rec: skipped: " << error.what() << "\n";
        ++count_.damaged;
        return;
      }
    }
    const std::string line =
        std::to_string(image.id) + "\t" + std::to_string(writer_.Tell()) + "\n";
    writer_.WriteRecord(slot->record);
    index_.Write(line.data(), static_cast<int64_t>(line.size()));
    ++count_.written;
  }

  const Options& options_;
  const std::unique_ptr<Engine> engine_;
  RecordWriter writer_;
  AtomicFile index_;
  std::vector<Slot> slots_;
  size_t next_ = 0;
  RecordCount count_;
};

}  // namespace

std::string MakeRecord(const Options& options, const ListedImage& image) {
  ImageRecord record = {.label = image.label, .id = image.id};
  if (!options.pack_label) record.label.resize(1);
  const std::string path = (std::filesystem::path(options.root) / image.path).string();
  std::vector<uint8_t> file = ReadFile(path);
  if (!options.pass_through) {
    Image pixels;
    DecodeImage(file, path, {.channels = options.color == 1 ? 3 : 1}, &pixels);
    if (options.center_crop) CropToSquare(&pixels);
    if (options.resize > 0) ResizeShorterSide(options.resize, &pixels);
    const ImageView<const uint8_t> view = std::as_const(pixels).view();
    file = options.encoding == ".png" ? EncodePng(view, options.quality)
                                      : EncodeJpeg(view, options.quality);
  }
  record.file = file;
  return PackImageRecord(record);
}

RecordCount WriteRecords(const Options& options, const std::string& list) {
  const std::vector<ListedImage> images = ReadImageList(list);
  Writer writer(options, std::filesystem::path(list).replace_extension().string());
  for (const ListedImage& image : images) writer.Add(image);
  return writer.Finish();
}

}  // namespace tessera::im2rec
