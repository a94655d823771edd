// The generator of random graphs: which operators a graph grows by, with which parameters. Then it
// keeps what the heads need, in the order of a depth-first walk.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tests/random_graphs/growing_graph.h"
#include "tessera/tests/random_graphs/random_graph.h"

namespace tessera {
namespace {

using Role = RandomGraph::Role;

/// Values above this are brought back by a function with bounded results.
constexpr double kLargest = 20;

std::string Text(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return text;
}

std::string Text(const TShape& shape) { return shape.ToString(); }

/// Returns "(1,2)", "(1,)" or "()".
std::string Tuple(const std::vector<index_t>& numbers) {
  std::string text = "(";
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i > 0 ? "," : "") + std::to_string(numbers[i]);
  return text + (numbers.size() == 1 ? ",)" : ")");
}

class Generator : public GrowingGraph {
 public:
  using GrowingGraph::GrowingGraph;

  RandomGraph Make() {
    graph_.dtype = Chance(0.4) ? DType::kFloat64 : DType::kFloat32;
    for (index_t count = Between(1, 3); count > 0; --count) NewInput(AnyShape());
    const index_t nodes = Between(3, 24);
    for (int tries = 0; tries < 400 && static_cast<index_t>(graph_.nodes.size()) < nodes; ++tries) {
      AddSomething();
    }
    ChooseHeads();
    return Compact();
  }

 private:
  void AddSomething() {
    static constexpr void (Generator::*kKinds[])() = {
        &Generator::AddUnary,     &Generator::AddUnary,       &Generator::AddScalar,
        &Generator::AddBinary,    &Generator::AddBinary,      &Generator::AddBroadcast,
        &Generator::AddReduction, &Generator::AddMovement,    &Generator::AddMovement,
        &Generator::AddDense,     &Generator::AddConvolution, &Generator::AddPooling,
        &Generator::AddSoftmax,   &Generator::AddBatchNorm,   &Generator::AddLayerNorm,
        &Generator::AddDropout,   &Generator::AddJoin,        &Generator::AddSplit,
        &Generator::AddProduct,   &Generator::AddChain,       &Generator::AddSum,
        &Generator::AddTake,      &Generator::AddBlockGrad};
    (this->*kKinds[Between(0, static_cast<index_t>(std::size(kKinds)) - 1)])();
    // Only a function with bounded results may read a large value.
    if (BoundOf(values_.back()) > kLargest) {
      const int value = values_.back();
      AddNode(OneOf({"tanh", "sigmoid", "softsign", "erf"}), {value}, 1);
      // Nobody else reads it.
      values_.erase(std::find(values_.begin(), values_.end(), value));
    }
  }

  int Unary(int value) {
    const double bound = BoundOf(value);
    switch (Between(0, 11)) {
      case 0:
        return AddNode("tanh", {value}, 1);
      case 1:
        return AddNode("sigmoid", {value}, 1);
      case 2:
        return AddNode("sin", {value}, 1);
      case 3:
        return AddNode("erf", {value}, 1);
      case 4:
        return AddNode("softsign", {value}, 1);
      case 5:
        return AddNode("square", {value}, bound * bound);
      case 6:
        return AddNode("negative", {value}, bound);
      case 7:
        return AddNode("arctan", {value}, 1.6);
      case 8:
        return AddNode("Activation", {value}, bound + 1, {{"act_type", "softrelu"}});
      case 9:
        return AddKinked("relu", {value}, bound);
      case 10:
        return AddKinked("abs", {value}, bound);
      default:
        return AddKinked("LeakyReLU", {value}, bound, {{"act_type", "leaky"}, {"slope", "0.3"}});
    }
  }
  void AddUnary() { Unary(AnyValue()); }

  int Scalar(int value) {
    const double bound = BoundOf(value);
    const double scalar = Number(-1.5, 1.5);
    const ParameterMap parameters = {{"scalar", Text(scalar)}};
    switch (Between(0, 5)) {
      case 0:
        return AddNode("_plus_scalar", {value}, bound + 1.5, parameters);
      case 1:
        return AddNode("_minus_scalar", {value}, bound + 1.5, parameters);
      case 2:
        return AddNode("_rminus_scalar", {value}, bound + 1.5, parameters);
      case 3:
        return AddNode("_mul_scalar", {value}, bound * 1.5, parameters);
      case 4:
        return AddNode("_div_scalar", {value}, bound * 2, {{"scalar", Text(Number(0.5, 2))}});
      default:
        return AddKinked("_maximum_scalar", {value}, bound + 1.5, parameters);
    }
  }
  void AddScalar() { Scalar(AnyValue()); }

