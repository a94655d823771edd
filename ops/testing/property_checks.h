#ifndef TESSERA_OPS_TESTING_PROPERTY_CHECKS_H_
#define TESSERA_OPS_TESTING_PROPERTY_CHECKS_H_

#include "tessera/ops/testing/operator_row.h"

/// Checks of an operator that need no call. Each reports GoogleTest failures.
namespace tessera::ops_testing {

/// Checks that parameters survive conversion to text and back, that each is documented, and that
/// ids in options are in range.
void CheckProperty(const OperatorRow& row, const OperatorCase& test_case);

/// Checks that shapes are completed from full, minimal and random partial knowledge, and that
/// contradictions are refused.
void CheckShapeInference(const OperatorRow& row, const OperatorCase& test_case);

/// Checks that element types are completed from full, minimal and random partial knowledge, and
/// that contradictions are refused.
void CheckTypeInference(const OperatorRow& row, const OperatorCase& test_case);

/// Checks that the call is refused with the row's code and words.
void CheckError(const OperatorRow& row, const ErrorCase& error);

/// Checks that the backward reference agrees with differences of the forward reference.
void CheckReference(const OperatorRow& row, const OperatorCase& test_case);

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_PROPERTY_CHECKS_H_
