#include "tessera/ops/elemwise/fused/fused_map.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/map.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/row_operator.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/functors.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

using ops_internal::LoadRow;
using ops_internal::MakeMapFunction;
using ops_internal::MapCall;
using ops_internal::MapFunction;
using ops_internal::MapTypes;
using ops_internal::StoreRow;
using Kind = FusedMap::Operand::Kind;

constexpr DType kTypes[] = {DType::kFloat32,  DType::kFloat32, DType::kFloat64, DType::kFloat16,
                            DType::kBFloat16, DType::kInt32,   DType::kUint8};

/// The functions of the maps: those that are joined in pairs, an expensive one, and one of three
/// operands.
struct Chosen {
  template <typename T>
  static T Map(T condition, T a, T b) {
    return condition > T(0) ? a : b;
  }
};
const MapFunction kFunctions[] = {
    MakeMapFunction<op::plus, 2, MapTypes::kArithmetic>(),
    MakeMapFunction<op::minus, 2, MapTypes::kArithmetic>(),
    MakeMapFunction<op::mul, 2, MapTypes::kArithmetic>(),
    MakeMapFunction<op::maximum, 2, MapTypes::kArithmetic>(),
    MakeMapFunction<op::relu, 1>(),
    MakeMapFunction<op::tanh, 1>(),
    MakeMapFunction<Chosen, 3, MapTypes::kArithmetic>(),
};
const MapFunction& kPlus = kFunctions[0];
const MapFunction& kTimes = kFunctions[2];
const MapFunction& kRelu = kFunctions[4];

/// An array with a line of guards behind it.
class Array {
 public:
  Array(const TShape& shape, DType dtype) : shape_(shape), dtype_(dtype) {
    bytes_.assign(static_cast<size_t>(shape.Size() * DTypeSizeBytes(dtype)) + 64, 77);
  }
  Array(const TShape& shape, DType dtype, std::mt19937* random) : Array(shape, dtype) {
    std::uniform_real_distribution<double> element(-2, 2);
    std::vector<double> values(static_cast<size_t>(shape.Size()));
    for (double& value : values) value = element(*random);
    StoreRow(values.data(), shape.Size(), /*add=*/false, dtype, bytes_.data());
  }

  TBlob blob() { return TBlob(bytes_.data(), shape_, dtype_, Device::Cpu()); }
  const TShape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::vector<double> Values() const {
    std::vector<double> values(static_cast<size_t>(shape_.Size()));
    LoadRow(bytes_.data(), dtype_, 1, shape_.Size(), values.data());
    return values;
  }

 private:
  TShape shape_;
  DType dtype_;
  std::vector<unsigned char> bytes_;

  friend void ExpectSame(const Array& actual, const Array& expected);
};

/// Checks that arrays have the same bits, any NaN being like any other, and unchanged guards.
void ExpectSame(const Array& actual, const Array& expected) {
  const std::vector<double> a = actual.Values(), b = expected.Values();
  for (size_t i = 0; i < a.size(); ++i) {
    const bool is_same = std::isnan(a[i])
                             ? std::isnan(b[i])
                             : a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]);
    ASSERT_TRUE(is_same) << "element " << i << " is " << a[i] << ", expected " << b[i];
  }
  for (size_t i = actual.bytes_.size() - 64; i < actual.bytes_.size(); ++i) {
    ASSERT_EQ(actual.bytes_[i], 77) << "behind the end";
  }
}

TShape Shrunk(const TShape& shape, std::mt19937* random) {
  std::vector<index_t> extents(shape.begin(), shape.end());
  if ((*random)() % 2 == 0) return shape;
  for (index_t& extent : extents) {
    if ((*random)() % 2 == 0) extent = 1;
  }
  while (!extents.empty() && (*random)() % 3 == 0) extents.erase(extents.begin());
  return TShape(std::span<const index_t>(extents));
}

/// Copies its input. The second half of the elements is finished first, then pieces of the others.
class CopyOperator final : public Operator {
 public:
  explicit CopyOperator(bool runs_epilogue) : runs_epilogue_(runs_epilogue) {}

