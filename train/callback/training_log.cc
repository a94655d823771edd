#include "tessera/train/training_log.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/train/module.h"

namespace tessera {
namespace {

/// Returns the shortest text that is read back as the number.
std::string NumberText(double value) {
  if (std::isnan(value)) return "nan";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end);
}

/// Returns a name as a field: in quotation marks if it needs them.
std::string FieldText(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// Returns the epoch that a row begins with, or nothing.
std::optional<int> EpochOf(const std::string& row) {
  int epoch = 0;
  const size_t comma = row.find(',');
  if (comma == std::string::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(row.data(), row.data() + comma, epoch);
  if (error != std::errc() || end != row.data() + comma) return std::nullopt;
  return epoch;
}

}  // namespace

void CsvLog::operator()(const EpochEndParam& param) {
  std::string header = "epoch,update,samples,seconds";
  std::string row = std::to_string(param.epoch) + "," +
                    std::to_string(param.module.optimizer()->num_update()) + "," +
                    std::to_string(param.samples) + "," + NumberText(param.seconds);
  for (const auto& [prefix, values] :
       {std::pair("", &param.training), std::pair("validation_", &param.validation)}) {
    for (const NamedValue& value : *values) {
      header += "," + FieldText(prefix + value.name);
      row += "," + NumberText(value.value);
    }
  }
  std::string table = header + "\n";
  if (std::ifstream file(path_); file) {
    std::string line;
    if (std::getline(file, line) && line != header) {
      throw FailedPrecondition("CsvLog: ", path_, " has the columns ", Excerpt(line), ", expected ",
                               header, " or another file");
    }
    while (std::getline(file, line)) {
      const std::optional<int> epoch = EpochOf(line);
      if (epoch && *epoch < param.epoch) table += line + "\n";
    }
  }
  table += row + "\n";
  AtomicFile file(path_, "CsvLog");
  file.Write(table.data(), static_cast<int64_t>(table.size()));
  file.Commit();
}

TensorBoardLog::TensorBoardLog(const std::string& folder, int64_t frequent) : frequent_(frequent) {
  if (frequent < 1) {
    throw InvalidArgument("TensorBoardLog: frequent ", frequent, ", expected at least 1");
  }
  file_ = std::make_shared<EventFile>(folder);
}

void TensorBoardLog::operator()(const EpochEndParam& param) {
  const Optimizer& optimizer = *param.module.optimizer();
  const int64_t step = optimizer.num_update();
  for (const auto& [prefix, values] :
       {std::pair("training/", &param.training), std::pair("validation/", &param.validation)}) {
    for (const NamedValue& value : *values) {
      file_->AddScalar(prefix + value.name, value.value, step);
    }
  }
  file_->AddScalar("training/examples_per_second",
                   static_cast<double>(param.samples) / param.seconds, step);
  file_->AddScalar("training/learning_rate", optimizer.learning_rate(), step);
}

void TensorBoardLog::operator()(const BatchEndParam& param) {
  if (param.nbatch % frequent_ != 0) return;
  for (const NamedValue& value : param.metric.Get()) {
    file_->AddScalar("batch/" + value.name, value.value, param.num_update);
  }
}

}  // namespace tessera
