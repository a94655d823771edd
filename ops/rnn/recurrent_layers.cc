// RNN: recurrent layers, one upon the other, over whole sequences.
//
//   rnn_relu, rnn_tanh   h[t] = f(W x[t] + b + R h[t-1] + b')
//   lstm                 i, f, o = sigmoid, g = tanh of such sums
//                        c[t] = f c[t-1] + i g,  h[t] = o tanh(c[t])
//                        with lstm_state_clip_min and _max: c[t] limited to [min, max], in which
//                        NaN stays NaN, or with lstm_state_clip_nan becomes min with
//                        projection_size P: h[t] = V (o tanh(c[t])), of P numbers
//   gru                  r, z = sigmoid of such sums,  n = tanh(W x[t] + b + r (R h[t-1] + b'))
//                        h[t] = (1 - z) n + z h[t-1]
//
// x is data or, in a higher layer, the states h of the layer below, in training multiplied by a
// random mask: 0 with probability p, else 1 / (1 - p). With `bidirectional`, a layer is two layers
// apart, of which the second runs from the end to the beginning, and its output holds both states.
// With `use_sequence_length`, sample n ends before step sequence_length[n]: the output is 0 from
// there on, the second direction begins there, and the last states are those there. (So does cuDNN;
// MXNet's CPU code ignores the lengths or refuses them, ignores the limits, and trains no
// projection.) The first cell state is not limited. A limited element passes no gradient, nor does
// one at a limit.
//
// Shapes: data (T, N, C); state (L D, N, S) and state_cell (L D, N, H), for L layers of D
// directions, directions in the inner loop, where S is P with a projection and H without;
// sequence_length (N); output (T, N, D S); state_output and statecell_output like state and
// state_cell. `parameters` is one vector in cuDNN's order: W (G H, inputs), R (G H, S) and, with a
// projection, V (P, H) of each layer and direction, then b and b' (G H) of each. The G gates are
// i f g o (lstm), r z n (gru) or one. Hidden outputs: what the gates gave, the lower layers'
// states, and the mask.
//
// Types: float32, float64, float16, bfloat16; the last two are computed in float32, in which the
// hidden outputs are too; sequence_length of any type. All inputs but the lengths have gradients.
// Runs on the CPU. The data's part is one product over all steps. The state's part is a product a
// step, by weights that are packed once; threads share its units and samples, and meet after each
// step (recurrent_steps.h). With a projection, they share its samples alone. The two directions of
// a layer run side by side. So could the layers, each a step behind the one below it, but the
// data's part would then be as many small products as there are steps.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/rnn/recurrent_extents.h"
#include "tessera/ops/rnn/recurrent_steps.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/linalg/gemm.h"
#include "tessera/tensor/nn/recurrent.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