  bool RunsEpilogue() const override { return runs_epilogue_; }
  void Forward(const OpContext& context, std::span<const TBlob> in_data, std::span<const OpReqType>,
               std::span<const TBlob> out_data) override {
    const index_t n = in_data[0].Size(), half = n / 2;
    std::memcpy(out_data[0].dptr_, in_data[0].dptr_,
                static_cast<size_t>(n * DTypeSizeBytes(in_data[0].type_flag_)));
    EXPECT_EQ(context.epilogue != nullptr, runs_epilogue_);
    if (!runs_epilogue_) return;
    context.epilogue->Run({.first = half, .run = n - half});
    const index_t pairs = half / 6;
    context.epilogue->Run({.first = 0, .run = 3, .count = pairs, .stride = 6});
    context.epilogue->Run({.first = 3, .run = 3, .count = pairs, .stride = 6});
    context.epilogue->Run({.first = 6 * pairs, .run = 1, .count = half - 6 * pairs, .stride = 1});
  }

 private:
  const bool runs_epilogue_;
};

class CopyProperty final : public OperatorProperty {
 public:
  explicit CopyProperty(bool runs_epilogue) : runs_epilogue_(runs_epilogue) {}

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return {}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    (*in_shape)[0] = (*out_shape)[0];
    return true;
  }
  std::unique_ptr<Operator> CreateOperator(Device, std::span<const TShape>,
                                           std::span<const DType>) const override {
    return std::make_unique<CopyOperator>(runs_epilogue_);
  }
  const std::string& TypeString() const override {
    static const std::string name = "Copy";
    return name;
  }

 private:
  const bool runs_epilogue_;
};

/// Rotates each row by one element, so that an element needs the whole row, and a row that is
/// computed twice is another one.
class RotateOperator final : public Operator, public RowOperator {
 public:
  bool RunsRows() const override { return true; }
  void RunRow(index_t row, const TBlob& in, OpReqType req, const TBlob& out) const override {
    const index_t n = in.shape_[in.ndim() - 1], size = DTypeSizeBytes(in.type_flag_);
    std::vector<double> values(static_cast<size_t>(n));
    LoadRow(static_cast<const char*>(in.dptr_) + row * n * size, in.type_flag_, 1, n,
            values.data());
    std::rotate(values.begin(), values.begin() + 1, values.end());
    StoreRow(values.data(), n, req == kAddTo, out.type_flag_,
             static_cast<char*>(out.dptr_) + row * n * size);
  }
  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || in_data[0].Size() == 0) return;
    const index_t rows = in_data[0].Size() / in_data[0].shape_[in_data[0].ndim() - 1];
    for (index_t row = 0; row < rows; ++row) RunRow(row, in_data[0], req[0], out_data[0]);
  }
};

class RotateProperty final : public OperatorProperty {
 public:
  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return {}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    (*out_shape)[0] = (*in_shape)[0];
    return true;
  }
  std::unique_ptr<Operator> CreateOperator(Device, std::span<const TShape>,
                                           std::span<const DType>) const override {
    return std::make_unique<RotateOperator>();
  }
  const std::string& TypeString() const override {
    static const std::string name = "Rotate";
    return name;
  }
};

/// Lets a map end with rotated rows of a stage's results, or of an input, as a further output.
void AddRows(const FusedMap::Operand& operand, FusedMap* map) {
  int num_outputs = 0;
  for (const FusedMap::Stage& stage : map->stages) num_outputs += stage.output < 0 ? 0 : 1;
  map->rows = {std::make_shared<const RotateProperty>(), operand, num_outputs};
}

/// A map, its arrays, and what single maps make of them.
class Case {
 public:
  explicit Case(FusedMap map, std::mt19937* random) : map_(std::move(map)) {
    for (size_t i = 0; i < map_.input_types.size(); ++i) {
      inputs_.emplace_back(map_.input_shapes[i], map_.input_types[i], random);
    }
    for (const FusedMap::Stage& stage : map_.stages) {
      if (stage.output < 0) continue;
      outputs_.emplace_back(map_.shape, stage.dtype, random);
      requests_.push_back((*random)() % 3 == 0 ? kAddTo : kWriteTo);
    }
    if (map_.rows.property != nullptr) {
      const auto index = static_cast<size_t>(map_.rows.operand.index);
      const bool of_input = map_.rows.operand.kind == Kind::kInput;
      outputs_.emplace_back(map_.shape,
                            of_input ? map_.input_types[index] : map_.stages[index].dtype, random);
      requests_.push_back(of_input && (*random)() % 3 == 0 ? kAddTo : kWriteTo);
      const int stored = of_input ? -1 : map_.stages[index].output;
      if (stored >= 0) requests_[static_cast<size_t>(stored)] = kWriteTo;
    }
    expected_ = outputs_;
  }

