#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/operator_harness.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/property_checks.h"
#include "tessera/ops/testing/test_device.h"

// Every registered operator against its row, in every element type. The same source is linked once
// with the CPU's test device and once with CUDA's.
namespace tessera::ops_testing {
namespace {

TestDevice* SharedDevice() {
  static auto* const device = MakeTestDevice().release();
  return device;
}

TEST(OperatorsTest, EveryRegisteredOperatorHasExactlyOneRow) {
  std::multiset<std::string> rows;
  for (const OperatorRow& row : OperatorRows()) rows.insert(row.name);
  for (const std::string& name : OperatorRegistry::Get().ListNames()) {
    EXPECT_EQ(rows.count(name), 1u)
        << name << " needs a row: see CONTRIBUTING.md, \"Add an operator\"";
    rows.erase(name);
  }
  EXPECT_THAT(rows, ::testing::IsEmpty()) << "rows for operators that are not registered";
}

/// "Pooling(kernel=(2,2), pool_type=max)"
std::string Describe(const OperatorRow& row, const ParameterMap& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    text += (text.empty() ? "" : ", ") + name + "=" + value;
  }
  return row.name + "(" + text + ")";
}

struct CaseParam {
  const OperatorRow* row;
  const OperatorCase* test_case;

  friend std::ostream& operator<<(std::ostream& os, const CaseParam& param) {
    return os << Describe(*param.row, param.test_case->parameters);
  }
};

std::vector<CaseParam> AllCases() {
  std::vector<CaseParam> all;
  for (const OperatorRow& row : OperatorRows()) {
    for (const OperatorCase& test_case : row.cases) all.push_back({&row, &test_case});
  }
  return all;
}

class OperatorCaseTest : public ::testing::TestWithParam<CaseParam> {};

TEST_P(OperatorCaseTest, PropertyIsDocumentedAndGoesThroughTextAndBack) {
  CheckProperty(*GetParam().row, *GetParam().test_case);
}
TEST_P(OperatorCaseTest, ShapesAreInferredAndContradictionsRefused) {
  CheckShapeInference(*GetParam().row, *GetParam().test_case);
}
TEST_P(OperatorCaseTest, TypesAreInferredAndContradictionsRefused) {
  CheckTypeInference(*GetParam().row, *GetParam().test_case);
}
TEST_P(OperatorCaseTest, BackwardReferenceIsTheDerivativeOfTheForwardReference) {
  CheckReference(*GetParam().row, *GetParam().test_case);
}

INSTANTIATE_TEST_SUITE_P(All, OperatorCaseTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) {
                           return info.param.row->name + "_" + info.param.test_case->name;
                         });

struct CallParam {
  const OperatorRow* row;
  const OperatorCase* test_case;
  DType dtype;
  std::string implementation = "";  // empty for the one that is chosen

  friend std::ostream& operator<<(std::ostream& os, const CallParam& param) {
    return os << Describe(*param.row, param.test_case->parameters) << " of " << param.dtype << " "
              << param.implementation;
  }
};

/// Returns whether the build has code for the case on the device. A CPU has code for every case;
/// which operators lack code for a GPU is asked by OperatorsTest below.
bool IsImplemented(const CaseParam& param) {
  if (SharedDevice()->device().type == DeviceType::kCpu) return true;
  try {
    const DType dtype = param.test_case->dtypes.front();
    OperatorHarness(*param.row, *param.test_case, dtype, SharedDevice()).Forward();
    return true;
  } catch (const Error& error) {
    if (error.code() != Error::kUnimplemented) throw;
    return false;
  }
}

/// Returns the other implementations than the chosen one that support a call.
std::vector<std::string> OtherImplementations(const CallParam& call) {
  std::vector<std::string> others;
  const auto all = OperatorRegistry::Get().Find(call.row->name)->implementations.Get();
  if (all.size() < 2) return others;
  const auto harness = [&call](std::string_view implementation) {
    return OperatorHarness(*call.row, *call.test_case, call.dtype, SharedDevice(), implementation);
  };
  const std::string chosen = harness("").implementation();
  if (chosen.empty()) return others;  // the others are for other devices
  for (const auto& each : all) {
    if (each->device != SharedDevice()->device().type || each->name == chosen) continue;
    try {
      others.push_back(harness(each->name).implementation());
    } catch (const Error& error) {
      if (error.code() != Error::kInvalidArgument) throw;
    }
  }
  return others;
}

std::vector<CallParam> AllCalls() {
  std::vector<CallParam> all;
  for (const CaseParam& param : AllCases()) {
    if (!IsImplemented(param)) continue;
    for (const DType dtype : param.test_case->dtypes) {
      all.push_back({param.row, param.test_case, dtype});
      for (std::string& other : OtherImplementations(all.back())) {
        all.push_back({param.row, param.test_case, dtype, std::move(other)});
      }
    }
  }
  return all;
}