  void AddBinary() {
    const int a = AnyValue();
    const int b = Chance(0.15) ? a : ValueLike(ShapeOf(a));
    const double bound = BoundOf(a) + BoundOf(b), product = BoundOf(a) * BoundOf(b);
    switch (Between(0, 5)) {
      case 0:
      case 1:
        AddNode("elemwise_add", {a, b}, bound);
        break;
      case 2:
        AddNode("elemwise_sub", {a, b}, bound);
        break;
      case 3:
        AddNode("elemwise_mul", {a, b}, product);
        break;
      case 4:
        AddKinked("_maximum", {a, b}, bound);
        break;
      default:
        AddKinked("_minimum", {a, b}, bound);
    }
  }

  void AddBroadcast() {
    const int a = AnyValue();
    TShape shape = ShapeOf(a);
    for (int i = 0; i < shape.ndim(); ++i) {
      if (Chance(0.4)) shape[i] = 1;
    }
    const int b = ValueLike(shape);
    const double bound = BoundOf(a) + BoundOf(b), product = BoundOf(a) * BoundOf(b);
    std::vector<int> inputs = {a, b};
    if (Chance(0.3)) std::swap(inputs[0], inputs[1]);
    switch (Between(0, 3)) {
      case 0:
        AddNode("broadcast_add", inputs, bound);
        break;
      case 1:
        AddNode("broadcast_sub", inputs, bound);
        break;
      case 2:
        AddNode("broadcast_mul", inputs, product);
        break;
      default:
        AddKinked("broadcast_maximum", inputs, bound);
    }
  }

  void AddReduction() {
    const int value = AnyValue();
    const TShape& shape = ShapeOf(value);
    std::vector<index_t> axes;
    index_t reduced = 1;
    for (int i = 0; i < shape.ndim(); ++i) {
      if (!Chance(0.5)) continue;
      axes.push_back(i);
      reduced *= shape[i];
    }
    const bool keepdims = Chance(0.5) || axes.empty();
    ParameterMap parameters = {{"axis", Tuple(axes)}, {"keepdims", keepdims ? "True" : "False"}};
    if (axes.empty()) reduced = shape.Size();
    const double bound = BoundOf(value);
    switch (Between(0, 3)) {
      case 0:
        AddNode("sum", {value}, bound * static_cast<double>(reduced), parameters);
        break;
      case 1:
      case 2:
        AddNode("mean", {value}, bound, parameters);
        break;
      default: {
        // Each of several largest elements gets the whole gradient, as in MXNet, even if all of
        // them are copies of one.
        const int largest = AddKinked("max", {value}, bound, parameters);
        if (largest >= 0) no_derivative_.insert(largest);
      }
    }
  }

  void AddMovement() {
    const int value = AnyValue();
    const TShape shape = ShapeOf(value);
    const double bound = BoundOf(value);
    const int rank = shape.ndim();
    const int axis = static_cast<int>(Between(0, rank - 1));
    const std::string axis_text = std::to_string(axis);
    switch (Between(0, 9)) {
      case 0:
        AddReshape(value);
        break;
      case 1: {
        std::vector<index_t> axes(static_cast<size_t>(rank));
        for (int i = 0; i < rank; ++i) axes[static_cast<size_t>(i)] = i;
        std::shuffle(axes.begin(), axes.end(), random_);
        AddNode("transpose", {value}, bound, {{"axes", Tuple(axes)}});
        break;
      }
      case 2:
        if (rank < 5)
          AddNode("expand_dims", {value}, bound, {{"axis", std::to_string(Between(0, rank))}});
        break;
      case 3:
        if (rank >= 2) AddNode("Flatten", {value}, bound);
        break;
      case 4: {
        const index_t begin = Between(0, shape[axis] - 1), end = Between(begin + 1, shape[axis]);
        AddNode(
            "slice_axis", {value}, bound,
            {{"axis", axis_text}, {"begin", std::to_string(begin)}, {"end", std::to_string(end)}});
        break;
      }
      case 5:
        AddNode("SwapAxis", {value}, bound,
                {{"dim1", axis_text}, {"dim2", std::to_string(Between(0, rank - 1))}});
        break;
      case 6:
        AddNode("reverse", {value}, bound, {{"axis", axis_text}});
        break;
      case 7:
        AddNode("repeat", {value}, bound, {{"repeats", "2"}, {"axis", axis_text}});
        break;
      case 8:
        AddNode("tile", {value}, bound, {{"reps", Chance(0.5) ? "(2,)" : "(2,1)"}});
        break;
      default:
        if (shape[axis] == 1) {
          AddNode("broadcast_axis", {value}, bound, {{"axis", axis_text}, {"size", "3"}});
        } else {
          AddNode("slice", {value}, bound,
                  {{"begin", "(0,)"}, {"end", "(None,)"}, {"step", "(2,)"}});
        }
    }
  }

