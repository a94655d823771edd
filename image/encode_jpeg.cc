// JPEG files, written by libjpeg-turbo. See internal/jpeg_reader.cc for the steps.
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it

// jpeglib.h includes nothing by itself.
#include <jerror.h>
#include <jpeglib.h>

#include "tessera/base/error.h"
#include "tessera/image/encode.h"
#include "tessera/image/internal/c_buffer.h"

namespace tessera {
namespace {

/// The state of an encoding.
struct Session {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg_destination_mgr destination;
  std::jmp_buf failure;
  char message[JMSG_LENGTH_MAX];
  JOCTET block[4096];
  image_internal::CBuffer file;
  const uint8_t* pixels;
  int64_t row_bytes;
  int quality;
};

[[noreturn]] void Fail(j_common_ptr jpeg) {
  auto* const session = static_cast<Session*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, session->message);
  std::longjmp(session->failure, 1);
}

void IgnoreMessage(j_common_ptr, int) {}

void StartBlock(j_compress_ptr jpeg) {
  auto* const session = static_cast<Session*>(jpeg->client_data);
  jpeg->dest->next_output_byte = session->block;
  jpeg->dest->free_in_buffer = sizeof session->block;
}

void Append(j_compress_ptr jpeg, size_t count) {
  auto* const session = static_cast<Session*>(jpeg->client_data);
  if (!session->file.Append(session->block, count)) ERREXIT1(jpeg, JERR_OUT_OF_MEMORY, 0);
}

/// The block is full, whatever the library says of the room left.
boolean FlushBlock(j_compress_ptr jpeg) {
  Append(jpeg, sizeof static_cast<Session*>(jpeg->client_data)->block);
  StartBlock(jpeg);
  return TRUE;
}

void EndBlocks(j_compress_ptr jpeg) {
  Append(jpeg, sizeof static_cast<Session*>(jpeg->client_data)->block - jpeg->dest->free_in_buffer);
}

void Write(Session* session) {
  jpeg_compress_struct* const jpeg = &session->jpeg;
  const int channels = jpeg->input_components;
  const JDIMENSION height = jpeg->image_height, width = jpeg->image_width;
  jpeg_create_compress(jpeg);
  jpeg->dest = &session->destination;
  jpeg->image_height = height;
  jpeg->image_width = width;
  jpeg->input_components = channels;
  jpeg->in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(jpeg);
  jpeg_set_quality(jpeg, session->quality, TRUE);
  jpeg_start_compress(jpeg, TRUE);
  while (jpeg->next_scanline < jpeg->image_height) {
    // The library only reads the row.
    JSAMPROW row = const_cast<JSAMPROW>(session->pixels + jpeg->next_scanline * session->row_bytes);
    jpeg_write_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_compress(jpeg);
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
    jpeg_destroy_compress(&session_->jpeg);
    session_->file.Free();
  }
  SessionOwner(const SessionOwner&) = delete;
  SessionOwner& operator=(const SessionOwner&) = delete;

 private:
  Session* const session_;
};

}  // namespace

std::vector<uint8_t> EncodeJpeg(ImageView<const uint8_t> image, int quality) {
  image_internal::CheckHasPixels("EncodeJpeg", image.height, image.width, image.channels);
  if (image.channels != 1 && image.channels != 3) {
    throw InvalidArgument("EncodeJpeg: the image has ", image.channels,
                          " channels, expected 1 or 3");
  }
  if (image.height > JPEG_MAX_DIMENSION || image.width > JPEG_MAX_DIMENSION) {
    throw InvalidArgument("EncodeJpeg: the image has height ", image.height, " and width ",
                          image.width, ", expected at most ", int64_t{JPEG_MAX_DIMENSION});
  }
  if (quality < 1 || quality > 100) {
    throw InvalidArgument("EncodeJpeg: quality ", quality, ", expected 1 to 100");
  }
  Session session = {};
  const SessionOwner owner(&session);
  session.jpeg.err = jpeg_std_error(&session.errors);
  session.jpeg.client_data = &session;
  session.jpeg.image_height = static_cast<JDIMENSION>(image.height);
  session.jpeg.image_width = static_cast<JDIMENSION>(image.width);
  session.jpeg.input_components = static_cast<int>(image.channels);
  session.errors.error_exit = Fail;
  session.errors.emit_message = IgnoreMessage;
  session.destination.init_destination = StartBlock;
  session.destination.empty_output_buffer = FlushBlock;
  session.destination.term_destination = EndBlocks;
  session.pixels = image.pixels;
  session.row_bytes = image.row_size();
  session.quality = quality;
  if (!RunStep(&session, Write)) {
    // The arguments are checked, so that nothing else is left.
    throw ResourceExhausted("EncodeJpeg: ", session.message);
  }
  return std::vector<uint8_t>(session.file.bytes, session.file.bytes + session.file.size);
}

}  // namespace tessera
