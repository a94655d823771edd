#ifndef TESSERA_OPS_TESTING_PROPERTY_CHECKS_H_
#define TESSERA_OPS_TESTING_PROPERTY_CHECKS_H_

#include "tessera/ops/testing/operator_row.h"

/// What can be checked of an operator without calling it. Each reports as GoogleTest failures.
namespace tessera::ops_testing {

/// Parameters go through text and back; every one is documented; ids in options are in range.
void CheckProperty(const OperatorRow& row, const OperatorCase& test_case);

/// Shapes are completed from full, minimal and random partial knowledge, and contradictions
/// refused.
void CheckShapeInference(const OperatorRow& row, const OperatorCase& test_case);

/// Element types likewise.
void CheckTypeInference(const OperatorRow& row, const OperatorCase& test_case);

/// The call is refused with the code and the words that the row says.
void CheckError(const OperatorRow& row, const ErrorCase& error);

/// The backward reference agrees with differences of the forward reference.
void CheckReference(const OperatorRow& row, const OperatorCase& test_case);

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_PROPERTY_CHECKS_H_
