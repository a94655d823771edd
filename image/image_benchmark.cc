// Images of 256 x 256 pixels, as data sets for networks have them, beside libjpeg-turbo alone.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/image/decode.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/image/resize.h"
#include "tessera/image/testing/jpeg_peer.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;
using image_testing::DecodeJpegAlone;
using image_testing::kPictureSide;
using image_testing::Picture;

void AddDecoding() {
  AddCase({.name = "decode/jpeg",
           .bounds = {{.peer = "libjpeg-turbo", .at_least = 0.9}},
           .bytes = 3.0 * kPictureSide * kPictureSide,
           .items = 1,
           .make = [] {
             const Image picture = Picture();
             auto file = std::make_shared<std::vector<uint8_t>>(EncodeJpeg(picture.view(), 90));
             auto ours = std::make_shared<Image>();
             auto theirs = std::make_shared<std::vector<uint8_t>>(picture.pixels.size());
             return Variants{
                 .all = {{"ours", [=] { DecodeImage(*file, "the file", {}, ours.get()); }},
                         {"libjpeg-turbo", [=] { DecodeJpegAlone(*file, theirs->data()); }}},
                 .results_agree = [=] { return ours->pixels == *theirs; }};
           }});
}

void AddResizing() {
  constexpr const char* kNames[] = {"nearest", "bilinear", "cubic", "area", "lanczos"};
  for (int kind = 0; kind < 5; ++kind) {
    // The sizes of a picture that is prepared for a network with images of 224 x 224.
    AddCase({.name = std::string("resize/") + kNames[kind],
             .bytes = 3.0 * (kPictureSide * kPictureSide + 224 * 224),
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