  std::vector<OpReqType>& requests() { return requests_; }

  /// Runs each stage as a MapCall.
  void RunStages() {
    std::vector<Array> results;
    for (const FusedMap::Stage& stage : map_.stages) {
      results.emplace_back(map_.shape, stage.dtype);
      RunStage(stage, results.back().blob(), kWriteTo, &results);
      if (stage.output < 0) continue;
      const auto output = static_cast<size_t>(stage.output);
      RunStage(stage, expected_[output].blob(), requests_[output], &results);
    }
    if (map_.rows.property == nullptr) return;
    const auto index = static_cast<size_t>(map_.rows.operand.index);
    const TBlob in =
        map_.rows.operand.kind == Kind::kInput ? inputs_[index].blob() : results[index].blob();
    const TBlob out = expected_.back().blob();
    RotateOperator().Forward({}, {&in, 1}, {&requests_.back(), 1}, {&out, 1});
  }

  /// Runs the fused map, with output `in_place.target` over input `in_place.source` if these are
  /// numbers of arrays.
  void RunFused(InplacePair in_place = {-1, -1}) {
    std::vector<TBlob> inputs, outputs;
    for (Array& input : inputs_) inputs.push_back(input.blob());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs.push_back(requests_[i] == kNullOp ? TBlob() : outputs_[i].blob());
    }
    std::vector<OpReqType> requests = requests_;
    const bool is_in_place = in_place.source >= 0;
    const auto source = static_cast<size_t>(in_place.source),
               target = static_cast<size_t>(in_place.target);
    if (is_in_place) {
      outputs[target] = inputs[source];
      requests[target] = kWriteInplace;
    }
    const auto property = MakeFusedMap(map_);
    const auto fused = property->CreateOperator(Device::Cpu(), map_.input_shapes, map_.input_types);
    fused->Forward({}, inputs, requests, outputs);
    if (is_in_place) outputs_[target] = inputs_[source];
  }

  /// Runs the map behind an operator that copies the first input, whose result is kept or has no
  /// memory of its own. Requires an output for it then.
  void RunBehindCopy(bool runs_epilogue, bool is_kept) {
    std::vector<TBlob> inputs, outputs;
    for (Array& input : inputs_) inputs.push_back(input.blob());
    Array result(map_.shape, map_.input_types[0]);
    outputs.push_back(is_kept ? result.blob() : TBlob());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs.push_back(requests_[i] == kNullOp ? TBlob() : outputs_[i].blob());
    }
    std::vector<OpReqType> requests = requests_;
    requests.insert(requests.begin(), is_kept ? kWriteTo : kNullOp);
    const auto property =
        MakeFusedMap(map_, {.property = std::make_shared<const CopyProperty>(runs_epilogue)});
    property->CreateOperator(Device::Cpu(), map_.input_shapes, map_.input_types)
        ->Forward({}, inputs, requests, outputs);
    if (is_kept) ExpectSame(result, inputs_[0]);
  }

  void Check() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "output " << i << " of type " << outputs_[i].dtype()
                                      << ", shape " << map_.shape);
      ExpectSame(outputs_[i], expected_[i]);
    }
  }

  /// Returns the pairs of inputs and outputs that may share memory.
  std::vector<InplacePair> InplacePairs() const {
    std::vector<int> in, out;
    for (size_t i = 0; i < inputs_.size(); ++i) in.push_back(static_cast<int>(i));
    for (size_t i = 0; i < outputs_.size(); ++i) out.push_back(static_cast<int>(i));
    std::vector<InplacePair> pairs = MakeFusedMap(map_)->ForwardInplaceOption(in, out);
    std::erase_if(pairs, [&](const InplacePair& pair) {
      const auto target = static_cast<size_t>(pair.target);
      return inputs_[static_cast<size_t>(pair.source)].dtype() != outputs_[target].dtype() ||
             requests_[target] != kWriteTo;
    });
    return pairs;
  }

 private:
  void RunStage(const FusedMap::Stage& stage, const TBlob& out, OpReqType req,
                std::vector<Array>* results) {
    MapCall call(out, req);
    for (const FusedMap::Operand& operand : stage.operands) {
      const auto index = static_cast<size_t>(operand.index);
      if (operand.kind == Kind::kNumber) {
        call.Add(operand.number);
      } else {
        call.Add(operand.kind == Kind::kInput ? inputs_[index].blob() : (*results)[index].blob());
      }
    }
    call.Run(*stage.function, {});
  }

  FusedMap map_;
  std::vector<Array> inputs_, outputs_, expected_;
  std::vector<OpReqType> requests_;
};

