#include "tessera/ndarray/npy.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/files/testing/damage.h"
#include "tessera/ndarray/files/testing/hex.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_internal::DamageAtRandom;
using ndarray_internal::DamageEverywhere;
using ndarray_internal::FromHex;
using ndarray_internal::Fuzz;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kDataLoss = Error::kDataLoss;
constexpr auto kUnimplemented = Error::kUnimplemented;

std::string TempPath(const std::string& name) { return ::testing::TempDir() + "/" + name; }

/// Returns what NumPy 1.19.5 writes: version 1.0, 128 bytes before the elements.
std::string Npy(std::string_view dictionary, std::string_view hex) {
  std::string bytes = "\x93NUMPY" + FromHex("01007600") + std::string(dictionary);
  bytes.append(127 - bytes.size(), ' ');
  return bytes + "\n" + FromHex(hex);
}

TEST(NpyTest, ReadsAndWritesNumpysBytes) {
  struct Case {
    std::string_view dictionary;
    std::string_view hex;
    DType dtype;
    TShape shape;
    std::vector<float> values;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }",
                                    "003e00c0",
                                    DType::kFloat16,
                                    {2},
                                    {1.5, -2}},
                                   {"{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }",
                                    "0100",
                                    DType::kBool,
                                    {2},
                                    {1, 0}},
                                   {"{'descr': '<u8', 'fortran_order': False, 'shape': (), }",
                                    "0700000000000000",
                                    DType::kUint64,
                                    TShape(std::span<const index_t>()),
                                    {7}},
                                   {"{'descr': '<i4', 'fortran_order': False, 'shape': (0, 3), }",
                                    "",
                                    DType::kInt32,
                                    {0, 3},
                                    {}},
                                   {"{'descr': '|i1', 'fortran_order': False, 'shape': (1, 2), }",
                                    "ff02",
                                    DType::kInt8,
                                    {1, 2},
                                    {-1, 2}}}) {
    const std::string bytes = Npy(c.dictionary, c.hex);
    const NDArray array = DeserializeNpy(bytes);
    EXPECT_EQ(array.dtype(), c.dtype) << c.dictionary;
    EXPECT_EQ(array.shape(), c.shape) << c.dictionary;
    EXPECT_EQ(array.ToVector(), c.values) << c.dictionary;
    EXPECT_EQ(SerializeNpy(array), bytes) << c.dictionary;
  }
}

TEST(NpyTest, ReadsBackEveryType) {
  const std::string path = TempPath("all_types.npy");
  for (int flag = 0; flag < static_cast<int>(DType::kBFloat16); ++flag) {
    NDArray array({2, 3}, Device::Cpu(), static_cast<DType>(flag));
    array = 1.0f;
    array.At(1) = 0.0f;
    SaveNpy(path, array);
    const NDArray loaded = LoadNpy(path);
    EXPECT_EQ(loaded.dtype(), array.dtype());
    EXPECT_EQ(loaded.shape(), array.shape());
    EXPECT_EQ(loaded.ToVector(), array.ToVector()) << array.dtype();
  }
}

TEST(NpyTest, ConvertsByteOrderAndFortranOrder) {
  const NDArray array = DeserializeNpy(Npy(
      "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", "000000030001000400020005"));
  EXPECT_EQ(array.shape(), TShape({2, 3}));
  EXPECT_THAT(array.ToVector(), ElementsAre(0, 1, 2, 3, 4, 5));
  // More elements than fit in the buffer, of three dimensions.
  std::string elements;
  std::vector<float> expected(40 * 30 * 20);
  uint16_t value = 0;
  for (int k = 0; k < 20; ++k) {
    for (int j = 0; j < 30; ++j) {
      for (int i = 0; i < 40; ++i, ++value) {
        elements.append(reinterpret_cast<const char*>(&value), sizeof(value));
        expected[(i * 30 + j) * 20 + k] = value;
      }
    }
  }
  EXPECT_EQ(
      DeserializeNpy(Npy("{'descr': '<u2', 'fortran_order': True, 'shape': (40, 30, 20), }", "") +
                     elements)
          .ToVector(),
      expected);
  EXPECT_THAT(DeserializeNpy(Npy("{'descr': '<f8', 'fortran_order': True, 'shape': (0, 3), }", ""))
                  .ToVector(),
              IsEmpty());
}

TEST(NpyTest, ReadsOtherVersionsAndSpellings) {
  const std::string dictionary = "{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"=i4\"}";
  const std::string elements = FromHex("0100000002000000");
  for (const char version : {'\x02', '\x03'}) {
    const std::string length = {static_cast<char>(dictionary.size()), 0, 0, 0};
    const std::string bytes =
        std::string("\x93NUMPY") + version + '\0' + length + dictionary + elements;
    EXPECT_THAT(DeserializeNpy(bytes).ToVector(), ElementsAre(1, 2));
  }
}

