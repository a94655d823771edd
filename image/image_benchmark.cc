// Images of 256 x 256 pixels, as data sets for networks have them, beside libjpeg-turbo alone.
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it
#include <memory>
#include <string>
#include <utility>
#include <vector>

// jpeglib.h includes nothing by itself.
#include <jpeglib.h>

#include "tessera/image/decode.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/image/resize.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;

constexpr int64_t kSide = 256;

/// A smooth image with some texture, whose file has about as many bits for a pixel as photographs.
Image Picture() {
  Image image;
  image.Resize(kSide, kSide, 3);
  uint32_t random = 1;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    random = random * 1664525u + 1013904223u;
    const auto x = i / 3 % kSide, y = i / (3 * kSide), c = i % 3;
    image.pixels[i] = static_cast<uint8_t>((x * (c + 1) + y * (3 - c)) / 4 + (random >> 27));
  }
  return image;
}

/// libjpeg-turbo without anything around it.
void DecodeAlone(const std::vector<uint8_t>& file, uint8_t* pixels) {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, file.data(), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + static_cast<size_t>(jpeg.output_scanline) * 3 * kSide;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_destroy_decompress(&jpeg);
}

void AddDecoding() {
  AddCase({.name = "decode/jpeg",
           .bounds = {{.peer = "libjpeg-turbo", .at_least = 0.95}},
           .bytes = 3.0 * kSide * kSide,
           .items = 1,
           .make = [] {
             const Image picture = Picture();
             auto file = std::make_shared<std::vector<uint8_t>>(EncodeJpeg(picture.view(), 90));
             auto ours = std::make_shared<Image>();
             auto theirs = std::make_shared<std::vector<uint8_t>>(picture.pixels.size());
             return Variants{
                 .all = {{"ours", [=] { DecodeImage(*file, "the file", {}, ours.get()); }},
                         {"libjpeg-turbo", [=] { DecodeAlone(*file, theirs->data()); }}},
                 .results_agree = [=] { return ours->pixels == *theirs; }};
           }});
}

void AddResizing() {
  constexpr const char* kNames[] = {"nearest", "bilinear", "cubic", "area", "lanczos"};
  for (int kind = 0; kind < 5; ++kind) {
    // The sizes of a picture that is prepared for a network with images of 224 x 224.
    AddCase({.name = std::string("resize/") + kNames[kind],
             .bytes = 3.0 * (kSide * kSide + 224 * 224),
             .items = 1,
             .make = [kind] {
               auto picture = std::make_shared<const Image>(Picture());
               auto out = std::make_shared<Image>();
               out->Resize(224, 224, 3);
               return Variants{.all = {{"ours", [=] {
                                          ResizeImage(picture->view(), out->view(),
                                                      static_cast<Interpolation>(kind));
                                        }}}};
             }});
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::AddDecoding();
  tessera::AddResizing();
  return tessera::benchmarking::RunAll(argc, argv);
}
