#ifndef TESSERA_TRAIN_MODULE_H_
#define TESSERA_TRAIN_MODULE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/io/data_iter.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/ndarray/state.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"
#include "tessera/train/callback.h"
#include "tessera/train/checkpoint.h"
#include "tessera/train/checkpoint_folder.h"
#include "tessera/train/initializer.h"
#include "tessera/train/metrics.h"
#include "tessera/train/optimizers.h"

namespace tessera {

/// Options of a Module.
struct ModuleOptions {
  /// The network's variables that batches feed. All others are parameters.
  std::vector<std::string> data_names = {"data"};
  std::vector<std::string> label_names = {"softmax_label"};
  /// Parameters that training does not change.
  std::vector<std::string> fixed_param_names = {};
  Device device = Device::Cpu();  ///< the device that computes
  /// In place of `device`: several devices, each of which computes an equal part of every batch.
  /// Their gradients are added, in their order, and their auxiliary states are averaged after each
  /// update, so that parameters stay equal.
  std::vector<Device> devices = {};
  /// Makes the network for batches with a DataBatch::bucket_key, once for each key: with the inputs
  /// and the parameters of the module's. If it is null, that network computes them too. Arrays for
  /// such batches have the shapes of the first one. For one device.
  std::function<Symbol(index_t bucket_key)> bucket_symbol = nullptr;
};

/// Options of Module::Fit.
struct FitOptions {
  /// Epochs are numbered from begin_epoch to num_epoch - 1. Begin with 7 to continue after files of
  /// Module::SaveCheckpoint of epoch 7, with an optimizer whose begin_num_update is 7 times the
  /// number of batches. Momentum and the order of a shuffling iterator then begin anew: `resume`
  /// continues them too.
  int num_epoch = 1;
  int begin_epoch = 0;
  /// If set, measured after each epoch. Its batches may have another size than those of training.
  DataIter* eval_data = nullptr;
  /// Measures the training data. It is reset before each epoch, and batch callbacks may reset it;
  /// EpochEndParam::training covers the whole epoch in either case.
  EvalMetric metric = Accuracy();
  EvalMetric validation_metric = Accuracy();                 ///< of eval_data
  std::shared_ptr<Optimizer> optimizer = nullptr;            ///< null: Sgd()
  std::shared_ptr<const Initializer> initializer = nullptr;  ///< null: Uniform(0.01)
  uint64_t seed = 0;                                         ///< of the initializer
  /// The store of the optimizer. If it is null, a new optimizer updates in place, and the current
  /// one keeps its store.
  std::shared_ptr<KVStore> kvstore = nullptr;
  std::vector<BatchEndCallback> batch_end = {};  ///< called after each batch
  std::vector<EpochEndCallback> epoch_end = {};  ///< called after each epoch
  /// Receives the whole training after each epoch, when it is stopped, and after every
  /// checkpoint_batches batches of an epoch unless that is 0; null: nothing is saved.
  CheckpointFolder* checkpoints = nullptr;
  int64_t checkpoint_batches = 0;
  /// Continues from the last of the checkpoints, if there is one, bit for bit like a training that
  /// was never stopped: parameters, optimizer, data, metrics and random numbers. Network, data and
  /// options are those of the training that was saved, except num_epoch. EpochEndParam::seconds
  /// counts from here.
  bool resume = false;
  /// Parts by name that checkpoints also hold, such as callbacks with a state. They outlive Fit.
  std::vector<std::pair<std::string, Stateful*>> parts = {};
};

/// The end of Module::Fit.
struct FitResult {
  int num_epoch = 0;     ///< the epochs done, with those of a training that Fit continued
  bool stopped = false;  ///< whether StopSignals or Module::StopFit ended it
};

/// A network with its parameters, an optimizer and the arrays for one batch size: training,
/// measuring and saving in one object.
///
///     Module module(network);
///     module.Fit(&train, {.num_epoch = 10, .eval_data = &test, .optimizer = sgd});
///     module.SaveCheckpoint("digits", 10);
///
/// Or step by step: Bind, InitParams, InitOptimizer, then for each batch Forward, Backward, Update.
/// These three return at once and allocate no array; reading a value waits for it.
///
/// A call throws Error(kFailedPrecondition) before the calls that it needs. Threads: one thread at
/// a time calls a module.
class Module {
 public:
  /// Throws Error(kInvalidArgument) if the symbol has no argument of one of the names, except label
  /// names.
  explicit Module(Symbol symbol, ModuleOptions options = {});
  ~Module();
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;

  /// Returns a module with a saved network. It has the saved parameters once it is bound. Throws
  /// what LoadCheckpoint throws.
  static Module Load(const std::string& prefix, int epoch, ModuleOptions options = {});

