#include "tessera/train/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr int64_t kBarWidth = 24;
constexpr double kSecondsBetweenLines = 0.1;

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string ValuesText(const std::string& prefix, std::span<const NamedValue> values) {
  std::string text;
  for (const NamedValue& value : values) {
    absl::StrAppend(&text, "  ", prefix, value.name, " ", value.value);
  }
  return text;
}

std::string RateText(double examples, double seconds) {
  const double rate = seconds > 0 ? examples / seconds : 0;
  return absl::StrCat("  ", static_cast<int64_t>(rate), " examples/s");
}

}  // namespace

std::string train_internal::DurationText(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 1e15)));
  const auto two = [](int64_t number) { return absl::StrCat(number < 10 ? "0" : "", number); };
  const int64_t minutes = total / 60;
  if (minutes < 60) return absl::StrCat(minutes, ":", two(total % 60));
  return absl::StrCat(minutes / 60, ":", two(minutes % 60), ":", two(total % 60));
}

ProgressBar::ProgressBar(const ProgressBarOptions& options) : options_(options) {
  if (options.num_epoch < 1 || options.batch_size < 1 || options.num_batches < 0) {
    throw InvalidArgument("ProgressBar: num_epoch ", options.num_epoch, ", batch_size ",
                          options.batch_size, ", num_batches ", options.num_batches,
                          ", expected at least 1, 1 and 0");
  }
  is_terminal_ = options.is_terminal.value_or(options.out == nullptr && isatty(STDERR_FILENO) != 0);
  if (options_.out == nullptr) options_.out = &std::cerr;
}

/// Writes a line over that on the terminal. One string, so that lines of several threads do not
/// mix.
void ProgressBar::Write(const std::string& line, bool stays) {
  std::string text = is_terminal_ ? "\r" + line : line;
  if (line.size() < width_) text.append(width_ - line.size(), ' ');
  width_ = stays ? 0 : line.size();
  if (stays) text += "\n";
  *options_.out << text << std::flush;
}

void ProgressBar::operator()(const BatchEndParam& param) {
  const Clock::time_point now = Clock::now();
  if (!start_) {
    // The first batch starts the clock: it includes what happens only once.
    start_ = shown_ = now;
    return;
  }
  ++batches_;
  if (!is_terminal_ || Seconds(now - shown_) < kSecondsBetweenLines) return;
  const std::vector<NamedValue> values = param.metric.Get();
  shown_ = Clock::now();
  const double seconds = Seconds(shown_ - *start_);
  std::string line = absl::StrCat("epoch ", param.epoch + 1, "/", options_.num_epoch, " ");
  if (options_.num_batches > 0) {
    const int64_t done = std::min(param.nbatch, options_.num_batches);
    const auto filled = static_cast<size_t>(done * kBarWidth / options_.num_batches);
    absl::StrAppend(&line, "[", std::string(filled, '='),
                    std::string(static_cast<size_t>(kBarWidth) - filled, ' '), "] ");
  }
  absl::StrAppend(&line, param.nbatch);
  if (options_.num_batches > 0) absl::StrAppend(&line, "/", options_.num_batches);
  absl::StrAppend(&line, RateText(static_cast<double>(batches_ * options_.batch_size), seconds));
  if (options_.num_batches > 0) {
    const int64_t left = (options_.num_epoch - param.epoch) * options_.num_batches - param.nbatch;
    const double each = seconds / static_cast<double>(batches_);
    absl::StrAppend(&line, "  ", train_internal::DurationText(static_cast<double>(left) * each),
                    " left");
  }
  Write(line + ValuesText("", values), /*stays=*/false);
}

void ProgressBar::operator()(const EpochEndParam& param) {
  const int left = options_.num_epoch - param.epoch - 1;
  Write(absl::StrCat("epoch ", param.epoch + 1, "/", options_.num_epoch,
                     ValuesText("", param.training), ValuesText("validation ", param.validation),
                     RateText(static_cast<double>(param.samples), param.seconds), "  ",
                     train_internal::DurationText(param.seconds * left), " left"),
        /*stays=*/true);
}

}  // namespace tessera
