#include "tessera/graph/mask_property.h"

#include "tessera/base/error.h"

namespace tessera::graph {

void BooleanMaskParameters::Declare(ParameterSchema<BooleanMaskParameters>& schema) {
  schema.Optional("axis", &BooleanMaskParameters::axis,
                  "the axis of data that the mask belongs to");
}

std::shared_ptr<const OperatorProperty> BooleanMaskProperty::Make(const ParameterMap& parameters) {
  auto property = std::make_shared<BooleanMaskProperty>();
  property->Init(parameters);
  return property;
}

bool BooleanMaskProperty::InferShape(std::vector<TShape>* in_shape,
                                     std::vector<TShape>* out_shape) const {
  TShape &data = (*in_shape)[0], &index = (*in_shape)[1], &output = (*out_shape)[0];
  if (!data.rank_known()) return false;
  const int rank = data.ndim();
  if (param_.axis < -rank || param_.axis >= rank) {
    throw InvalidArgument(kName, ": parameter axis is ", param_.axis, ", but data has shape ",
                          data);
  }
  const int position = param_.axis < 0 ? param_.axis + rank : param_.axis;
  MergeShape(*this, "index", &index, TShape{data[position]});
  data[position] = index[0];
  TShape kept = data;
  kept[position] = TShape::kUnknown;
  MergeShape(*this, "output", &output, kept);
  return data.known() && index.known() && output.known();
}

bool BooleanMaskProperty::InferType(std::vector<DType>* in_type,
                                    std::vector<DType>* out_type) const {
  DType &data = (*in_type)[0], &output = (*out_type)[0];
  if (data == DType::kUnknown) data = output;
  if (output == DType::kUnknown) output = data;
  if (data != output) {
    throw InvalidArgument(kName, ": the output is ", output, ", expected ", data, " as data is");
  }
  return data != DType::kUnknown && (*in_type)[1] != DType::kUnknown;
}

std::unique_ptr<Operator> BooleanMaskProperty::CreateOperator(Device, std::span<const TShape>,
                                                              std::span<const DType>) const {
  throw InvalidArgument(kName,
                        ": the output's shape depends on values, expected a graph that is called "
                        "node by node, as a CachedOp does outside of loops");
}

const std::string& BooleanMaskProperty::TypeString() const {
  static const std::string kText(kName);
  return kText;
}

}  // namespace tessera::graph