  void AddReshape(int value) {
    // Random factors, one of them left to the operator.
    index_t rest = ShapeOf(value).Size();
    std::vector<index_t> extents;
    for (const index_t factor : {2, 3, 2, 5}) {
      if (rest % factor == 0 && Chance(0.6)) {
        extents.push_back(factor);
        rest /= factor;
      }
    }
    extents.push_back(-1);
    AddNode("Reshape", {value}, BoundOf(value), {{"shape", Tuple(extents)}});
  }

  void AddDense() {
    const int value = ValueOfRank(2, 4);
    if (value < 0) return;
    const TShape& shape = ShapeOf(value);
    const index_t columns = shape.Size() / shape[0], hidden = Between(1, 6);
    const double scale = 1 / std::sqrt(static_cast<double>(columns));
    std::vector<int> inputs = {value, NewParameter({hidden, columns}, -scale, scale)};
    const bool no_bias = Chance(0.3);
    if (!no_bias) inputs.push_back(NewParameter({hidden}, -1, 1));
    AddNode("FullyConnected", inputs, BoundOf(value) / scale + 1,
            {{"num_hidden", std::to_string(hidden)}, {"no_bias", no_bias ? "True" : "False"}});
  }

  void AddConvolution() {
    const int value = ValueOfRank(4, 4);
    if (value < 0) return;
    const TShape& shape = ShapeOf(value);
    const index_t pad = Between(0, 1), filters = Between(1, 4), stride = Between(1, 2);
    const index_t y = Between(1, std::min<index_t>(3, shape[2] + 2 * pad));
    const index_t x = Between(1, std::min<index_t>(3, shape[3] + 2 * pad));
    const double terms = static_cast<double>(shape[1] * y * x);
    std::vector<int> inputs = {value, NewParameter({filters, shape[1], y, x}, -1 / std::sqrt(terms),
                                                   1 / std::sqrt(terms))};
    const bool no_bias = Chance(0.5);
    if (!no_bias) inputs.push_back(NewParameter({filters}, -1, 1));
    AddNode("Convolution", inputs, BoundOf(value) * std::sqrt(terms) + 1,
            {{"kernel", Text(TShape{y, x})},
             {"pad", Text(TShape{pad, pad})},
             {"stride", Text(TShape{stride, stride})},
             {"num_filter", std::to_string(filters)},
             {"no_bias", no_bias ? "True" : "False"}});
  }

  void AddPooling() {
    const int value = ValueOfRank(4, 4);
    if (value < 0 || ShapeOf(value)[2] < 2 || ShapeOf(value)[3] < 2) return;
    const bool is_max = Chance(0.5);
    const std::string stride = Chance(0.5) ? "(2,2)" : "(1,1)";
    const ParameterMap parameters = {
        {"kernel", "(2,2)"}, {"stride", stride}, {"pool_type", is_max ? "max" : "avg"}};
    if (is_max) {
      AddKinked("Pooling", {value}, BoundOf(value), parameters);
    } else {
      AddNode("Pooling", {value}, BoundOf(value), parameters);
    }
  }

  void AddSoftmax() {
    const int value = AnyValue();
    const ParameterMap parameters = {
        {"axis", std::to_string(Between(0, ShapeOf(value).ndim() - 1))}};
    if (Chance(0.6)) {
      AddNode("softmax", {value}, 1, parameters);
    } else {
      AddNode("log_softmax", {value}, 2 * BoundOf(value) + 3, parameters);
    }
  }

  void AddBatchNorm() {
    const int value = ValueOfRank(2, 4);
    if (value < 0) return;
    const TShape& shape = ShapeOf(value);
    const index_t each = shape.Size() / shape[1];
    if (each < 2) return;
    const TShape channels = {shape[1]};
    std::vector<int> inputs = {
        value, NewParameter(channels, 0.5, 1.5), NewParameter(channels, -1, 1),
        NewInput(channels, -0.5, 0.5, Role::kState), NewInput(channels, 0.5, 1.5, Role::kState)};
    AddNode("BatchNorm", inputs, 1.5 * std::sqrt(static_cast<double>(each)) + 1,
            {{"fix_gamma", Chance(0.5) ? "True" : "False"}, {"eps", "0.1"}, {"momentum", "0.8"}});
  }

  void AddLayerNorm() {
    const int value = AnyValue();
    const TShape& shape = ShapeOf(value);
    const index_t each = shape[shape.ndim() - 1];
    if (each < 2) return;
    AddNode("LayerNorm", {value, NewParameter({each}, 0.5, 1.5), NewParameter({each}, -1, 1)},
            1.5 * std::sqrt(static_cast<double>(each)) + 1, {{"eps", "0.1"}});
  }

