#include "tessera/ndarray/array_contents.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/dlpack.h"
#include "tessera/ndarray/dlpack_abi.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ndarray_internal {
namespace {

NDArray Sixes() {
  NDArray array(TShape{2, 3});
  array = 6.0f;
  return array;
}

TEST(ArrayContentsTest, AreThoseOfTheArrayUntilItIsWritten) {
  EXPECT_FALSE(ArrayContents().AreOf(Sixes()));
  NDArray array = Sixes();
  const NDArray handle = array;
  for (int i = 0; i < 2; ++i) {
    const ArrayContents contents(array);
    array.ToVector();
    Invoke("square", {array})[0].WaitToRead();
    EXPECT_TRUE(contents.AreOf(array));
    EXPECT_TRUE(contents.AreOf(handle));
    EXPECT_TRUE(contents.AreOf(array.Detach()));
    if (i == 0) {
      array.At(1) += 1.0f;
    } else {
      Engine::Get()->PushSync([](const RunContext&) {}, Device::Cpu(), {}, {array.var()});
    }
    EXPECT_FALSE(contents.AreOf(array));
  }
}

TEST(ArrayContentsTest, OtherPartsShapesAndArraysHaveOtherContents) {
  const NDArray array = Sixes();
  const ArrayContents contents(array), first_row(array.At(0));
  EXPECT_FALSE(contents.AreOf(array.Reshape(TShape{3, 2})));
  EXPECT_FALSE(contents.AreOf(array.At(0)));
  EXPECT_TRUE(first_row.AreOf(array.At(0)));
  EXPECT_FALSE(first_row.AreOf(array.At(1)));
  EXPECT_FALSE(contents.AreOf(array.Copy(Device::Cpu())));
}

TEST(ArrayContentsTest, ANewArrayInTheMemoryOfAnOldOneHasOtherContents) {
  for (int i = 0; i < 100; ++i) {
    auto old = std::make_unique<NDArray>(TShape{2, 3});
    const ArrayContents contents(*old);
    old.reset();
    EXPECT_FALSE(contents.AreOf(NDArray(TShape{2, 3})));
  }
}

TEST(ArrayContentsTest, MemoryThatOtherCodeMayWriteNeverHasContentsFromBefore) {
  std::vector<float> values = {1, 2};
  const NDArray lent(TBlob(values.data(), {2}, DType::kFloat32, Device::Cpu()));
  EXPECT_FALSE(ArrayContents(lent).AreOf(lent));
  const NDArray shared(TShape{2}, Device::CpuShared());
  EXPECT_FALSE(ArrayContents(shared).AreOf(shared));
  const NDArray array = Sixes();
  const ArrayContents contents(array);
  EXPECT_TRUE(contents.AreOf(array));
  DLManagedTensorVersioned* const exported = ToDLPack(array);
  exported->deleter(exported);
  EXPECT_FALSE(contents.AreOf(array));
}

}  // namespace
}  // namespace tessera::ndarray_internal
