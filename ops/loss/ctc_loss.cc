// CTCLoss: the negative log probability of a sequence of labels, summed over its alignments
// (connectionist temporal classification; Graves et al., 2006).
//
//   out[n] = -log sum over the paths of prod_t p[t][path(t)],  p[t] = softmax(data[t][n])
//   d data[t][n][k] = g[n] (p[t][k] - the probability that the path is at class k at time t)
//
// A path gives each frame a label or the blank; equal neighbours count once, and blanks are taken
// away. It runs through states: the labels, with a blank before and after each. Both sums are
// made in log space by the forward-backward recursion over states, so that no product underflows.
//
// Without label_lengths, labels end before the first 0 (blank_label=first, where class 0 is the
// blank) or -1 (last, where the last class is). A sample with fewer frames than its labels need has
// loss 0 and no gradient, as in MXNet. Frames behind data_lengths are not read. A label that is no
// class, or a length beyond its array, throws Error(kOutOfRange). Shapes: data (frames, samples,
// classes), label (samples, labels), lengths and out (samples). The hidden output, like data, is
// the gradient for g = 1. Types: data and out float32, float64, float16, bfloat16; labels and
// lengths any, truncated. Sums over states are computed in float64. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/expr/cost.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration
using base_internal::At;

struct CtcLossParameters {
  bool use_data_lengths = false;
  bool use_label_lengths = false;
  bool blank_is_first = true;

  static void Declare(ParameterSchema<CtcLossParameters>& schema) {
    using P = CtcLossParameters;
    schema.Optional("use_data_lengths", &P::use_data_lengths,
                    "whether data_lengths tells the samples' frames");
    schema.Optional("use_label_lengths", &P::use_label_lengths,
                    "whether label_lengths tells the samples' labels");
    schema.Choice("blank_label", &P::blank_is_first, {{"first", true}, {"last", false}},
                  "the class of the blank");
  }
};

class CtcLossProperty final : public ParameterizedProperty<CtcLossParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names = {"data", "label"};
    if (param_.use_data_lengths) names.push_back("data_lengths");
    if (param_.use_label_lengths) names.push_back("label_lengths");
    return names;
  }
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }
  int NumVisibleOutputs() const override { return 1; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &label = (*in_shape)[1];
    MergeShape(*this, "data", &data, TShape::OfRank(3));
    MergeEqualShapes(*this, {{"data", &data}, {"output1", &(*out_shape)[1]}});
    MergeShape(*this, "label", &label, {data[1], TShape::kUnknown});
    TShape samples = {label[0]};
    MergeShape(*this, "output0", &(*out_shape)[0], samples);
    samples = (*out_shape)[0];
    const std::vector<std::string> names = ListArguments();
    for (size_t i = 2; i < names.size(); ++i) {
      MergeShape(*this, names[i], &(*in_shape)[i], samples);
      samples = (*in_shape)[i];
    }
    for (size_t i = 2; i < names.size(); ++i) (*in_shape)[i] = samples;
    (*out_shape)[0] = samples;
    (*out_shape)[1][1] = data[1] = label[0] = samples[0];
    if (data[2] == 0) {
      throw InvalidArgument(TypeString(), ": data of shape ", data, " has no class for the blank");
    }
    if (data[0] != TShape::kUnknown && label[1] > data[0]) {
      throw InvalidArgument(TypeString(), ": label of shape ", label, " has more labels than the ",
                            data[0], " frames of data, of shape ", data);
    }
    return data.known() && label.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& data = (*in_type)[0];
    for (const DType out : *out_type) MergeType(*this, "data", &data, out);
    MergeType(*this, "output0", &(*out_type)[0], data);
    MergeType(*this, "output1", &(*out_type)[1], data);
    for (DType& dtype : *in_type) {
      if (dtype == DType::kUnknown) dtype = data;
    }
    return data != DType::kUnknown;
  }

  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_data[1]};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int>, std::span<const int>,
                                                 std::span<const int> out_data,
                                                 std::span<const int> in_grad) const override {
    return {{out_data[1], in_grad[0]}};
  }
};

constexpr double kLogZero = -std::numeric_limits<double>::infinity();

