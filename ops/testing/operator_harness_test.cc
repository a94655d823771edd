#include "tessera/ops/testing/operator_harness.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/ops/kernel.h"
#include "tessera/ops/testing/property_checks.h"

// The harness finds what it is there to find: an operator with a fault of each kind.
namespace tessera::ops_testing {
namespace {

enum class Fault {
  kNone,
  kWrongValue,
  kWritesPastTheEnd,
  kChangesItsInput,
  kIgnoresAddTo,
  kWritesWhatIsNotWanted,
  kLeavesOneElement,
  kOverrunsWorkspace,
  kAsksTwice,
  kReadsWorkspaceUnwritten,
  kInfersAnotherShape,
  kForgetsAParameter,
};

struct FaultyParameters {
  int64_t fault = 0;

  static void Declare(ParameterSchema<FaultyParameters>& schema) {
    schema.Optional("fault", &FaultyParameters::fault, "a Fault");
  }
};

/// out = data, gradient g, but for the fault.
class FaultyProperty final : public ParameterizedProperty<FaultyParameters> {
 public:
  Fault fault() const { return static_cast<Fault>(param_.fault); }
  ParameterMap GetParams() const override {
    return fault() == Fault::kForgetsAParameter ? ParameterMap()
                                                : ParameterizedProperty::GetParams();
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& out = (*out_shape)[0];
    if (fault() == Fault::kInfersAnotherShape && out.rank_known()) return out.known();
    MergeShape(*this, "output", &out, (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], out);
    return out.known();
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }
};

template <typename Device, typename T>
class FaultyOp final : public Operator {
 public:
  explicit FaultyOp(const FaultyParameters& param) : fault_(static_cast<Fault>(param.fault)) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto data = in_data[0].FlatTo1D<Device, T>();
    auto out = out_data[0].FlatTo1D<Device, T>();
    const index_t n = out.shape_[0];
    auto space = context.requested[0]->template get_space_typed<Device, 1, T>(Shape1(n), nullptr);
    if (fault_ == Fault::kAsksTwice) {
      space = context.requested[0]->template get_space_typed<Device, 1, T>(Shape1(n), nullptr);
    }
    if (fault_ == Fault::kOverrunsWorkspace) space.dptr_[n] = T(1);
    const T last = out.dptr_[n - 1];
    const bool writes = fault_ == Fault::kWritesWhatIsNotWanted && req[0] == kNullOp;
    const bool overwrites = fault_ == Fault::kIgnoresAddTo && req[0] == kAddTo;
    AssignTo(out, writes || overwrites ? kWriteTo : req[0], F<op::identity>(data));
    if (fault_ == Fault::kWrongValue) out.dptr_[0] = out.dptr_[0] + T(0.5);
    if (fault_ == Fault::kWritesPastTheEnd) out.dptr_[n] = T(1);
    if (fault_ == Fault::kChangesItsInput) data.dptr_[0] = T(0);
    if (fault_ == Fault::kLeavesOneElement) out.dptr_[n - 1] = last;
    if (fault_ == Fault::kReadsWorkspaceUnwritten) out.dptr_[0] = space.dptr_[0];
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    AssignTo(in_grad[0].FlatTo1D<Device, T>(), req[0],
             F<op::identity>(out_grad[0].FlatTo1D<Device, T>()));
  }

 private:
  const Fault fault_;
};

TESSERA_REGISTER_OPERATOR(test_faulty, FaultyProperty, FaultyOp).Describe("Has one fault.");

class OperatorHarnessTest : public ::testing::Test {
 protected:
  OperatorHarnessTest() : device_(MakeCpuTestDevice()) {
    row_.name = "test_faulty";
    row_.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
      return in;
    };
  }

  const OperatorCase& CaseOf(Fault fault) {
    case_ = {.name = "faulty",
             .parameters = {{"fault", std::to_string(static_cast<int>(fault))}},
             .inputs = {{7}}};
    return case_;
  }
  void Forward(Fault fault, OpReqType req = kWriteTo) {
    OperatorHarness harness(row_, CaseOf(fault), DType::kFloat32, device_.get());
    harness.ExpectForward(harness.Forward({.req = {req}}), {req});
  }

  std::unique_ptr<TestDevice> device_;
  OperatorRow row_;
  OperatorCase case_;
};

TEST_F(OperatorHarnessTest, PassesAnOperatorWithoutFault) {
  for (const OpReqType req : {kWriteTo, kAddTo, kNullOp}) Forward(Fault::kNone, req);
  OperatorHarness harness(row_, CaseOf(Fault::kNone), DType::kFloat64, device_.get());
  harness.ExpectBackward(harness.Backward());
  CheckProperty(row_, case_);
  CheckShapeInference(row_, case_);
  CheckTypeInference(row_, case_);
}

TEST_F(OperatorHarnessTest, FindsWrongValues) {
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kWrongValue), "output of shape (7,), element 0");
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kIgnoresAddTo, kAddTo), "output of shape (7,)");
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kLeavesOneElement), "element 6: got");
}

TEST_F(OperatorHarnessTest, FindsWritesWhereNothingIsWanted) {
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kWritesWhatIsNotWanted, kNullOp),
                          "output was not wanted but has changed");
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kWritesPastTheEnd), "written outside the array");
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kChangesItsInput),
                          "an array that is not an output changed");
}

TEST_F(OperatorHarnessTest, FindsMisuseOfWorkspace) {
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kOverrunsWorkspace), "written outside the workspace");
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kAsksTwice), "to be asked for once");
  EXPECT_NONFATAL_FAILURE(Forward(Fault::kReadsWorkspaceUnwritten), "element 0: got");
}

/// Whether a check reports any failure.
bool Fails(const std::function<void()>& check) {
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(&results);
    check();
  }
  return results.size() > 0;
}

TEST_F(OperatorHarnessTest, FindsFaultsOfTheProperty) {
  const OperatorCase contradiction = CaseOf(Fault::kInfersAnotherShape);
  EXPECT_TRUE(Fails([&] { CheckShapeInference(row_, contradiction); }));
  const OperatorCase forgetful = CaseOf(Fault::kForgetsAParameter);
  EXPECT_TRUE(Fails([&] { CheckProperty(row_, forgetful); }));
  const ErrorCase no_error = {.name = "fine", .inputs = {{3}}};
  EXPECT_TRUE(Fails([&] { CheckError(row_, no_error); }));
}

TEST_F(OperatorHarnessTest, FindsABackwardReferenceThatIsNoDerivative) {
  row_.backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                     const std::vector<Values>&, const std::vector<Values>&) { return out_grad; };
  const OperatorCase fine = CaseOf(Fault::kNone);
  EXPECT_FALSE(Fails([&] { CheckReference(row_, fine); }));
  row_.backward = [](const ParameterMap&, const std::vector<Values>&, const std::vector<Values>& in,
                     const std::vector<Values>&) { return in; };
  EXPECT_TRUE(Fails([&] { CheckReference(row_, fine); }));
}

}  // namespace
}  // namespace tessera::ops_testing
