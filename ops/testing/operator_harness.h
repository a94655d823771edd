#ifndef TESSERA_OPS_TESTING_OPERATOR_HARNESS_H_
#define TESSERA_OPS_TESTING_OPERATOR_HARNESS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/test_device.h"

namespace tessera::ops_testing {

/// Returns the seed of random inputs: TESSERA_TEST_SEED, or else a constant.
uint64_t TestSeed();

/// The ways of calling an operator that must not change the values.
struct CallOptions {
  std::vector<OpReqType> req{};        ///< of every output or input gradient; all kWriteTo if empty
  std::vector<InplacePair> inplace{};  ///< as the property names them, by ids of IdOf…
  int64_t misaligned_elements = 0;     ///< the distance of arrays from an aligned address
  bool null_blobs_for_null_req = false;  ///< unwanted arrays have no memory
  bool is_train = true;
  bool mutate = true;            ///< whether the call is to change the mutated inputs
  bool prepares_inputs = false;  ///< whether Forward has the inputs' forms (Operator::InputForm)
};

/// The results of a call: outputs (or input gradients) and mutated inputs.
struct CallResult {
  std::vector<Bytes> values;
  std::vector<Bytes> mutated;
};

/// One operator with one case's parameters, shapes and random values of one element type, ready to
/// be called in every way. Broken promises (guard zones, inputs that changed, workspace requested
/// twice) are reported as test failures at once.
class OperatorHarness {
 public:
  /// Constructs the operator, by the implementation of that name unless it is empty. Throws what
  /// Create, InferShape and CreateImplementation throw.
  OperatorHarness(const OperatorRow& row, const OperatorCase& test_case, DType dtype,
                  TestDevice* device, std::string_view implementation = {});
  ~OperatorHarness();

  const OperatorProperty& property() const { return *property_; }
  /// Returns Operator::implementation.
  const std::string& implementation() const { return operator_->implementation(); }
  /// Returns whether the operator takes kAddTo; callers request it from no other.
  bool AcceptsAddTo() const { return operator_->AcceptsAddTo(); }
  /// Returns whether some input has a form.
  bool HasForms() const;

  CallResult Forward(const CallOptions& options = {});
  /// Calls Backward with the outputs of a Forward with default options. The operator receives only
  /// the values that DeclareBackwardDependency names. Gradients that do not exist by the property
  /// are never requested, whatever `req` says.
  CallResult Backward(const CallOptions& options = {});

  /// Compare a result with the reference, element by element, within the row's tolerance. If `req`
  /// is kAddTo, the expected value includes the array's old contents.
  void ExpectForward(const CallResult& result, const std::vector<OpReqType>& req = {});
  void ExpectBackward(const CallResult& result, const std::vector<OpReqType>& req = {});

  /// Return ids for the property's in-place options. Each kind of value counts from its own base.
  std::vector<int> InDataIds() const { return Ids(100, shapes_.in.size()); }
  std::vector<int> OutDataIds() const { return Ids(200, shapes_.out.size()); }
  std::vector<int> OutGradIds() const { return Ids(300, shapes_.out.size()); }
  std::vector<int> InGradIds() const { return Ids(400, shapes_.in.size()); }

  std::vector<InplacePair> ForwardInplaceOption() const;
  std::vector<InplacePair> BackwardInplaceOption() const;
  /// Returns the ids of the values that Backward reads.
  std::vector<int> BackwardDependency() const;

  /// Returns whether Backward would not be called because no gradient is requested.
  bool NoneWanted(const std::vector<OpReqType>& req) const;

  size_t num_inputs() const { return shapes_.in.size(); }
  size_t num_outputs() const { return shapes_.out.size(); }

 private:
  struct Shapes {
    std::vector<TShape> in, out;
  };
  class Call;

  static std::vector<int> Ids(int base, size_t count);
  void InferTypes();
  DType TypeOf(int id) const;
  bool IsMutated(size_t input) const;
  PreparedForm FormOf(size_t input) const;
  /// Returns the pairs whose two values have one size; callers use no others.
  std::vector<InplacePair> OfOneSize(std::vector<InplacePair> pairs) const;
  std::vector<OpReqType> BackwardRequests(const std::vector<OpReqType>& req) const;
  const Bytes& BytesOf(int id) const;
  void Expect(const CallResult& result, const std::vector<OpReqType>& req,
              const std::vector<Values>& reference, const std::vector<DType>& types,
              const std::vector<Bytes>& old, const Tolerance& tolerance, double floor,
              const std::vector<std::string>& names) const;
  const std::vector<Values>& ReferenceOutputs();
  const std::vector<Values>& ReferenceGradients();

  const OperatorRow& row_;
  const OperatorCase& case_;
  const DType dtype_;
  TestDevice* const device_;
  std::unique_ptr<OperatorProperty> property_;
  std::unique_ptr<Operator> operator_;
  Shapes shapes_;
  std::vector<DType> in_types_, out_types_;
  std::vector<int> mutated_;
  // Values in the element type, and the same values as doubles for the references.
  std::vector<Bytes> in_bytes_, out_grad_bytes_, out_bytes_;
  std::vector<Bytes> old_out_bytes_, old_in_grad_bytes_;
  std::vector<Values> in_, out_grad_;
  std::vector<Values> reference_out_, reference_mutated_, reference_grad_;
};

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_OPERATOR_HARNESS_H_
