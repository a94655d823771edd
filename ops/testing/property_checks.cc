#include "tessera/ops/testing/property_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/operator_harness.h"

namespace tessera::ops_testing {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<OperatorProperty> Make(const OperatorRow& row, const ParameterMap& parameters) {
  return OperatorRegistry::Get().Create(row.name, parameters);
}

/// The shapes of one node's inputs and outputs.
struct NodeShapes {
  std::vector<TShape> in, out;

  explicit NodeShapes(const OperatorProperty& property)
      : in(property.ListArguments().size()), out(property.ListOutputs().size()) {}

  bool Infer(const OperatorProperty& property) { return property.InferShape(&in, &out); }

  std::vector<TShape*> All() {
    std::vector<TShape*> all;
    for (auto* part : {&in, &out}) {
      for (TShape& shape : *part) all.push_back(&shape);
    }
    return all;
  }
  bool AllKnown() {
    const auto all = All();
    return std::all_of(all.begin(), all.end(), [](TShape* shape) { return shape->known(); });
  }
  friend bool operator==(const NodeShapes&, const NodeShapes&) = default;
  friend std::ostream& operator<<(std::ostream& os, NodeShapes shapes) {
    for (const TShape* shape : shapes.All()) os << *shape << ' ';
    return os;
  }
};

/// The shape with some of it forgotten.
TShape Blur(const TShape& shape, std::mt19937_64* random) {
  switch ((*random)() % 3) {
    case 0:
      return TShape();
    case 1:
      return shape;
    default:
      break;
  }
  TShape blurred = shape;
  for (int i = 0; i < shape.ndim(); ++i) {
    if ((*random)() % 2 == 0) blurred[i] = TShape::kUnknown;
  }
  return blurred;
}

void CheckPartialKnowledge(const OperatorProperty& property, const OperatorCase& test_case,
                           const NodeShapes& truth) {
  std::mt19937_64 random(TestSeed());
  for (int trial = 0; trial < 60; ++trial) {
    NodeShapes given = truth;
    for (TShape* shape : given.All()) *shape = Blur(*shape, &random);
    if (!test_case.shapes_follow_from_first && !truth.in.empty()) {
      std::copy(truth.in.begin() + 1, truth.in.end(), given.in.begin() + 1);
    }
    NodeShapes inferred = given;
    bool complete = false;
    ASSERT_NO_THROW(complete = inferred.Infer(property)) << "given " << given;
    EXPECT_EQ(complete, inferred.AllKnown()) << "given " << given << ", inferred " << inferred;
    NodeShapes merged = inferred;
    const auto wanted = NodeShapes(truth).All();
    NodeShapes expected = truth;
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(merged.All()[i]->Merge(*expected.All()[i]))
          << "given " << given << ", inferred " << inferred << ", expected " << truth;
      EXPECT_TRUE(inferred.All()[i]->rank_known() || !given.All()[i]->rank_known())
          << "forgot what was given: " << given;
    }
    NodeShapes again = inferred;
    EXPECT_EQ(again.Infer(property), complete);
    EXPECT_EQ(again, inferred) << "a second inference went further than the first, from " << given;
  }
}

void ExpectRefused(const OperatorRow& row, const OperatorProperty& property, NodeShapes shapes) {
  NodeShapes given = shapes;
  try {
    shapes.Infer(property);
    ADD_FAILURE() << "accepted shapes that contradict each other: " << given;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(row.name));
  }
}

/// Each extent in turn one too large, and one dimension too many.
void ExpectContradictionsRefused(const OperatorRow& row, const OperatorProperty& property,
                                 const NodeShapes& truth, size_t position) {
  for (int i = 0; i < NodeShapes(truth).All()[position]->ndim(); ++i) {
    NodeShapes wrong = truth;
    ++(*wrong.All()[position])[i];
    ExpectRefused(row, property, wrong);
  }
  NodeShapes wrong = truth;
  TShape* const shape = wrong.All()[position];
  if (shape->ndim() < TShape::kMaxRank) {
    std::vector<index_t> extents(shape->begin(), shape->end());
    extents.push_back(5);
    *shape = TShape(std::span<const index_t>(extents));
    ExpectRefused(row, property, wrong);
  }
}

}  // namespace

void CheckProperty(const OperatorRow& row, const OperatorCase& test_case) {
  const auto property = Make(row, test_case.parameters);
  EXPECT_EQ(property->TypeString(), row.name);
  // An operator without outputs changes its inputs.
  EXPECT_GE(property->NumVisibleOutputs(), property->MutatedInputs().empty() ? 1 : 0);
  EXPECT_LE(property->NumVisibleOutputs(), static_cast<int>(property->ListOutputs().size()));
  ASSERT_EQ(test_case.inputs.size(), property->ListArguments().size());

  const ParameterMap text = property->GetParams();
  for (const auto& [name, value] : test_case.parameters) EXPECT_TRUE(text.contains(name)) << name;
  const auto again = Make(row, text);
  EXPECT_EQ(again->GetParams(), text);
  EXPECT_EQ(again->ListArguments(), property->ListArguments());
  EXPECT_EQ(again->ListOutputs(), property->ListOutputs());
  EXPECT_EQ(again->IsLoss(), property->IsLoss());
  NodeShapes shapes(*property);
  shapes.in = test_case.inputs;
  NodeShapes same = shapes;
  shapes.Infer(*property);
  same.Infer(*again);
  EXPECT_EQ(shapes, same);

  const OperatorEntry& entry = *OperatorRegistry::Get().Find(row.name);
  EXPECT_FALSE(entry.description.empty());
  for (const ParameterInfo& info : entry.describe_parameters()) {
    EXPECT_FALSE(info.description.empty()) << info.name;
    EXPECT_TRUE(text.contains(info.name)) << info.name;
  }
}

