#include "tessera/train/module.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/sparse.h"

namespace tessera {
namespace {

std::set<std::string> SetOf(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

/// Returns the names of data and labels.
std::vector<std::string> InputNames(const ModuleOptions& options) {
  std::vector<std::string> names = options.data_names;
  names.insert(names.end(), options.label_names.begin(), options.label_names.end());
  return names;
}

/// Throws unless the arrays are exactly the wanted ones, each with its shape and type. `source`, a
/// function or a file, begins the error.
void CheckParams(std::string_view source, const char* kind,
                 const std::map<std::string, NDArray>& wanted,
                 const std::map<std::string, NDArray>& given) {
  for (const auto& [name, array] : wanted) {
    const auto found = given.find(name);
    if (found == given.end() || found->second.is_none()) {
      throw InvalidArgument(source, ": ", kind, " ", Excerpt(name), " is missing, expected ",
                            array.shape(), " of ", array.dtype());
    }
    const NDArray& value = found->second;
    if (value.shape() != array.shape() || value.dtype() != array.dtype()) {
      throw InvalidArgument(source, ": ", kind, " ", Excerpt(name), ": found ", value.shape(),
                            " of ", value.dtype(), ", expected ", array.shape(), " of ",
                            array.dtype());
    }
  }
  for (const auto& [name, value] : given) {
    if (!wanted.contains(name)) {
      throw InvalidArgument(source, ": the network has no ", kind, " ", Excerpt(name));
    }
  }
}

std::map<std::string, NDArray> Copies(const std::map<std::string, NDArray>& arrays) {
  std::map<std::string, NDArray> copies;
  for (const auto& [name, array] : arrays) copies.emplace(name, array.Copy(Device::Cpu()));
  return copies;
}

/// Returns the factors in attribute `key` of the network's variables.
std::map<std::string, double> Factors(const Symbol& symbol, const std::vector<std::string>& names,
                                      const std::string& key) {
  const std::set<std::string> wanted = SetOf(names);
  std::map<std::string, double> factors;
  const Symbol internals = symbol.GetInternals();
  for (int i = 0; i < internals.num_outputs(); ++i) {
    const Symbol node = internals[i];
    if (!wanted.contains(node.name())) continue;
    const std::optional<std::string> text = node.GetAttribute(key);
    if (!text) continue;
    double factor = 0;
    if (!absl::SimpleAtod(*text, &factor) || !std::isfinite(factor)) {
      throw InvalidArgument("Module: attribute ", key, " of ", Excerpt(node.name()), " is '",
                            Excerpt(*text), "', expected a finite number");
    }
    factors[node.name()] = factor;
  }
  return factors;
}

/// Returns one of several equal parts of each array's rows.
std::vector<NDArray> RowsOf(const std::vector<NDArray>& arrays, index_t part, index_t parts) {
  std::vector<NDArray> rows;
  for (const NDArray& array : arrays) {
    const index_t count = array.shape()[0] / parts;
    rows.push_back(array.Slice(part * count, (part + 1) * count));
  }
  return rows;
}

}  // namespace

Module::Module(Symbol symbol, ModuleOptions options)
    : symbol_(std::move(symbol)), options_(std::move(options)) {
  if (!options_.devices.empty()) options_.device = options_.devices[0];
  const std::vector<std::string> arguments = symbol_.ListArguments();
  const std::set<std::string> known = SetOf(arguments);
  for (const std::vector<std::string>* names :
       {&options_.data_names, &options_.fixed_param_names}) {
    for (const std::string& name : *names) {
      if (!known.contains(name)) {
        throw InvalidArgument("Module: the network has no argument ", Excerpt(name),
                              ", expected one of: ", ListNames(arguments));
      }
    }
  }
  const std::set<std::string> inputs = SetOf(InputNames(options_));
  for (const std::string& name : arguments) {
    if (!inputs.contains(name)) param_names_.push_back(name);
  }
}

Module::~Module() = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;

Module Module::Load(const std::string& prefix, int epoch, ModuleOptions options) {
  Checkpoint checkpoint = LoadCheckpoint(prefix, epoch, InputNames(options));
  Module module(std::move(checkpoint.symbol), std::move(options));
  module.loaded_ = std::move(checkpoint.parameters);
  module.loaded_from_ = CheckpointParametersPath(prefix, epoch);
  return module;
}

void Module::RequireBound(const char* operation) const {
  if (executor_ == nullptr) {
    throw FailedPrecondition("Module::", operation, ": not bound, expected a call of Bind before");
  }
}

void Module::RequireParams(const char* operation) const {
  RequireBound(operation);
  if (!params_initialized_) {
    throw FailedPrecondition("Module::", operation,
                             ": the parameters have no values, expected a call of InitParams or "
                             "SetParams before");
  }
}

const Executor& Module::executor() const {
  RequireBound("executor");
  return *executor_;
}

/// Returns the shapes and types of the inputs that the network uses, for SimpleBind.
SimpleBindOptions Module::InputsOf(const std::vector<DataDesc>& data,
                                   const std::vector<DataDesc>& label) const {
  if (data.empty()) throw InvalidArgument("Module::Bind: no data, expected at least one array");
  if (data[0].shape.ndim() < 1) {
    throw InvalidArgument("Module::Bind: data ", data[0].name, " has shape ", data[0].shape,
                          ", expected the batch in its first dimension");
  }
  SimpleBindOptions bind;
  const std::set<std::string> known = SetOf(symbol_.ListArguments());
  for (const std::vector<DataDesc>* descriptions : {&data, &label}) {
    const bool is_data = descriptions == &data;
    const auto& names = is_data ? options_.data_names : options_.label_names;
    const std::set<std::string> expected = SetOf(names);
    for (const DataDesc& description : *descriptions) {
      if (!expected.contains(description.name)) {
        throw InvalidArgument("Module::Bind: unknown ", is_data ? "data " : "label ",
                              Excerpt(description.name), ", expected one of: ", ListNames(names));
      }
      if (!known.contains(description.name)) continue;  // a label that the network ignores
      bind.shapes[description.name] = description.shape;
      bind.types[description.name] = description.dtype;
      if (description.storage != StorageType::kDefault) {
        bind.storage_types[description.name] = description.storage;
      }
    }
  }
  return bind;
}

/// Uses the executor from here on. Cannot fail.
void Module::Adopt(std::unique_ptr<Executor> executor, const std::vector<DataDesc>& data,
                   const std::vector<DataDesc>& label) {
  const std::map<std::string, NDArray> bound = executor->arg_dict();
  const auto input = [&bound](const DataDesc& description) {
    const auto found = bound.find(description.name);
    return Input{description, found == bound.end() ? NDArray() : found->second};
  };
  data_.clear();
  label_.clear();
  std::transform(data.begin(), data.end(), std::back_inserter(data_), input);
  std::transform(label.begin(), label.end(), std::back_inserter(label_), input);
  const std::map<std::string, NDArray> grads = executor->grad_dict();
  args_.clear();
  trained_.clear();
  for (const auto& name : param_names_) {
    args_.emplace(name, bound.at(name));
    const auto grad = grads.find(name);
    if (grad == grads.end() || grad->second.is_none()) continue;
    trained_.push_back({name, bound.at(name), grad->second});
  }
  auxs_ = executor->aux_dict();
  executor_ = std::move(executor);
  batch_size_ = data[0].shape[0];
  outputs_.clear();
  buckets_.clear();
  bucket_ = nullptr;
}

/// Returns whether the argument is data or a label, which are not trained.
bool Module::IsInput(const std::string& name) const {
  const std::vector<std::string> inputs = InputNames(options_);
  return std::find(inputs.begin(), inputs.end(), name) != inputs.end();
}

/// Returns the descriptions of the part of a batch that a device computes.
std::vector<DataDesc> Module::PartOf(const std::vector<DataDesc>& descriptions) const {
  std::vector<DataDesc> own = descriptions;
  const auto parts = static_cast<index_t>(options_.devices.size());
  if (parts < 2) return own;
  for (DataDesc& description : own) {
    TShape& shape = description.shape;
    if (shape.ndim() < 1 || shape[0] % parts != 0) {
      throw InvalidArgument("Module::Bind: ", Excerpt(description.name), " has shape ", shape,
                            ", expected a first extent of which ", parts,
                            " devices get equal parts");
    }
    shape[0] /= parts;
  }
  return own;
}

/// Returns modules for all devices but the first, bound for their parts of batches.
std::vector<std::unique_ptr<Module>> Module::MakeReplicas(const std::vector<DataDesc>& data,
                                                          const std::vector<DataDesc>& label,
                                                          bool for_training) const {
  std::vector<std::unique_ptr<Module>> replicas;
  for (size_t i = 1; i < options_.devices.size(); ++i) {
    ModuleOptions options = options_;
    options.devices = {options_.devices[i]};
    replicas.push_back(std::make_unique<Module>(symbol_, std::move(options)));
    replicas.back()->Bind(data, label, for_training);
  }
  return replicas;
}

void Module::Bind(const std::vector<DataDesc>& data, const std::vector<DataDesc>& label,
                  bool for_training) {
  const std::vector<DataDesc> own_data = PartOf(data), own_label = PartOf(label);
  SimpleBindOptions bind = InputsOf(own_data, own_label);
  bind.grad_req = for_training ? kWriteTo : kNullOp;
  bind.no_gradient = options_.fixed_param_names;
  for (const std::string& name : symbol_.ListArguments()) {
    if (IsInput(name)) bind.no_gradient.push_back(name);
  }
  std::unique_ptr<Executor> executor = SimpleBind(symbol_, options_.device, bind);

  std::optional<ModelParameters> values;
  if (params_initialized_) {
    values = GetParams();
  } else {
    values = loaded_;
  }
  if (values) {
    const std::string source = params_initialized_ ? "Module::Bind" : loaded_from_;
    std::map<std::string, NDArray> args = executor->arg_dict();
    std::erase_if(args, [this](const auto& entry) { return IsInput(entry.first); });
    CheckParams(source, "parameter", args, values->arg);
    CheckParams(source, "auxiliary state", executor->aux_dict(), values->aux);
  }

  std::vector<std::unique_ptr<Module>> replicas = MakeReplicas(own_data, own_label, for_training);

  // The rest cannot fail.
  Adopt(std::move(executor), data, label);
  replicas_ = std::move(replicas);
  sums_ = nullptr;
  evaluator_ = nullptr;
  for_training_ = for_training;
  optimizer_ = nullptr;
  kvstore_ = nullptr;
  params_initialized_ = false;
  loaded_.reset();
  if (values) SetParams(*values);
}

void Module::Reshape(const std::vector<DataDesc>& data, const std::vector<DataDesc>& label) {
  RequireBound("Reshape");
  const std::vector<DataDesc> own_data = PartOf(data), own_label = PartOf(label);
  const SimpleBindOptions inputs = InputsOf(own_data, own_label);
  std::unique_ptr<Executor> executor = executor_->Reshape(
      {.shapes = inputs.shapes, .partial_shaping = true, .allow_up_sizing = true});
  const std::map<std::string, NDArray> bound = executor->arg_dict();
  for (const auto& [name, array] : args_) {
    if (bound.at(name).shape() == array.shape()) continue;
    throw InvalidArgument("Module::Reshape: parameter ", Excerpt(name), " would have shape ",
                          bound.at(name).shape(), ", expected ", array.shape(), " as before");
  }
  for (const auto& [name, dtype] : inputs.types) {
    if (bound.at(name).dtype() == dtype) continue;
    throw InvalidArgument("Module::Reshape: ", Excerpt(name), " has type ", dtype, ", expected ",
                          bound.at(name).dtype(), " as before");
  }
  for (const auto& replica : replicas_) replica->Reshape(own_data, own_label);
  Adopt(std::move(executor), data, label);
  evaluator_ = nullptr;
}

/// Binds a network for other batches to the parameters of another module, and to its gradients if
/// it trains.
Module::Module(const Module& owner, Symbol symbol, const std::vector<DataDesc>& data,
               const std::vector<DataDesc>& label, bool for_training)
    : symbol_(std::move(symbol)), options_(owner.options_), param_names_(owner.param_names_) {
  options_.devices.clear();
  const SimpleBindOptions inputs = InputsOf(data, label);
  const std::vector<std::string> names = symbol_.ListArguments();
  const InferredShapes shapes = symbol_.InferShape(inputs.shapes);
  const InferredTypes types = symbol_.InferType(inputs.types);
  const std::map<std::string, NDArray> grads = owner.executor_->grad_dict();
  BindArguments arrays;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!IsInput(names[i])) {
      const auto array = owner.args_.find(names[i]);
      if (array == owner.args_.end()) {
        throw InvalidArgument("Module: the network of a bucket has a parameter ", Excerpt(names[i]),
                              ", expected only those of the module");
      }
      arrays.arguments.push_back(array->second);
      const auto grad = grads.find(names[i]);
      arrays.gradients.push_back(for_training && grad != grads.end() ? grad->second : NDArray());
      continue;
    }
    arrays.arguments.emplace_back(shapes.arguments[i], options_.device, types.arguments[i]);
    arrays.arguments.back() = 0.0f;  // a label may never be written
    arrays.gradients.emplace_back();
  }
  // A gradient that this network does not compute would be that of an earlier batch.
  for (const std::string& name : param_names_) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw InvalidArgument("Module: the network of a bucket has no parameter ", Excerpt(name),
                          ", expected all of the module");
  }
  for (const std::string& name : symbol_.ListAuxiliaryStates()) {
    const auto array = owner.auxs_.find(name);
    if (array == owner.auxs_.end()) {
      throw InvalidArgument("Module: the network of a bucket has an auxiliary state ",
                            Excerpt(name), ", expected only those of the module");
    }
    arrays.aux_states.push_back(array->second);
  }
  if (for_training) {
    arrays.shared_executor = owner.executor_.get();
  } else {
    arrays.gradients.clear();
  }
  Adopt(tessera::Bind(symbol_, options_.device, arrays), data, label);
  for_training_ = for_training;
  params_initialized_ = true;
}

