#ifndef TESSERA_COMPAT_MXNET_PROFILING_STATISTICS_H_
#define TESSERA_COMPAT_MXNET_PROFILING_STATISTICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::mxnet {

/// The column by which the rows of a category are sorted, with MXNet's numbers.
enum class StatisticsOrder { kTotal = 0, kAverage = 1, kMin = 2, kMax = 3, kCount = 4 };

/// The form of the statistics, with MXNet's numbers.
enum class StatisticsFormat { kTable = 0, kJson = 1 };

/// The measure of a row.
enum class StatisticsUnit {
  kMilliseconds,  ///< durations, whose sum counts
  kKilobytes,     ///< sizes of memory
  kValue,         ///< numbers that a client counts
};

/// The count, sum, minimum, maximum and average of what was measured under each name, in
/// categories.
///
/// Threads: calls must not overlap.
class ProfileStatistics {
 public:
  /// Adds a measurement.
  void Add(std::string_view category, std::string_view name, StatisticsUnit unit, double value);

  /// Returns the rows as MXNet prints them: a table for each category, or a JSON object with the
  /// members Time, Memory, Counter (if there are any) and Unit. Rows of sizes and counted values
  /// have no sum, and are sorted by their maximum where sums decide.
  std::string Print(StatisticsFormat format, StatisticsOrder order, bool ascending) const;

  void Clear() { categories_.clear(); }

 private:
  struct Row {
    int64_t count = 0;
    double total = 0, min = 0, max = 0;
  };
  using NamedRow = std::pair<std::string, Row>;
  /// A client's category may hold durations and counted values.
  using Category = std::pair<std::string, StatisticsUnit>;

  static double Key(const Row& row, StatisticsUnit unit, StatisticsOrder order);
  static std::vector<NamedRow> Sorted(const std::map<std::string, Row, std::less<>>& rows,
                                      StatisticsUnit unit, StatisticsOrder order, bool ascending);
  void PrintTables(StatisticsOrder order, bool ascending, std::string* text) const;
  void PrintMember(StatisticsUnit unit, StatisticsOrder order, bool ascending,
                   std::string* text) const;
  bool Has(StatisticsUnit unit) const;

  std::map<Category, std::map<std::string, Row, std::less<>>> categories_;
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_PROFILING_STATISTICS_H_