class RnnProperty final : public ParameterizedProperty<RnnParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names = {"data", "parameters", "state"};
    if (param_.HasCell()) names.push_back("state_cell");
    if (param_.use_sequence_length) names.push_back("sequence_length");
    return names;
  }
  std::vector<std::string> ListOutputs() const override {
    std::vector<std::string> names = {"output"};
    if (param_.state_outputs) names.push_back("state_output");
    if (param_.state_outputs && param_.HasCell()) names.push_back("statecell_output");
    names.insert(names.end(), {"gates", "layers"});
    if (param_.Drops()) names.push_back("mask");
    return names;
  }
  int NumVisibleOutputs() const override {
    return !param_.state_outputs ? 1 : param_.HasCell() ? 3 : 2;
  }
  Purity purity() const override { return param_.Drops() ? Purity::kRandom : Purity::kPure; }
  bool ArgumentHasGradient(int argument) const override {
    return argument < (param_.HasCell() ? 4 : 3);
  }
  bool IsSequenceState(int argument) const override { return argument > 1; }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    if (!param_.Drops()) return {};
    return {{ResourceRequest::Type::kRandom}};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    constexpr index_t kUnknown = TShape::kUnknown;
    TShape& data = (*in_shape)[0];
    TShape& parameters = (*in_shape)[1];
    RecurrentExtents extents(param_, kUnknown);
    const index_t states = extents.layers * extents.directions;
    MergeShape(*this, "data", &data, {kUnknown, kUnknown, kUnknown});
    MergeShape(*this, "parameters", &parameters, {kUnknown});
    // The first pass finds the numbers of steps and samples, the second gives them to all.
    for (int pass = 0; pass < 2; ++pass) {
      const auto merge = [&](const char* name, TShape* shape, TShape known, int steps, int batch) {
        if (steps >= 0) known[steps] = data[0];
        known[batch] = data[1];
        MergeShape(*this, name, shape, known);
        MergeShape(*this, "data", &data,
                   {steps >= 0 ? (*shape)[steps] : kUnknown, (*shape)[batch], kUnknown});
      };
      const std::vector<std::string> arguments = ListArguments(), outputs = ListOutputs();
      for (size_t i = 2; i < arguments.size(); ++i) {
        if (arguments[i] == "sequence_length") {
          merge("sequence_length", &(*in_shape)[i], {kUnknown}, -1, 0);
        } else {
          merge(arguments[i].c_str(), &(*in_shape)[i],
                {states, kUnknown, i == 2 ? extents.state : extents.size}, -1, 1);
        }
      }
      for (size_t i = 0; i < outputs.size(); ++i) {
        TShape* const shape = &(*out_shape)[i];
        const char* const name = outputs[i].c_str();
        if (i == 0) {
          merge(name, shape, {kUnknown, kUnknown, extents.Width()}, 0, 1);
        } else if (i < static_cast<size_t>(NumVisibleOutputs())) {
          merge(name, shape, {states, kUnknown, i == 1 ? extents.state : extents.size}, -1, 1);
        } else if (outputs[i] == "gates") {
          merge(
              name, shape,
              {extents.layers, extents.directions, kUnknown, kUnknown, extents.kept * extents.size},
              2, 3);
        } else {
          merge(name, shape, {extents.layers - 1, kUnknown, kUnknown, extents.Width()}, 1, 2);
        }
      }
    }
    if (data[2] == kUnknown && parameters[0] != kUnknown && extents.Fit()) {
      const index_t first = extents.InputsOf(parameters[0]);
      if (first >= 0) data[2] = first;
    }
    if (data[2] == kUnknown) return false;
    extents.inputs = data[2];
    if (!extents.Fit()) {
      throw InvalidArgument(TypeString(), ": data has shape ", data,
                            ", with which there are more than 2^63 parameters");
    }
    MergeShape(*this, "parameters", &parameters, {extents.NumParameters()});
    return data.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    const size_t visible = static_cast<size_t>(NumVisibleOutputs());
    const size_t real = in_type->size() - (param_.use_sequence_length ? 1 : 0);
    std::vector<DType> in(in_type->begin(), in_type->begin() + static_cast<ptrdiff_t>(real));
    std::vector<DType> out(out_type->begin(), out_type->begin() + static_cast<ptrdiff_t>(visible));
    if (!OperatorProperty::InferType(&in, &out)) return false;
    std::copy(in.begin(), in.end(), in_type->begin());
    std::copy(out.begin(), out.end(), out_type->begin());
    for (size_t i = real; i < in_type->size(); ++i) {
      if ((*in_type)[i] == DType::kUnknown) (*in_type)[i] = in[0];
    }
    const DType kept = in[0] == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    for (size_t i = visible; i < out_type->size(); ++i) {
      if ((*out_type)[i] != DType::kUnknown && (*out_type)[i] != kept) {
        throw InvalidArgument(TypeString(), ": ", ListOutputs()[i], " has element type ",
                              (*out_type)[i], ", expected ", kept, " for data of ", in[0]);
      }
      (*out_type)[i] = kept;
    }
    return true;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    const size_t visible = static_cast<size_t>(NumVisibleOutputs());
    std::vector<int> needed(out_grad.begin(), out_grad.begin() + static_cast<ptrdiff_t>(visible));
    needed.insert(needed.end(), in_data.begin(), in_data.end());
    needed.push_back(out_data[0]);
    const auto hidden = out_data.subspan(visible);
    needed.insert(needed.end(), hidden.begin(), hidden.end());
    return needed;
  }

 protected:
  void CheckParameters() override {
    const auto needs_lstm = [&](const char* name, bool given) {
      if (given && !param_.HasCell()) {
        throw InvalidArgument(TypeString(), ": parameter ", name, " is for mode=lstm alone");
      }
    };
    const auto &low = param_.lstm_state_clip_min, &high = param_.lstm_state_clip_max;
    needs_lstm("projection_size", param_.IsProjected());
    needs_lstm("lstm_state_clip_min", low.has_value());
    needs_lstm("lstm_state_clip_max", high.has_value());
    if (low.has_value() != high.has_value()) {
      throw InvalidArgument(TypeString(), ": parameter lstm_state_clip_",
                            low.has_value() ? "min is given without lstm_state_clip_max"
                                            : "max is given without lstm_state_clip_min");
    }
    if (low.has_value() && !(*low <= *high)) {
      throw InvalidArgument(TypeString(), ": lstm_state_clip_min=", *low,
                            " is not at most lstm_state_clip_max=", *high);
    }
  }
};