void CheckShapeInference(const OperatorRow& row, const OperatorCase& test_case) {
  const auto property = Make(row, test_case.parameters);
  NodeShapes truth(*property);
  NodeShapes nothing = truth;
  const bool complete = nothing.Infer(*property);
  EXPECT_EQ(complete, nothing.AllKnown());
  truth.in = test_case.inputs;
  if (!test_case.outputs.empty()) truth.out = test_case.outputs;
  ASSERT_TRUE(truth.Infer(*property));
  ASSERT_TRUE(truth.AllKnown()) << truth;
  EXPECT_EQ(truth.in, test_case.inputs);

  if (test_case.shapes_follow_from_first && !truth.in.empty()) {
    NodeShapes from_first(*property);
    from_first.in[0] = truth.in[0];
    EXPECT_TRUE(from_first.Infer(*property));
    EXPECT_EQ(from_first, truth);
  }
  if (row.shapes_follow_from_output) {
    NodeShapes from_output(*property);
    from_output.out = truth.out;
    EXPECT_TRUE(from_output.Infer(*property));
    EXPECT_EQ(from_output, truth);
  }
  if (row.batch_follows_from_output && !truth.in.empty() && truth.in[0].ndim() > 0) {
    NodeShapes without_batch = truth;
    without_batch.in[0][0] = TShape::kUnknown;
    EXPECT_TRUE(without_batch.Infer(*property));
    EXPECT_EQ(without_batch, truth);
  }
  CheckPartialKnowledge(*property, test_case, truth);
  if (!test_case.outputs.empty()) return;

  const size_t first =
      test_case.shapes_follow_from_first && !truth.in.empty() ? 1 : truth.in.size();
  for (size_t i = first; i < truth.All().size(); ++i) {
    ExpectContradictionsRefused(row, *property, truth, i);
  }
}

void CheckTypeInference(const OperatorRow& row, const OperatorCase& test_case) {
  const auto property = Make(row, test_case.parameters);
  const size_t in_count = property->ListArguments().size();
  const size_t out_count = property->ListOutputs().size();
  using Types = std::vector<DType>;
  // The harness infers the types of such a case.
  if (!test_case.fixed_types.empty() || in_count == 0) return;
  for (const DType dtype : test_case.dtypes) {
    for (size_t known = 0; known < in_count + out_count; ++known) {
      Types in(in_count, DType::kUnknown), out(out_count, DType::kUnknown);
      (known < in_count ? in[known] : out[known - in_count]) = dtype;
      EXPECT_TRUE(property->InferType(&in, &out));
      EXPECT_EQ(in, Types(in_count, dtype));
      EXPECT_EQ(out, Types(out_count, dtype));
    }
  }
  Types in(in_count, DType::kUnknown), out(out_count, DType::kUnknown);
  EXPECT_FALSE(property->InferType(&in, &out));
  in[0] = DType::kFloat32;
  out[0] = DType::kFloat16;
  try {
    property->InferType(&in, &out);
    ADD_FAILURE() << "accepted two element types";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(row.name));
    EXPECT_THAT(error.what(), HasSubstr("float32"));
    EXPECT_THAT(error.what(), HasSubstr("float16"));
  }
}

void CheckError(const OperatorRow& row, const ErrorCase& wrong) {
  try {
    const auto property = Make(row, wrong.parameters);
    if (!wrong.inputs.empty()) {
      NodeShapes shapes(*property);
      ASSERT_LE(wrong.inputs.size(), shapes.in.size());
      std::copy(wrong.inputs.begin(), wrong.inputs.end(), shapes.in.begin());
      shapes.Infer(*property);
    }
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), wrong.code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(row.name));
    for (const std::string& word : wrong.words) EXPECT_THAT(error.what(), HasSubstr(word));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("\n")));
  }
}

void CheckReference(const OperatorRow& row, const OperatorCase& test_case) {
  if (row.backward == nullptr || !row.gradient_is_derivative || test_case.large) return;
  const auto property = Make(row, test_case.parameters);
  if (!property->HasGradient()) return;
  std::mt19937_64 random(TestSeed());
  std::vector<Values> in, mutated, out_grad;
  for (size_t i = 0; i < test_case.inputs.size(); ++i) {
    const Fill fill = i < test_case.fills.size() ? test_case.fills[i] : Fill();
    in.push_back(fill.Make(test_case.inputs[i], &random));
  }
  for (const int i : property->MutatedInputs()) mutated.push_back(in[static_cast<size_t>(i)]);
  const std::vector<Values> out = row.forward(test_case.parameters, in, &mutated);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool visible = i < static_cast<size_t>(property->NumVisibleOutputs());
    out_grad.push_back((visible ? Fill() : Fill::Given({0})).Make(out[i].shape, &random));
  }
  const auto given = row.backward(test_case.parameters, out_grad, in, out);
  const auto expected = DifferenceGradient(row.forward, test_case.parameters, out_grad, in,
                                           property->MutatedInputs());
  ASSERT_EQ(given.size(), expected.size());
  for (size_t k = 0; k < given.size(); ++k) {
    if (!property->ArgumentHasGradient(static_cast<int>(k))) continue;
    ASSERT_EQ(given[k].shape, expected[k].shape);
    for (index_t i = 0; i < given[k].size(); ++i) {
      ASSERT_NEAR(given[k][i], expected[k][i], 1e-7 * (1 + std::abs(expected[k][i])))
          << "gradient of argument " << k << ", element " << i;
    }
  }
}

}  // namespace tessera::ops_testing
