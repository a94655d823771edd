// RNN: recurrent layers, one upon the other, over whole sequences.
//
//   rnn_relu, rnn_tanh   h[t] = f(W x[t] + b + R h[t-1] + b')
//   lstm                 i, f, o = sigmoid, g = tanh of such sums
//                        c[t] = f c[t-1] + i g,  h[t] = o tanh(c[t])
//   gru                  r, z = sigmoid of such sums,  n = tanh(W x[t] + b + r (R h[t-1] + b'))
//                        h[t] = (1 - z) n + z h[t-1]
//
// x is data or, in a higher layer, the states h of the layer below, in training multiplied by a
// random mask: 0 with probability p, else 1 / (1 - p). With `bidirectional`, a layer is two layers
// apart, of which the second runs from the end to the beginning, and its output holds both states.
// With `use_sequence_length`, sample n ends before step sequence_length[n]: the output is 0 from
// there on, the second direction begins there, and the last states are those there. (So does cuDNN;
// MXNet's CPU code ignores the lengths or refuses them.)
//
// Shapes: data (T, N, C); state and state_cell (L D, N, H), for L layers of D directions,
// directions in the inner loop; sequence_length (N); output (T, N, D H); state_output and
// statecell_output like state. `parameters` is one vector in cuDNN's order: W (G H, inputs) and R
// (G H, H) of each layer and direction, then b and b' (G H) of each. The G gates are i f g o
// (lstm), r z n (gru) or one. Hidden outputs: what the gates gave, the lower layers' states, and
// the mask.
//
// Types: float32, float64, float16, bfloat16; the last two are computed in float32, in which the
// hidden outputs are too; sequence_length of any type. All inputs but the lengths have gradients.
// Runs on the CPU: the data's part is one product over all steps, the state's one product a step.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/rnn/rnn_cell.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/device/scratch.h"
#include "tessera/tensor/expr/cost.h"
#include "tessera/tensor/functors.h"
#include "tessera/tensor/linalg/gemm.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: cells, rows and registration

enum class Mode { kRelu, kTanh, kLstm, kGru };

struct RnnParameters {
  int64_t state_size = 1;
  int64_t num_layers = 1;
  bool bidirectional = false;
  Mode mode = Mode::kRelu;
  float p = 0;
  bool state_outputs = false;
  std::optional<int64_t> projection_size;
  std::optional<double> lstm_state_clip_min, lstm_state_clip_max;
  bool lstm_state_clip_nan = false;
  bool use_sequence_length = false;

  static void Declare(ParameterSchema<RnnParameters>& schema) {
    using P = RnnParameters;
    constexpr double kMax = 4294967295.0;
    schema.Required("state_size", &P::state_size, "the number of units of a layer");
    schema.Range(1, kMax);
    schema.Required("num_layers", &P::num_layers, "the number of layers");
    schema.Range(1, kMax);
    schema.Optional("bidirectional", &P::bidirectional, "run each layer in both directions");
    schema.Choice("mode", &P::mode,
                  {{"gru", Mode::kGru},
                   {"lstm", Mode::kLstm},
                   {"rnn_relu", Mode::kRelu},
                   {"rnn_tanh", Mode::kTanh}},
                  "the kind of cell", /*required=*/true);
    schema.Optional("p", &P::p, "the fraction of a lower layer's output that training drops");
    schema.Range(0, 1);
    schema.Optional("state_outputs", &P::state_outputs, "show the last states as outputs");
    schema.Optional("projection_size", &P::projection_size, "must be None: not implemented");
    schema.Optional("lstm_state_clip_min", &P::lstm_state_clip_min,
                    "must be None: not implemented");
    schema.Optional("lstm_state_clip_max", &P::lstm_state_clip_max,
                    "must be None: not implemented");
    schema.Optional("lstm_state_clip_nan", &P::lstm_state_clip_nan,
                    "accepted; it only matters where states are clipped");
    schema.Optional("use_sequence_length", &P::use_sequence_length,
                    "take each sample's number of steps from the input sequence_length");
  }

  index_t NumDirections() const { return bidirectional ? 2 : 1; }
  bool HasCell() const { return mode == Mode::kLstm; }
  /// Whether there is anything to drop.
  bool Drops() const { return p > 0 && num_layers > 1; }
};

