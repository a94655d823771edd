#ifndef TESSERA_OPS_NORM_BATCH_NORM_PARAMETERS_H_
#define TESSERA_OPS_NORM_BATCH_NORM_PARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/ops/parameter.h"

namespace tessera::ops_internal {

/// The operators that normalize channels.
enum class BatchNormKind { kBatchNorm, kV1, kSync, kWithRelu };

/// The parameters of one of these operators.
template <BatchNormKind kKind>
struct BatchNormParameters {
  /// Tells whether the output `var` is 1 / sqrt(var + eps).
  static constexpr bool kShowsInverse =
      kKind == BatchNormKind::kBatchNorm || kKind == BatchNormKind::kWithRelu;
  /// Tells whether negative results become 0.
  static constexpr bool kRectifies = kKind == BatchNormKind::kWithRelu;

  double eps = 0.0010000000474974513;
  float momentum = 0.9f;
  bool fix_gamma = true;
  bool use_global_stats = false;
  bool output_mean_var = false;
  int64_t axis = 1;
  bool cudnn_off = false;
  std::optional<float> min_calib_range;
  std::optional<float> max_calib_range;
  int ndev = 1;
  std::string key;

  static void Declare(ParameterSchema<BatchNormParameters>& schema) {
    using P = BatchNormParameters;
    schema.Optional("eps", &P::eps, "added to the variance");
    schema.Range(0);
    schema.Optional("momentum", &P::momentum, "weight of the old moving statistics");
    schema.Range(0, 1);
    schema.Optional("fix_gamma", &P::fix_gamma, "use 1 in place of gamma");
    schema.Optional("use_global_stats", &P::use_global_stats,
                    "use the moving statistics in training too");
    schema.Optional("output_mean_var", &P::output_mean_var, "show the outputs mean and var");
    if (kKind == BatchNormKind::kV1) return;
    if (kKind == BatchNormKind::kSync) {
      schema.Optional("ndev", &P::ndev, "the number of devices that share a batch's statistics");
      schema.Range(1);
      schema.Required("key", &P::key, "the name of the group of devices; not used");
      return;
    }
    schema.Optional("axis", &P::axis, "the axis of channels");
    schema.Optional("cudnn_off", &P::cudnn_off, "accepted for old graphs; not used");
    schema.Optional("min_calib_range", &P::min_calib_range, "accepted for old graphs; not used");
    schema.Optional("max_calib_range", &P::max_calib_range, "accepted for old graphs; not used");
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_NORM_BATCH_NORM_PARAMETERS_H_
