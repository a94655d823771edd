#include "tessera/ops/registry.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "tessera/base/error.h"

namespace tessera {
namespace {

/// Returns whether MXNet 1.9.1 has an operator of that name, among those that networks are made of.
/// For such a name, the nearest name of another function would not help the user.
bool IsOfMxnet(std::string_view name) {
  static constexpr std::string_view kFamilies[] = {"_contrib_", "_image_",  "_linalg_",  "_np",
                                                   "_random_",  "_sample_", "_sparse_",  "linalg_",
                                                   "random_",   "sample_",  "quantized_"};
  // Each name is between two spaces.
  static constexpr std::string_view kNames =
      " BatchNorm BatchNorm_v1 BilinearSampler BlockGrad CTCLoss Cast Concat Correlation Crop "
      "Custom Deconvolution Dropout ElementWiseSum Embedding GridGenerator GroupNorm "
      "IdentityAttachKLSparseReg InstanceNorm L2Normalization LRN LayerNorm LeakyReLU "
      "LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput MakeLoss Pad "
      "Pooling_v1 RNN ROIPooling Reshape SVMOutput SequenceLast SequenceMask SequenceReverse "
      "SliceChannel SoftmaxActivation SpatialTransformer SwapAxis UpSampling _CrossDeviceCopy "
      "_Equal _EqualScalar _Greater _GreaterEqualScalar _GreaterScalar _Greater_Equal _Hypot "
      "_HypotScalar _Lesser _LesserEqualScalar _LesserScalar _Lesser_Equal _LogicalAndScalar "
      "_LogicalOrScalar _LogicalXorScalar _Logical_And _Logical_Or _Logical_Xor _Maximum "
      "_MaximumScalar _Minimum _MinimumScalar _Mod _ModScalar _NotEqualScalar _Not_Equal _Power "
      "_PowerScalar _RModScalar _RPowerScalar _arange _cond _copyto _equal _equal_scalar _eye "
      "_foreach _full _grad_add _greater _greater_equal _greater_equal_scalar _greater_scalar "
      "_histogram _hypot _hypot_scalar _lesser _lesser_equal _lesser_equal_scalar _lesser_scalar "
      "_linspace _logical_and _logical_and_scalar _logical_or _logical_or_scalar _logical_xor "
      "_logical_xor_scalar _maximum _maximum_scalar _minimum _minimum_scalar _mod _mod_scalar "
      "_not_equal _not_equal_scalar _ones _power _power_scalar _ravel_multi_index _rmod_scalar "
      "_rpower_scalar _shuffle _split_v2 _square_sum _unravel_index _while_loop _zeros abs "
      "adam_update add_n all_finite amp_cast amp_multicast arccos arccosh arcsin arcsinh arctan "
      "arctanh argmax argmax_channel argmin argsort batch_dot batch_take broadcast_add "
      "broadcast_axes broadcast_axis broadcast_div broadcast_equal broadcast_greater "
      "broadcast_greater_equal broadcast_hypot broadcast_lesser broadcast_lesser_equal "
      "broadcast_like broadcast_logical_and broadcast_logical_or broadcast_logical_xor "
      "broadcast_maximum broadcast_minimum broadcast_minus broadcast_mod broadcast_mul "
      "broadcast_not_equal broadcast_plus broadcast_power broadcast_sub broadcast_to cast "
      "cast_storage cbrt ceil choose_element_0index clip col2im concat cos cosh crop ctc_loss "
      "cumsum degrees depth_to_space diag dot erf erfinv exp expand_dims expm1 "
      "fill_element_0index fix flip floor ftml_update ftrl_update gamma gammaln gather_nd "
      "hard_sigmoid im2col khatri_rao lamb_update_phase1 lamb_update_phase2 log log10 log1p log2 "
      "log_softmax logical_not make_loss max max_axis mean min min_axis moments nag_mom_update "
      "nanprod nansum negative norm normal one_hot ones_like pad pick prod radians "
      "ravel_multi_index rcbrt reciprocal relu repeat reset_arrays reshape reshape_like reverse "
      "rint rmsprop_update rmspropalex_update round rsqrt scatter_nd shape_array shuffle sigmoid "
      "sign signsgd_update signum_update sin sinh size_array slice slice_axis slice_like "
      "smooth_l1 softmax softmax_cross_entropy softmin softsign sort space_to_depth split sqrt "
      "square squeeze stack stop_gradient sum sum_axis swapaxes take tan tanh tile topk transpose "
      "trunc uniform unravel_index where ";
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](std::string_view family) { return name.starts_with(family); }) ||
         (name.find(' ') == name.npos && kNames.find(" " + std::string(name) + " ") != kNames.npos);
}

}  // namespace

struct OperatorRegistry::Impl {
  std::map<std::string, std::unique_ptr<OperatorEntry>, std::less<>> entries;
  std::map<std::string, OperatorEntry*, std::less<>> aliases;
};

OperatorRegistry::OperatorRegistry() : impl_(std::make_unique<Impl>()) {}
OperatorRegistry::~OperatorRegistry() = default;

OperatorRegistry& OperatorRegistry::Get() {
  // Never destroyed, because operators may be looked up while other static objects are destroyed.
  static OperatorRegistry* const registry = new OperatorRegistry();
  return *registry;
}

std::unique_ptr<OperatorProperty> OperatorRegistry::Create(std::string_view name,
                                                           const ParameterMap& parameters) const {
  const OperatorEntry* entry = Find(name);
  if (entry == nullptr) throw UnknownOperator(name);
  std::unique_ptr<OperatorProperty> property = entry->create_property();
  property->entry_ = entry;
  property->Init(parameters);
  return property;
}

Error OperatorRegistry::UnknownOperator(std::string_view name) const {
  if (IsOfMxnet(name)) return NotFound("operator \"", name, "\" is not implemented");
  std::vector<std::string> known = ListNames();
  for (const auto& [alias, target] : impl_->aliases) known.push_back(alias);
  const std::string nearest = NearestName(name, known);
  return NotFound("unknown operator \"", name, "\"",
                  nearest.empty() ? "; expected the name of a registered operator"
                                  : "; did you mean \"" + nearest + "\"?");
}

const OperatorEntry* OperatorRegistry::Find(std::string_view name) const {
  if (const auto found = impl_->entries.find(name); found != impl_->entries.end()) {
    return found->second->create_property ? found->second.get() : nullptr;
  }
  if (const auto found = impl_->aliases.find(name); found != impl_->aliases.end()) {
    return found->second;
  }
  return nullptr;
}

std::vector<std::string> OperatorRegistry::ListNames() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : impl_->entries) names.push_back(name);
  return names;
}

OperatorEntry& OperatorRegistry::FindOrAdd(std::string_view name) {
  auto found = impl_->entries.find(name);
  if (found == impl_->entries.end()) {
    found = impl_->entries.emplace(std::string(name), std::make_unique<OperatorEntry>()).first;
    found->second->name = name;
  }
  return *found->second;
}

void OperatorRegistry::AddAlias(OperatorEntry& entry, std::string_view alias) {
  // The host's and the device's compilations of a file register the same aliases.
  if (impl_->aliases.emplace(std::string(alias), &entry).second) entry.aliases.emplace_back(alias);
}

}  // namespace tessera