/// Returns the module that computes a batch of its bucket key, or null for this one.
Module* Module::BucketOf(const DataBatch& batch) {
  if (batch.bucket_key == 0) return nullptr;
  const auto known = buckets_.find(batch.bucket_key);
  if (known != buckets_.end()) return known->second.get();
  if (!replicas_.empty()) {
    throw Unimplemented("Module::Forward: a batch with bucket_key ", batch.bucket_key, " on ",
                        num_parts(), " devices, expected one device");
  }
  const auto describe = [](const std::vector<NDArray>& arrays, const std::vector<Input>& inputs,
                           const char* kind) {
    if (arrays.size() != inputs.size()) {
      throw InvalidArgument("Module::Forward: ", arrays.size(), " ", kind,
                            " arrays in the first batch of a bucket, expected ", inputs.size());
    }
    std::vector<DataDesc> descriptions;
    for (size_t i = 0; i < arrays.size(); ++i) {
      descriptions.push_back({inputs[i].description.name, arrays[i].shape(), arrays[i].dtype(),
                              StorageTypeOf(arrays[i])});
    }
    return descriptions;
  };
  const std::vector<DataDesc> data = describe(batch.data, data_, "data");
  const std::vector<DataDesc> label = describe(batch.label, label_, "label");
  Symbol symbol = options_.bucket_symbol ? options_.bucket_symbol(batch.bucket_key) : symbol_;
  std::unique_ptr<Module> bucket(new Module(*this, std::move(symbol), data, label, for_training_));
  return buckets_.emplace(batch.bucket_key, std::move(bucket)).first->second.get();
}

