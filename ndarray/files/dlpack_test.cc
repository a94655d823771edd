#include "tessera/ndarray/dlpack.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/dlpack_abi.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// The layout of the C structures on 64-bit machines.
static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4);
static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16);
static_assert(offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24);
static_assert(offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLTensor) == 48 && offsetof(DLManagedTensor, manager_ctx) == 48);
static_assert(offsetof(DLManagedTensor, deleter) == 56 && sizeof(DLManagedTensor) == 64);
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8);
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

int64_t LiveBytes() { return Storage::Get()->Stats(Device::Cpu()).live_bytes; }

/// Another library's array of six floats, [[0, 1, 2], [3, 4, 5]].
template <typename Managed>
struct Producer {
  Producer() {
    managed.dl_tensor = {.data = values.data(),
                         .device = {kDLCPU, 0},
                         .ndim = 2,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = shape,
                         .strides = strides,
                         .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->deletions; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
      managed.version = {1, 3};
      managed.flags = 0;
    }
  }

  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {3, 1};
  Managed managed = {};
  int deletions = 0;
};

template <typename Managed>
class DLPackTest : public ::testing::Test {
 public:
  static Managed* Export(const NDArray& array) {
    if constexpr (std::is_same_v<Managed, DLManagedTensor>) {
      return ToLegacyDLPack(array);
    } else {
      return ToDLPack(array);
    }
  }
};
using Forms = ::testing::Types<DLManagedTensorVersioned, DLManagedTensor>;
TYPED_TEST_SUITE(DLPackTest, Forms);

TYPED_TEST(DLPackTest, ExportsWithoutACopyAfterPendingWrites) {
  NDArray::WaitAll();
  const int64_t before = LiveBytes();
  TypeParam* managed = nullptr;
  const float* memory = nullptr;
  {
    NDArray array({4, 2, 3}, Device::Cpu(), DType::kFloat32, /*delay_alloc=*/true);
    for (int i = 0; i < 100; ++i) array = static_cast<float>(i);
    managed = this->Export(array.At(1));
    memory = array.data().dptr<float>();
  }
  NDArray::WaitAll();
  const DLTensor& tensor = managed->dl_tensor;
  EXPECT_EQ(tensor.data, memory + 6);
  EXPECT_EQ(memory[6], 99);
  EXPECT_EQ(memory[11], 99);
  EXPECT_EQ(tensor.device.device_type, kDLCPU);
  EXPECT_EQ(tensor.device.device_id, 0);
  EXPECT_THAT(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.ndim), ElementsAre(2, 3));
  EXPECT_THAT(std::vector<int64_t>(tensor.strides, tensor.strides + 2), ElementsAre(3, 1));
  EXPECT_EQ(tensor.byte_offset, 0u);
  if constexpr (std::is_same_v<TypeParam, DLManagedTensorVersioned>) {
    EXPECT_EQ(managed->version.major, 1u);
    EXPECT_EQ(managed->flags, 0u);
  }
  EXPECT_GT(LiveBytes(), before);
  managed->deleter(managed);
  NDArray::WaitAll();
  EXPECT_EQ(LiveBytes(), before);
}

TYPED_TEST(DLPackTest, ImportsWithoutACopyAndDeletesOnceAfterTheLastOperation) {
  Producer<TypeParam> producer;
  Engine* const engine = Engine::Get();
  std::vector<float> seen(3);
  {
    NDArray array = FromDLPack(&producer.managed);
    EXPECT_EQ(array.shape(), TShape({2, 3}));
    EXPECT_EQ(array.data().dptr_, producer.values.data());
    array *= 2.0f;
    array.WaitToRead();
    EXPECT_THAT(producer.values, ElementsAre(0, 2, 4, 6, 8, 10));
    const TBlob row = array.At(1).data();
    engine->Stop();
    engine->PushSync(
        [&seen, row](RunContext) { seen.assign(row.dptr<float>(), row.dptr<float>() + 3); },
        Device::Cpu(), {array.var()}, {});
  }
  EXPECT_EQ(producer.deletions, 0);
  engine->Start();
  NDArray::WaitAll();
  EXPECT_THAT(seen, ElementsAre(6, 8, 10));
  EXPECT_EQ(producer.deletions, 1);
}

TYPED_TEST(DLPackTest, EveryTypeAndShapeGoesThereAndBack) {
  for (int flag = 0; flag <= static_cast<int>(DType::kBFloat16); ++flag) {
    for (const TShape& shape :
         {TShape({2, 3}), TShape(std::span<const index_t>()), TShape({0, 3}), TShape({1, 5, 1})}) {
      NDArray array(shape, Device::Cpu(), static_cast<DType>(flag));
      array = 1.0f;
      const NDArray back = FromDLPack(this->Export(array));
      EXPECT_EQ(back.dtype(), array.dtype());
      EXPECT_EQ(back.shape(), shape);
      EXPECT_EQ(back.ToVector(), array.ToVector()) << array.dtype();
      if (shape.Size() > 0) {
        EXPECT_EQ(back.data().dptr_, array.data().dptr_);
      }
    }
  }
}