/// The states of a sample's paths: a blank, a label, a blank, …, a blank.
struct States {
  States(const std::vector<index_t>& labels, index_t blank)
      : classes(2 * labels.size() + 1, blank),
        skip(2 * labels.size() + 3, kLogZero),
        min_frames(static_cast<index_t>(labels.size())) {
    for (size_t i = 0; i < labels.size(); ++i) {
      classes[2 * i + 1] = labels[i];
      if (i == 0) continue;
      if (labels[i] == labels[i - 1]) {
        ++min_frames;
      } else if (labels[i] != blank) {
        skip[2 * i + 1] = 0;
      }
    }
  }
  index_t size() const { return static_cast<index_t>(classes.size()); }

  std::vector<index_t> classes;  ///< the class of each state
  /// 0 for a state that may follow that two before it, else log 0; two elements more than states.
  std::vector<double> skip;
  index_t min_frames;  ///< the frames of the shortest path
};

/// Computes out[s] = log(exp(stay[s]) + exp(step[s]) + exp(jump[s] + skip[s])) for n states.
/// `scratch` holds 4 n elements.
void AddPaths(const double* stay, const double* step, const double* jump, const double* skip,
              index_t n, double* scratch, double* out) {
  double* const shift = scratch + 3 * n;
  ForEach(n, [=](index_t s) TESSERA_LOOP_BODY {
    const double a = stay[s], b = step[s], c = jump[s] + skip[s];
    const double ab = a > b ? a : b, largest = ab > c ? ab : c;
    shift[s] = largest == kLogZero ? 0 : largest;
    scratch[s] = a - shift[s];
    scratch[n + s] = b - shift[s];
    scratch[2 * n + s] = c - shift[s];
  });
  op::exp::ArrayKernel(scratch, scratch, 3 * n);
  ForEach(n, [=](index_t s) TESSERA_LOOP_BODY {
    scratch[s] = scratch[s] + scratch[n + s] + scratch[2 * n + s];
  });
  op::log::ArrayKernel(scratch, scratch, n);
  ForEach(n, [=](index_t s) TESSERA_LOOP_BODY { out[s] = shift[s] + scratch[s]; });
}

/// The frames of a sample, whose scores are read as T.
template <typename T>
class Frames {
 public:
  Frames(const TBlob& data, index_t sample, index_t count)
      : data_(data),
        sample_(sample),
        count_(count),
        scores_(At(count > 0 ? classes() : 0)),
        terms_(scores_.size()) {
    norms_.reserve(At(count));
  }
  index_t count() const { return count_; }
  index_t classes() const { return data_.shape_[2]; }
  /// Returns the number of the frame's first element.
  index_t Offset(index_t t) const { return (t * data_.shape_[1] + sample_) * classes(); }

  /// Writes the states' log probabilities in the next frame.
  void NextFrame(const States& states, double* log_probabilities) {
    const T* const x = Read(static_cast<index_t>(norms_.size()));
    const T largest = LargestOf(x, classes());
    // Without a finite score there is nothing to subtract.
    const T shift = std::isfinite(largest) ? largest : T(0);
    const Norm norm = {shift, Exp(x, shift)};
    norms_.push_back(norm);
    const double log_sum = std::log(norm.sum);
    for (size_t s = 0; s < states.classes.size(); ++s) {
      log_probabilities[s] =
          static_cast<double>(x[states.classes[s]]) - static_cast<double>(norm.shift) - log_sum;
    }
  }
  /// Returns the probabilities of all classes in frame t, which NextFrame has read. The caller may
  /// change them.
  T* Probabilities(index_t t) {
    const Norm& norm = norms_[At(t)];
    Exp(Read(t), norm.shift);
    T* const terms = terms_.data();
    const T factor = static_cast<T>(1 / norm.sum);
    ForEach(classes(), [=](index_t k) TESSERA_LOOP_BODY { terms[k] *= factor; });
    return terms;
  }

 private:
  /// A frame's probabilities are exp(score - shift) / sum.
  struct Norm {
    T shift;
    double sum;
  };

  /// Writes exp(x - shift) to terms_ and returns their sum.
  double Exp(const T* x, T shift) {
    T* const terms = terms_.data();
    ForEach(classes(), [=](index_t k) TESSERA_LOOP_BODY { terms[k] = x[k] - shift; });
    op::exp::ArrayKernel(terms, terms, classes());
    return SumOf<T>(classes(), [=](index_t k) TESSERA_LOOP_BODY { return terms[k]; });
  }
  const T* Read(index_t t) {
    RowReader<T>(data_).Copy(Offset(t), classes(), scores_.data());
    return scores_.data();
  }

  const TBlob& data_;
  const index_t sample_, count_;
  std::vector<T> scores_, terms_;
  std::vector<Norm> norms_;  // of the frames that were read
};