/// Returns whether the iterator's batches are those that the module is bound for.
bool Module::Fits(const DataIter& data) const {
  const auto fits = [](const std::vector<DataDesc>& given, const std::vector<Input>& inputs) {
    return std::equal(given.begin(), given.end(), inputs.begin(), inputs.end(),
                      [](const DataDesc& description, const Input& input) {
                        return description.shape == input.description.shape &&
                               description.dtype == input.description.dtype;
                      });
  };
  return fits(data.ProvideData(), data_) &&
         (data.ProvideLabel().empty() || fits(data.ProvideLabel(), label_));
}

/// Returns the module that computes the iterator's batches: this one if they fit, else one that
/// shares the parameters.
Module* Module::EvaluatorOf(const DataIter& data) {
  if (Fits(data)) return this;
  if (evaluator_ == nullptr || !evaluator_->Fits(data)) {
    evaluator_.reset(new Module(*this, symbol_, data.ProvideData(), data.ProvideLabel(),
                                /*for_training=*/false));
  }
  return evaluator_.get();
}

void Module::InitParams(const Initializer& initializer, uint64_t seed, bool force) {
  RequireBound("InitParams");
  if (params_initialized_ && !force) return;
  for (const std::map<std::string, NDArray>* arrays : {&args_, &auxs_}) {
    for (const auto& [name, array] : *arrays) {
      if (StorageTypeOf(array) == StorageType::kDefault) {
        initializer.Initialize(name, seed, array);
        continue;
      }
      const NDArray dense(array.shape(), array.device(), array.dtype());
      initializer.Initialize(name, seed, dense);
      CopyFromTo(dense, array);
    }
  }
  params_initialized_ = true;
  SpreadParams();
}

