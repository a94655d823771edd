// PNG files, written by libpng. See internal/png_reader.cc for the steps.
#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/image/encode.h"
#include "tessera/image/internal/c_buffer.h"

namespace tessera {
namespace {

/// The state of an encoding.
struct Session {
  png_structp png;
  png_infop info;
  std::jmp_buf failure;
  char message[200];
  image_internal::CBuffer file;
  const uint8_t* pixels;
  int64_t row_bytes;
  png_uint_32 height, width;
  int color_type;
  int compression;
};

[[noreturn]] void Fail(png_structp png, png_const_charp message) {
  auto* const session = static_cast<Session*>(png_get_error_ptr(png));
  std::snprintf(session->message, sizeof session->message, "%s", message);
  std::longjmp(session->failure, 1);
}

void IgnoreWarning(png_structp, png_const_charp) {}

void WriteBytes(png_structp png, png_bytep from, size_t count) {
  auto* const session = static_cast<Session*>(png_get_io_ptr(png));
  if (!session->file.Append(from, count)) png_error(png, "no memory for the file");
}

void FlushNothing(png_structp) {}

void Write(Session* session) {
  session->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, session, Fail, IgnoreWarning);
  if (session->png == nullptr) return;
  session->info = png_create_info_struct(session->png);
  if (session->info == nullptr) return;
  const png_structp png = session->png;
  const png_infop info = session->info;
  png_set_write_fn(png, session, WriteBytes, FlushNothing);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_compression_level(png, session->compression);
  png_set_IHDR(png, info, session->width, session->height, 8, session->color_type,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (png_uint_32 y = 0; y < session->height; ++y) {
    png_write_row(png, session->pixels + static_cast<int64_t>(y) * session->row_bytes);
  }
  png_write_end(png, info);
}

/// Runs a step. Returns false if it failed, with a message in the session.
bool RunStep(Session* session, void (*step)(Session*)) {
  if (setjmp(session->failure) != 0) return false;
  step(session);
  return true;
}

/// Frees what a session holds.
class SessionOwner {
 public:
  explicit SessionOwner(Session* session) : session_(session) {}
  ~SessionOwner() {
    if (session_->png != nullptr) png_destroy_write_struct(&session_->png, &session_->info);
    session_->file.Free();
  }
  SessionOwner(const SessionOwner&) = delete;
  SessionOwner& operator=(const SessionOwner&) = delete;

 private:
  Session* const session_;
};

}  // namespace

std::vector<uint8_t> EncodePng(ImageView<const uint8_t> image, int compression) {
  constexpr int64_t kMostExtent = int64_t{1} << 28;  // rows of 4 channels fit into the library's
  image_internal::CheckHasPixels("EncodePng", image.height, image.width, image.channels);
  if (image.channels != 1 && image.channels != 3 && image.channels != 4) {
    throw InvalidArgument("EncodePng: the image has ", image.channels,
                          " channels, expected 1, 3 or 4");
  }
  if (image.height > kMostExtent || image.width > kMostExtent) {
    throw InvalidArgument("EncodePng: the image has height ", image.height, " and width ",
                          image.width, ", expected at most ", kMostExtent);
  }
  if (compression < 0 || compression > 9) {
    throw InvalidArgument("EncodePng: compression ", compression, ", expected 0 to 9");
  }
  Session session = {};
  const SessionOwner owner(&session);
  session.height = static_cast<png_uint_32>(image.height);
  session.width = static_cast<png_uint_32>(image.width);
  session.color_type = image.channels == 1   ? PNG_COLOR_TYPE_GRAY
                       : image.channels == 3 ? PNG_COLOR_TYPE_RGB
                                             : PNG_COLOR_TYPE_RGB_ALPHA;
  session.compression = compression;
  session.pixels = image.pixels;
  session.row_bytes = image.row_size();
  const bool was_written = RunStep(&session, Write);
  if (!was_written || session.info == nullptr) {
    // The arguments are checked, so that nothing else is left.
    throw ResourceExhausted("EncodePng: ", was_written ? "no memory" : session.message);
  }
  return std::vector<uint8_t>(session.file.bytes, session.file.bytes + session.file.size);
}

}  // namespace tessera
