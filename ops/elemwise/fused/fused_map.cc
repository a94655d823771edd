#include "tessera/ops/elemwise/fused/fused_map.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/ops/elemwise/fused/fused_map_call.h"
#include "tessera/ops/elemwise/fused/ready_map.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/row_operator.h"

namespace tessera {
namespace {

using base_internal::At;
using ops_internal::FusedMapCall;
using ops_internal::kNone;
using ops_internal::MakeRowOperator;
using ops_internal::ReadyMap;
using ops_internal::RunMap;

class FusedMapOperator final : public Operator {
 public:
  explicit FusedMapOperator(std::shared_ptr<const ReadyMap> map) : map_(std::move(map)) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    RunMap(*map_, in_data, req, out_data);
  }

 private:
  const std::shared_ptr<const ReadyMap> map_;
};

/// Returns count names: prefix0, prefix1, and so on.
std::vector<std::string> Numbered(const std::string& prefix, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

class FusedMapProperty final : public OperatorProperty {
 public:
  explicit FusedMapProperty(const FusedMap& map)
      : input_shapes_(map.input_shapes),
        input_types_(map.input_types),
        map_(std::make_shared<const ReadyMap>(map)),
        output_types_(map_->OutputTypes()) {}

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return {}; }
  std::vector<std::string> ListArguments() const override {
    return Numbered("input", input_types_.size());
  }
  std::vector<std::string> ListOutputs() const override {
    return Numbered("output", output_types_.size());
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    for (size_t i = 0; i < input_shapes_.size(); ++i) {
      MergeShape(*this, "input", &(*in_shape)[i], input_shapes_[i]);
    }
    for (TShape& shape : *out_shape) MergeShape(*this, "output", &shape, map_->shape());
    return true;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    *in_type = input_types_;
    *out_type = output_types_;
    return true;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    std::vector<InplacePair> pairs;
    for (const auto& [input, output] : map_->inplace_options()) {
      pairs.push_back({in_data[At(input)], out_data[At(output)]});
    }
    return pairs;
  }
  bool HasGradient() const override { return false; }
  std::unique_ptr<Operator> CreateOperator(Device, std::span<const TShape>,
                                           std::span<const DType>) const override {
    return std::make_unique<FusedMapOperator>(map_);
  }
  const std::string& TypeString() const override {
    static const std::string name = "FusedMap";
    return name;
  }

 private:
  const std::vector<TShape> input_shapes_;
  const std::vector<DType> input_types_;
  const std::shared_ptr<const ReadyMap> map_;
  const std::vector<DType> output_types_;
};

/// A producer followed by a map.
class ProducerWithMap final : public Operator {
 public:
  ProducerWithMap(std::unique_ptr<Operator> producer, size_t num_inputs, size_t num_outputs,
                  std::shared_ptr<const ReadyMap> map)
      : producer_(std::move(producer)),
        num_inputs_(num_inputs),
        num_outputs_(num_outputs),
        map_(std::move(map)) {
    SetImplementationOf(*producer_);
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const Arguments arguments(*this, in_data, req, out_data);
    OpContext of_producer = context;
    if (!context.prepared.empty()) of_producer.prepared = context.prepared.first(num_inputs_);
    if (!producer_->RunsEpilogue()) {
      producer_->Forward(of_producer, in_data.first(num_inputs_), arguments.req(),
                         arguments.outputs());
      RunMap(*map_, arguments.map_inputs(), arguments.map_req, arguments.map_outputs);
      return;
    }
    const FusedMapCall epilogue(*map_, arguments.map_inputs(), arguments.map_req,
                                arguments.map_outputs);
    of_producer.epilogue = &epilogue;
    producer_->Forward(of_producer, in_data.first(num_inputs_), arguments.req(),
                       arguments.outputs());
  }

  PreparedForm InputForm(int input, Device device, std::span<const TShape> in_shape,
                         std::span<const DType> in_type) const override {
    if (At(input) >= num_inputs_) return {};
    return producer_->InputForm(input, device, in_shape.first(num_inputs_),
                                in_type.first(num_inputs_));
  }

  std::optional<int64_t> ForwardWorkspaceBytes(int threads, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob> out_data) const override {
    const Arguments arguments(*this, in_data, req, out_data);
    return producer_->ForwardWorkspaceBytes(threads, in_data.first(num_inputs_), arguments.req(),
                                            arguments.outputs());
  }

 private:
  /// The arguments of the producer and of the map in a call.
  struct Arguments {
    Arguments(const ProducerWithMap& op, std::span<const TBlob> in_data,
              std::span<const OpReqType> all_req, std::span<const TBlob> out_data)
        : map_req(all_req.subspan(op.num_outputs_, out_data.size() - op.num_outputs_)),
          map_outputs(out_data.subspan(op.num_outputs_)),
          num_outputs(op.num_outputs_) {
      // The producer's requests, then those of its mutated inputs.
      const std::span<const OpReqType> mutated = all_req.subspan(out_data.size());
      std::copy_n(all_req.begin(), num_outputs, requests.begin());
      std::copy(mutated.begin(), mutated.end(), requests.begin() + num_outputs);
      num_requests = num_outputs + mutated.size();
      std::copy_n(out_data.begin(), num_outputs, results.begin());
      if (requests[0] == kNullOp) {
        const size_t output = At(op.map_->output_for_first_input());
        requests[0] = map_req[output];
        results[0] = map_outputs[output];
      }
      inputs[0] = results[0];
      std::copy(in_data.begin() + op.num_inputs_, in_data.end(), inputs.begin() + 1);
      num_inputs = 1 + in_data.size() - op.num_inputs_;
    }

    std::span<const OpReqType> req() const { return {requests.data(), num_requests}; }
    std::span<const TBlob> outputs() const { return {results.data(), num_outputs}; }
    std::span<const TBlob> map_inputs() const { return {inputs.data(), num_inputs}; }