ModelParameters Module::GetParams() const {
  RequireParams("GetParams");
  return {Copies(args_), Copies(auxs_)};
}

void Module::SetParams(const ModelParameters& parameters) {
  RequireBound("SetParams");
  CheckParams("Module::SetParams", "parameter", args_, parameters.arg);
  CheckParams("Module::SetParams", "auxiliary state", auxs_, parameters.aux);
  for (const auto& [name, array] : args_) CopyFromTo(parameters.arg.at(name), array);
  for (const auto& [name, array] : auxs_) CopyFromTo(parameters.aux.at(name), array);
  params_initialized_ = true;
  SpreadParams();
}

/// Replaces the values on the other devices and in the store by the current parameters: of many
/// workers, by those of rank 0, to which the others add zeros.
void Module::SpreadParams() {
  for (const auto& replica : replicas_) {
    for (const auto& [name, array] : args_) CopyFromTo(array, replica->args_.at(name));
    for (const auto& [name, array] : auxs_) CopyFromTo(array, replica->auxs_.at(name));
    replica->params_initialized_ = true;
  }
  if (kvstore_ == nullptr) return;
  store_update_->replaces = true;
  try {
    for (size_t i = 0; i < trained_.size(); ++i) {
      NDArray value = trained_[i].weight;
      if (kvstore_->rank() != 0) {
        value = NDArray(value.shape(), value.device(), value.dtype());
        value = 0.0f;
      }
      kvstore_->Push(static_cast<int>(i), value);
    }
  } catch (...) {
    store_update_->replaces = false;
    throw;
  }
  store_update_->replaces = false;
  TakeParamsOfRankZero(*kvstore_);
}