TEST(NpyTest, NamesWhatItDoesNotSupport) {
  const auto refuse = [](const std::string& descr, const std::string& text) {
    ExpectError(kUnimplemented, text, [&] {
      DeserializeNpy(Npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }",
                         "00000000000000000000000000000000"));
    });
  };
  refuse("'<c8'", "DeserializeNpy: element type \"<c8\" is not supported; expected bool");
  refuse("'|O'", "element type \"|O\"");
  refuse("'<V2'", "ml_dtypes writes bfloat16");
  refuse("[('a', '<f4')]", "elements are structures");
  ExpectError(kUnimplemented, "rank 9 is not supported, at most 8", [] {
    DeserializeNpy(
        Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "00"));
  });
  const NDArray brain({2}, Device::Cpu(), DType::kBFloat16);
  ExpectError(kUnimplemented, "NumPy has no type for bfloat16", [&] { SerializeNpy(brain); });
  std::string future = Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "00");
  future[6] = 4;
  ExpectError(kUnimplemented, "version 4.0", [&] { DeserializeNpy(future); });
}

TEST(NpyTest, SaysWhatIsDamagedAndWhere) {
  const auto refuse = [](const std::string& bytes, const std::string& text) {
    ExpectError(kDataLoss, text, [&] { DeserializeNpy(bytes); });
  };
  const std::string_view good = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
  refuse("", "damaged at byte 0: found 0 more bytes, expected 8");
  refuse("<!DOCTYPE html><html>", "not an .npy file, but an HTML page");
  refuse(Npy(good, "01000000"), "damaged at byte 128: found 4 more bytes, expected 8");
  refuse(Npy(good, "010000000200000003"), "found 9 more bytes, expected 8");
  refuse(Npy("{'descr': '<i4', 'shape': (2,), }", ""), "expected the keys descr");
  refuse(Npy("{'descr': '<i4', 'descr': '<i4', }", ""), "found \"descr\"");
  refuse(Npy("{'descr': '<i4', 'fortran_order': 0", ""), "expected True or False");
  refuse(Npy("{'descr': '<i4', 'fortran_order': True, 'shape': (-1,)}", ""), "an extent of 0");
  refuse(Npy("{'descr': 'i4'", ""), "that begins with its byte order, but found \"i4\"");
  refuse(Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "0102"), "a boolean");
  refuse("\x93NUMPY" + FromHex("0100ffff") + "{", "found 1 more bytes, expected 65535");
}

TEST(NpyTest, SizesBeyondTheFileTakeNoMemory) {
  const int64_t before = Storage::Get()->Stats(Device::Cpu()).allocations;
  for (const char* const shape :
       {"(1099511627776,)", "(1099511627776, 1099511627776)", "(4294967296, 4294967296, 0, 1)"}) {
    try {
      DeserializeNpy(Npy(
          "{'descr': '<f4', 'fortran_order': True, 'shape': " + std::string(shape) + ", }", "00"));
      ADD_FAILURE() << shape;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), kDataLoss) << error.what();
    }
  }
  EXPECT_EQ(Storage::Get()->Stats(Device::Cpu()).allocations, before);
}

TEST(NpyTest, AFailedSaveLeavesTheFileAsItWas) {
  const std::string path = TempPath("kept.npy");
  SaveNpy(path, NDArray::FromVector(std::vector<float>{1, 2}, {2}));
  NDArray broken({2});
  Engine::Get()->PushSync([](RunContext) { throw OutOfRange("the operation broke"); },
                          Device::Cpu(), {}, {broken.var()});
  ExpectError(Error::kOutOfRange, "the operation broke", [&] { SaveNpy(path, broken); });
  ExpectError(Error::kInvalidArgument, "kept.npy: found no array",
              [&] { SaveNpy(path, NDArray()); });
  EXPECT_THAT(LoadNpy(path).ToVector(), ElementsAre(1, 2));
  ExpectError(Error::kNotFound, "nowhere.npy", [] { LoadNpy(TempPath("nowhere.npy")); });
}

TEST(NpyFuzzTest, DamageLoadsOrThrows) {
  const std::string files[] = {
      Npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", "000000030001000400020005"),
      Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "0100")};
  for (const std::string& file : files) {
    for (size_t size = 0; size < file.size(); ++size) {
      ExpectError(kDataLoss, "DeserializeNpy: damaged",
                  [&] { DeserializeNpy(file.substr(0, size)); });
    }
    DamageEverywhere(file, 1, Fuzz);
  }
  const uint64_t numbers[] = {0, 1, 0xffffffff, 0x3030303030303030, ~uint64_t{0}};
  DamageAtRandom(files, numbers, 20000, Fuzz);
}

}  // namespace
}  // namespace tessera
