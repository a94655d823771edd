#include "tessera/train/callback.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/train/module.h"

namespace tessera {

Speedometer::Speedometer(int64_t batch_size, int64_t frequent, bool auto_reset, std::ostream* out)
    : batch_size_(batch_size),
      frequent_(frequent),
      auto_reset_(auto_reset),
      out_(out != nullptr ? out : &std::clog) {
  if (frequent < 1) {
    throw InvalidArgument("Speedometer: frequent ", frequent, ", expected at least 1");
  }
}

void Speedometer::operator()(const BatchEndParam& param) {
  const auto now = std::chrono::steady_clock::now();
  if (param.nbatch <= last_batch_ || last_batch_ == 0) {
    // The first batch of a new epoch starts the clock.
    last_batch_ = param.nbatch;
    start_ = now;
    return;
  }
  if (param.nbatch % frequent_ != 0) return;
  const std::vector<NamedValue> values = param.metric.Get();
  if (auto_reset_) param.metric.Reset();
  const auto end = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(end - start_).count();
  // One string, so that lines of several threads do not mix.
  std::string line =
      absl::StrCat("epoch ", param.epoch, " batch ", param.nbatch, " examples/s ",
                   static_cast<int64_t>(
                       static_cast<double>((param.nbatch - last_batch_) * batch_size_) / seconds));
  for (const NamedValue& value : values) absl::StrAppend(&line, " ", value.name, " ", value.value);
  *out_ << line + "\n" << std::flush;
  last_batch_ = param.nbatch;
  start_ = std::chrono::steady_clock::now();
}

EpochEndCallback DoCheckpoint(std::string prefix, int period) {
  if (period < 1) throw InvalidArgument("DoCheckpoint: period ", period, ", expected at least 1");
  return [prefix = std::move(prefix), period](const EpochEndParam& param) {
    const int done = param.epoch + 1;
    if (done % period == 0) param.module.SaveCheckpoint(prefix, done);
  };
}

BatchEndCallback ValidateEvery(
    int64_t batches, Module* module, DataIter* data, EvalMetric metric,
    std::function<void(const BatchEndParam&, const std::vector<NamedValue>&)> report) {
  if (batches < 1) {
    throw InvalidArgument("ValidateEvery: batches ", batches, ", expected at least 1");
  }
  return [batches, module, data, metric = std::move(metric),
          report = std::move(report)](const BatchEndParam& param) {
    if (param.nbatch % batches == 0) report(param, module->Score(data, metric));
  };
}

}  // namespace tessera
