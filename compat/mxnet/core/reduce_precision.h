#ifndef TESSERA_COMPAT_MXNET_CORE_REDUCE_PRECISION_H_
#define TESSERA_COMPAT_MXNET_CORE_REDUCE_PRECISION_H_

#include <map>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {

/// The precision of operators, by any of their names, and of variables. An operator of no list
/// computes in the types of its inputs.
struct PrecisionRules {
  /// An operator computes in float32 if a parameter has one of these values.
  struct Condition {
    std::string op;
    std::string parameter;
    std::vector<std::string> values;
  };

  DType target = DType::kFloat16;        ///< the reduced type: float16 or bfloat16
  std::vector<std::string> target_ops;   ///< compute in the target type
  std::vector<std::string> float32_ops;  ///< compute in float32
  std::vector<std::string> widest_ops;   ///< compute in the widest type of their inputs
  std::vector<Condition> conditions = {};
  std::vector<std::string> excluded = {};    ///< names of nodes that compute in float32
  std::map<std::string, DType> data = {};    ///< the types of variables that the caller feeds
  std::vector<std::string> parameters = {};  ///< variables that may get other types
  /// Gives a parameter that only casts to the target type read that type, too.
  bool casts_parameters = false;
};

/// Returns a copy of a graph of float32 with amp_cast and amp_multicast before the inputs of
/// operators that need them. A value is cast once to each type. States that an operator changes are
/// not cast; nodes that run graphs compute in float32. The attribute `__dtype__` of a parameter is
/// the type that its readers need; it becomes -1 if they take every type. Throws
/// Error(kInvalidArgument) for another target type, and what InferTypePartial throws.
Symbol ReducePrecision(const Symbol& symbol, const PrecisionRules& rules);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_REDUCE_PRECISION_H_
