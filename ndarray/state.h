#ifndef TESSERA_NDARRAY_STATE_H_
#define TESSERA_NDARRAY_STATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// The values that an optimizer, a metric or another part of a training keeps between steps, by
/// name. A checkpoint writes all of them; a part that loads them continues bit for bit like the one
/// that saved them.
///
/// Names are free of the character '/' apart from those of parts, which Add joins by it.
struct TrainingState {
  std::map<std::string, std::vector<int64_t>> integers;  ///< counts
  std::map<std::string, std::vector<double>> numbers;    ///< sums, scales
  std::map<std::string, std::string> texts;              ///< names of kinds
  std::map<std::string, NDArray> arrays;                 ///< in host memory

  /// Return the value, or the only value, of that name. Throw Error(kDataLoss) that names it if it
  /// is missing or has another number of values.
  int64_t Integer(const std::string& name) const;
  double Number(const std::string& name) const;
  const std::vector<int64_t>& Integers(const std::string& name) const;
  const std::vector<double>& Numbers(const std::string& name) const;
  const std::string& Text(const std::string& name) const;
  const NDArray& Array(const std::string& name) const;

  /// Adds the values of a part, each as "part/name".
  void Add(std::string_view part, const TrainingState& state);
  /// Returns the values that Add has added for a part.
  TrainingState Part(std::string_view part) const;
};

/// A part of a training with state.
///
/// LoadState expects what SaveState of an object that was constructed alike has returned. It throws
/// Error(kDataLoss) that names the value if one is missing or does not fit, and
/// Error(kInvalidArgument) if the state is that of another kind of object; the object is then
/// unchanged.
class Stateful {
 public:
  virtual ~Stateful() = default;

  /// Returns the state. Waits for the work of earlier calls that changes it.
  virtual TrainingState SaveState() const = 0;
  /// Sets the state.
  virtual void LoadState(const TrainingState& state) = 0;

 protected:
  Stateful() = default;
  Stateful(const Stateful&) = default;
  Stateful(Stateful&&) = default;
  Stateful& operator=(const Stateful&) = default;
  Stateful& operator=(Stateful&&) = default;
};

}  // namespace tessera

#endif  // TESSERA_NDARRAY_STATE_H_
