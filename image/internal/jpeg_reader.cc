// JPEG files, read by libjpeg-turbo.
//
// The library reports an error by longjmp, which must not leave a C++ function whose local objects
// have destructors. All calls that can fail are therefore in steps, which RunStep calls and which
// have no such objects; what they share is in a struct of the C kind, which its owner frees.
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it

// jpeglib.h includes nothing by itself.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/image.h"
#include "tessera/image/internal/file_reader.h"

#ifndef JCS_EXTENSIONS
#error "Tessera needs libjpeg-turbo; this jpeglib.h is of another library"
#endif

namespace tessera::image_internal {
namespace {

/// A file in more parts than any encoder makes, each of which is decoded over the whole image,
/// would take hours.
constexpr int kMostScans = 500;

constexpr JOCTET kEndOfImage[] = {0xff, JPEG_EOI};

/// The state of a decoding.
struct Session {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf failure;
  char message[JMSG_LENGTH_MAX];
  bool is_out_of_memory;
  bool has_ended;   // the library has asked for bytes behind the file's last one
  bool lacks_data;  // pixels were invented, because the data had ended before them
  // Of ReadPixels.
  uint8_t* pixels;
  size_t row_bytes;
  uint8_t* cmyk;  // a row with four channels, or null
};

Session* SessionOf(j_common_ptr jpeg) { return static_cast<Session*>(jpeg->client_data); }

[[noreturn]] void Fail(j_common_ptr jpeg) {
  Session* const session = SessionOf(jpeg);
  session->is_out_of_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
  jpeg->err->format_message(jpeg, session->message);
  std::longjmp(session->failure, 1);
}

/// Notes the one warning that matters: the others are about pixels that the library conceals.
void NoteMessage(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code == JWRN_HIT_MARKER) SessionOf(jpeg)->lacks_data = true;
}

void PrintNothing(j_common_ptr) {}

void LimitScans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
  Session* const session = SessionOf(jpeg);
  std::snprintf(session->message, sizeof session->message, "more than %d scans", kMostScans);
  std::longjmp(session->failure, 1);
}

void StartSource(j_decompress_ptr) {}

/// Called at the file's end: an end-of-image marker lets the library finish.
boolean EndSource(j_decompress_ptr jpeg) {
  SessionOf(reinterpret_cast<j_common_ptr>(jpeg))->has_ended = true;
  jpeg->src->next_input_byte = kEndOfImage;
  jpeg->src->bytes_in_buffer = sizeof kEndOfImage;
  return TRUE;
}

void SkipSource(j_decompress_ptr jpeg, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > jpeg->src->bytes_in_buffer) {
    EndSource(jpeg);
    return;
  }
  jpeg->src->next_input_byte += count;
  jpeg->src->bytes_in_buffer -= static_cast<size_t>(count);
}

/// Runs a step. Returns false if it failed, with a message in the session.
bool RunStep(Session* session, void (*step)(Session*)) {
  if (setjmp(session->failure) != 0) return false;
  step(session);
  return true;
}

void ReadHeader(Session* session) {
  jpeg_create_decompress(&session->jpeg);
  session->jpeg.src = &session->source;
  session->jpeg.progress = &session->progress;
  jpeg_read_header(&session->jpeg, TRUE);
}

void StartPixels(Session* session) { jpeg_start_decompress(&session->jpeg); }

void ReadRows(Session* session) {
  while (session->jpeg.output_scanline < session->jpeg.output_height) {
    JSAMPROW row = session->pixels + session->jpeg.output_scanline * session->row_bytes;
    jpeg_read_scanlines(&session->jpeg, &row, 1);
  }
}

void ReadCmykRow(Session* session) {
  JSAMPROW row = session->cmyk;
  jpeg_read_scanlines(&session->jpeg, &row, 1);
}

/// Converts a row of inverted cyan, magenta, yellow and black, as Adobe's programs write them, by
/// OpenCV's rounding.
void ConvertCmyk(const uint8_t* cmyk, ColorOrder order, int64_t width, int64_t channels,
                 uint8_t* row) {
  for (int64_t x = 0; x < width; ++x, cmyk += 4, row += channels) {
    const int black = cmyk[3];
    int color[3];
    for (int c = 0; c < 3; ++c) color[c] = black - (((255 - cmyk[c]) * black) >> 8);
    if (channels == 1) {
      row[0] = static_cast<uint8_t>(
          (color[0] * 4899 + color[1] * 9617 + color[2] * 1868 + (1 << 13)) >> 14);
      continue;
    }
    if (order == ColorOrder::kBgr) std::swap(color[0], color[2]);
    for (int c = 0; c < 3; ++c) row[c] = static_cast<uint8_t>(color[c]);
    if (channels == 4) row[3] = 255;
  }
}