/// Returns an array's elements as T: the array itself, or a copy.
template <typename T>
const T* Elements(const TBlob& array, Scratch* scratch) {
  const RowReader<T> reader(array);
  const index_t count = array.shape_.Size();
  return reader.Read(0, count, reader.is_direct() ? nullptr : TakeScratch<T>(count, scratch));
}

/// Elements of T that are to become an array's: the array itself, or others until Store.
template <typename T>
class Result {
 public:
  Result(const TBlob& array, OpReqType req, index_t count, Scratch* scratch)
      : array_(array, req), count_(count) {
    elements_ = array_.Out(0, array_.is_direct() ? nullptr : TakeScratch<T>(count, scratch));
  }
  bool wanted() const { return array_.is_wanted(); }
  T* data() const { return elements_; }
  void Store() const { array_.Write(0, count_, elements_); }

 private:
  const RowWriter<T> array_;
  const index_t count_;
  T* elements_;
};

/// c = op(a) op(b) + beta c, where c is m x n, and op transposes if its flag is set.
template <typename T>
void Multiply(index_t m, index_t n, index_t k, StridedMatrix<const T> a, bool transpose_a,
              StridedMatrix<const T> b, bool transpose_b, T beta, StridedMatrix<T> c) {
  tensor_internal::Gemm(tensor_internal::GemmArguments<T>{.transpose_a = transpose_a,
                                                          .transpose_b = transpose_b,
                                                          .m = m,
                                                          .n = n,
                                                          .k = k,
                                                          .alpha = T(1),
                                                          .a = a.data,
                                                          .lda = a.stride,
                                                          .b = b.data,
                                                          .ldb = b.stride,
                                                          .beta = beta,
                                                          .c = c.data,
                                                          .ldc = c.stride});
}

template <typename T>
void MultiplyElements(const T* a, const T* b, index_t n, T* out) {
  ParallelFor(n, ElementsPerTask(), [=](index_t begin, index_t end) {
    const T *const from = a + begin, *const factor = b + begin;
    T* const to = out + begin;
    ForEach(end - begin, [=](index_t i) TESSERA_LOOP_BODY { to[i] = from[i] * factor[i]; });
  });
}

