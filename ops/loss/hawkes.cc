// _contrib_hawkesll: the log likelihood of events of Hawkes processes, whose intensity each event
// raises for a while.
//
//   Process k of a sample has the intensity lda[k] + alpha[k] beta[k] s[k](t), with the memory
//   s[k](t) = state[k] exp(-beta[k] t) + the sum of exp(-beta[k] (t - u)) over its events u < t.
//   output = the sum of log intensity over the events, less each process's integral of the
//            intensity over [0, max_time]
//   out_state[k] = s[k](max_time)
//
// An integral is summed from event to event: over a time d without events, the memory s becomes
// m = s exp(-beta d), and alpha beta s integrates to alpha (s - m). Source: E. Bacry,
// I. Mastromatteo and J. F. Muzy (2015), Hawkes processes in finance, and the derivatives of its
// formulas. The gradient is MXNet's: that of output with respect to lda, alpha and beta. The state
// and out_state, which join a sequence's parts, count as constant, and the events too.
//
// Shapes: lda and state (batch, processes), alpha and beta (processes), lags and marks
// (batch, steps), valid_length and max_time (batch); output (batch), out_state (batch, processes).
// An event is lags after the one before and belongs to the process that marks names; the first
// valid_length of a row count. A mark that is no process, or a valid_length that is no number of
// steps, throws Error(kOutOfRange). Types: marks int32; one of float32, float64, float16, bfloat16
// for the others, computed in float64. Runs on the CPU.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: elements and registration
using base_internal::At;

using Doubles = std::vector<double>;

enum Input { kLda, kAlpha, kBeta, kState, kLags, kMarks, kValidLength, kMaxTime };

class HawkesProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time"};
  }
  std::vector<std::string> ListOutputs() const override { return {"output", "out_state"}; }
  bool ArgumentHasGradient(int argument) const override { return argument <= kBeta; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    // The axes of inputs and outputs: n samples, k processes, t steps.
    static constexpr std::string_view kAxes[] = {"nk", "k", "k", "nk", "nt",
                                                 "nt", "n", "n", "n",  "nk"};
    std::vector<std::string> names = ListArguments();
    for (const std::string& name : ListOutputs()) names.push_back(name);
    std::map<char, index_t> extents = {
        {'n', TShape::kUnknown}, {'k', TShape::kUnknown}, {'t', TShape::kUnknown}};
    // The second pass tells the first values what the last ones have.
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t i = 0; i < names.size(); ++i) {
        TShape& shape = i < in_shape->size() ? (*in_shape)[i] : (*out_shape)[i - in_shape->size()];
        TShape known = TShape::OfRank(static_cast<int>(kAxes[i].size()));
        for (int d = 0; d < known.ndim(); ++d) known[d] = extents.at(kAxes[i][At(d)]);
        MergeShape(*this, names[i], &shape, known);
        for (int d = 0; d < known.ndim(); ++d) extents.at(kAxes[i][At(d)]) = shape[d];
      }
    }
    return std::none_of(extents.begin(), extents.end(),
                        [](const auto& extent) { return extent.second == TShape::kUnknown; });
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "marks", &(*in_type)[kMarks], DType::kInt32);
    std::vector<DType> others = *in_type;
    others.erase(others.begin() + kMarks);
    const bool known = OperatorProperty::InferType(&others, out_type);
    others.insert(others.begin() + kMarks, DType::kInt32);
    *in_type = others;
    return known;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> ids = {out_grad[0]};
    ids.insert(ids.end(), in_data.begin(), in_data.end());
    return ids;
  }
};

/// The likelihood of one sample, step by step, with its derivatives.
class Likelihood {
 public:
  Likelihood(index_t processes, Doubles alpha, Doubles beta)
      : alpha_(std::move(alpha)),
        beta_(std::move(beta)),
        lda_(At(processes)),
        memory_(At(processes)) {}

  /// The derivatives with respect to the parameters of a process.
  struct Slopes {
    double lda = 0, alpha = 0, beta = 0;
  };

  /// Computes a sample. Its marks and length have been checked.
  void Run(std::span<const TBlob> in, index_t sample, index_t length) {
    const index_t processes = static_cast<index_t>(lda_.size());
    const index_t steps = in[kLags].shape_[1];
    Doubles state(lda_.size()), lags(At(length));
    Load(in[kLda], sample * processes, &lda_);
    Load(in[kState], sample * processes, &state);
    Load(in[kLags], sample * steps, &lags);
    const auto* const marks = static_cast<const int32_t*>(in[kMarks].dptr_) + sample * steps;
    for (size_t k = 0; k < state.size(); ++k) memory_[k] = {.value = state[k]};
    log_ = 0;
    slopes_.assign(state.size(), Slopes());
    double time = 0;
    for (index_t j = 0; j < length; ++j) {
      time += lags[At(j)];
      const auto k = static_cast<size_t>(marks[j]);
      Advance(k, time);
      AddEvent(k);
    }
    Doubles end(1);
    Load(in[kMaxTime], sample, &end);
    for (size_t k = 0; k < memory_.size(); ++k) Advance(k, end[0]);
  }

  double log() const { return log_; }
  const std::vector<Slopes>& slopes() const { return slopes_; }
  Doubles State() const {
    Doubles state;
    for (const Memory& memory : memory_) state.push_back(memory.value);
    return state;
  }

  static void Load(const TBlob& from, index_t first, Doubles* to) {
    RowReader<double>(from).Copy(first, static_cast<index_t>(to->size()), to->data());
  }

 private:
  /// The memory of a process at a time, and its derivative with respect to beta.
  struct Memory {
    double value = 0, slope = 0, time = 0;
  };

