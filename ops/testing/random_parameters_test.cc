// Operators with random parameters and shapes, sensible and hostile ones, and with each parameter
// at 0, 1, -1 and the limits of its type: each step ends in an error that names the operator, or in
// a finished call that is differentiated twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/calls_that_once_failed.h"
#include "tessera/ops/testing/encoding.h"
#include "tessera/ops/testing/gradient_tape.h"
#include "tessera/ops/testing/operator_harness.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/parameter_texts.h"
#include "tessera/tensor/philox.h"

namespace {

/// No call here has a reason to allocate more at once.
constexpr size_t kLargestAllocation = size_t{1} << 28;

void* AllocateOrReturnNull(size_t size) noexcept {
  return size > kLargestAllocation ? nullptr : std::malloc(std::max<size_t>(size, 1));
}

void* AllocateOrThrow(size_t size) {
  void* const memory = AllocateOrReturnNull(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// A huge allocation of an operator fails, also under AddressSanitizer, which would end the process.
void* operator new(size_t size) { return AllocateOrThrow(size); }
void* operator new[](size_t size) { return AllocateOrThrow(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return AllocateOrReturnNull(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return AllocateOrReturnNull(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

// A sanitizer has it.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace tessera::ops_testing {
namespace {

constexpr int kTrials = 10000;
/// A call takes place if its arrays together have at most this many elements.
constexpr double kMostElements = 1e5;
/// A result is differentiated by graphs of operators if its call's arrays have at most this many.
constexpr double kMostDifferentiated = 5000;
/// The difference of two forms of one gradient in float64, relative to 1 + the largest element.
constexpr double kGradientTolerance = 1e-9;
/// A trial that takes longer depends on a number instead of on its arrays' sizes.
constexpr double kMostSeconds = 5;

/// The running trial, for the report of a crash.
char running[4096] = "";

void PrintRunning() { std::fprintf(stderr, "\nThe running trial is %s\n", running); }

void OnSignal(int signal) {
  PrintRunning();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Memory of exactly one array, so that AddressSanitizer sees each access outside of it.
class Memory {
 public:
  explicit Memory(size_t size_bytes) {
    if (size_bytes != 0 && posix_memalign(&data_, 64, size_bytes) != 0) throw std::bad_alloc();
  }
  ~Memory() { std::free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class FuzzResource final : public Resource {
 public:
  explicit FuzzResource(ResourceRequest request) : request_(request) {}

  ResourceRequest request() const override { return request_; }
  Device device() const override { return Device::Cpu(); }
  void* GetSpaceBytes(int64_t size_bytes) override {
    EXPECT_GE(size_bytes, 0);
    EXPECT_LE(static_cast<size_t>(size_bytes), kLargestAllocation) << "workspace of " << running;
    if (size_bytes < 0 || static_cast<size_t>(size_bytes) > kLargestAllocation) {
      throw Error(Error::kResourceExhausted, "too much workspace");
    }
    space_ = std::make_unique<Memory>(static_cast<size_t>(size_bytes));
    return space_->data();
  }
  PhiloxState* GetRandomState() override { return &random_; }

 private:
  const ResourceRequest request_;
  std::unique_ptr<Memory> space_;
  PhiloxState random_{.seed = 1};
};

/// One operator with random parameters and arrays.
class Trial {
  using Entry = GradientTape::Entry;

 public:
  Trial(const std::string& name, const OperatorRow* row, uint64_t seed)
      : name_(name), row_(row), random_(seed) {}

  /// Tries random parameters and shapes.
  void Run() {
    Try([this] { Draw(); });
  }
  /// Tries given parameters and shapes, with random values.
  void Run(const ParameterMap& parameters, const std::vector<TShape>& in_shape) {
    Try([&] {
      parameters_ = parameters;
      Create();
      in_shape_ = in_shape;
      in_type_.assign(in_shape.size(), DType::kFloat32);
      out_shape_.resize(property_->ListOutputs().size());
      out_type_.assign(out_shape_.size(), DType::kUnknown);
      Describe();
    });
  }
  /// Tries a case of the row, of its own values, with one parameter changed. If `is_moderate`, the
  /// changed operator computes values of usual magnitude, so that both forms of its gradient agree.
  void Run(const OperatorCase& test_case, const std::string& parameter, const std::string& text,
           DType dtype, bool is_moderate) {
    Try([&] {
      case_ = &test_case;
      takes_case_values_ = true;
      compares_ = is_moderate && dtype == DType::kFloat64;
      parameters_ = test_case.parameters;
      parameters_[parameter] = text;
      Create();
      const size_t num_inputs = property_->ListArguments().size();
      ASSERT_LE(num_inputs, 10000u) << running;
      in_shape_ = test_case.inputs;
      // The shapes of weights are those of the case's own parameters.
      if (test_case.shapes_follow_from_first) in_shape_.resize(std::min<size_t>(1, num_inputs));
      in_shape_.resize(num_inputs);
      out_shape_ = test_case.outputs;
      out_shape_.resize(property_->ListOutputs().size());
      in_type_.assign(num_inputs, dtype);
      out_type_.assign(out_shape_.size(), DType::kUnknown);
      FixTypes();
      Describe();
    });
  }
  bool infers() const { return infers_; }
  bool differentiates() const { return differentiates_; }
  bool differentiates_twice() const { return differentiates_twice_; }
  bool finishes() const { return finishes_; }

 private:
  template <typename T>
  const T& Pick(const std::vector<T>& values) {
    return values[Below(values.size())];
  }
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

  std::string SmallInt() {
    return std::to_string(static_cast<int>(Below(Chance(0.8) ? 5 : 40)) - (Chance(0.2) ? 4 : 0));
  }

  std::string Tuple(bool with_none) {
    std::string text = "(";
    for (size_t n = Chance(0.1) ? Below(8) : Below(5); n > 0; --n) {
      text += (with_none && Chance(0.3) ? "None" : SmallInt()) + (n > 1 ? ", " : ",");
    }
    return text + ")";
  }

  std::string SensibleText(const ParameterInfo& info) {
    static const std::vector<std::string> reals = {"0",    "1",   "-1", "0.5",
                                                   "1e-3", "0.9", "2",  "100"};
    static const std::vector<std::string> words = {"float32", "int32", "float16", "NCHW", "NHWC",
                                                   "None",    "relu",  "mean",    "bool"};
    if (info.type.starts_with("{")) {
      std::vector<std::string> choices = {""};
      for (const char c : info.type.substr(1, info.type.size() - 2)) {
        if (c == ',') {
          choices.emplace_back();
        } else if (c != ' ') {
          choices.back() += c;
        }
      }
      return Pick(choices);
    }
    if (info.type == "boolean") return Chance(0.5) ? "True" : "False";
    if (info.type == "int") return SmallInt();
    if (info.type == "float") return Pick(reals);
    if (info.type == "string") return Pick(words);
    if (info.type == "floats") return "(" + Pick(reals) + ", " + Pick(reals) + ")";
    return Tuple(info.type.find("None") != std::string::npos);
  }

  index_t HostileExtent() {
    constexpr index_t kMost = std::numeric_limits<index_t>::max();
    static const std::vector<index_t> extents = {
        0,          1,          TShape::kUnknown, 65536,
        2147483647, 2147483648, index_t{1} << 32, index_t{1} << 62,
        kMost};
    return Pick(extents);
  }

  TShape RandomShape(double hostile) {
    if (Chance(0.05)) return TShape();
    TShape shape = TShape::OfRank(static_cast<int>(Below(7)));
    for (int i = 0; i < shape.ndim(); ++i) {
      static const std::vector<index_t> small = {1, 2, 2, 3, 3, 4, 5, 8, 17, 0};
      shape[i] = Chance(hostile) ? HostileExtent() : Pick(small);
    }
    return shape;
  }

  DType RandomType() {
    static const std::vector<DType> types = {
        DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kUint8,
        DType::kInt8,    DType::kInt32,   DType::kInt64,   DType::kBool,     DType::kInt16,
        DType::kUint16,  DType::kUint32,  DType::kUint64,  DType::kUnknown};
    return Pick(types);
  }

  template <typename Choose>
  void Try(const Choose& choose) {
    std::snprintf(running, sizeof(running), "%s", name_.c_str());
    const auto start = std::chrono::steady_clock::now();
    try {
      choose();
      if (!::testing::Test::HasFatalFailure()) Infer();
      if (!::testing::Test::HasFatalFailure()) Call();
    } catch (const Error& error) {
      const std::string message = error.what();
      // The caller adds the operator's name to errors of a call.
      if (!calls_ && message.find(name_) == std::string::npos) {
        ADD_FAILURE() << "an error without the operator's name: " << message << "\n" << running;
      }
      if (error.code() == Error::kInternal) ADD_FAILURE() << message << "\n" << running;
    } catch (const std::exception& exception) {
      ADD_FAILURE() << "another exception than an Error: " << exception.what() << "\n" << running;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LE(seconds.count(), kMostSeconds) << running;
  }

  void Create() {
    Describe();
    property_ = OperatorRegistry::Get().Create(name_, parameters_);
    const ParameterMap printed = property_->GetParams();
    EXPECT_EQ(OperatorRegistry::Get().Create(name_, printed)->GetParams(), printed) << running;
  }

  // Parameters and shapes: those of one of the row's cases with changes, or random ones.
  void Draw() {
    const double hostile = Chance(0.5) ? 0 : Chance(0.5) ? 0.1 : 0.4;
    const std::vector<ParameterInfo> infos =
        OperatorRegistry::Get().Find(name_)->describe_parameters();
    const bool from_case = row_ != nullptr && !row_->cases.empty() && Chance(0.7);
    if (from_case) {
      case_ = &Pick(row_->cases);
      parameters_ = case_->parameters;
      in_shape_ = case_->inputs;
    }
    for (const ParameterInfo& info : infos) {
      const double change = from_case ? 0.15 : info.required ? 0.95 : 0.4;
      if (!Chance(change)) continue;
      parameters_[info.name] = Chance(hostile) ? Pick(HostileTexts()) : SensibleText(info);
    }
    if (Chance(0.01)) parameters_["no_such_parameter"] = "1";
    Create();
    const size_t num_inputs = property_->ListArguments().size();
    ASSERT_LE(num_inputs, 10000u) << running;
    out_shape_.resize(property_->ListOutputs().size());
    if (from_case) {
      in_shape_.resize(num_inputs);
      for (TShape& shape : in_shape_) {
        if (Chance(hostile / 2)) shape = RandomShape(hostile);
        if (Chance(0.1) && shape.ndim() > 0) {
          shape[static_cast<int>(Below(static_cast<size_t>(shape.ndim())))] =
              Chance(hostile) ? HostileExtent() : static_cast<index_t>(Below(4));
        }
        if (Chance(0.05)) shape = TShape();
      }
      if (Chance(0.8)) {
        for (size_t i = 0; i < std::min(out_shape_.size(), case_->outputs.size()); ++i) {
          out_shape_[i] = case_->outputs[i];
        }
      }
    } else {
      const TShape common = RandomShape(hostile);
      for (size_t i = 0; i < num_inputs; ++i) {
        in_shape_.push_back(Chance(0.5) ? common : Chance(0.4) ? TShape() : RandomShape(hostile));
      }
    }
    for (TShape& shape : out_shape_) {
      if (Chance(0.05)) shape = RandomShape(hostile);
    }
    in_type_.assign(num_inputs, Chance(0.6) ? DType::kFloat32 : RandomType());
    out_type_.assign(out_shape_.size(), DType::kUnknown);
    if (from_case) FixTypes();
    for (auto* const types : {&in_type_, &out_type_}) {
      for (DType& type : *types) {
        if (Chance(0.05)) type = RandomType();
      }
    }
    Describe();
  }

  void FixTypes() {
    for (size_t i = 0; i < std::min(in_type_.size(), case_->fixed_types.size()); ++i) {
      if (case_->fixed_types[i] != DType::kUnknown) in_type_[i] = case_->fixed_types[i];
    }
  }

  void Infer() {
    const bool shapes_known = property_->InferShape(&in_shape_, &out_shape_);
    const bool types_known = property_->InferType(&in_type_, &out_type_);
    if (!shapes_known || !types_known) return;
    infers_ = true;
    double elements = 0;
    for (const auto* const shapes : {&in_shape_, &out_shape_}) {
      for (const TShape& shape : *shapes) {
        ASSERT_TRUE(shape.known()) << "InferShape returns true for " << running;
        for (const index_t extent : shape) ASSERT_GE(extent, 0) << running;
        elements += static_cast<double>(SizeOrThrow(shape));
      }
    }
    for (const auto* const types : {&in_type_, &out_type_}) {
      for (const DType type : *types) {
        ASSERT_NE(type, DType::kUnknown) << "InferType returns true for " << running;
      }
    }
    Describe();
    operator_ = property_->CreateOperator(Device::Cpu(), in_shape_, in_type_);
    forward_resources_ = Resources(property_->ForwardResource(in_shape_));
    backward_resources_ = Resources(property_->BackwardResource(in_shape_));
    small_ = elements <= kMostElements;
    differentiable_ = elements <= kMostDifferentiated;
  }

  // No array has more elements.
  index_t SizeOrThrow(const TShape& shape) {
    try {
      return shape.Size();
    } catch (const Error& error) {
      throw InvalidArgument(name_, ": ", error.what());
    }
  }

  void Call() {
    if (operator_ == nullptr || !small_) return;
    calls_ = true;
    for (size_t i = 0; i < in_shape_.size(); ++i) {
      in_data_.push_back(Array(in_shape_[i], in_type_[i]));
      FillInput(i);
    }
    std::vector<TBlob> others;
    std::vector<OpReqType> req;
    for (size_t i = 0; i < out_shape_.size(); ++i) {
      for (auto* const list : {&out_data_, &others}) {
        list->push_back(Array(out_shape_[i], out_type_[i]));
        FillBytes(list->back(), 0);
      }
      out_grad_.push_back(Array(out_shape_[i], out_type_[i]));
      Fill(out_grad_[i], Chance(0.9) ? 0 : 1);
      // No graph reads a hidden output, so it has no head gradient.
      if (i >= static_cast<size_t>(property_->NumVisibleOutputs())) out_grad_[i] = TBlob();
      req.push_back(RandomRequest());
    }
    for (size_t i = 0; i < in_shape_.size(); ++i) {
      in_grad_.push_back(Array(in_shape_[i], in_type_[i]));
      FillBytes(in_grad_[i], 0);
    }
    req.insert(req.end(), property_->MutatedInputs().size(), kWriteInplace);
    operator_->Forward({.is_train = Chance(0.5), .requested = forward_resources_}, in_data_, req,
                       others);
    // The gradient reads outputs that were written.
    std::fill_n(req.begin(), out_shape_.size(), kWriteTo);
    is_train_ = Chance(0.5);
    operator_->Forward(
        {.is_train = is_train_, .needs_gradient = true, .requested = forward_resources_}, in_data_,
        req, out_data_);
    finishes_ = true;
    if (differentiable_ && property_->HasGradient()) Differentiate();
    if (property_->HasBackward()) Backward();
  }

  // Records the call and differentiates it by graphs of operators, twice where there are some.
  void Differentiate() {
    GradientTape tape(is_train_);
    std::vector<Entry> inputs, wanted;
    for (size_t i = 0; i < in_shape_.size(); ++i) {
      inputs.push_back(tape.AddVariable(BytesOf(in_data_[i]), in_shape_[i], in_type_[i]));
      if (property_->ArgumentHasGradient(static_cast<int>(i)) && IsReal(in_type_[i])) {
        wanted.push_back(inputs.back());
      }
    }
    if (wanted.empty()) return;
    finishes_ = false;
    std::vector<Entry> heads, head_gradients;
    for (const Entry output : tape.Call(property_, inputs, out_shape_)) {
      if (!IsReal(tape.dtype(output))) continue;
      heads.push_back(output);
      head_gradients.push_back(HeadGradient(&tape, output));
    }
    const auto first = FirstGradients(&tape, heads, head_gradients, wanted);
    differentiates_ = first.has_value();
    if (first && compares_) {
      const auto by_operator =
          tape.Differentiate(heads, head_gradients, wanted, GradientTape::Form::kBackward);
      for (size_t i = 0; i < wanted.size(); ++i) {
        ExpectEqual(tape, wanted[i], (*first)[i], (*by_operator)[i]);
      }
    }
    if (first) DifferentiateAgain(&tape, *first, wanted, head_gradients);
    finishes_ = true;
  }

  std::optional<std::vector<Entry>> FirstGradients(GradientTape* tape,
                                                   const std::vector<Entry>& heads,
                                                   const std::vector<Entry>& head_gradients,
                                                   const std::vector<Entry>& wanted) const {
    try {
      return tape->Differentiate(heads, head_gradients, wanted, GradientTape::Form::kGraph);
    } catch (const Error& error) {
      if (!compares_) throw;
      ADD_FAILURE() << "a call that finishes is not differentiated: " << error.what() << "\n"
                    << running;
      return std::nullopt;
    }
  }

  void DifferentiateAgain(GradientTape* tape, const std::vector<Entry>& gradients,
                          std::vector<Entry> wanted, const std::vector<Entry>& head_gradients) {
    std::vector<Entry> heads, weights;
    for (const Entry gradient : gradients) {
      if (gradient == GradientTape::kZero) continue;
      heads.push_back(gradient);
      weights.push_back(HeadGradient(tape, gradient));
    }
    wanted.insert(wanted.end(), head_gradients.begin(), head_gradients.end());
    differentiates_twice_ =
        tape->Differentiate(heads, weights, wanted, GradientTape::Form::kGraph).has_value();
  }

  Entry HeadGradient(GradientTape* tape, Entry of) {
    const TShape& shape = tape->shape(of);
    const DType dtype = tape->dtype(of);
    return tape->AddVariable(Encode(ops_testing::Fill().Make(shape, &random_), dtype), shape,
                             dtype);
  }

  // Compares a gradient by a graph with the one by Backward.
  void ExpectEqual(const GradientTape& tape, Entry input, Entry by_graph, Entry by_operator) {
    const auto read = [&](Entry gradient) {
      return gradient == GradientTape::kZero ? Values(tape.shape(input)) : tape.Read(gradient);
    };
    const Values actual = read(by_graph), expected = read(by_operator);
    double largest = 0;
    for (const double x : expected.data) {
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    }
    for (index_t i = 0; i < expected.size(); ++i) {
      if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
      if (std::abs(actual[i] - expected[i]) <= kGradientTolerance * (1 + largest)) continue;
      ADD_FAILURE() << "the gradient of input " << input << ", element " << i << ", is "
                    << actual[i] << " by the graph and " << expected[i]
                    << " by Backward: " << running;
      return;
    }
  }

  void Backward() {
    finishes_ = false;
    std::vector<OpReqType> req;
    bool wanted = false;
    for (size_t i = 0; i < in_shape_.size(); ++i) {
      const bool has = property_->ArgumentHasGradient(static_cast<int>(i));
      req.push_back(has ? RandomRequest() : kNullOp);
      if (req[i] == kNullOp) in_grad_[i] = TBlob();
      wanted |= req[i] != kNullOp;
    }
    const auto ids = [](int base, size_t n) {
      std::vector<int> list(n);
      for (size_t i = 0; i < n; ++i) list[i] = base + static_cast<int>(i);
      return list;
    };
    constexpr int kBase = 100000;
    const std::vector<int> needed = property_->DeclareBackwardDependency(
        ids(0, out_grad_.size()), ids(kBase, in_data_.size()), ids(2 * kBase, out_data_.size()));
    int base = 0;
    for (auto* const list : {&out_grad_, &in_data_, &out_data_}) {
      for (size_t i = 0; i < list->size(); ++i) {
        const int id = base + static_cast<int>(i);
        if (std::find(needed.begin(), needed.end(), id) == needed.end()) (*list)[i] = TBlob();
      }
      base += kBase;
    }
    if (wanted) {
      operator_->Backward({.is_train = is_train_, .requested = backward_resources_}, out_grad_,
                          in_data_, out_data_, req, in_grad_);
    }
    finishes_ = true;
  }

  OpReqType RandomRequest() {
    if (Chance(0.2)) return kNullOp;
    return Chance(0.3) && operator_->AcceptsAddTo() ? kAddTo : kWriteTo;
  }

  TBlob Array(const TShape& shape, DType type) {
    memory_.push_back(
        std::make_unique<Memory>(static_cast<size_t>(shape.Size() * DTypeSizeBytes(type))));
    return TBlob(memory_.back()->data(), shape, type, Device::Cpu());
  }

  void FillInput(size_t i) {
    if (takes_case_values_) {
      const auto fill = i < case_->fills.size() ? case_->fills[i]
                        : IsReal(in_type_[i])   ? ops_testing::Fill()
                                                : ops_testing::Fill::Integers(0, 9);
      Store(fill.Make(in_shape_[i], &random_), in_data_[i]);
    } else if (case_ != nullptr && i < case_->fills.size() && Chance(0.7)) {
      Store(case_->fills[i].Make(in_shape_[i], &random_), in_data_[i]);
    } else {
      Fill(in_data_[i], Chance(0.6) ? 0 : Chance(0.5) ? 1 : 2);
    }
  }

  // Small values, values beyond indices and NaN, or any bits.
  void Fill(const TBlob& blob, int kind) {
    const TShape& shape = blob.shape_;
    const DType type = blob.type_flag_;
    if (kind == 2) return FillBytes(blob, 1);
    static const std::vector<double> small = {0, 1, 2, 3};
    static const std::vector<double> hostile = {-1, 0, 1, 100, 127};
    static const std::vector<double> hostile_real = {-1,
                                                     0.5,
                                                     -0.0,
                                                     1e30,
                                                     -1e30,
                                                     1e-40,
                                                     16777217,
                                                     3e9,
                                                     -3e9,
                                                     std::numeric_limits<double>::quiet_NaN(),
                                                     std::numeric_limits<double>::infinity(),
                                                     -std::numeric_limits<double>::infinity()};
    Values values(shape);
    for (double& value : values.data) {
      value = kind == 0                     ? Pick(small)
              : IsReal(type) && Chance(0.5) ? Pick(hostile_real)
                                            : Pick(hostile);
      if (kind == 0 && IsReal(type) && Chance(0.5)) value -= 1.5;
      if (type == DType::kBool) value = value != 0;
    }
    const bool is_unsigned = type == DType::kUint8 || type == DType::kUint16 ||
                             type == DType::kUint32 || type == DType::kUint64;
    if (is_unsigned) {
      for (double& value : values.data) value = std::max(value, 0.0);
    }
    Store(values, blob);
  }

  static void Store(const Values& values, const TBlob& blob) {
    const Bytes bytes = Encode(values, blob.type_flag_);
    if (!bytes.empty()) std::memcpy(blob.dptr_, bytes.data(), bytes.size());
  }

  static Bytes BytesOf(const TBlob& blob) {
    Bytes bytes(static_cast<size_t>(blob.shape_.Size() * DTypeSizeBytes(blob.type_flag_)));
    if (!bytes.empty()) std::memcpy(bytes.data(), blob.dptr_, bytes.size());
    return bytes;
  }

  // Zeros, or any bits that are a value of the type.
  void FillBytes(const TBlob& blob, int kind) {
    auto* const bytes = static_cast<unsigned char*>(blob.dptr_);
    const auto size = static_cast<size_t>(blob.shape_.Size() * DTypeSizeBytes(blob.type_flag_));
    const unsigned mask = kind == 0 ? 0 : blob.type_flag_ == DType::kBool ? 1 : 0xFF;
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(random_() & mask);
  }

  std::vector<Resource*> Resources(const std::vector<ResourceRequest>& requests) {
    std::vector<Resource*> list;
    for (const ResourceRequest request : requests) {
      resources_.push_back(std::make_unique<FuzzResource>(request));
      list.push_back(resources_.back().get());
    }
    return list;
  }

  void Describe() {
    std::string text = name_ + "(";
    for (const auto& [name, value] : parameters_) text += name + "=\"" + value + "\", ";
    text += ")";
    for (size_t i = 0; i < std::min(in_shape_.size(), in_type_.size()); ++i) {
      text +=
          (i == 0 ? " of " : ", ") + std::string(DTypeName(in_type_[i])) + in_shape_[i].ToString();
    }
    for (size_t i = 0; i < std::min(out_shape_.size(), out_type_.size()); ++i) {
      text += (i == 0 ? " to " : ", ") + std::string(DTypeName(out_type_[i])) +
              out_shape_[i].ToString();
    }
    std::snprintf(running, sizeof(running), "%s", text.c_str());
  }

  const std::string& name_;
  const OperatorRow* const row_;
  std::mt19937_64 random_;

  ParameterMap parameters_;
  const OperatorCase* case_ = nullptr;
  std::vector<TShape> in_shape_, out_shape_;
  std::vector<DType> in_type_, out_type_;
  std::shared_ptr<const OperatorProperty> property_;
  std::unique_ptr<Operator> operator_;
  std::vector<std::unique_ptr<FuzzResource>> resources_;
  std::vector<Resource*> forward_resources_, backward_resources_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<TBlob> in_data_, out_data_, out_grad_, in_grad_;
  bool takes_case_values_ = false;
  bool compares_ = false;
  bool small_ = false;
  bool differentiable_ = false;
  bool differentiates_ = false;
  bool differentiates_twice_ = false;
  bool is_train_ = false;
  bool calls_ = false;
  bool infers_ = false;
  bool finishes_ = false;
};

/// Prints the running trial where the process ends.
void ReportCrashes() {
  for (const int signal : {SIGABRT, SIGTERM}) std::signal(signal, OnSignal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(PrintRunning);
  } else {
    for (const int signal : {SIGFPE, SIGSEGV}) std::signal(signal, OnSignal);
  }
}

TEST(RandomParametersTest, CallsThatOnceFailedAreRefusedOrFinish) {
  ReportCrashes();
  for (const FailedCall& call : CallsThatOnceFailed()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Trial(call.op, nullptr, seed).Run(call.parameters, call.in_shape);
    }
  }
}

TEST(RandomParametersTest, EachCallIsRefusedByNameOrFinishes) {
  ReportCrashes();
  std::map<std::string, const OperatorRow*> rows;
  for (const OperatorRow& row : OperatorRows()) rows[row.name] = &row;
  const std::vector<std::string> names = OperatorRegistry::Get().ListNames();
  ASSERT_FALSE(names.empty());

  const uint64_t seed = TestSeed();
  int infer = 0, finish = 0, twice = 0;
  for (int i = 0; i < kTrials && !HasFatalFailure(); ++i) {
    const std::string& name = names[static_cast<size_t>(i) % names.size()];
    const auto row = rows.find(name);
    Trial trial(name, row == rows.end() ? nullptr : row->second,
                seed + static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u);
    trial.Run();
    infer += trial.infers();
    finish += trial.finishes();
    twice += trial.differentiates_twice();
  }
  RecordProperty("infer", infer);
  RecordProperty("finish", finish);
  std::printf(
      "seed %llu: of %d calls, %d have all shapes and types, %d finish, and %d are differentiated "
      "twice\n",
      static_cast<unsigned long long>(seed), kTrials, infer, finish, twice);
  // Otherwise the errors of parsing would hide the operators.
  EXPECT_GE(infer, kTrials / 4);
  EXPECT_GE(finish, kTrials / 5);
  EXPECT_GE(twice, kTrials / 20);
}

/// Returns a case of the row that sets the parameter, if there is one, and has few elements.
const OperatorCase* CaseFor(const OperatorRow& row, const std::string& parameter,
                            std::mt19937_64* random) {
  std::vector<const OperatorCase*> small, setting;
  for (const OperatorCase& test_case : row.cases) {
    double elements = 0;
    for (const TShape& shape : test_case.inputs) {
      elements += shape.known() ? static_cast<double>(shape.Size()) : 0;
    }
    if (test_case.large || elements > kMostDifferentiated / 4) continue;
    small.push_back(&test_case);
    if (test_case.parameters.contains(parameter)) setting.push_back(&test_case);
  }
  const std::vector<const OperatorCase*>& from = setting.empty() ? small : setting;
  if (from.empty()) return &row.cases.front();
  return from[std::uniform_int_distribution<size_t>(0, from.size() - 1)(*random)];
}

TEST(RandomParametersTest, EachParameterTakesZeroOneMinusOneAndTheLimitsOfItsType) {
  ReportCrashes();
  std::mt19937_64 random(TestSeed());
  int calls = 0, infer = 0, finish = 0, once = 0, twice = 0;
  for (const OperatorRow& row : OperatorRows()) {
    for (const ParameterInfo& info :
         OperatorRegistry::Get().Find(row.name)->describe_parameters()) {
      const auto run = [&](const std::vector<std::string>& texts, bool is_moderate) {
        for (const std::string& text : texts) {
          for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
            const OperatorCase& test_case = *CaseFor(row, info.name, &random);
            Trial trial(row.name, &row, random());
            trial.Run(test_case, info.name, text, dtype, is_moderate);
            ++calls;
            infer += trial.infers();
            finish += trial.finishes();
            once += trial.differentiates();
            twice += trial.differentiates_twice();
          }
        }
      };
      const OperatorCase& first = *CaseFor(row, info.name, &random);
      const auto given = first.parameters.find(info.name);
      const Edges edges =
          EdgesOf(info, given == first.parameters.end() ? info.default_value : given->second);
      run(edges.moderate, true);
      run(edges.limits, false);
      if (HasFatalFailure()) return;
    }
  }
  std::printf(
      "seed %llu: of %d calls, %d have all shapes and types, %d finish, %d are differentiated by a "
      "graph, %d twice\n",
      static_cast<unsigned long long>(TestSeed()), calls, infer, finish, once, twice);
  // Otherwise refusals would hide the operators.
  EXPECT_GE(infer, calls / 4);
  EXPECT_GE(finish, calls / 5);
  EXPECT_GE(twice, calls / 20);
}

}  // namespace
}  // namespace tessera::ops_testing