/// Gives every worker, on all devices, the values of the store, which are those of rank 0.
void Module::TakeParamsOfRankZero(KVStore& store) {
  if (store.num_workers() == 1) return;
  for (size_t i = 0; i < trained_.size(); ++i) {
    std::vector<NDArray> weights = {trained_[i].weight};
    for (const auto& replica : replicas_) weights.push_back(replica->trained_[i].weight);
    store.Pull(static_cast<int>(i), weights);
  }
}

void Module::InitOptimizer(std::shared_ptr<Optimizer> optimizer, std::shared_ptr<KVStore> kvstore) {
  RequireParams("InitOptimizer");
  if (optimizer == nullptr) throw InvalidArgument("Module::InitOptimizer: no optimizer given");
  if (!for_training_) {
    throw FailedPrecondition("Module::InitOptimizer: the module is not bound for training");
  }
  if (kvstore != nullptr) optimizer->CheckUpdatesOneByOne("Module::InitOptimizer");
  std::vector<std::string> names;
  for (const Trained& parameter : trained_) names.push_back(parameter.name);
  const bool is_new_store = kvstore != nullptr && kvstore != initialized_store_.lock();
  if (is_new_store) {  // first, because it may throw
    for (size_t i = 0; i < trained_.size(); ++i) {
      kvstore->Init(static_cast<int>(i), trained_[i].weight);
    }
    TakeParamsOfRankZero(*kvstore);
  }
  optimizer->SetNetworkFactors(Factors(symbol_, names, "lr_mult"),
                               Factors(symbol_, names, "wd_mult"));
  optimizer->SetParameterNames(names);
  if (!optimizer->has_rescale_grad()) {
    const int workers = kvstore != nullptr ? kvstore->num_workers() : 1;
    optimizer->set_rescale_grad(1.0 / static_cast<double>(batch_size_ * workers));
  }
  if (kvstore != nullptr) {
    initialized_store_ = kvstore;
    store_update_ = std::make_shared<StoreUpdate>(StoreUpdate{optimizer});
    kvstore->set_updater(
        [update = store_update_](const KVKey& key, const NDArray& received, const NDArray& stored) {
          if (update->replaces) {
            CopyFromTo(received, stored);
          } else {
            update->optimizer->Update(std::get<int>(key), stored, received);
          }
        });
  }
  optimizer_ = std::move(optimizer);
  kvstore_ = std::move(kvstore);
  if (!is_new_store) SpreadParams();
}

