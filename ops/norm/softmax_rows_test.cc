// Softmax row by row, as other operators run it on rows of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/row_operator.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

std::unique_ptr<Operator> Make(const std::string& name, const ParameterMap& parameters,
                               const TShape& shape, DType dtype = DType::kFloat32) {
  return OperatorRegistry::Get()
      .Create(name, parameters)
      ->CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1});
}

const RowOperator* Rows(const std::unique_ptr<Operator>& op) {
  return dynamic_cast<const RowOperator*>(op.get());
}

/// An array of finite elements, with some that a mask has made small.
class Array {
 public:
  Array(const TShape& shape, DType dtype, int seed)
      : shape_(shape),
        dtype_(dtype),
        bytes_(static_cast<size_t>(shape.Size() * DTypeSizeBytes(dtype))) {
    std::vector<double> values(static_cast<size_t>(shape.Size()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = i % 7 == 3 ? -3e4 : std::sin(static_cast<double>(i) + seed) * 5;
    }
    ops_internal::StoreRow(values.data(), shape.Size(), /*add=*/false, dtype, bytes_.data());
  }
  TBlob blob() { return TBlob(bytes_.data(), shape_, dtype_, Device::Cpu()); }

  friend bool operator==(const Array&, const Array&) = default;

 private:
  TShape shape_;
  DType dtype_;
  std::vector<unsigned char> bytes_;
};

struct Case {
  std::string op;
  ParameterMap parameters = {};
};

TEST(SoftmaxRowsTest, GiveTheBitsOfTheWholeArray) {
  const Case cases[] = {{"softmax"},
                        {"softmax", {{"temperature", "2.5"}}},
                        {"softmin"},
                        {"log_softmax"},
                        {"SoftmaxActivation"}};
  for (const Case& test : cases) {
    for (const DType dtype :
         {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
      for (const index_t length : {65, 128, 1000, 4096}) {
        const TShape shape = {2, 3, length};
        const auto op = Make(test.op, test.parameters, shape, dtype);
        ASSERT_NE(Rows(op), nullptr);
        ASSERT_TRUE(Rows(op)->RunsRows());
        for (const OpReqType req : {kWriteTo, kAddTo, kWriteInplace}) {
          SCOPED_TRACE(testing::Message() << test.op << " of " << dtype << ", rows of " << length
                                          << ", request " << static_cast<int>(req));
          Array in(shape, dtype, 1), expected(shape, dtype, 2);
          Array actual = req == kWriteInplace ? in : expected;
          const TBlob from = in.blob(), to = expected.blob();
          op->Forward({}, {&from, 1}, {&req, 1}, {&to, 1});
          const TBlob out = actual.blob();
          for (index_t row = 6; row-- > 0;) {
            Rows(op)->RunRow(row, req == kWriteInplace ? out : from, req, out);
          }
          EXPECT_TRUE(actual == expected);
        }
      }
    }
  }
}

TEST(SoftmaxRowsTest, OtherRowsAreComputedTogether) {
  EXPECT_FALSE(Rows(Make("softmax", {}, {10, 64}))->RunsRows());    // side by side
  EXPECT_FALSE(Rows(Make("softmax", {}, {10, 4097}))->RunsRows());  // too long
  EXPECT_FALSE(Rows(Make("softmax", {{"axis", "0"}}, {100, 100}))->RunsRows());
  EXPECT_FALSE(Rows(Make("SoftmaxActivation", {{"mode", "channel"}}, {2, 100, 100}))->RunsRows());
  EXPECT_FALSE(Rows(Make("softmax", {{"use_length", "True"}}, {10, 100}))->RunsRows());
}

}  // namespace
}  // namespace tessera