TEST(OperatorsTest, TheDeviceLacksCodeForNoOtherOperators) {
  std::set<std::string> missing;
  for (const std::string& name : OperatorRegistry::Get().ListNames()) {
    const auto implementations = OperatorRegistry::Get().Find(name)->implementations.Get();
    const DeviceType type = SharedDevice()->device().type;
    if (std::none_of(implementations.begin(), implementations.end(),
                     [&](const auto& implementation) { return implementation->device == type; })) {
      missing.insert(name);
    }
  }
  EXPECT_EQ(missing, SharedDevice()->operators_without_code());
}

class OperatorCallTest : public ::testing::TestWithParam<CallParam> {
 protected:
  OperatorCallTest()
      : harness_(*GetParam().row, *GetParam().test_case, GetParam().dtype, SharedDevice(),
                 GetParam().implementation) {}

  bool HasBackward() const { return harness_.property().HasBackward(); }

  OperatorHarness harness_;
};

/// All requests alike but one.
std::vector<OpReqType> Requests(size_t count, OpReqType common, size_t position, OpReqType other) {
  std::vector<OpReqType> req(count, common);
  req[position] = other;
  return req;
}

TEST_P(OperatorCallTest, ForwardMatchesTheReference) {
  harness_.ExpectForward(harness_.Forward());
  harness_.ExpectForward(harness_.Forward({.misaligned_elements = 1}));
}

TEST_P(OperatorCallTest, ForwardDoesToEachOutputWhatIsRequested) {
  const size_t n = harness_.num_outputs();
  const std::vector<OpReqType> add(n, kAddTo);
  if (harness_.AcceptsAddTo()) harness_.ExpectForward(harness_.Forward({.req = add}), add);
  for (size_t i = 0; i < n; ++i) {
    const auto null = Requests(n, kWriteTo, i, kNullOp);
    harness_.ExpectForward(harness_.Forward({.req = null}), null);
  }
}

TEST_P(OperatorCallTest, ForwardInPlaceGivesTheSameBits) {
  const CallResult expected = harness_.Forward();
  for (const InplacePair pair : harness_.ForwardInplaceOption()) {
    const std::vector<int> in = harness_.InDataIds(), out = harness_.OutDataIds();
    ASSERT_NE(std::find(in.begin(), in.end(), pair.source), in.end()) << pair.source;
    const auto target = std::find(out.begin(), out.end(), pair.target);
    ASSERT_NE(target, out.end()) << pair.target;
    const auto req =
        Requests(out.size(), kWriteTo, static_cast<size_t>(target - out.begin()), kWriteInplace);
    const CallResult actual = harness_.Forward({.req = req, .inplace = {pair}});
    EXPECT_EQ(actual.values, expected.values) << pair.source << " -> " << pair.target;
    EXPECT_EQ(actual.mutated, expected.mutated);
  }
}

TEST_P(OperatorCallTest, ForwardOfPreparedInputsGivesTheSameBits) {
  if (!harness_.HasForms()) return;
  const size_t n = harness_.num_outputs();
  for (const OpReqType request : {kWriteTo, kAddTo}) {
    if (request == kAddTo && !harness_.AcceptsAddTo()) continue;
    const std::vector<OpReqType> req(n, request);
    EXPECT_EQ(harness_.Forward({.req = req, .prepares_inputs = true}).values,
              harness_.Forward({.req = req}).values)
        << "kAddTo: " << (request == kAddTo);
  }
}

TEST_P(OperatorCallTest, BackwardMatchesTheReference) {
  if (!HasBackward()) {
    // The base class answers, and says so.
    EXPECT_THROW(harness_.Backward(), Error);
    return;
  }
  harness_.ExpectBackward(harness_.Backward());
  harness_.ExpectBackward(harness_.Backward({.misaligned_elements = 1}));
}

TEST_P(OperatorCallTest, BackwardDoesToEachGradientWhatIsRequested) {
  if (!HasBackward()) return;
  const size_t n = harness_.num_inputs();
  const std::vector<OpReqType> add(n, kAddTo);
  if (harness_.AcceptsAddTo()) harness_.ExpectBackward(harness_.Backward({.req = add}), add);
  for (size_t i = 0; i < n; ++i) {
    for (const OpReqType common : {kWriteTo, kNullOp}) {
      const auto mixed = Requests(n, common, i, common == kNullOp ? kWriteTo : kNullOp);
      if (harness_.NoneWanted(mixed)) continue;
      harness_.ExpectBackward(harness_.Backward({.req = mixed}), mixed);
      harness_.ExpectBackward(harness_.Backward({.req = mixed, .null_blobs_for_null_req = true}),
                              mixed);
    }
  }
}

