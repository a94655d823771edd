#include "tessera/compat/mxnet/profiling/statistics.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "tessera/graph/json/json_value.h"

namespace tessera::mxnet {
namespace {

constexpr size_t kNameWidth = 25;
constexpr size_t kCountWidth = 16;
constexpr size_t kNumberWidth = 17;

/// Appends a text at the right of a column, which a longer one exceeds.
void AppendRight(std::string_view cell, size_t width, std::string* text) {
  text->append(width - std::min(width, cell.size()), ' ');
  *text += cell;
}

void AppendLeft(std::string_view cell, size_t width, std::string* text) {
  *text += cell;
  text->append(width - std::min(width, cell.size()), ' ');
}

/// Returns a number with so many digits after the point, whatever the locale.
std::string Fixed(double value, int digits) {
  char buffer[400];  // the largest double has 309 digits before the point
  return {
      buffer,
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed, digits).ptr};
}

std::string Shortest(double value) {
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

/// Returns the column titles of a table.
std::vector<std::string_view> Titles(StatisticsUnit unit) {
  switch (unit) {
    case StatisticsUnit::kMilliseconds:
      return {"Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)"};
    case StatisticsUnit::kKilobytes:
      return {"Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)"};
    default:
      return {"Min Value", "Max Value", "Avg Value"};
  }
}

}  // namespace

void ProfileStatistics::Add(std::string_view category, std::string_view name, StatisticsUnit unit,
                            double value) {
  auto& rows = categories_[{std::string(category), unit}];
  auto found = rows.find(name);
  if (found == rows.end()) {
    found = rows.emplace(std::string(name), Row{.min = value, .max = value}).first;
  }
  Row& row = found->second;
  ++row.count;
  row.total += value;
  row.min = std::min(row.min, value);
  row.max = std::max(row.max, value);
}

std::string ProfileStatistics::Print(StatisticsFormat format, StatisticsOrder order,
                                     bool ascending) const {
  std::string text;
  if (format == StatisticsFormat::kTable) {
    text = "\nProfile Statistics:\n\tNote the difference in units for different entries.\n";
    PrintTables(order, ascending, &text);
    return text;
  }
  text = "{\n    \"Time\": ";
  PrintMember(StatisticsUnit::kMilliseconds, order, ascending, &text);
  text += ",\n    \"Memory\": ";
  PrintMember(StatisticsUnit::kKilobytes, order, ascending, &text);
  if (Has(StatisticsUnit::kValue)) {
    text += ",\n    \"Counter\": ";
    PrintMember(StatisticsUnit::kValue, order, ascending, &text);
  }
  text += ",\n    \"Unit\": {\n        \"Time\": \"ms\",\n        \"Memory\": \"kB\"\n    }\n}\n";
  return text;
}

/// Returns the number by which rows are sorted.
double ProfileStatistics::Key(const Row& row, StatisticsUnit unit, StatisticsOrder order) {
  switch (order) {
    case StatisticsOrder::kTotal:
      return unit == StatisticsUnit::kMilliseconds ? row.total : row.max;
    case StatisticsOrder::kAverage:
      return row.total / static_cast<double>(row.count);
    case StatisticsOrder::kMin:
      return row.min;
    case StatisticsOrder::kMax:
      return row.max;
    default:
      return static_cast<double>(row.count);
  }
}

std::vector<ProfileStatistics::NamedRow> ProfileStatistics::Sorted(
    const std::map<std::string, Row, std::less<>>& rows, StatisticsUnit unit, StatisticsOrder order,
    bool ascending) {
  std::vector<NamedRow> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(), [&](const NamedRow& a, const NamedRow& b) {
    const double key_a = Key(a.second, unit, order), key_b = Key(b.second, unit, order);
    return ascending ? key_a < key_b : key_a > key_b;
  });
  return sorted;
}

void ProfileStatistics::PrintTables(StatisticsOrder order, bool ascending,
                                    std::string* text) const {
  for (const auto& [category, rows] : categories_) {
    const auto& [name, unit] = category;
    const std::vector<std::string_view> titles = Titles(unit);
    *text += name + "\n=================\n";
    AppendLeft("Name", kNameWidth, text);
    AppendRight("Total Count", kCountWidth, text);
    for (const std::string_view title : titles) AppendRight(title, kNumberWidth, text);
    *text += "\n";
    AppendLeft("----", kNameWidth, text);
    AppendRight("-----------", kCountWidth, text);
    for (const std::string_view title : titles) {
      AppendRight(std::string(title.size(), '-'), kNumberWidth, text);
    }
    *text += "\n";
    for (const auto& [row_name, row] : Sorted(rows, unit, order, ascending)) {
      AppendLeft(row_name, kNameWidth, text);
      AppendRight(std::to_string(row.count), kCountWidth, text);
      if (unit == StatisticsUnit::kMilliseconds) {
        AppendRight(Fixed(row.total, 4), kNumberWidth, text);
      }
      for (const double number : {row.min, row.max, row.total / static_cast<double>(row.count)}) {
        AppendRight(Fixed(number, 4), kNumberWidth, text);
      }
      *text += "\n";
    }
    *text += "\n";
  }
}

/// Appends the object of all categories with that unit.
void ProfileStatistics::PrintMember(StatisticsUnit unit, StatisticsOrder order, bool ascending,
                                    std::string* text) const {
  *text += "{";
  const char* separator = "\n";
  for (const auto& [category, rows] : categories_) {
    if (category.second != unit) continue;
    *text += separator;
    *text += "        ";
    graph::AppendQuoted(category.first, text);
    *text += ": {";
    const char* row_separator = "\n";
    for (const auto& [name, row] : Sorted(rows, unit, order, ascending)) {
      *text += row_separator;
      *text += "            ";
      graph::AppendQuoted(name, text);
      *text += ": {\"Count\": " + std::to_string(row.count);
      if (unit == StatisticsUnit::kMilliseconds) *text += ", \"Total\": " + Shortest(row.total);
      *text += ", \"Min\": " + Shortest(row.min) + ", \"Max\": " + Shortest(row.max) +
               ", \"Avg\": " + Shortest(row.total / static_cast<double>(row.count)) + "}";
      row_separator = ",\n";
    }
    *text += "\n        }";
    separator = ",\n";
  }
  *text += "\n    }";
}

bool ProfileStatistics::Has(StatisticsUnit unit) const {
  return std::any_of(categories_.begin(), categories_.end(),
                     [unit](const auto& category) { return category.first.second == unit; });
}

}  // namespace tessera::mxnet