FusedMap RandomMap(std::mt19937* random) {
  const auto below = [&](size_t n) { return (*random)() % n; };
  FusedMap map;
  std::vector<index_t> extents(below(4));
  for (index_t& extent : extents) {
    extent = static_cast<index_t>(below(5) == 0 ? below(700) : 1 + below(6));
  }
  map.shape = TShape(std::span<const index_t>(extents));
  const bool is_mixed = below(2) == 0;
  const DType one = kTypes[below(std::size(kTypes))];
  const auto dtype = [&] { return is_mixed ? kTypes[below(std::size(kTypes))] : one; };
  const size_t num_inputs = 1 + below(5), num_stages = 2 + below(FusedMap::kMaxStages - 1);
  for (size_t i = 0; i < num_inputs; ++i) {
    map.input_shapes.push_back(Shrunk(map.shape, random));
    map.input_types.push_back(dtype());
  }
  int num_outputs = 0;
  for (size_t i = 0; i < num_stages; ++i) {
    FusedMap::Stage stage{.function = &kFunctions[below(std::size(kFunctions))], .dtype = dtype()};
    for (int k = 0; k < stage.function->num_operands; ++k) {
      const size_t choice = below(8);
      if (choice == 0) {
        const double numbers[] = {0.5, -2, 0.0, -0.0};
        stage.operands.push_back({.kind = Kind::kNumber, .number = numbers[below(4)]});
      } else if (choice < 3 || i == 0) {
        stage.operands.push_back(
            {.kind = Kind::kInput, .index = static_cast<int>(below(num_inputs))});
      } else {
        const size_t back = 1 + below(std::min<size_t>(i, 4));
        stage.operands.push_back({.kind = Kind::kStage, .index = static_cast<int>(i - back)});
      }
    }
    if (i + 1 == num_stages || below(6) == 0) stage.output = num_outputs++;
    map.stages.push_back(stage);
  }
  if (map.shape.ndim() > 0 && below(2) == 0) {
    const bool of_input = below(3) == 0 && map.input_shapes[0] == map.shape;
    const int stage = static_cast<int>(below(num_stages));
    AddRows(of_input ? FusedMap::Operand{Kind::kInput, 0} : FusedMap::Operand{Kind::kStage, stage},
            &map);
  }
  return map;
}