class RnnOperator final : public Operator {
 public:
  explicit RnnOperator(const RnnParameters& param) : param_(param) {}

  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_),
                    [&](auto one) { Run<decltype(one)>(context, in_data, req, out_data); });
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      RunBackward<decltype(one)>(out_grad, in_data, out_data, req, in_grad);
    });
  }

 private:
  /// The positions of the inputs and outputs that not every operator has.
  static constexpr size_t kCell = 3;
  size_t Length() const { return param_.HasCell() ? 4 : 3; }
  size_t Hidden() const { return !param_.state_outputs ? 1 : param_.HasCell() ? 3 : 2; }

  /// The limits of cell states, if there are any.
  template <typename T>
  std::optional<tensor_internal::RecurrentClip<T>> Clip() const {
    if (!param_.lstm_state_clip_min.has_value()) return std::nullopt;
    return tensor_internal::RecurrentClip<T>{.min = static_cast<T>(*param_.lstm_state_clip_min),
                                             .max = static_cast<T>(*param_.lstm_state_clip_max),
                                             .replaces_nan = param_.lstm_state_clip_nan};
  }

  /// The number of steps of each sample, or null if all have all.
  const int64_t* Lengths(std::span<const TBlob> in_data, const RecurrentExtents& e,
                         Scratch* scratch) const {
    if (!param_.use_sequence_length) return nullptr;
    int64_t* const lengths = TakeScratch<int64_t>(e.batch, scratch);
    const TBlob& given = in_data[Length()];
    ReadIndices(given, 0, e.batch, lengths);
    for (index_t n = 0; n < e.batch; ++n) {
      if (lengths[n] < 0 || lengths[n] > e.steps) {
        throw OutOfRange("sequence_length[", n, "] is ", IndexText(lengths[n], given.type_flag_),
                         ", expected 0 to ", e.steps);
      }
    }
    return lengths;
  }

  /// The elements of the random mask, in the scratch memory unless the output is wanted.
  template <typename T>
  const T* Mask(const OpContext& context, const RecurrentExtents& e, OpReqType req,
                const TBlob& array, Scratch* scratch) const {
    const index_t count = (e.layers - 1) * e.Rows() * e.Width();
    const Result<T> mask(array, req, count, scratch);
    const double keep = 1 - static_cast<double>(param_.p);
    T factor = T(1);
    if (context.is_train) {
      Tensor<cpu, 1, T> elements(mask.data(), Shape1(count));
      context.requested[0]->get_random<cpu>(nullptr).SampleBernoulli(&elements, keep);
      factor = keep > 0 ? static_cast<T>(1 / keep) : T(0);
    } else {
      std::fill_n(mask.data(), count, T(1));
    }
    T* const x = mask.data();
    ForEach(count, [=](index_t i) TESSERA_LOOP_BODY { x[i] *= factor; });
    return mask.data();
  }

  template <typename T>
  void Run(const OpContext& context, std::span<const TBlob> in_data, std::span<const OpReqType> req,
           std::span<const TBlob> out_data) const {
    const RecurrentExtents e(param_, in_data[0].shape_);
    const index_t rows = e.Rows(), width = e.Width(), gates = e.gates * e.size;
    const index_t kept_width = e.kept * e.size;
    const index_t places = e.layers * e.directions;
    const index_t state = e.batch * e.state, cell = param_.HasCell() ? e.batch * e.size : 0;
    const size_t hidden = Hidden();
    const auto clip = Clip<T>();
    Scratch scratch;
    const int64_t* const lengths = Lengths(in_data, e, &scratch);
    const T* const parameters = Elements<T>(in_data[1], &scratch);
    const T* const first_h = Elements<T>(in_data[2], &scratch);
    const T* const first_c = param_.HasCell() ? Elements<T>(in_data[kCell], &scratch) : nullptr;
    const Result<T> output(out_data[0], req[0], rows * width, &scratch);
    const Result<T> last_h(out_data[1], param_.state_outputs ? req[1] : kNullOp, places * state,
                           &scratch);
    const bool shows_cell = param_.state_outputs && param_.HasCell();
    const Result<T> last_c(shows_cell ? out_data[2] : TBlob(), shows_cell ? req[2] : kNullOp,
                           places * cell, &scratch);
    // Without a reader every layer uses the same memory.
    const bool keeps = req[hidden] != kNullOp;
    const index_t kept_place = rows * kept_width;
    const Result<T> kept(out_data[hidden], req[hidden],
                         (keeps ? places : e.directions) * kept_place, &scratch);
    const Result<T> layers(out_data[hidden + 1], req[hidden + 1], (e.layers - 1) * rows * width,
                           &scratch);
    const T* const mask = param_.Drops()
                              ? Mask<T>(context, e, req[hidden + 2], out_data[hidden + 2], &scratch)
                              : nullptr;
    T* const dropped = mask != nullptr ? TakeScratch<T>(rows * width, &scratch) : nullptr;
    // Each direction's old and new state, in turns.
    T* const h = TakeScratch<T>(2 * e.directions * state, &scratch);
    // The cells' outputs, which a projection reads where they are kept.
    T* const unprojected = e.is_projected ? TakeScratch<T>(e.directions * cell, &scratch) : nullptr;
    const StepCut cut(e);
    const bool is_gru = param_.mode == RnnParameters::Cell::kGru;

    const T* x = Elements<T>(in_data[0], &scratch);
    for (index_t layer = 0; layer < e.layers; ++layer) {
      T* const y = layer + 1 == e.layers ? output.data() : layers.data() + layer * rows * width;
      const index_t inputs = e.Inputs(layer), first_place = layer * e.directions;
      T* const layer_kept = kept.data() + (keeps ? first_place * kept_place : 0);
      OfDirections<const T> weights{}, projections{};
      for (index_t direction = 0; direction < e.directions; ++direction) {
        const index_t place = first_place + direction;
        const T* const matrices = parameters + e.Weights(layer, direction);
        weights[static_cast<size_t>(direction)] = parameters + e.RecurrentWeights(layer, direction);
        projections[static_cast<size_t>(direction)] = parameters + e.Projection(layer, direction);
        std::copy_n(first_h + place * state, state, h + direction * state);
        if (first_c != nullptr) {
          std::copy_n(first_c + place * cell, cell, last_c.data() + place * cell);
        }
        Multiply<T>(rows, gates, inputs, {x, inputs}, false, {matrices, inputs}, true, T(0),
                    {layer_kept + direction * kept_place, kept_width});
      }
      Scratch layer_scratch;
      const StepProduct<T> product(e, cut, {weights, gates, e.state, true, e.gates},
                                   &layer_scratch);
      std::optional<StepProduct<T>> projection;
      if (e.is_projected) {
        projection.emplace(e, cut, StepWeights<T>{projections, e.state, e.size, true},
                           &layer_scratch);
      }
      cut.Run(e.steps, [&](index_t i, const StepPart& part) {
        const index_t direction = part.direction, place = first_place + direction;
        const index_t step = direction == 0 ? i : e.steps - 1 - i;
        const T* const old_h = h + (i % 2 * e.directions + direction) * state + part.row * e.state;
        T* const new_h = h + ((1 - i % 2) * e.directions + direction) * state + part.row * e.state;
        T* const c =
            first_c != nullptr ? last_c.data() + place * cell + part.row * e.size : nullptr;
        const index_t first = step * e.batch + part.row;
        T* const step_kept = layer_kept + direction * kept_place + first * kept_width + part.unit;
        // The part's first output: of its own units or, with a projection, of all.
        T* const out = y + first * width + direction * e.state + part.unit;
        T* const projected = step_kept + (e.kept - 1) * e.size;
        T* const cell_h =
            e.is_projected ? unprojected + direction * cell + part.row * e.size : new_h;
        // The fresh gate of a GRU needs its two parts apart.
        product.Run(i, part, 0, is_gru ? 2 : e.gates, {old_h, e.state}, T(1),
                    {step_kept, kept_width});
        if (is_gru) {
          product.Run(i, part, 2, 1, {old_h, e.state}, T(0), {step_kept + gates, kept_width});
        }
        const T* const bias = parameters + e.Biases(layer, direction) + part.unit;
        ForRows(part, step, lengths, [&](index_t row, index_t num_rows, bool runs) {
          const index_t at = row * e.size + part.unit;
          const tensor_internal::RecurrentStep<T> s{
              .rows = num_rows,
              .units = part.units,
              .block = e.size,
              .kept = step_kept + row * kept_width,
              .kept_stride = kept_width,
              .bias_input = bias,
              .bias_state = bias + gates,
              .old_h = e.is_projected ? nullptr : old_h + at,
              .h = cell_h + at,
              .c = c != nullptr ? c + at : nullptr,
              .state_stride = e.size,
              .out = e.is_projected ? projected + row * kept_width : out + row * width,
              .out_stride = e.is_projected ? kept_width : width,
              .clip = clip.has_value() ? &*clip : nullptr};
          if (runs) return tensor_internal::RecurrentForward(param_.mode, s);
          for (index_t k = 0; k < e.kept; ++k) std::fill_n(s.kept + k * e.size, s.units, T(0));
          if (c != nullptr) std::copy_n(s.c, s.units, s.kept + gates);
          if (e.is_projected) return;
          std::copy_n(s.old_h, s.units, s.h);
          std::fill_n(s.out, s.units, T(0));
        });
        if (!e.is_projected) return;
        projection->Run(i, part, 0, 1, {projected, kept_width}, T(0), {new_h, e.state});
        ForRows(part, step, lengths, [&](index_t row, index_t num_rows, bool runs) {
          for (index_t r = row; r < row + num_rows; ++r) {
            T* const state_of_row = new_h + r * e.state;
            if (runs) {
              std::copy_n(state_of_row, e.state, out + r * width);
            } else {
              std::copy_n(old_h + r * e.state, e.state, state_of_row);
              std::fill_n(out + r * width, e.state, T(0));
            }
          }
        });
      });
      std::copy_n(h + e.steps % 2 * e.directions * state, e.directions * state,
                  last_h.data() + first_place * state);
      x = y;
      if (mask != nullptr && layer + 1 < e.layers) {
        MultiplyElements(y, mask + layer * rows * width, rows * width, dropped);
        x = dropped;
      }
    }
    for (const auto* result : {&output, &last_h, &last_c}) result->Store();
  }

  template <typename T>
  void RunBackward(std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                   std::span<const TBlob> out_data, std::span<const OpReqType> req,
                   std::span<const TBlob> in_grad) const {
    const RecurrentExtents e(param_, in_data[0].shape_);
    const index_t rows = e.Rows(), width = e.Width(), gates = e.gates * e.size;
    const index_t kept_width = e.kept * e.size;
    const index_t places = e.layers * e.directions;
    const index_t state = e.batch * e.state, cell = param_.HasCell() ? e.batch * e.size : 0;
    const size_t hidden = Hidden();
    const bool has_cell = param_.HasCell();
    const auto clip = Clip<T>();
    Scratch scratch;
    const int64_t* const lengths = Lengths(in_data, e, &scratch);
    const T* const data = Elements<T>(in_data[0], &scratch);
    const T* const parameters = Elements<T>(in_data[1], &scratch);
    const T* const first_h = Elements<T>(in_data[2], &scratch);
    const T* const first_c = has_cell ? Elements<T>(in_data[kCell], &scratch) : nullptr;
    const T* const output = Elements<T>(out_data[0], &scratch);
    const T* const kept = static_cast<const T*>(out_data[hidden].dptr_);
    const T* const layers = static_cast<const T*>(out_data[hidden + 1].dptr_);
    const T* const mask =
        param_.Drops() ? static_cast<const T*>(out_data[hidden + 2].dptr_) : nullptr;
    const Result<T> d_data(in_grad[0], req[0], req[0] != kNullOp ? rows * e.inputs : 0, &scratch);
    const Result<T> d_parameters(in_grad[1], req[1], req[1] != kNullOp ? e.NumParameters() : 0,
                                 &scratch);
    const Result<T> d_h(in_grad[2], req[2], places * state, &scratch);
    const Result<T> d_c(has_cell ? in_grad[kCell] : TBlob(), has_cell ? req[kCell] : kNullOp,
                        places * cell, &scratch);
    // The gradients of the last states are where those of the first will be.
    const auto begin_with = [&](const Result<T>& gradient, index_t count, size_t output_index) {
      if (param_.state_outputs) {
        RowReader<T>(out_grad[output_index]).Copy(0, count, gradient.data());
      } else {
        std::fill_n(gradient.data(), count, T(0));
      }
    };
    begin_with(d_h, places * state, 1);
    if (has_cell) begin_with(d_c, places * cell, 2);

    // The gradients of the gates, and the state before each step, for each direction.
    T* const of_input = TakeScratch<T>(e.directions * rows * gates, &scratch);
    T* const of_state = param_.mode == RnnParameters::Cell::kGru
                            ? TakeScratch<T>(e.directions * rows * gates, &scratch)
                            : of_input;
    T* const old_h = TakeScratch<T>(e.directions * rows * e.state, &scratch);
    // The gradients of the projected outputs; that of a step's unprojected ones; and zeros, which
    // the cells add to it.
    const index_t of_projection = e.is_projected ? e.directions : 0;
    T* const d_projected = TakeScratch<T>(of_projection * rows * e.state, &scratch);
    T* const d_unprojected = TakeScratch<T>(of_projection * cell, &scratch);
    T* const zeros = TakeScratch<T>(e.size, &scratch);
    std::fill_n(zeros, e.size, T(0));
    const StepCut cut(e);
    T* const ones = TakeScratch<T>(rows, &scratch);
    std::fill_n(ones, rows, T(1));
    const bool is_deep = e.layers > 1;
    T* const dropped = mask != nullptr ? TakeScratch<T>(rows * width, &scratch) : nullptr;
    T* const between[] = {is_deep ? TakeScratch<T>(rows * width, &scratch) : nullptr,
                          e.layers > 2 ? TakeScratch<T>(rows * width, &scratch) : nullptr};

    const T* head = Elements<T>(out_grad[0], &scratch);
    for (index_t layer = e.layers - 1; layer >= 0; --layer) {
      const index_t inputs = e.Inputs(layer);
      const T* const y = layer + 1 == e.layers ? output : layers + layer * rows * width;
      const T* x = layer == 0 ? data : layers + (layer - 1) * rows * width;
      const T* const layer_mask =
          mask != nullptr && layer > 0 ? mask + (layer - 1) * rows * width : nullptr;
      if (layer_mask != nullptr) {
        MultiplyElements(x, layer_mask, rows * width, dropped);
        x = dropped;
      }
      T* const dx = layer > 0         ? between[(layer - 1) % 2]
                    : d_data.wanted() ? d_data.data()
                                      : nullptr;
      const index_t first_place = layer * e.directions;
      const auto has_old = [&](index_t direction, index_t step, index_t n) {
        const index_t old = direction == 0 ? step - 1 : step + 1;
        return old >= 0 && old < (lengths != nullptr ? lengths[n] : e.steps);
      };
      OfDirections<const T> weights{}, projections{};
      for (index_t direction = 0; direction < e.directions; ++direction) {
        weights[static_cast<size_t>(direction)] = parameters + e.RecurrentWeights(layer, direction);
        projections[static_cast<size_t>(direction)] = parameters + e.Projection(layer, direction);
        const index_t back = direction == 0 ? -e.batch : e.batch;
        ParallelFor(e.steps, StepsPerTask(state), [&](index_t begin, index_t end) {
          for (index_t row = begin * e.batch; row < end * e.batch; ++row) {
            const index_t step = row / e.batch, n = row - step * e.batch;
            const T* const old = has_old(direction, step, n)
                                     ? y + (row + back) * width + direction * e.state
                                     : first_h + (first_place + direction) * state + n * e.state;
            std::copy_n(old, e.state, old_h + (direction * rows + row) * e.state);
          }
        });
      }
      Scratch layer_scratch;
      const StepProduct<T> product(e, cut, {weights, gates, e.state, false}, &layer_scratch);
      std::optional<StepProduct<T>> projection;
      if (e.is_projected) {
        projection.emplace(e, cut, StepWeights<T>{projections, e.state, e.size, false},
                           &layer_scratch);
      }
      // Step i begins with the product by the gates' gradients of step i - 1, which all parts have
      // computed by then. One more step has the product by the last ones.
      cut.Run(e.steps > 0 ? e.steps + 1 : 0, [&](index_t i, const StepPart& part) {
        const index_t direction = part.direction, place = first_place + direction;
        const auto step_at = [&](index_t k) { return direction == 0 ? e.steps - 1 - k : k; };
        T* const dh = d_h.data() + place * state + part.row * e.state;
        if (i > 0) {
          const index_t done = direction * rows + step_at(i - 1) * e.batch + part.row;
          product.Run(i, part, 0, 1, {of_state + done * gates, gates}, T(1),
                      {dh + part.unit, e.state});
        }
        if (i == e.steps) return;
        const index_t step = step_at(i);
        T* const d_cell_h =
            e.is_projected ? d_unprojected + direction * cell + part.row * e.size : dh;
        if (e.is_projected) {
          const index_t first_row = step * e.batch + part.row;
          T* const to = d_projected + (direction * rows + first_row) * e.state;
          ForRows(part, step, lengths, [&](index_t first, index_t num_rows, bool runs) {
            for (index_t r = first; r < first + num_rows; ++r) {
              const T* const head_of_row = head + (first_row + r) * width + direction * e.state;
              T *const of_row = dh + r * e.state, *const sum = to + r * e.state;
              for (index_t j = 0; j < e.state; ++j) {
                sum[j] = runs ? of_row[j] + head_of_row[j] : T(0);
              }
              if (runs) std::fill_n(of_row, e.state, T(0));
            }
          });
          projection->Run(i, part, 0, 1, {to, e.state}, T(0), {d_cell_h, e.size});
        }
        ForRows(part, step, lengths, [&](index_t first, index_t num_rows, bool runs) {
          const index_t n = part.row + first, row = step * e.batch + n;
          const index_t gate = (direction * rows + row) * gates + part.unit;
          const index_t at = first * e.size + part.unit;
          const T* const step_kept = kept + (place * rows + row) * kept_width + part.unit;
          const bool has_old_c = has_cell && has_old(direction, step, n);
          const tensor_internal::RecurrentGradient<T> s{
              .rows = num_rows,
              .units = part.units,
              .block = e.size,
              .kept = step_kept,
              .kept_stride = kept_width,
              .old_h =
                  e.is_projected ? nullptr : old_h + (direction * rows + row) * e.size + part.unit,
              .old_h_stride = e.size,
              .old_c = has_old_c
                           ? step_kept + (direction == 0 ? -e.batch : e.batch) * kept_width + gates
                       : has_cell ? first_c + place * cell + n * e.size + part.unit
                                  : nullptr,
              .old_c_stride = has_old_c ? kept_width : e.size,
              .head = e.is_projected ? zeros : head + row * width + direction * e.size + part.unit,
              .head_stride = e.is_projected ? 0 : width,
              .dh = d_cell_h + at,
              .dc = has_cell ? d_c.data() + place * cell + n * e.size + part.unit : nullptr,
              .state_stride = e.size,
              .of_input = of_input + gate,
              .of_state = of_state + gate,
              .gates_stride = gates,
              .clip = clip.has_value() ? &*clip : nullptr};
          if (runs) return tensor_internal::RecurrentBackward(param_.mode, s);
          for (index_t k = 0; k < e.gates; ++k) {
            std::fill_n(s.of_input + k * e.size, s.units, T(0));
            std::fill_n(s.of_state + k * e.size, s.units, T(0));
          }
        });
      });
      for (index_t direction = 0; direction < e.directions; ++direction) {
        const T* const to_input = of_input + direction * rows * gates;
        const T* const to_state = of_state + direction * rows * gates;
        if (d_parameters.wanted()) {
          T* const to = d_parameters.data() + e.Weights(layer, direction);
          T* const to_bias = d_parameters.data() + e.Biases(layer, direction);
          Multiply<T>(gates, inputs, rows, {to_input, gates}, true, {x, inputs}, false, T(0),
                      {to, inputs});
          Multiply<T>(gates, e.state, rows, {to_state, gates}, true,
                      {old_h + direction * rows * e.state, e.state}, false, T(0),
                      {to + gates * inputs, e.state});
          if (e.is_projected) {
            const T* const projected =
                kept + (first_place + direction) * rows * kept_width + (e.kept - 1) * e.size;
            Multiply<T>(e.state, e.size, rows, {d_projected + direction * rows * e.state, e.state},
                        true, {projected, kept_width}, false, T(0),
                        {d_parameters.data() + e.Projection(layer, direction), e.size});
          }
          Multiply<T>(1, gates, rows, {ones, rows}, false, {to_input, gates}, false, T(0),
                      {to_bias, gates});
          if (to_state == to_input) {
            std::copy_n(to_bias, gates, to_bias + gates);
          } else {
            Multiply<T>(1, gates, rows, {ones, rows}, false, {to_state, gates}, false, T(0),
                        {to_bias + gates, gates});
          }
        }
        if (dx != nullptr) {
          Multiply<T>(rows, inputs, gates, {to_input, gates}, false,
                      {parameters + e.Weights(layer, direction), inputs}, false, T(direction),
                      {dx, inputs});
        }
      }
      if (layer_mask != nullptr) MultiplyElements(dx, layer_mask, rows * width, dx);
      head = dx;
    }
    for (const auto* result : {&d_data, &d_parameters, &d_h, &d_c}) result->Store();
  }

  const RnnParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<RnnProperty, RnnOperator>(
    TESSERA_TABLE_PLACE, "RNN", "Recurrent layers of tanh, ReLU, LSTM or GRU cells.");

}  // namespace
}  // namespace tessera