TEST_P(OperatorCallTest, BackwardInPlaceGivesTheSameBits) {
  if (!HasBackward()) return;
  const CallResult expected = harness_.Backward();
  const std::vector<int> needed = harness_.BackwardDependency();
  const std::vector<int> gradients = harness_.InGradIds();
  std::vector<InplacePair> compatible;
  std::vector<OpReqType> all_req(gradients.size(), kWriteTo);
  for (const InplacePair pair : harness_.BackwardInplaceOption()) {
    ASSERT_NE(std::find(needed.begin(), needed.end(), pair.source), needed.end())
        << "in-place source " << pair.source << " is not among what Backward reads";
    const auto target = std::find(gradients.begin(), gradients.end(), pair.target);
    ASSERT_NE(target, gradients.end()) << pair.target;
    const size_t position = static_cast<size_t>(target - gradients.begin());
    const auto req = Requests(gradients.size(), kWriteTo, position, kWriteInplace);
    const CallResult actual = harness_.Backward({.req = req, .inplace = {pair}});
    EXPECT_EQ(actual.values, expected.values) << pair.source << " -> " << pair.target;
    const bool clashes =
        std::any_of(compatible.begin(), compatible.end(), [&](const InplacePair other) {
          return other.source == pair.source || other.target == pair.target;
        });
    if (!clashes) {
      compatible.push_back(pair);
      all_req[position] = kWriteInplace;
    }
  }
  // A memory plan may take up all of them at once.
  const CallResult actual = harness_.Backward({.req = all_req, .inplace = compatible});
  EXPECT_EQ(actual.values, expected.values);
}

TEST_P(OperatorCallTest, LossesAskForNoHeadGradient) {
  if (!harness_.property().IsLoss()) return;
  for (const int id : harness_.OutGradIds()) {
    EXPECT_THAT(harness_.BackwardDependency(), ::testing::Not(::testing::Contains(id)));
  }
}

TEST_P(OperatorCallTest, BitsDependNeitherOnTheRunNorOnTheNumberOfThreads) {
  const auto run = [&](int threads) {
    tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 8);
    tbb::task_arena arena(threads);
    CallResult forward, backward;
    arena.execute([&] {
      forward = harness_.Forward();
      if (HasBackward()) backward = harness_.Backward();
    });
    return std::vector<std::vector<Bytes>>{forward.values, forward.mutated, backward.values};
  };
  const auto expected = run(1);
  EXPECT_EQ(run(1), expected);
  EXPECT_EQ(run(2), expected);
  EXPECT_EQ(run(8), expected);
}

TEST_P(OperatorCallTest, InputsChangeOnlyWhereThatIsRequested) {
  if (harness_.property().MutatedInputs().empty()) return;
  // Without the request, the harness reports a changed input.
  EXPECT_EQ(harness_.Forward({.mutate = false}).values, harness_.Forward().values);
}

INSTANTIATE_TEST_SUITE_P(All, OperatorCallTest, ::testing::ValuesIn(AllCalls()),
                         [](const auto& info) {
                           const std::string& implementation = info.param.implementation;
                           return info.param.row->name + "_" + info.param.test_case->name + "_" +
                                  std::string(DTypeName(info.param.dtype)) +
                                  (implementation.empty() ? "" : "_" + implementation);
                         });

struct ErrorParam {
  const OperatorRow* row;
  const ErrorCase* error;

  friend std::ostream& operator<<(std::ostream& os, const ErrorParam& param) {
    return os << Describe(*param.row, param.error->parameters);
  }
};

std::vector<ErrorParam> AllErrors() {
  std::vector<ErrorParam> all;
  for (const OperatorRow& row : OperatorRows()) {
    for (const ErrorCase& error : row.errors) all.push_back({&row, &error});
  }
  return all;
}

class OperatorErrorTest : public ::testing::TestWithParam<ErrorParam> {};

TEST_P(OperatorErrorTest, IsRefusedInOneClearLine) {
  CheckError(*GetParam().row, *GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(All, OperatorErrorTest, ::testing::ValuesIn(AllErrors()),
                         [](const auto& info) {
                           return info.param.row->name + "_" + info.param.error->name;
                         });

class OperatorRowTest : public ::testing::TestWithParam<const OperatorRow*> {};

TEST_P(OperatorRowTest, RefusesUnknownParametersAndElementTypes) {
  const OperatorRow& row = *GetParam();
  const OperatorCase& test_case = row.cases.front();
  CheckError(row, {.name = "unknown",
                   .parameters = {{"no_such_parameter", "1"}},
                   .words = {"unknown parameter", "no_such_parameter"}});
  if (row.takes_integers) return;
  const auto property = OperatorRegistry::Get().Create(row.name, test_case.parameters);
  const std::vector<DType> integers(test_case.inputs.size(), DType::kInt32);
  try {
    property->CreateOperator(SharedDevice()->device(), test_case.inputs, integers);
    ADD_FAILURE() << "made an operator for int32";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(row.name));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("int32"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, OperatorRowTest, ::testing::ValuesIn([] {
                           std::vector<const OperatorRow*> rows;
                           for (const OperatorRow& row : OperatorRows()) rows.push_back(&row);
                           return rows;
                         }()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace tessera::ops_testing