TEST(FusedMapTest, GivesTheBitsOfItsStagesOneByOne) {
  std::mt19937 random(20261129);
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const FusedMap map = RandomMap(&random);
    if (map.shape.Size() > 20000) continue;
    Case test(map, &random);
    for (OpReqType& request : test.requests()) {
      if (random() % 5 == 0) request = kNullOp;
    }
    test.RunStages();
    test.RunFused();
    test.Check();
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(FusedMapTest, AnOutputMayLieOverAnInputThatNoLaterStageReads) {
  std::mt19937 random(7);
  int num_pairs = 0;
  for (int round = 0; round < 300; ++round) {
    const FusedMap map = RandomMap(&random);
    if (map.shape.Size() > 5000) continue;
    const Case given(map, &random);
    for (const InplacePair& pair : given.InplacePairs()) {
      SCOPED_TRACE(testing::Message() << "round " << round << ", output " << pair.target
                                      << " over input " << pair.source);
      Case test = given;
      test.RunStages();
      test.RunFused(pair);
      test.Check();
      if (testing::Test::HasFatalFailure()) return;
      ++num_pairs;
    }
  }
  EXPECT_GE(num_pairs, 50);
}

TEST(FusedMapTest, FollowsAnOperatorPieceByPieceOrAsAWhole) {
  std::mt19937 random(23);
  int num_without_memory = 0;
  for (int round = 0; round < 600; ++round) {
    FusedMap map = RandomMap(&random);
    if (map.shape.Size() > 5000) continue;
    map.input_shapes[0] = map.shape;
    const Case given(map, &random);
    const int output = OutputForFirstInput(map);
    for (const bool runs_epilogue : {false, true}) {
      for (const bool is_kept : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "round " << round << (runs_epilogue ? ", piece by piece" : "")
                     << (is_kept ? ", kept" : ""));
        Case test = given;
        if (!is_kept) {
          if (output < 0 || test.requests()[static_cast<size_t>(output)] != kWriteTo) continue;
          ++num_without_memory;
        }
        test.RunStages();
        test.RunBehindCopy(runs_epilogue, is_kept);
        test.Check();
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GE(num_without_memory, 50);
}

TEST(FusedMapTest, TellsTheValuesOfAnOperatorAndItsMap) {
  const TShape shape{2, 3};
  // relu(x + y + z), and the sum itself
  const FusedMap map{
      .shape = shape,
      .input_shapes = {shape, shape, {3}},
      .input_types = std::vector<DType>(3, DType::kFloat32),
      .stages = {{&kPlus, {{Kind::kInput, 0}, {Kind::kInput, 1}}},
                 {&kPlus, {{Kind::kStage, 0}, {Kind::kInput, 2}}, DType::kFloat32, 0},
                 {&kRelu, {{Kind::kStage, 1}}, DType::kFloat32, 1}}};
  EXPECT_EQ(OutputForFirstInput(map), 0);
  const auto property = MakeFusedMap(map, {.property = std::make_shared<const CopyProperty>(true)});
  EXPECT_EQ(property->TypeString(), "Copy+FusedMap");
  EXPECT_EQ(property->ListArguments().size(), 3u);
  EXPECT_EQ(property->ListOutputs().size(), 3u);
  std::vector<TShape> in_shapes(3), out_shapes(3);
  EXPECT_TRUE(property->InferShape(&in_shapes, &out_shapes));
  EXPECT_EQ(in_shapes, std::vector<TShape>({shape, shape, {3}}));
  EXPECT_EQ(out_shapes, std::vector<TShape>(3, shape));
  // y's memory can take the output that does not take the copy.
  const std::vector<int> in = {10, 11, 12}, out = {20, 21, 22};
  const std::vector<InplacePair> pairs = property->ForwardInplaceOption(in, out);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].source, 11);
  EXPECT_EQ(pairs[0].target, 22);
}

/// max(x y + bias, 0) and x y + bias + x, where bias is a row.
FusedMap Layer(const TShape& shape) {
  const index_t columns = shape[shape.ndim() - 1];
  return {.shape = shape,
          .input_shapes = {shape, shape, {columns}},
          .input_types = std::vector<DType>(3, DType::kFloat32),
          .stages = {{&kTimes, {{Kind::kInput, 0}, {Kind::kInput, 1}}},
                     {&kPlus, {{Kind::kStage, 0}, {Kind::kInput, 2}}},
                     {&kRelu, {{Kind::kStage, 1}}, DType::kFloat32, 0},
                     {&kPlus, {{Kind::kStage, 1}, {Kind::kInput, 0}}, DType::kFloat32, 1}}};
}

TEST(FusedMapTest, ThreadsAndStreamedStoresChangeNothing) {
  tbb::task_arena arena(4);
  std::mt19937 random(11);
  for (const int64_t bound : {int64_t{1}, tensor_internal::kStreamedBytes}) {
    tensor_internal::least_streamed_bytes.store(bound);
    for (const TShape& shape : {TShape{400, 500}, TShape{3, 70001}, TShape{200000, 1}}) {
      for (const int row_stage : {-1, 1, 2}) {
        FusedMap map = Layer(shape);
        if (row_stage >= 0) AddRows({Kind::kStage, row_stage}, &map);
        Case test(std::move(map), &random);
        test.RunStages();
        arena.execute([&] { test.RunFused(); });
        test.Check();
      }
    }
  }
}

TEST(FusedMapTest, AnOperatorOnRowsFollowsAProducerAtOnce) {
  std::mt19937 random(31);
  FusedMap map{.shape = {7, 61}, .input_shapes = {{7, 61}}, .input_types = {DType::kFloat16}};
  AddRows({Kind::kInput, 0}, &map);
  EXPECT_EQ(OutputForFirstInput(map), 0);
  const Case given(map, &random);
  for (const bool runs_epilogue : {false, true}) {
    for (const bool is_kept : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << (runs_epilogue ? "piece by piece" : "") << (is_kept ? ", kept" : ""));
      Case test = given;
      test.requests()[0] = is_kept ? kAddTo : kWriteTo;
      test.RunStages();
      test.RunBehindCopy(runs_epilogue, is_kept);
      test.Check();
    }
  }
}

