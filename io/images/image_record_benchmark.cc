// The work of ImageRecordIter for an image on one core, beside libjpeg-turbo's decoding alone, and
// reading records, beside read() of the same file in blocks of 1 MiB.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/image/decode.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/image/planes.h"
#include "tessera/image/testing/jpeg_peer.h"
#include "tessera/io/image_augmenter.h"
#include "tessera/io/image_random.h"
#include "tessera/io/record_reader.h"
#include "tessera/io/record_writer.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;
using image_testing::DecodeJpegAlone;
using image_testing::kPictureSide;
using image_testing::Picture;

constexpr int64_t kCrop = 224;

/// Decodes, cuts out 224 x 224 pixels at a random place, mirrors and normalizes to float.
void AddExample(const char* name, Mirroring mirroring) {
  AddCase({.name = name,
           .bounds = {{.peer = "libjpeg-turbo", .at_least = 0.9}},
           .bytes = 3.0 * kPictureSide * kPictureSide + 3.0 * kCrop * kCrop * sizeof(float),
           .items = 1,
           .make = [mirroring] {
             const Image picture = Picture();
             auto file = std::make_shared<std::vector<uint8_t>>(EncodeJpeg(picture.view(), 90));
             auto image = std::make_shared<Image>();
             auto planes = std::make_shared<std::vector<float>>(3 * kCrop * kCrop);
             auto augmenter = std::make_shared<ImageAugmenter>(
                 ImageAugmenterOptions{.size = {kCrop, kCrop}, .rand_crop = true});
             auto random = std::make_shared<ImageRandom>(1);
             const LevelScale scale = {.factor = {0.0171f, 0.0175f, 0.0174f, 1},
                                       .shift = {-2.118f, -2.036f, -1.804f, 0}};
             auto theirs = std::make_shared<std::vector<uint8_t>>(picture.pixels.size());
             return Variants{
                 .all = {{"ours",
                          [=] {
                            DecodeImage(*file, "the file", {}, image.get());
                            augmenter->Augment(random.get(), image.get());
                            WritePlanes(std::as_const(*image).view(), mirroring, scale,
                                        {kCrop, kCrop}, planes->data());
                          }},
                         {"libjpeg-turbo", [=] { DecodeJpegAlone(*file, theirs->data()); }}}};
           }});
}

/// 64 MiB of records as long as the files of images: in the system's cache, so that the disk does
/// not count.
void AddReading() {
  constexpr size_t kRecordBytes = size_t{48} << 10, kRecords = 1365;
  AddCase({.name = "records/48K",
           .bounds = {{.peer = "read", .at_least = 0.8}},
           .bytes = static_cast<double>(kRecordBytes * kRecords),
           .items = kRecords,
           .make = [] {
             const std::string path = (std::filesystem::temp_directory_path() /
                                       ("tessera_records_" + std::to_string(getpid()) + ".rec"))
                                          .string();
             // Removes the file with the last of the variants.
             const std::shared_ptr<const std::string> file(new std::string(path),
                                                           [](const std::string* name) {
                                                             std::filesystem::remove(*name);
                                                             delete name;
                                                           });
             RecordWriter writer(path);
             for (size_t i = 0; i < kRecords; ++i) {
               writer.WriteRecord(std::string(kRecordBytes, static_cast<char>(i)));
             }
             writer.Close();
             auto bytes = std::make_shared<size_t>(0);
             auto block = std::make_shared<std::vector<char>>(size_t{1} << 20);
             return Variants{.all = {{"ours",
                                      [=] {
                                        *bytes = 0;
                                        RecordReader reader(*file);
                                        while (const auto record = reader.ReadRecord()) {
                                          *bytes += record->size();
                                        }
                                      }},
                                     {"read",
                                      [=] {
                                        const int descriptor = open(file->c_str(), O_RDONLY);
                                        while (read(descriptor, block->data(), block->size()) > 0) {
                                        }
                                        close(descriptor);
                                      }}},
                             .results_agree = [=] { return *bytes == kRecordBytes * kRecords; }};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::AddExample("example/crop", tessera::Mirroring::kNone);
  tessera::AddExample("example/crop_mirror", tessera::Mirroring::kLeftRight);
  tessera::AddReading();
  return tessera::benchmarking::RunAll(argc, argv);
}