void Module::CheckBatch(const std::vector<NDArray>& arrays, const std::vector<Input>& inputs,
                        const char* kind) const {
  if (arrays.size() != inputs.size()) {
    throw InvalidArgument("Module::Forward: ", arrays.size(), " ", kind, " arrays, expected ",
                          inputs.size());
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const DataDesc& expected = inputs[i].description;
    if (arrays[i].shape() == expected.shape && arrays[i].dtype() == expected.dtype) continue;
    throw InvalidArgument("Module::Forward: ", kind, " ", Excerpt(expected.name), ": found ",
                          arrays[i].shape(), " of ", arrays[i].dtype(), ", expected ",
                          expected.shape, " of ", expected.dtype);
  }
}

void Module::LoadBatch(const DataBatch& batch, bool with_labels) {
  const auto load = [](const std::vector<NDArray>& arrays, const std::vector<Input>& inputs) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (!inputs[i].target.is_none()) CopyFromTo(arrays[i], inputs[i].target);
    }
  };
  load(batch.data, data_);
  if (with_labels) load(batch.label, label_);
}

void Module::Forward(const DataBatch& batch, bool is_train) {
  RequireParams("Forward");
  bucket_ = BucketOf(batch);
  (bucket_ != nullptr ? *bucket_ : *this).Compute(batch, is_train);
}

/// Computes a batch of the shapes that this module is bound for.
void Module::Compute(const DataBatch& batch, bool is_train) {
  const bool with_labels = is_train || batch.label.size() == label_.size();
  CheckBatch(batch.data, data_, "data");
  if (with_labels) CheckBatch(batch.label, label_, "label");
  const index_t parts = num_parts();
  if (parts == 1) {
    LoadBatch(batch, with_labels);
    executor_->Forward(is_train);
    return;
  }
  for (index_t part = 0; part < parts; ++part) {
    Module& device = part == 0 ? *this : *replicas_[static_cast<size_t>(part - 1)];
    DataBatch rows;
    rows.data = RowsOf(batch.data, part, parts);
    if (with_labels) rows.label = RowsOf(batch.label, part, parts);
    device.LoadBatch(rows, with_labels);
    device.executor_->Forward(is_train);
  }
  GatherOutputs();
}

/// Copies the outputs of all devices behind each other.
void Module::GatherOutputs() {
  const index_t parts = num_parts();
  const std::vector<NDArray>& own = executor_->outputs();
  if (outputs_.empty()) {
    std::vector<NDArray> joined;
    for (const NDArray& output : own) {
      TShape shape = output.shape();
      if (shape.ndim() < 1) {
        throw InvalidArgument("Module::Forward: an output has no rows, expected one for each ",
                              "example of a batch that several devices share");
      }
      shape[0] *= parts;
      joined.emplace_back(shape, output.device(), output.dtype());
    }
    outputs_ = std::move(joined);
  }
  for (index_t part = 0; part < parts; ++part) {
    const std::vector<NDArray> rows = RowsOf(outputs_, part, parts);
    const std::vector<NDArray>& from =
        part == 0 ? own : replicas_[static_cast<size_t>(part - 1)]->executor_->outputs();
    for (size_t i = 0; i < rows.size(); ++i) CopyFromTo(from[i], rows[i]);
  }
}