/// Calls function(Cell()) with the cell of a mode.
template <typename Function>
auto VisitCell(Mode mode, const Function& function) {
  switch (mode) {
    case Mode::kRelu:
      return function(PlainCell<CellRelu>());
    case Mode::kTanh:
      return function(PlainCell<CellTanh>());
    case Mode::kLstm:
      return function(LstmCell());
    case Mode::kGru:
      break;
  }
  return function(GruCell());
}

/// The extents of a call, and where its matrices lie in the vector of parameters.
struct Extents {
  index_t layers, directions, size;      // L, D, H
  index_t gates, kept;                   // blocks of H numbers for each unit
  index_t steps = 0, batch = 0, inputs;  // T, N, C

  Extents(const RnnParameters& param, index_t num_inputs)
      : layers(param.num_layers),
        directions(param.NumDirections()),
        size(param.state_size),
        inputs(num_inputs) {
    VisitCell(param.mode, [&](auto cell) {
      gates = decltype(cell)::kGates;
      kept = decltype(cell)::kKept;
    });
  }
  Extents(const RnnParameters& param, const TShape& data) : Extents(param, data[2]) {
    batch = data[1];
    // Without samples there is nothing to do, however many steps there are.
    steps = batch > 0 ? data[0] : 0;
  }

  index_t Rows() const { return steps * batch; }
  index_t Width() const { return directions * size; }
  index_t Inputs(index_t layer) const { return layer == 0 ? inputs : Width(); }
  /// The parameters of all layers but the first, which may have inputs of another number.
  index_t NumUpper() const {
    return (layers - 1) * directions * gates * size * (Width() + size + 2);
  }
  index_t NumParameters() const {
    return directions * gates * size * (inputs + size + 2) + NumUpper();
  }
  /// Whether the number of parameters fits in an index_t.
  bool Fit() const {
    const auto real = [](index_t x) { return static_cast<double>(x); };
    const double of_input = real(directions * gates) * real(size);
    return of_input * (real(inputs) + real(size) + 2 + real(layers) * real(Width() + size + 2)) <
           9e18;
  }
  /// The position of W; that of R is gates * size * Inputs(layer) behind it.
  index_t Weights(index_t layer, index_t direction) const {
    const index_t lower =
        layer == 0 ? 0 : directions * (inputs + size) + (layer - 1) * directions * (Width() + size);
    return gates * size * (lower + direction * (Inputs(layer) + size));
  }
  /// The position of b; that of b' is gates * size behind it.
  index_t Biases(index_t layer, index_t direction) const {
    return Weights(layers, 0) + (layer * directions + direction) * 2 * gates * size;
  }
};

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
    Extents extents(param_, kUnknown);
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
          merge(arguments[i].c_str(), &(*in_shape)[i], {states, kUnknown, param_.state_size}, -1,
                1);
        }
      }
      for (size_t i = 0; i < outputs.size(); ++i) {
        TShape* const shape = &(*out_shape)[i];
        const char* const name = outputs[i].c_str();
        if (i == 0) {
          merge(name, shape, {kUnknown, kUnknown, extents.Width()}, 0, 1);
        } else if (i < static_cast<size_t>(NumVisibleOutputs())) {
          merge(name, shape, {states, kUnknown, param_.state_size}, -1, 1);
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
      const index_t of_input = extents.directions * extents.gates * extents.size;
      const index_t first = (parameters[0] - extents.NumUpper()) / of_input - extents.size - 2;
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
    const auto refuse = [&](const char* name, bool given) {
      if (given) throw Unimplemented(TypeString(), ": parameter ", name, " is not implemented");
    };
    refuse("projection_size", param_.projection_size.has_value());
    refuse("lstm_state_clip_min", param_.lstm_state_clip_min.has_value());
    refuse("lstm_state_clip_max", param_.lstm_state_clip_max.has_value());
  }
};

using Scratch = tensor_internal::Scratch<cpu>;

template <typename T>
T* Take(index_t count, Scratch* scratch) {
  return static_cast<T*>(scratch->Allocate(count * static_cast<index_t>(sizeof(T))));
}