class JpegReader final : public FileReader {
 public:
  JpegReader(std::span<const uint8_t> file, std::string_view name) : file_(file), name_(name) {
    Session& session = session_;
    session.jpeg.err = jpeg_std_error(&session.errors);
    session.jpeg.client_data = &session;
    session.errors.error_exit = Fail;
    session.errors.emit_message = NoteMessage;
    session.errors.output_message = PrintNothing;
    session.source.init_source = StartSource;
    session.source.fill_input_buffer = EndSource;
    session.source.skip_input_data = SkipSource;
    session.source.resync_to_restart = jpeg_resync_to_restart;
    session.source.term_source = StartSource;
    session.source.next_input_byte = file.data();
    session.source.bytes_in_buffer = file.size();
    session.progress.progress_monitor = LimitScans;
    // A constructor that throws runs no destructor of its own.
    if (RunStep(&session, ReadHeader)) return;
    jpeg_destroy_decompress(&session.jpeg);
    ThrowFailure();
  }
  ~JpegReader() override { jpeg_destroy_decompress(&session_.jpeg); }

  ImageSize size() const override {
    return {session_.jpeg.image_height, session_.jpeg.image_width};
  }

  void ReadPixels(ColorOrder order, ImageView<uint8_t> image) override {
    jpeg_decompress_struct& jpeg = session_.jpeg;
    const bool is_cmyk = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    jpeg.out_color_space = is_cmyk ? JCS_CMYK : ColorSpace(order, image.channels);
    Run(StartPixels);
    const bool has_several_scans = jpeg_has_multiple_scans(&jpeg) != 0;
    if (has_several_scans && session_.has_ended) ThrowTruncated();
    if (is_cmyk) {
      std::vector<uint8_t> row(static_cast<size_t>(image.width) * 4);
      session_.cmyk = row.data();
      for (int64_t y = 0; y < image.height; ++y) {
        Run(ReadCmykRow);
        ConvertCmyk(row.data(), order, image.width, image.channels, image.row(y));
      }
      session_.cmyk = nullptr;
    } else {
      session_.pixels = image.pixels;
      session_.row_bytes = static_cast<size_t>(image.row_size());
      Run(ReadRows);
    }
    if (session_.has_ended && session_.lacks_data) ThrowTruncated();
  }

 private:
  static J_COLOR_SPACE ColorSpace(ColorOrder order, int64_t channels) {
    const bool is_rgb = order == ColorOrder::kRgb;
    if (channels == 1) return JCS_GRAYSCALE;
    if (channels == 3) return is_rgb ? JCS_EXT_RGB : JCS_EXT_BGR;
    return is_rgb ? JCS_EXT_RGBA : JCS_EXT_BGRA;
  }

  void Run(void (*step)(Session*)) {
    if (!RunStep(&session_, step)) ThrowFailure();
  }

  [[noreturn]] void ThrowFailure() const {
    if (session_.is_out_of_memory) {
      throw ResourceExhausted(name_, ": no memory to decode the JPEG file");
    }
    const size_t left = session_.has_ended ? 0 : session_.source.bytes_in_buffer;
    throw DataLoss(name_, ": the JPEG file is damaged at byte ",
                   file_.size() - std::min(left, file_.size()), ": ", session_.message);
  }

  [[noreturn]] void ThrowTruncated() const {
    throw DataLoss(name_, ": the JPEG file is truncated at byte ", file_.size(),
                   ", before its last pixels");
  }

  const std::span<const uint8_t> file_;
  const std::string_view name_;
  Session session_ = {};
};

}  // namespace

bool IsJpeg(std::span<const uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

std::unique_ptr<FileReader> OpenJpeg(std::span<const uint8_t> file, std::string_view name) {
  return std::make_unique<JpegReader>(file, name);
}

}  // namespace tessera::image_internal
