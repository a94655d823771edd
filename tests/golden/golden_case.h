#ifndef TESSERA_TESTS_GOLDEN_GOLDEN_CASE_H_
#define TESSERA_TESTS_GOLDEN_GOLDEN_CASE_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace tessera {

/// A case of a file and how our results for it differ from MXNet's.
struct GoldenResult {
  std::string name;         ///< unique in its file
  std::string op;           ///< the operator
  std::string description;  ///< name, operator and attributes
  /// One sentence for each array that differs, or the error that was thrown; none if all agree.
  std::vector<std::string> differences;
};

/// Runs the cases of FILE.json and FILE.params, which make_cases.py wrote: imperatively, and in a
/// bound graph with gradients. Calls `begin` with a case's name before it runs, and `end` after it.
/// Returns the number of cases. Throws Error for files that cannot be read.
///
/// An array agrees if it has MXNet's shape and type, and each element differs by no more than
/// `slack` times the tolerance of its type, relative to 1 + |expected|, from MXNet's or from the
/// value under the name CASE/exact_KIND/I, if the file has one: MXNet's for the same inputs in
/// float64.
int RunGoldenCases(const std::string& file, double slack,
                   const std::function<void(const std::string&)>& begin,
                   const std::function<void(const GoldenResult&)>& end);

/// Returns the operators that have cases in FILE.json. Throws Error if it cannot be read.
std::set<std::string> OperatorsOfGoldenCases(const std::string& file);

}  // namespace tessera

#endif  // TESSERA_TESTS_GOLDEN_GOLDEN_CASE_H_
