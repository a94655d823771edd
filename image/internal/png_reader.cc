// PNG files, read by libpng.
//
// The library reports an error by a function that must not return, and from which longjmp leaves.
// All calls that can fail are therefore in steps, which RunStep calls and which have no objects
// with destructors; what they share is in a struct of the C kind, which its owner frees.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/image/image.h"
#include "tessera/image/internal/file_reader.h"

namespace tessera::image_internal {
namespace {

/// The most memory for a chunk beside the pixels, such as a color profile.
constexpr png_alloc_size_t kMostChunkBytes = png_alloc_size_t{1} << 23;
/// The library's word for skipping all texts, which may be many and long.
constexpr png_uint_32 kNoCachedChunks = 1;

/// The state of a decoding.
struct Session {
  png_structp png;
  png_infop info;
  std::jmp_buf failure;
  char message[200];
  const uint8_t* file;
  size_t file_bytes;
  size_t position;
  bool has_ended;  // the library has asked for bytes behind the file's last one
  // Of ReadPixels.
  uint8_t* pixels;
  int64_t row_bytes;
  int channels;
  bool is_bgr;
};

[[noreturn]] void Fail(png_structp png, png_const_charp message) {
  auto* const session = static_cast<Session*>(png_get_error_ptr(png));
  std::snprintf(session->message, sizeof session->message, "%s", message);
  std::longjmp(session->failure, 1);
}

void IgnoreWarning(png_structp, png_const_charp) {}

void ReadBytes(png_structp png, png_bytep to, size_t count) {
  auto* const session = static_cast<Session*>(png_get_io_ptr(png));
  if (count > session->file_bytes - session->position) {
    session->has_ended = true;
    png_error(png, "expected more bytes");
  }
  std::memcpy(to, session->file + session->position, count);
  session->position += count;
}

/// Runs a step. Returns false if it failed, with a message in the session.
bool RunStep(Session* session, void (*step)(Session*)) {
  if (setjmp(session->failure) != 0) return false;
  step(session);
  return true;
}

void ReadHeader(Session* session) {
  session->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, session, Fail, IgnoreWarning);
  if (session->png == nullptr) return;
  session->info = png_create_info_struct(session->png);
  if (session->info == nullptr) return;
  png_set_read_fn(session->png, session, ReadBytes);
  png_set_user_limits(session->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(session->png, kMostChunkBytes);
  png_set_chunk_cache_max(session->png, kNoCachedChunks);
  png_read_info(session->png, session->info);
}

/// Lets the library convert pixels of any type to those of the image.
void StartPixels(Session* session) {
  const png_structp png = session->png;
  const png_infop info = session->info;
  const bool is_gray = session->channels == 1;
  const int type = png_get_color_type(png, info);
  const bool has_transparency = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  if (png_get_bit_depth(png, info) == 16) png_set_strip_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  if (session->channels == 4) {
    if (has_transparency) png_set_tRNS_to_alpha(png);
    if (!has_transparency && (type & PNG_COLOR_MASK_ALPHA) == 0) {
      png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    }
  } else {
    // Of a palette with transparency, the library makes colors with alpha.
    png_set_strip_alpha(png);
  }
  const bool has_color = (type & PNG_COLOR_MASK_COLOR) != 0;
  if (has_color && is_gray) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  if (!has_color && !is_gray) png_set_gray_to_rgb(png);
  if (session->is_bgr && !is_gray) png_set_bgr(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != static_cast<size_t>(session->row_bytes)) {
    png_error(png, "the rows have another length than the header says");
  }
  const auto height = static_cast<int64_t>(png_get_image_height(png, info));
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < height; ++y) {
      png_read_row(png, session->pixels + y * session->row_bytes, nullptr);
    }
  }
  // Compares the checksum of the pixels.
  png_read_end(png, nullptr);
}

class PngReader final : public FileReader {
 public:
  PngReader(std::span<const uint8_t> file, std::string_view name) : name_(name) {
    session_.file = file.data();
    session_.file_bytes = file.size();
    const bool was_read = RunStep(&session_, ReadHeader);
    if (was_read && session_.info != nullptr) return;
    // A constructor that throws runs no destructor of its own.
    Destroy();
    if (was_read) throw ResourceExhausted(name_, ": no memory to decode the PNG file");
    ThrowFailure();
  }
  ~PngReader() override { Destroy(); }

  ImageSize size() const override {
    return {png_get_image_height(session_.png, session_.info),
            png_get_image_width(session_.png, session_.info)};
  }

  void ReadPixels(ColorOrder order, ImageView<uint8_t> image) override {
    session_.pixels = image.pixels;
    session_.row_bytes = image.row_size();
    session_.channels = static_cast<int>(image.channels);
    session_.is_bgr = order == ColorOrder::kBgr;
    if (!RunStep(&session_, StartPixels)) ThrowFailure();
  }

 private:
  void Destroy() {
    if (session_.png != nullptr) png_destroy_read_struct(&session_.png, &session_.info, nullptr);
  }

  [[noreturn]] void ThrowFailure() const {
    throw DataLoss(name_, ": the PNG file is ", session_.has_ended ? "truncated" : "damaged",
                   " at byte ", session_.position, ": ", session_.message);
  }

  const std::string_view name_;
  Session session_ = {};
};

}  // namespace

bool IsPng(std::span<const uint8_t> file) {
  constexpr uint8_t kSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return file.size() >= sizeof kSignature &&
         std::equal(std::begin(kSignature), std::end(kSignature), file.begin());
}

std::unique_ptr<FileReader> OpenPng(std::span<const uint8_t> file, std::string_view name) {
  return std::make_unique<PngReader>(file, name);
}

}  // namespace tessera::image_internal