  /// Allocates everything for batches of these shapes, which an iterator's ProvideData and
  /// ProvideLabel return. Binding again, for other shapes, keeps the parameters; an optimizer must
  /// then be set again. Without `for_training` there are no gradients. Throws
  /// Error(kInvalidArgument) that names the array or argument that does not fit.
  void Bind(const std::vector<DataDesc>& data, const std::vector<DataDesc>& label,
            bool for_training = true);

  /// Changes the shapes of the batches, and keeps parameters, optimizer and store. Memory is shared
  /// with the shapes before. An optimizer without a rescale_grad of its own keeps that of the batch
  /// size at InitOptimizer. Throws Error(kInvalidArgument) that names the array or argument that
  /// does not fit, or the parameter that would have another shape; nothing is then changed.
  void Reshape(const std::vector<DataDesc>& data, const std::vector<DataDesc>& label);

  /// Sets the first values of all parameters. Does nothing if they have values and `force` is
  /// false.
  void InitParams(const Initializer& initializer, uint64_t seed = 0, bool force = false);

  /// Returns copies of all parameters in host memory, made asynchronously.
  ModelParameters GetParams() const;

  /// Sets all parameters, also those in the optimizer's store. Throws Error(kInvalidArgument) that
  /// names the first one that is missing, unknown or of another shape or type; no parameter is then
  /// changed.
  void SetParams(const ModelParameters& parameters);

  /// Sets the optimizer. It receives the parameters' names, and the factors in the attributes
  /// lr_mult and wd_mult of the network's variables; the optimizer's own factors take precedence.
  /// If it has no rescale_grad, it receives 1 / batch size and keeps it. If there is a store,
  /// gradients are pushed there, the store updates, and weights are pulled back. A store that this
  /// module has used before takes over the current parameters. A store of many workers gives all of
  /// them the parameters of rank 0, and rescale_grad is divided by their number. Throws Error, with
  /// the optimizer unchanged: kInvalidArgument for no optimizer, kFailedPrecondition before
  /// parameters have values or unless bound for training, and what Optimizer::CheckUpdatesOneByOne,
  /// with a store, and KVStore::Init throw.
  void InitOptimizer(std::shared_ptr<Optimizer> optimizer,
                     std::shared_ptr<KVStore> kvstore = nullptr);

  /// Computes the outputs for a batch. Throws Error(kInvalidArgument) unless the arrays have the
  /// shapes and types that the module was bound for, or those of the first batch of its bucket_key.
  /// A batch needs no labels if `is_train` is false, unless it is the first of its bucket_key. For
  /// that one, also throws what Bind throws, Error(kInvalidArgument) if the network has other
  /// parameters, and Error(kUnimplemented) for several devices.
  void Forward(const DataBatch& batch, bool is_train);
  /// Computes the gradients, after Forward with is_train. Head gradients and errors are those of
  /// Executor::Backward.
  void Backward(const std::vector<NDArray>& head_grads = {});
  /// Updates the parameters by their gradients.
  void Update();

  /// Returns the results of the last Forward, as Executor::outputs does. Those of several devices
  /// are joined on the first one.
  const std::vector<NDArray>& GetOutputs() const;
  /// Adds the outputs to a metric, with the batch's labels and without its padding.
  void UpdateMetric(EvalMetric* metric, const DataBatch& batch) const;

  /// Trains for options.num_epoch epochs. Calls Bind, InitParams and InitOptimizer first unless
  /// they have been called. Waits for the computations only at the end of each epoch and to save.
  /// While a StopSignals lives, a signal ends it after the step that runs. Many workers need equal
  /// numbers of batches, also where they stop, and a CheckpointFolder each; an epoch's metrics are
  /// those of all of them. Throws Error(kInvalidArgument) unless options.num_epoch >
  /// options.begin_epoch, and for a checkpoint of another network; Error(kFailedPrecondition) if
  /// there are checkpoints and not options.resume; and what these functions, the iterators, the
  /// callbacks, the computations and CheckpointFolder throw.
  FitResult Fit(DataIter* train_data, const FitOptions& options);
  /// Lets Fit return after the callbacks of the current epoch, or after the current batch if a
  /// batch's callback calls it. Fit with options.resume then does not continue the training.
  void StopFit() { stops_fit_ = true; }

  /// Measures a data set, from its beginning, without training. Its batches may have another size
  /// than those that the module is bound for: arrays for them are then allocated once and kept
  /// until the next Bind, and GetOutputs does not change. Throws what Bind, Forward,
  /// EvalMetric::Update and EvalMetric::Get throw.
  std::vector<NamedValue> Score(DataIter* data, EvalMetric metric);

  /// Returns the outputs for a data set, from its beginning, one array in host memory for each
  /// output, with a row for each example and none for padding. Batches may have another size, as in
  /// Score. Throws what Bind and Forward throw, and Error(kInvalidArgument) for an output whose
  /// first extent is not the batch's.
  std::vector<NDArray> Predict(DataIter* data);

