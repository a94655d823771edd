// mshadow's headers by their names alone, beside C's complex.h.
#include <complex.h>
#ifdef MSHADOW_COMPLEX_H_
#error "mshadow's complex.h hides C's"
#endif

#include "base.h"
#include "expr_engine-inl.h"
#include "extension/channel_pool.h"
#include "gtest/gtest.h"
#include "tensor.h"
#include "tensor_container.h"

namespace {

TEST(ShortIncludesTest, HeadersAreFoundWithoutTheFoldersName) {
  const std::complex<float> number(1.5f, 2.0f);
  mshadow::TensorContainer<mshadow::cpu, 1> v(mshadow::Shape1(3), number.real());
  v += number.imag();
  EXPECT_EQ(v[2], 3.5f);
}

}  // namespace