/// The recursion over the frames of a sample with at least one frame.
template <typename T>
class ForwardBackward {
 public:
  ForwardBackward(const States& states, Frames<T>* frames, bool keeps_frames)
      : states_(states),
        frames_(*frames),
        n_(states.size()),
        rows_(keeps_frames ? frames->count() : 2),
        emissions_(At(rows_ * n_)),
        ends_(At(rows_ * (n_ + 2)), kLogZero),
        scratch_(At(4 * n_)) {}

  /// Returns the log probability of the labels.
  double Forward() {
    for (index_t t = 0; t < frames_.count(); ++t) {
      frames_.NextFrame(states_, Emission(t));
      double* const ends = Ends(t);
      if (t == 0) {
        for (index_t s = 0; s < std::min<index_t>(n_, 2); ++s) ends[s] = Emission(0)[s];
        continue;
      }
      const double* const before = Ends(t - 1);
      AddPaths(before, before - 1, before - 2, states_.skip.data(), n_, scratch_.data(), ends);
      const double* const emission = Emission(t);
      ForEach(n_, [=](index_t s) TESSERA_LOOP_BODY { ends[s] += emission[s]; });
    }
    const double* const last = Ends(frames_.count() - 1);
    log_probability_ = kLogZero;
    const double none[] = {kLogZero};
    AddPaths(last + n_ - 1, last + n_ - 2, none, none, 1, scratch_.data(), &log_probability_);
    return log_probability_;
  }

  /// Calls store(t, gradient of the frame's scores) for each frame, the last one first. Requires
  /// that frames are kept.
  template <typename Store>
  void Backward(const Store& store) {
    // From each state, the log probability of the rest of the path: behind this frame, and with the
    // frame behind it. Two states that no path reaches follow the last one.
    std::vector<double> rest(At(n_), kLogZero), next(At(n_ + 2), kLogZero);
    for (index_t s = std::max<index_t>(0, n_ - 2); s < n_; ++s) rest[At(s)] = 0;
    for (index_t t = frames_.count() - 1; t >= 0; --t) {
      if (t < frames_.count() - 1) {
        for (index_t s = 0; s < n_; ++s) next[At(s)] = rest[At(s)] + Emission(t + 1)[s];
        AddPaths(next.data(), next.data() + 1, next.data() + 2, states_.skip.data() + 2, n_,
                 scratch_.data(), rest.data());
      }
      T* const gradient = frames_.Probabilities(t);
      if (log_probability_ != kLogZero) Subtract(Ends(t), rest.data(), gradient);
      store(t, gradient);
    }
  }

 private:
  double* Emission(index_t t) { return emissions_.data() + t % rows_ * n_; }
  /// The log probabilities of the beginnings of paths that end at each state in frame t. Two
  /// elements in front are log 0.
  double* Ends(index_t t) { return ends_.data() + t % rows_ * (n_ + 2) + 2; }

  /// Subtracts the probability of each state from that of its class.
  void Subtract(const double* ends, const double* rest, T* gradient) {
    double* const share = scratch_.data();
    const double total = log_probability_;
    ForEach(n_, [=](index_t s) TESSERA_LOOP_BODY { share[s] = ends[s] + rest[s] - total; });
    op::exp::ArrayKernel(share, share, n_);
    double blank = 0;  // half of the states
    for (index_t s = 0; s < n_; s += 2) blank += share[s];
    gradient[states_.classes[0]] -= static_cast<T>(blank);
    for (index_t s = 1; s < n_; s += 2)
      gradient[states_.classes[At(s)]] -= static_cast<T>(share[s]);
  }

  const States& states_;
  Frames<T>& frames_;
  const index_t n_, rows_;
  std::vector<double> emissions_, ends_, scratch_;
  double log_probability_ = kLogZero;
};