    const std::span<const OpReqType> map_req;
    const std::span<const TBlob> map_outputs;
    const size_t num_outputs;
    size_t num_requests = 0, num_inputs = 0;
    std::array<OpReqType, MapProducer::kMaxResults> requests{};
    std::array<TBlob, MapProducer::kMaxResults> results;
    std::array<TBlob, FusedMap::kMaxInputs> inputs;
  };

  const std::unique_ptr<Operator> producer_;
  const size_t num_inputs_, num_outputs_;  // of the producer
  const std::shared_ptr<const ReadyMap> map_;
};

class ProducerWithMapProperty final : public OperatorProperty {
 public:
  ProducerWithMapProperty(const FusedMap& map, const MapProducer& producer)
      : producer_(producer),
        num_inputs_(producer.property->ListArguments().size()),
        num_outputs_(producer.property->ListOutputs().size()),
        name_(producer.property->TypeString() + "+FusedMap"),
        input_shapes_(map.input_shapes.begin() + 1, map.input_shapes.end()),
        input_types_(map.input_types.begin() + 1, map.input_types.end()),
        map_(std::make_shared<const ReadyMap>(map)),
        output_types_(map_->OutputTypes()) {}

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return producer_.property->GetParams(); }
  std::vector<std::string> ListArguments() const override {
    return Joined(producer_.property->ListArguments(), Numbered("input", input_types_.size()));
  }
  std::vector<std::string> ListOutputs() const override {
    return Joined(producer_.property->ListOutputs(), Numbered("output", output_types_.size()));
  }
  std::vector<int> MutatedInputs() const override { return producer_.property->MutatedInputs(); }
  Purity purity() const override { return producer_.property->purity(); }
  bool IsRepeatable() const override { return producer_.property->IsRepeatable(); }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    std::vector<TShape> inputs = First(*in_shape, num_inputs_);
    std::vector<TShape> outputs = First(*out_shape, num_outputs_);
    MergeShape(*this, "output", &outputs[0], map_->shape());
    const bool is_known = producer_.property->InferShape(&inputs, &outputs);
    *in_shape = Joined(std::move(inputs), input_shapes_);
    *out_shape =
        Joined(std::move(outputs), std::vector<TShape>(output_types_.size(), map_->shape()));
    return is_known;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    std::vector<DType> inputs = First(*in_type, num_inputs_);
    std::vector<DType> outputs = First(*out_type, num_outputs_);
    const bool is_known = producer_.property->InferType(&inputs, &outputs);
    *in_type = Joined(std::move(inputs), input_types_);
    *out_type = Joined(std::move(outputs), output_types_);
    return is_known;
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape> in_shape) const override {
    return producer_.property->ForwardResource(in_shape.first(num_inputs_));
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    std::vector<InplacePair> pairs = producer_.property->ForwardInplaceOption(
        in_data.first(num_inputs_), out_data.first(num_outputs_));
    const int held = map_->output_for_first_input();
    if (held != kNone) {
      // The producer may compute its first output there.
      for (size_t i = 0, count = pairs.size(); i < count; ++i) {
        if (pairs[i].target != out_data[0]) continue;
        pairs.push_back({pairs[i].source, out_data[num_outputs_ + At(held)]});
      }
    }
    for (const auto& [input, output] : map_->inplace_options()) {
      if (input == 0 || output == held) continue;
      pairs.push_back({in_data[num_inputs_ + At(input) - 1], out_data[num_outputs_ + At(output)]});
    }
    return pairs;
  }
  bool HasGradient() const override { return false; }
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override {
    const std::span<const TShape> shapes = in_shape.first(num_inputs_);
    const std::span<const DType> types = in_type.first(num_inputs_);
    const OperatorProperty& producer = *producer_.property;
    std::unique_ptr<Operator> op =
        producer_.implementation.empty()
            ? producer.CreateOperator(device, shapes, types)
            : producer.CreateImplementation(producer_.implementation, device, shapes, types);
    return std::make_unique<ProducerWithMap>(std::move(op), num_inputs_, num_outputs_, map_);
  }
  const std::string& TypeString() const override { return name_; }

 private:
  template <typename T>
  static std::vector<T> First(const std::vector<T>& list, size_t count) {
    return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  template <typename T>
  static std::vector<T> Joined(std::vector<T> first, const std::vector<T>& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
  }

  const MapProducer producer_;
  const size_t num_inputs_, num_outputs_;  // of the producer
  const std::string name_;
  const std::vector<TShape> input_shapes_;  // of the map, without the first input
  const std::vector<DType> input_types_;
  const std::shared_ptr<const ReadyMap> map_;
  const std::vector<DType> output_types_;  // of the map
};

}  // namespace

int NumBlocks(const FusedMap& map) {
  std::vector<int> block_of;
  return ops_internal::AssignBlocks(map.stages, &block_of);
}

bool RunsRows(const OperatorProperty& property, const TShape& shape, DType dtype) {
  const std::unique_ptr<Operator> op = MakeRowOperator(property, shape, dtype);
  const auto* const rows = dynamic_cast<const RowOperator*>(op.get());
  return rows != nullptr && rows->RunsRows();
}

int OutputForFirstInput(const FusedMap& map) { return ReadyMap(map).output_for_first_input(); }

std::shared_ptr<const OperatorProperty> MakeFusedMap(const FusedMap& map) {
  return std::make_shared<const FusedMapProperty>(map);
}

std::shared_ptr<const OperatorProperty> MakeFusedMap(const FusedMap& map,
                                                     const MapProducer& producer) {
  return std::make_shared<const ProducerWithMapProperty>(map, producer);
}

}  // namespace tessera