  /// Subtracts the integral of a process's intensity up to `time`.
  void Advance(size_t k, double time) {
    Memory& memory = memory_[k];
    const double d = time - memory.time, decay = std::exp(-beta_[k] * d);
    const Memory later = {memory.value * decay, (memory.slope - d * memory.value) * decay, time};
    const double lost = memory.value - later.value;
    log_ -= lda_[k] * d + alpha_[k] * lost;
    slopes_[k].lda -= d;
    slopes_[k].alpha -= lost;
    slopes_[k].beta -= alpha_[k] * (memory.slope - later.slope);
    memory = later;
  }

  /// Adds the logarithm of a process's intensity at an event, which the memory then has.
  void AddEvent(size_t k) {
    Memory& memory = memory_[k];
    const double intensity = lda_[k] + alpha_[k] * beta_[k] * memory.value;
    log_ += std::log(intensity);
    slopes_[k].lda += 1 / intensity;
    slopes_[k].alpha += beta_[k] * memory.value / intensity;
    slopes_[k].beta += alpha_[k] * (memory.value + beta_[k] * memory.slope) / intensity;
    memory.value += 1;
  }

  const Doubles alpha_, beta_;
  Doubles lda_;
  std::vector<Memory> memory_;
  std::vector<Slopes> slopes_;
  double log_ = 0;
};

class HawkesOperator final : public Operator {
 public:
  explicit HawkesOperator(const NoParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    ForEachSample(in_data, [&](index_t i, const Likelihood& sample) {
      const double log = sample.log();
      if (req[0] != kNullOp) {
        RowWriter<double>(out_data[0], req[0]).Write(i, log);
      }
      if (req[1] != kNullOp) Store(sample.State(), i, req[1], out_data[1]);
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const TShape& shape = in_data[kLda].shape_;
    const size_t processes = At(shape[1]);
    Doubles g(At(shape[0])), alpha(At(shape.Size())), beta(alpha.size());
    Likelihood::Load(out_grad[0], 0, &g);
    ForEachSample(in_data, [&](index_t i, const Likelihood& sample) {
      Doubles lda(processes);
      for (size_t k = 0; k < processes; ++k) {
        const Likelihood::Slopes& slopes = sample.slopes()[k];
        lda[k] = g[At(i)] * slopes.lda;
        alpha[At(i) * processes + k] = g[At(i)] * slopes.alpha;
        beta[At(i) * processes + k] = g[At(i)] * slopes.beta;
      }
      if (req[kLda] != kNullOp) Store(lda, i, req[kLda], in_grad[kLda]);
    });
    if (req[kAlpha] != kNullOp) Store(SumOfRows(alpha, processes), 0, req[kAlpha], in_grad[kAlpha]);
    if (req[kBeta] != kNullOp) Store(SumOfRows(beta, processes), 0, req[kBeta], in_grad[kBeta]);
  }

 private:
  /// Calls body(i, likelihood) for each sample.
  template <typename Body>
  static void ForEachSample(std::span<const TBlob> in, const Body& body) {
    constexpr index_t kCost = 40;  // of an event or a process
    const index_t batch = in[kLags].shape_[0], processes = in[kAlpha].Size();
    const std::vector<index_t> lengths = Lengths(in);
    Doubles alpha(At(processes)), beta(alpha.size());
    Likelihood::Load(in[kAlpha], 0, &alpha);
    Likelihood::Load(in[kBeta], 0, &beta);
    const index_t work = in[kLags].shape_[1] + processes;
    ParallelFor(batch, StepsPerTask(work, kCost), [&](index_t begin, index_t end) {
      Likelihood likelihood(processes, alpha, beta);
      for (index_t i = begin; i < end; ++i) {
        likelihood.Run(in, i, lengths[At(i)]);
        body(i, likelihood);
      }
    });
  }

  /// Returns the samples' numbers of events. Throws Error(kOutOfRange) for a wrong number or mark.
  static std::vector<index_t> Lengths(std::span<const TBlob> in) {
    const index_t batch = in[kLags].shape_[0], steps = in[kLags].shape_[1];
    const index_t processes = in[kAlpha].Size();
    std::vector<int64_t> lengths(At(batch));
    ReadIndices(in[kValidLength], 0, batch, lengths.data());
    for (index_t i = 0; i < batch; ++i) {
      const index_t length = lengths[At(i)];
      if (length < 0 || length > steps) {
        throw OutOfRange("valid_length[", i, "] is ",
                         IndexText(length, in[kValidLength].type_flag_), ", expected 0 to ", steps);
      }
      const auto* const marks = static_cast<const int32_t*>(in[kMarks].dptr_) + i * steps;
      for (index_t j = 0; j < length; ++j) {
        if (marks[j] >= 0 && marks[j] < processes) continue;
        throw OutOfRange("marks[", i, ", ", j, "] is ", marks[j], ", expected a process from 0 to ",
                         processes - 1);
      }
    }
    return lengths;
  }

  static Doubles SumOfRows(const Doubles& rows, size_t width) {
    Doubles sums(width);
    for (size_t i = 0; i < rows.size(); ++i) sums[i % width] += rows[i];
    return sums;
  }
  /// Writes row i of an array.
  static void Store(const Doubles& values, index_t i, OpReqType req, const TBlob& to) {
    const auto n = static_cast<index_t>(values.size());
    RowWriter<double>(to, req).Write(i * n, n, values.data());
  }
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<HawkesProperty, HawkesOperator>(
    TESSERA_TABLE_PLACE, "_contrib_hawkesll", "The log likelihood of events of Hawkes processes.");

}  // namespace
}  // namespace tessera