class CtcLossOperator final : public Operator {
 public:
  explicit CtcLossOperator(const CtcLossParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const std::vector<Sample> samples = ReadSamples(in_data);
    const bool wants_gradient = context.needs_gradient && req[1] != kNullOp;
    if (samples.empty() || (req[0] == kNullOp && !wants_gradient)) return;
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const TShape& shape = in_data[0].shape_;
      ParallelFor(shape[1], StepsPerTask(shape[0] * shape[2], kCost),
                  [&](index_t begin, index_t end) {
                    for (index_t n = begin; n < end; ++n) {
                      Compute<T>(samples[At(n)], n, in_data[0], req,
                                 wants_gradient ? &out_data[1] : nullptr, out_data[0]);
                    }
                  });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    const TBlob &unit = out_data[1], &grad = in_grad[0];
    const index_t samples = unit.shape_[1];
    VisitComputedIn(ComputedInReal(grad.type_flag_), [&](auto one) {
      using T = decltype(one);
      std::vector<T> heads(At(samples));
      RowReader<T>(out_grad[0]).Copy(0, samples, heads.data());
      RowCall call(RowLayout::Along(unit.shape_, 2));
      call.Read(unit).Write(grad, req[0]);
      const index_t classes = unit.shape_[2];
      call.Run<T>(1, [&](index_t row, const T* const* in, T* const* out) {
        const T head = heads[At(row % samples)];
        const T* const from = in[0];
        T* const to = out[0];
        ForEach(classes, [=](index_t k) TESSERA_LOOP_BODY { to[k] = head * from[k]; });
      });
    });
  }

 private:
  static constexpr index_t kCost = expr::FunctorCost<op::exp, float>();

  struct Sample {
    index_t frames;
    std::vector<index_t> labels;
  };

  /// Returns a sample's length from its array. Throws Error(kOutOfRange) unless it is in [0, most].
  static index_t ReadLength(const TBlob& lengths, std::string_view name, index_t n, index_t most) {
    const index_t length = ReadIntegers(lengths, n, 1).front();
    if (length < 0 || length > most) {
      throw OutOfRange(name, "[", n, "] is ", IndexText(length, lengths.type_flag_),
                       ", expected 0 to ", most);
    }
    return length;
  }
  static std::vector<int64_t> ReadIntegers(const TBlob& array, index_t first, index_t count) {
    std::vector<int64_t> values(At(count));
    ReadIndices(array, first, count, values.data());
    return values;
  }

  std::vector<Sample> ReadSamples(std::span<const TBlob> in_data) const {
    const index_t frames = in_data[0].shape_[0], classes = in_data[0].shape_[2];
    const index_t most = in_data[1].shape_[1];
    const index_t padding = param_.blank_is_first ? 0 : -1;
    std::vector<Sample> samples(At(in_data[0].shape_[1]));
    for (index_t n = 0; n < in_data[0].shape_[1]; ++n) {
      Sample& sample = samples[At(n)];
      sample.frames =
          param_.use_data_lengths ? ReadLength(in_data[2], "data_lengths", n, frames) : frames;
      const std::vector<int64_t> given = ReadIntegers(in_data[1], n * most, most);
      const auto end = param_.use_label_lengths
                           ? given.begin() + ReadLength(in_data.back(), "label_lengths", n, most)
                           : std::find(given.begin(), given.end(), padding);
      sample.labels.assign(given.begin(), end);
      for (const index_t label : sample.labels) {
        if (label < 0 || label >= classes) {
          throw OutOfRange("label[", n, "] has ", IndexText(label, in_data[1].type_flag_),
                           ", expected a class, 0 to ", classes - 1);
        }
      }
    }
    return samples;
  }

  template <typename T>
  void Compute(const Sample& sample, index_t n, const TBlob& data, std::span<const OpReqType> req,
               const TBlob* unit, const TBlob& out) const {
    const States states(sample.labels, param_.blank_is_first ? 0 : data.shape_[2] - 1);
    Frames<T> frames(data, n, sample.frames);
    const auto store = [&](index_t t, const T* gradient) {
      RowWriter<T>(*unit, req[1]).Write(frames.Offset(t), frames.classes(), gradient);
    };
    double loss = 0;
    index_t with_gradient = 0;
    if (sample.frames > 0 && sample.frames >= states.min_frames) {
      ForwardBackward<T> paths(states, &frames, unit != nullptr);
      loss = -paths.Forward();
      if (unit != nullptr) paths.Backward(store);
      with_gradient = sample.frames;
    }
    RowWriter<double>(out, req[0]).Write(n, loss);
    if (unit == nullptr || with_gradient == data.shape_[0]) return;
    const std::vector<T> zeros(At(frames.classes()), T(0));
    for (index_t t = with_gradient; t < data.shape_[0]; ++t) store(t, zeros.data());
  }

  const CtcLossParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<CtcLossProperty, CtcLossOperator>(
    TESSERA_TABLE_PLACE, "CTCLoss", "The negative log probability of labels over all alignments.");

}  // namespace
}  // namespace tessera
