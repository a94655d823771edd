#ifndef TESSERA_OPS_VISION_REGIONS_POSITION_SENSITIVE_H_
#define TESSERA_OPS_VISION_REGIONS_POSITION_SENSITIVE_H_

#include <cstdint>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/vision/regions/region_means.h"

/// Regions whose cells read channels of their own. Dai et al., R-FCN, 2016, section 2.
namespace tessera::ops_internal {

/// The parameters that the operators share.
struct PositionSensitiveParameters {
  float spatial_scale = 1;
  int64_t output_dim = 1;
  int64_t pooled_size = 1;
  int64_t group_size = 0;

  /// Declares the fields above, except group_size, for the schema of a struct derived from this
  /// one.
  template <typename Schema>
  static void DeclareShared(Schema& schema) {
    using P = PositionSensitiveParameters;
    schema.template Required<float>("spatial_scale", &P::spatial_scale,
                                    "the factor from the regions' coordinates to the data's");
    schema.Range(0, 1);
    schema.template Required<int64_t>("output_dim", &P::output_dim, "channels of the output");
    schema.Range(1, 1 << 20);
    schema.template Required<int64_t>("pooled_size", &P::pooled_size, "rows and columns of cells");
    schema.Range(1, 1 << 12);
  }
  /// Returns the number of rows and columns of cells with channels of their own.
  index_t Groups() const { return group_size > 0 ? group_size : pooled_size; }
  /// Returns the channels of the cells.
  CellChannels Channels() const;
};

/// Completes the shapes of data (samples, channels, height, width), rois (regions, 5) and output
/// (regions, output_dim, pooled_size, pooled_size). Returns whether all are known. Throws
/// Error(kInvalidArgument) also if data has fewer channels than the cells read.
bool InferPositionSensitive(const OperatorProperty& property,
                            const PositionSensitiveParameters& param, std::vector<TShape>* in_shape,
                            TShape* out);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_REGIONS_POSITION_SENSITIVE_H_