TYPED_TEST(DLPackTest, TakesByteOffsetsAndStridesThatDoNotMatter) {
  Producer<TypeParam> producer;
  producer.managed.dl_tensor.byte_offset = 8;
  producer.shape[0] = 1;
  producer.strides[0] = 77;  // of an extent of 1
  EXPECT_THAT(FromDLPack(&producer.managed).ToVector(), ElementsAre(2, 3, 4));
  producer.managed.dl_tensor.strides = nullptr;
  EXPECT_THAT(FromDLPack(&producer.managed).ToVector(), ElementsAre(2, 3, 4));
  NDArray::WaitAll();
  producer.shape[0] = 0;
  producer.managed.dl_tensor.data = nullptr;
  producer.managed.deleter = nullptr;
  EXPECT_EQ(FromDLPack(&producer.managed).shape(), TShape({0, 3}));
  NDArray::WaitAll();
  EXPECT_EQ(producer.deletions, 2);
}

TYPED_TEST(DLPackTest, RefusesWhatAnArrayCannotBeAndDeletesNothing) {
  const auto refuse = [](absl::StatusCode code, const std::string& text, const auto& change) {
    Producer<TypeParam> producer;
    change(producer.managed.dl_tensor);
    ExpectError(code, text, [&] { FromDLPack(&producer.managed); });
    NDArray::WaitAll();
    EXPECT_EQ(producer.deletions, 0);
  };
  constexpr auto kInvalid = Error::kInvalidArgument;
  constexpr auto kUnimplemented = Error::kUnimplemented;
  refuse(kUnimplemented, "found stride 2 in dimension 1 of shape (2,3), expected 1",
         [](DLTensor& tensor) {
           tensor.strides[0] = 1;
           tensor.strides[1] = 2;
         });
  refuse(kUnimplemented, "found stride 2 in dimension 1", [](DLTensor& t) { t.strides[1] = 2; });
  refuse(kUnimplemented, "found stride 4", [](DLTensor& t) { t.strides[0] = 4; });
  refuse(kUnimplemented, "found device type 10",
         [](DLTensor& t) { t.device.device_type = static_cast<DLDeviceType>(10); });
  refuse(kUnimplemented, "code 5 with 64 bits", [](DLTensor& t) { t.dtype = {5, 64, 1}; });
  refuse(kUnimplemented, "and 4 lanes", [](DLTensor& t) { t.dtype.lanes = 4; });
  refuse(kUnimplemented, "rank 9", [](DLTensor& t) { t.ndim = 9; });
  refuse(kInvalid, "rank -1", [](DLTensor& t) { t.ndim = -1; });
  refuse(kInvalid, "without a shape", [](DLTensor& t) { t.shape = nullptr; });
  refuse(kInvalid, "extent -3", [](DLTensor& t) { t.shape[1] = -3; });
  refuse(kInvalid, "63 bits",
         [](DLTensor& t) { t.shape[0] = std::numeric_limits<int64_t>::max(); });
  refuse(kInvalid, "no memory", [](DLTensor& t) { t.data = nullptr; });
  refuse(kInvalid, "not aligned", [](DLTensor& t) { t.byte_offset = 2; });
  ExpectError(kInvalid, "no tensor", [] { FromDLPack(static_cast<TypeParam*>(nullptr)); });
  ExpectError(Error::kFailedPrecondition, "no array", [&] { this->Export(NDArray()); });
}

TEST(DLPackVersionedTest, ChecksVersionAndReadOnlyFlag) {
  Producer<DLManagedTensorVersioned> producer;
  producer.managed.version = {2, 0};
  ExpectError(Error::kUnimplemented, "found version 2.0 of DLPack, expected 1.x",
              [&] { FromDLPack(&producer.managed); });
  producer.managed.version = {1, 0};
  producer.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  ExpectError(Error::kFailedPrecondition, "read-only", [&] { FromDLPack(&producer.managed); });
  EXPECT_EQ(producer.deletions, 0);
  EXPECT_THAT(FromDLPack(&producer.managed, {.accept_read_only = true}).ToVector(),
              ElementsAreArray(producer.values));
  NDArray::WaitAll();
  EXPECT_EQ(producer.deletions, 1);
}

TEST(DLPackVersionedTest, AnErrorOfTheArraySurfaces) {
  NDArray array({2});
  Engine::Get()->PushSync([](RunContext) { throw OutOfRange("the operation broke"); },
                          Device::Cpu(), {}, {array.var()});
  ExpectError(Error::kOutOfRange, "the operation broke", [&] { ToDLPack(array); });
}

}  // namespace
}  // namespace tessera