/// Returns an array's elements as T: the array itself, or a copy.
template <typename T>
const T* Elements(const TBlob& array, Scratch* scratch) {
  const RowReader<T> reader(array);
  const index_t count = array.shape_.Size();
  return reader.Read(0, count, reader.is_direct() ? nullptr : Take<T>(count, scratch));
}

/// Elements of T that are to become an array's: the array itself, or others until Store.
template <typename T>
class Result {
 public:
  Result(const TBlob& array, OpReqType req, index_t count, Scratch* scratch)
      : array_(array, req), count_(count) {
    elements_ = array_.Out(0, array_.is_direct() ? nullptr : Take<T>(count, scratch));
  }
  bool wanted() const { return array_.is_wanted(); }
  T* data() const { return elements_; }
  void Store() const { array_.Write(0, count_, elements_); }

 private:
  const RowWriter<T> array_;
  const index_t count_;
  T* elements_;
};

/// A matrix in memory: its first element, and the elements from one row to the next.
template <typename T>
struct Matrix {
  T* data;
  index_t stride;
};

/// c = op(a) op(b) + beta c, where c is m x n, and op transposes if its flag is set.
template <typename T>
void Multiply(index_t m, index_t n, index_t k, Matrix<const T> a, bool transpose_a,
              Matrix<const T> b, bool transpose_b, T beta, Matrix<T> c) {
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
    if (in_data[0].type_flag_ == DType::kFloat64) {
      Run<double>(context, in_data, req, out_data);
    } else {
      Run<float>(context, in_data, req, out_data);
    }
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (in_data[0].type_flag_ == DType::kFloat64) {
      RunBackward<double>(out_grad, in_data, out_data, req, in_grad);
    } else {
      RunBackward<float>(out_grad, in_data, out_data, req, in_grad);
    }
  }

 private:
  /// The positions of the inputs and outputs that not every operator has.
  static constexpr size_t kCell = 3;
  size_t Length() const { return param_.HasCell() ? 4 : 3; }
  size_t Hidden() const { return !param_.state_outputs ? 1 : param_.HasCell() ? 3 : 2; }

  /// The number of steps of each sample, or null if all have all.
  const int64_t* Lengths(std::span<const TBlob> in_data, const Extents& e, Scratch* scratch) const {
    if (!param_.use_sequence_length) return nullptr;
    int64_t* const lengths = Take<int64_t>(e.batch, scratch);
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
  const T* Mask(const OpContext& context, const Extents& e, OpReqType req, const TBlob& array,
                Scratch* scratch) const {
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
    const Extents e(param_, in_data[0].shape_);
    const index_t rows = e.Rows(), width = e.Width(), gates = e.gates * e.size;
    const index_t kept_width = e.kept * e.size;
    const index_t state = e.batch * e.size, states = e.layers * e.directions * state;
    const size_t hidden = Hidden();
    Scratch scratch;
    const int64_t* const lengths = Lengths(in_data, e, &scratch);
    const T* const parameters = Elements<T>(in_data[1], &scratch);
    const T* const first_h = Elements<T>(in_data[2], &scratch);
    const T* const first_c = param_.HasCell() ? Elements<T>(in_data[kCell], &scratch) : nullptr;
    const Result<T> output(out_data[0], req[0], rows * width, &scratch);
    const Result<T> last_h(out_data[1], param_.state_outputs ? req[1] : kNullOp, states, &scratch);
    const bool shows_cell = param_.state_outputs && param_.HasCell();
    const Result<T> last_c(shows_cell ? out_data[2] : TBlob(), shows_cell ? req[2] : kNullOp,
                           param_.HasCell() ? states : 0, &scratch);
    // Without a reader every layer and direction uses the same memory.
    const bool keeps = req[hidden] != kNullOp;
    const index_t kept_place = keeps ? rows * kept_width : 0;
    const Result<T> kept(out_data[hidden], req[hidden],
                         (keeps ? e.layers * e.directions : 1) * rows * kept_width, &scratch);
    const Result<T> layers(out_data[hidden + 1], req[hidden + 1], (e.layers - 1) * rows * width,
                           &scratch);
    const T* const mask = param_.Drops()
                              ? Mask<T>(context, e, req[hidden + 2], out_data[hidden + 2], &scratch)
                              : nullptr;
    T* const dropped = mask != nullptr ? Take<T>(rows * width, &scratch) : nullptr;
    T* const of_state = Take<T>(e.batch * gates, &scratch);
    const auto forward =
        VisitCell(param_.mode, [](auto cell) { return &decltype(cell)::template Forward<T>; });

    const T* x = Elements<T>(in_data[0], &scratch);
    for (index_t layer = 0; layer < e.layers; ++layer) {
      T* const y = layer + 1 == e.layers ? output.data() : layers.data() + layer * rows * width;
      for (index_t direction = 0; direction < e.directions; ++direction) {
        const index_t place = layer * e.directions + direction;
        const T* const weights = parameters + e.Weights(layer, direction);
        const T* const bias = parameters + e.Biases(layer, direction);
        T* const h = last_h.data() + place * state;
        T* const c = first_c != nullptr ? last_c.data() + place * state : nullptr;
        T* const all_kept = kept.data() + place * kept_place;
        std::copy_n(first_h + place * state, state, h);
        if (c != nullptr) std::copy_n(first_c + place * state, state, c);
        const index_t inputs = e.Inputs(layer);
        Multiply<T>(rows, gates, inputs, {x, inputs}, false, {weights, inputs}, true, T(0),
                    {all_kept, kept_width});
        for (index_t i = 0; i < e.steps; ++i) {
          const index_t step = direction == 0 ? i : e.steps - 1 - i;
          Multiply<T>(e.batch, gates, e.size, {h, e.size}, false,
                      {weights + gates * inputs, e.size}, true, T(0), {of_state, gates});
          ParallelFor(e.batch, StepsPerTask(gates, kCost), [&](index_t begin, index_t end) {
            for (index_t n = begin; n < end; ++n) {
              const index_t row = step * e.batch + n;
              CellStep<T> s{.size = e.size,
                            .kept = all_kept + row * kept_width,
                            .of_state = of_state + n * gates,
                            .bias_input = bias,
                            .bias_state = bias + gates,
                            .h = h + n * e.size,
                            .c = c != nullptr ? c + n * e.size : nullptr};
              T* const to = y + row * width + direction * e.size;
              if (lengths == nullptr || step < lengths[n]) {
                forward(s);
                std::copy_n(s.h, e.size, to);
              } else {
                std::fill_n(s.kept, kept_width, T(0));
                if (c != nullptr) std::copy_n(s.c, e.size, s.kept + gates);
                std::fill_n(to, e.size, T(0));
              }
            }
          });
        }
      }
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
    const Extents e(param_, in_data[0].shape_);
    const index_t rows = e.Rows(), width = e.Width(), gates = e.gates * e.size;
    const index_t kept_width = e.kept * e.size;
    const index_t state = e.batch * e.size, states = e.layers * e.directions * state;
    const size_t hidden = Hidden();
    const bool has_cell = param_.HasCell();
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
    const Result<T> d_h(in_grad[2], req[2], states, &scratch);
    const Result<T> d_c(has_cell ? in_grad[kCell] : TBlob(), has_cell ? req[kCell] : kNullOp,
                        has_cell ? states : 0, &scratch);
    // The gradients of the last states are where those of the first will be.
    const auto begin_with = [&](const Result<T>& gradient, size_t output_index) {
      if (param_.state_outputs) {
        RowReader<T>(out_grad[output_index]).Copy(0, states, gradient.data());
      } else {
        std::fill_n(gradient.data(), states, T(0));
      }
    };
    begin_with(d_h, 1);
    if (has_cell) begin_with(d_c, 2);

    T* const of_input = Take<T>(rows * gates, &scratch);
    T* const of_state = param_.mode == Mode::kGru ? Take<T>(rows * gates, &scratch) : of_input;
    const auto backward =
        VisitCell(param_.mode, [](auto cell) { return &decltype(cell)::template Backward<T>; });
    T* const old_h = Take<T>(rows * e.size, &scratch);
    T* const ones = Take<T>(rows, &scratch);
    std::fill_n(ones, rows, T(1));
    const bool is_deep = e.layers > 1;
    T* const dropped = mask != nullptr ? Take<T>(rows * width, &scratch) : nullptr;
    T* const between[] = {is_deep ? Take<T>(rows * width, &scratch) : nullptr,
                          e.layers > 2 ? Take<T>(rows * width, &scratch) : nullptr};

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
      for (index_t direction = 0; direction < e.directions; ++direction) {
        const index_t place = layer * e.directions + direction;
        const T* const weights = parameters + e.Weights(layer, direction);
        const T* const all_kept = kept + place * rows * kept_width;
        T* const dh = d_h.data() + place * state;
        T* const dc = has_cell ? d_c.data() + place * state : nullptr;
        // The state before each step.
        const index_t back = direction == 0 ? -1 : 1;
        const auto has_old = [&](index_t step, index_t n) {
          const index_t old = step + back;
          return old >= 0 && old < (lengths != nullptr ? lengths[n] : e.steps);
        };
        ParallelFor(e.steps, StepsPerTask(state), [&](index_t begin, index_t end) {
          for (index_t row = begin * e.batch; row < end * e.batch; ++row) {
            const index_t step = row / e.batch, n = row - step * e.batch;
            const T* const old = has_old(step, n)
                                     ? y + (row + back * e.batch) * width + direction * e.size
                                     : first_h + place * state + n * e.size;
            std::copy_n(old, e.size, old_h + row * e.size);
          }
        });
        for (index_t i = e.steps - 1; i >= 0; --i) {
          const index_t step = direction == 0 ? i : e.steps - 1 - i;
          ParallelFor(e.batch, StepsPerTask(gates, kCost), [&](index_t begin, index_t end) {
            for (index_t n = begin; n < end; ++n) {
              const index_t row = step * e.batch + n;
              const CellGradient<T> s{
                  .size = e.size,
                  .kept = all_kept + row * kept_width,
                  .old_h = old_h + row * e.size,
                  .old_c = !has_cell ? nullptr
                           : has_old(step, n)
                               ? all_kept + (row + back * e.batch) * kept_width + gates
                               : first_c + place * state + n * e.size,
                  .dh = dh + n * e.size,
                  .dc = has_cell ? dc + n * e.size : nullptr,
                  .of_input = of_input + row * gates,
                  .of_state = of_state + row * gates};
              if (lengths != nullptr && step >= lengths[n]) {
                std::fill_n(s.of_input, gates, T(0));
                std::fill_n(s.of_state, gates, T(0));
                continue;
              }
              const T* const g = head + row * width + direction * e.size;
              T* const sum = s.dh;
              ForEach(e.size, [=](index_t k) TESSERA_LOOP_BODY { sum[k] += g[k]; });
              backward(s);
            }
          });
          Multiply<T>(e.batch, e.size, gates, {of_state + step * e.batch * gates, gates}, false,
                      {weights + gates * inputs, e.size}, false, T(1), {dh, e.size});
        }
        if (d_parameters.wanted()) {
          T* const to = d_parameters.data() + e.Weights(layer, direction);
          T* const to_bias = d_parameters.data() + e.Biases(layer, direction);
          Multiply<T>(gates, inputs, rows, {of_input, gates}, true, {x, inputs}, false, T(0),
                      {to, inputs});
          Multiply<T>(gates, e.size, rows, {of_state, gates}, true, {old_h, e.size}, false, T(0),
                      {to + gates * inputs, e.size});
          Multiply<T>(1, gates, rows, {ones, rows}, false, {of_input, gates}, false, T(0),
                      {to_bias, gates});
          Multiply<T>(1, gates, rows, {ones, rows}, false, {of_state, gates}, false, T(0),
                      {to_bias + gates, gates});
        }
        if (dx != nullptr) {
          Multiply<T>(rows, inputs, gates, {of_input, gates}, false, {weights, inputs}, false,
                      T(direction), {dx, inputs});
        }
      }
      if (layer_mask != nullptr) MultiplyElements(dx, layer_mask, rows * width, dx);
      head = dx;
    }
    for (const auto* result : {&d_data, &d_parameters, &d_h, &d_c}) result->Store();
  }

  static constexpr index_t kCost = expr::FunctorCost<op::tanh, float>();

  const RnnParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<RnnProperty, RnnOperator>(
    TESSERA_TABLE_PLACE, "RNN", "Recurrent layers of tanh, ReLU, LSTM or GRU cells.");

}  // namespace
}  // namespace tessera