void Module::Backward(const std::vector<NDArray>& head_grads) {
  RequireParams("Backward");
  if (bucket_ != nullptr) return bucket_->Backward(head_grads);
  const index_t parts = num_parts();
  executor_->Backward(parts == 1 ? head_grads : RowsOf(head_grads, 0, parts));
  for (index_t part = 1; part < parts; ++part) {
    replicas_[static_cast<size_t>(part - 1)]->executor_->Backward(RowsOf(head_grads, part, parts));
  }
}

void Module::Update() {
  if (optimizer_ == nullptr) {
    throw FailedPrecondition(
        "Module::Update: no optimizer, expected a call of InitOptimizer before");
  }
  if (!replicas_.empty() && sums_ == nullptr) {
    sums_ = KVStore::Create("local");
    for (size_t i = 0; i < trained_.size(); ++i) {
      sums_->Init(static_cast<int>(i), trained_[i].grad);
    }
    for (const auto& [name, array] : auxs_) sums_->Init(name, array);
  }
  std::vector<ParameterUpdate> updates;
  for (size_t i = 0; i < trained_.size(); ++i) {
    const int key = static_cast<int>(i);
    std::vector<NDArray> weights = {trained_[i].weight}, grads = {trained_[i].grad};
    for (const auto& replica : replicas_) {
      weights.push_back(replica->trained_[i].weight);
      grads.push_back(replica->trained_[i].grad);
    }
    if (kvstore_ != nullptr) {
      kvstore_->Push(key, grads, -key);
      kvstore_->Pull(key, weights, -key);
      continue;
    }
    if (!replicas_.empty()) {
      sums_->Push(key, grads, -key);
      sums_->Pull(key, grads[0], -key);
    }
    updates.push_back({key, weights[0], grads[0]});
  }
  optimizer_->UpdateAll(updates);
  if (replicas_.empty()) return;
  for (const ParameterUpdate& update : updates) {
    for (const auto& replica : replicas_) {
      CopyFromTo(update.weight, replica->trained_[static_cast<size_t>(update.index)].weight);
    }
  }
  AverageAuxStates();
}

/// Sets the auxiliary states on all devices to their mean.
void Module::AverageAuxStates() {
  for (const auto& [name, array] : auxs_) {
    if (!IsReal(array.dtype())) continue;
    std::vector<NDArray> states = {array};
    for (const auto& replica : replicas_) states.push_back(replica->auxs_.at(name));
    sums_->Push(name, states);
    NDArray mean = array;
    sums_->Pull(name, mean);
    mean *= 1.0 / static_cast<double>(num_parts());
    for (size_t i = 1; i < states.size(); ++i) CopyFromTo(mean, states[i]);
  }
}

const std::vector<NDArray>& Module::GetOutputs() const {
  RequireBound("GetOutputs");
  if (bucket_ != nullptr) return bucket_->GetOutputs();
  return outputs_.empty() ? executor_->outputs() : outputs_;
}

void Module::UpdateMetric(EvalMetric* metric, const DataBatch& batch) const {
  metric->Update(batch.label, GetOutputs(), batch_size_ - batch.pad);
}

void Module::SaveCheckpoint(const std::string& prefix, int epoch) const {
  tessera::SaveCheckpoint(prefix, epoch, {symbol_, GetParams()});
}

void Module::LoadParams(const std::string& prefix, int epoch) {
  RequireBound("LoadParams");
  const ModelParameters parameters = LoadCheckpoint(prefix, epoch, InputNames(options_)).parameters;
  const std::string path = CheckpointParametersPath(prefix, epoch);
  CheckParams(path, "parameter", args_, parameters.arg);
  CheckParams(path, "auxiliary state", auxs_, parameters.aux);
  SetParams(parameters);
}

}  // namespace tessera