TEST(FusedMapTest, APairOfOperatorsRoundsTwice) {
  // a^2 rounds to 1 + 2^-11, so that the sum is 0; a fused multiply-add would give 2^-24.
  const float a = 1 + 0x1p-12f, c = -1 - 0x1p-11f;
  std::vector<float> in(100, a), sums(100, c), out(100, 1);
  const TShape shape{100};
  const FusedMap map{.shape = shape,
                     .input_shapes = {shape, shape},
                     .input_types = std::vector<DType>(2, DType::kFloat32),
                     .stages = {{&kTimes, {{Kind::kInput, 0}, {Kind::kInput, 0}}},
                                {&kPlus,
                                 {{Kind::kStage, 0}, {Kind::kInput, 1}},
                                 DType::kFloat32,
                                 /*output=*/0}}};
  const TBlob inputs[] = {TBlob(in.data(), shape, DType::kFloat32, Device::Cpu()),
                          TBlob(sums.data(), shape, DType::kFloat32, Device::Cpu())};
  const TBlob output(out.data(), shape, DType::kFloat32, Device::Cpu());
  const OpReqType write[] = {kWriteTo};
  MakeFusedMap(map)
      ->CreateOperator(Device::Cpu(), map.input_shapes, map.input_types)
      ->Forward({}, inputs, write, {&output, 1});
  EXPECT_EQ(out, std::vector<float>(100, 0));
}

TEST(FusedMapTest, CountsTheBlocksThatAreKeptAtATime) {
  FusedMap map{.shape = {4}, .input_shapes = {{4}}, .input_types = {DType::kFloat32}};
  const auto add = [&map](std::vector<FusedMap::Operand> operands) {
    map.stages.push_back({.function = &kPlus, .operands = std::move(operands)});
  };
  add({{Kind::kInput, 0}, {Kind::kInput, 0}});
  EXPECT_EQ(NumBlocks(map), 0);  // nobody reads the result
  for (int i = 0; i < 5; ++i) add({{Kind::kStage, i}, {Kind::kInput, 0}});
  EXPECT_EQ(NumBlocks(map), 1);  // each writes over the one before
  add({{Kind::kStage, 0}, {Kind::kStage, 5}});
  EXPECT_EQ(NumBlocks(map), 2);
  add({{Kind::kStage, 6}, {Kind::kStage, 6}});
  EXPECT_EQ(NumBlocks(map), 2);
}

TEST(FusedMapTest, TellsShapesAndTypes) {
  const auto property = MakeFusedMap(Layer({2, 3}));
  std::vector<TShape> in_shapes(3), out_shapes(2);
  EXPECT_TRUE(property->InferShape(&in_shapes, &out_shapes));
  EXPECT_EQ(in_shapes[2], TShape({3}));
  EXPECT_EQ(out_shapes[1], TShape({2, 3}));
  std::vector<DType> in_types(3, DType::kUnknown), out_types(2, DType::kUnknown);
  EXPECT_TRUE(property->InferType(&in_types, &out_types));
  EXPECT_EQ(out_types[0], DType::kFloat32);
  EXPECT_FALSE(property->HasGradient());
  EXPECT_EQ(property->TypeString(), "FusedMap");
}

}  // namespace
}  // namespace tessera