  /// Save and load a checkpoint's files. LoadParams changes nothing unless the whole file fits.
  /// They throw what the functions of these names in checkpoint.h throw, and LoadParams also what
  /// SetParams throws.
  void SaveCheckpoint(const std::string& prefix, int epoch) const;
  void LoadParams(const std::string& prefix, int epoch);

  /// Return whether Bind, InitParams (or an equivalent) and InitOptimizer have been called.
  bool binded() const { return executor_ != nullptr; }
  bool params_initialized() const { return params_initialized_; }
  bool optimizer_initialized() const { return optimizer_ != nullptr; }

  /// Returns the optimizer, or null before InitOptimizer.
  const std::shared_ptr<Optimizer>& optimizer() const { return optimizer_; }
  /// Returns the network.
  const Symbol& symbol() const { return symbol_; }
  /// Returns the bound executor, that of the first device. Throws Error(kFailedPrecondition) before
  /// Bind.
  const Executor& executor() const;
  /// Returns the number of examples in a batch, or 0 before Bind.
  index_t batch_size() const { return batch_size_; }

 private:
  /// One array that batches feed.
  struct Input {
    DataDesc description;
    NDArray target;  // none if the network does not use it
  };
  /// The work of the store's updater.
  struct StoreUpdate {
    std::shared_ptr<Optimizer> optimizer;
    bool replaces = false;  // pushed arrays are new values, not gradients
  };
  /// A parameter that training changes.
  struct Trained {
    std::string name;
    NDArray weight;
    NDArray grad;
  };

  struct Training;

  Module(const Module& owner, Symbol symbol, const std::vector<DataDesc>& data,
         const std::vector<DataDesc>& label, bool for_training);
  Module* BucketOf(const DataBatch& batch);
  bool Fits(const DataIter& data) const;
  Module* EvaluatorOf(const DataIter& data);
  SimpleBindOptions InputsOf(const std::vector<DataDesc>& data,
                             const std::vector<DataDesc>& label) const;
  void Adopt(std::unique_ptr<Executor> executor, const std::vector<DataDesc>& data,
             const std::vector<DataDesc>& label);
  std::vector<DataDesc> PartOf(const std::vector<DataDesc>& descriptions) const;
  index_t num_parts() const { return static_cast<index_t>(replicas_.size()) + 1; }
  std::vector<std::unique_ptr<Module>> MakeReplicas(const std::vector<DataDesc>& data,
                                                    const std::vector<DataDesc>& label,
                                                    bool for_training) const;
  void Compute(const DataBatch& batch, bool is_train);
  void GatherOutputs();
  void AverageAuxStates();
  void SpreadParams();
  void TakeParamsOfRankZero(KVStore& store);
  void SumOverWorkers(EvalMetric* metric);
  void RequireBound(const char* operation) const;
  void RequireParams(const char* operation) const;
  void CheckBatch(const std::vector<NDArray>& arrays, const std::vector<Input>& inputs,
                  const char* kind) const;
  void LoadBatch(const DataBatch& batch, bool with_labels);
  bool IsInput(const std::string& name) const;
  void Resume(const FitOptions& options, Training* training);
  void SaveTraining(const FitOptions& options, const Training& training) const;
  void BeginFit(DataIter* data, const FitOptions& options, Training* training);
  bool TrainEpoch(DataIter* data, const FitOptions& options, Training* training);

  Symbol symbol_;
  ModuleOptions options_;
  std::vector<std::string> param_names_;

  std::unique_ptr<Executor> executor_;
  bool for_training_ = false;
  index_t batch_size_ = 0;
  std::vector<Input> data_;
  std::vector<Input> label_;
  std::vector<Trained> trained_;
  std::map<std::string, NDArray> args_;  // parameters only
  std::map<std::string, NDArray> auxs_;
  // Of several devices: the modules of all but the first, what adds their arrays, and the outputs.
  std::vector<std::unique_ptr<Module>> replicas_;
  std::unique_ptr<KVStore> sums_;
  std::vector<NDArray> outputs_;
  // Modules for other bucket keys, which share parameters and gradients, and that of the last batch
  // or null.
  std::map<index_t, std::unique_ptr<Module>> buckets_;
  Module* bucket_ = nullptr;
  std::unique_ptr<Module> evaluator_;  // shares the parameters; for Score with other batches

  bool stops_fit_ = false;
  bool params_initialized_ = false;
  std::optional<ModelParameters> loaded_;  // to be set by Bind
  std::string loaded_from_;                // the file, for errors
  std::shared_ptr<Optimizer> optimizer_;
  std::shared_ptr<KVStore> kvstore_;
  std::weak_ptr<KVStore> initialized_store_;  // has the keys 0, 1, … of trained_, also after Bind
  std::shared_ptr<StoreUpdate> store_update_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_MODULE_H_