  void AddDropout() {
    const int value = AnyValue();
    const double p = Number(0.1, 0.6);
    ParameterMap parameters = {{"p", Text(p)}};
    if (Chance(0.3)) parameters["axes"] = "(0,)";
    AddNode("Dropout", {value}, BoundOf(value) / (1 - p), parameters);
  }

  void AddJoin() {
    const int value = AnyValue();
    const TShape shape = ShapeOf(value);
    std::vector<int> inputs = {value};
    for (index_t more = Between(1, 2); more > 0; --more) {
      inputs.push_back(Chance(0.3) ? value : ValueLike(shape));
    }
    double bound = 0;
    for (const int input : inputs) bound = std::max(bound, BoundOf(input));
    const std::string count = std::to_string(inputs.size());
    const std::string axis = std::to_string(Between(0, shape.ndim() - 1));
    if (Chance(0.7) || shape.ndim() > 4) {
      AddNode("Concat", inputs, bound, {{"num_args", count}, {"dim", axis}});
    } else {
      AddNode("stack", inputs, bound, {{"num_args", count}, {"axis", axis}});
    }
  }

  void AddSplit() {
    const int value = AnyValue();
    const TShape& shape = ShapeOf(value);
    const int axis = static_cast<int>(Between(0, shape.ndim() - 1));
    std::vector<index_t> parts;
    for (const index_t count : {2, 3, 4, 5}) {
      if (shape[axis] % count == 0) parts.push_back(count);
    }
    if (parts.empty()) return;
    const index_t count =
        parts[static_cast<size_t>(Between(0, static_cast<index_t>(parts.size()) - 1))];
    const bool squeeze = shape[axis] == count && shape.ndim() > 1 && Chance(0.5);
    AddNode("SliceChannel", {value}, BoundOf(value),
            {{"num_outputs", std::to_string(count)},
             {"axis", std::to_string(axis)},
             {"squeeze_axis", squeeze ? "True" : "False"}});
  }

  void AddProduct() {
    const int value = ValueOfRank(2, 3);
    if (value < 0) return;
    const TShape& shape = ShapeOf(value);
    const index_t inner = shape[shape.ndim() - 1], columns = Between(1, 5);
    const double bound = BoundOf(value) * static_cast<double>(inner);
    if (shape.ndim() == 2) {
      const bool transpose = Chance(0.5);
      const int other = ValueLike(transpose ? TShape{columns, inner} : TShape{inner, columns});
      AddNode("dot", {value, other}, bound * BoundOf(other),
              {{"transpose_b", transpose ? "True" : "False"}});
    } else {
      const int other = ValueLike({shape[0], inner, columns});
      AddNode("batch_dot", {value, other}, bound * BoundOf(other));
    }
  }

  /// Adds functions of elements one after the other, each of which may replace its input.
  void AddChain() {
    int value = AnyValue();
    for (index_t length = Between(3, 6); length > 0 && value >= 0; --length) {
      value = BoundOf(value) > kLargest / 2 ? AddNode("tanh", {value}, 1)
              : Chance(0.5)                 ? Unary(value)
                                            : Scalar(value);
    }
  }

  void AddSum() {
    const int value = AnyValue();
    std::vector<int> inputs = {value};
    for (index_t more = Between(1, 3); more > 0; --more)
      inputs.push_back(ValueLike(ShapeOf(value)));
    double bound = 0;
    for (const int input : inputs) bound += BoundOf(input);
    AddNode("add_n", inputs, bound, {{"num_args", std::to_string(inputs.size())}});
  }

  void AddTake() {
    const int value = AnyValue();
    const int index =
        NewInput({Between(1, 5)}, 0, static_cast<double>(ShapeOf(value)[0]), Role::kIndex);
    AddNode("take", {value, index}, BoundOf(value), {{"axis", "0"}, {"mode", "clip"}});
  }

  void AddBlockGrad() {
    if (!Chance(0.3)) return;
    const int value = AddNode("BlockGrad", {values_.back()}, BoundOf(values_.back()));
    if (value < 0) return;
    blocked_.insert(value);
    no_derivative_.insert(value);
  }
};

}  // namespace

RandomGraph MakeRandomGraph(uint64_t seed) {
  // Few seeds grow nothing that has a gradient.
  for (uint64_t attempt = 0;; ++attempt) {
    RandomGraph graph = Generator(seed + (attempt << 40)).Make();
    if (!graph.heads.empty()) return graph;
  }
}

}  // namespace tessera
