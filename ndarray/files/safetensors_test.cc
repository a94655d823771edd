#include "tessera/ndarray/safetensors.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/files/testing/damage.h"
#include "tessera/ndarray/files/testing/hex.h"
#include "tessera/ndarray/files/testing/peak_memory.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_internal::DamageAtRandom;
using ndarray_internal::DamageEverywhere;
using ndarray_internal::FromHex;
using ndarray_internal::Fuzz;
using ndarray_internal::PeakGrowthBytes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr auto kDataLoss = Error::kDataLoss;

/// Returns a file with that header and those elements.
std::string File(std::string_view header, std::string_view hex) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
  return bytes + std::string(header) + FromHex(hex);
}

/// What safetensors 0.5.3 wrote for arrays of NumPy.
std::string PythonsFile() {
  return File(
      R"({"__metadata__":{"x":"\"é\n"},"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
      R"("e":{"dtype":"I32","shape":[0,3],"data_offsets":[16,16]},)"
      R"("h":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[20,23]},)"
      R"("m":{"dtype":"BOOL","shape":[2],"data_offsets":[23,25]}}       )",
      "07000000000000000000c03f000000c0003c00380001020100");
}

TEST(SafetensorsTest, ReadsAndWritesPythonsBytes) {
  const std::string bytes = PythonsFile();
  const Safetensors contents = DeserializeSafetensors(bytes);
  EXPECT_THAT(contents.metadata, ElementsAre(Pair("x", "\"é\n")));
  ASSERT_THAT(contents.arrays, SizeIs(6));
  std::string names;
  for (const NamedArray& entry : contents.arrays) names += entry.name;
  EXPECT_EQ(names, "saehbm");
  EXPECT_EQ(contents.arrays[0].array.shape().ndim(), 0);
  EXPECT_THAT(contents.arrays[0].array.ToVector(), ElementsAre(7));
  EXPECT_EQ(contents.arrays[1].array.shape(), TShape({1, 2}));
  EXPECT_THAT(contents.arrays[1].array.ToVector(), ElementsAre(1.5, -2));
  EXPECT_EQ(contents.arrays[2].array.shape(), TShape({0, 3}));
  EXPECT_THAT(contents.arrays[3].array.ToVector(), ElementsAre(1, 0.5));
  EXPECT_THAT(contents.arrays[4].array.ToVector(), ElementsAre(0, 1, 2));
  EXPECT_THAT(contents.arrays[5].array.ToVector(), ElementsAre(1, 0));
  // The order in which arrays are given does not matter.
  Safetensors shuffled = contents;
  std::swap(shuffled.arrays[0], shuffled.arrays[5]);
  std::swap(shuffled.arrays[1], shuffled.arrays[3]);
  EXPECT_EQ(SerializeSafetensors(shuffled), bytes);
}

TEST(SafetensorsTest, ReadsBackEveryType) {
  const std::string path = ::testing::TempDir() + "/all_types.safetensors";
  Safetensors contents;
  for (int flag = 0; flag <= static_cast<int>(DType::kBFloat16); ++flag) {
    NDArray array({2, 3}, Device::Cpu(), static_cast<DType>(flag));
    array = 1.0f;
    array.At(1) = 0.0f;
    contents.arrays.push_back({std::to_string(flag), array});
  }
  SaveSafetensors(path, contents);
  const Safetensors loaded = LoadSafetensors(path);
  ASSERT_THAT(loaded.arrays, SizeIs(contents.arrays.size()));
  for (const NamedArray& entry : loaded.arrays) {
    const NDArray& array = contents.arrays[static_cast<size_t>(std::stoi(entry.name))].array;
    EXPECT_EQ(entry.array.dtype(), array.dtype());
    EXPECT_EQ(entry.array.ToVector(), array.ToVector());
  }
  EXPECT_THAT(DeserializeSafetensors(SerializeSafetensors({})).arrays, IsEmpty());
}

TEST(SafetensorsTest, RefusesWhatNoFileCanHold) {
  const NDArray array({1});
  const auto refuse = [](const std::string& text, const Safetensors& contents) {
    ExpectError(Error::kInvalidArgument, text, [&] { SerializeSafetensors(contents); });
  };
  refuse("array \"a\" exists twice", {.arrays = {{"a", array}, {"a", array}}});
  refuse("array \"a\" is no array", {.arrays = {{"a", NDArray()}}});
  refuse("keeps for metadata", {.arrays = {{"__metadata__", array}}});
  refuse("is not UTF-8", {.arrays = {{"\xff", array}}});
  refuse("is not UTF-8", {.metadata = {{"key", "\xc0\x80"}}});
}

TEST(SafetensorsTest, SaysWhatIsDamaged) {
  const auto refuse = [](const std::string& bytes, const std::string& text) {
    ExpectError(kDataLoss, text, [&] { DeserializeSafetensors(bytes); });
  };
  refuse("", "found 0 bytes, expected 8 for the header's length");
  refuse("<!DOCTYPE html><html>", "not a safetensors file, but an HTML page");
  refuse(FromHex("01e1f50500000000"), "found a header of 100000001 bytes, expected at most 0");
  refuse(FromHex("0100000000000000"), "found a header of 1 bytes, expected at most 0");
  refuse(File("", ""), "does not begin with \"{\"");
  refuse(File(" {}", ""), "does not begin with \"{\"");
  refuse(File("{\"a\":}", ""), "damaged header");
  refuse(File("{}", "00"), "found 1 bytes of elements, expected 0");
  refuse(File("{\"a\":3}", ""), "array \"a\": found no object");
  refuse(File(R"({"__metadata__":{"a":1}})", ""), "found __metadata__ with \"a\" that is no text");
  refuse(File(R"({"__metadata__":{"a":"","a":""}})", ""), "with \"a\" a second time");
  refuse(File(R"({"__metadata__":{},"__metadata__":{}})", ""), "\"__metadata__\" a second time");
  const auto array = [](const std::string& name, const std::string& begin, const std::string& end,
                        const std::string& shape = "[2]") {
    return "\"" + name + R"(":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":[)" + begin +
           "," + end + "]}";
  };
  const auto both = [](const std::string& a, const std::string& b) {
    return "{" + a + "," + b + "}";
  };
  EXPECT_THAT(
      DeserializeSafetensors(File(both(array("b", "2", "4"), array("a", "0", "2")), "01020304"))
          .arrays[1]
          .array.ToVector(),
      ElementsAre(3, 4));
  refuse(File(both(array("a", "0", "2"), array("b", "1", "3")), "010203"),
         "array \"b\": found elements from byte 1, expected 2");
  refuse(File(both(array("a", "0", "2"), array("b", "3", "5")), "0102030405"),
         "array \"b\": found elements from byte 3, expected 2");
  refuse(File(both(array("a", "0", "2"), array("b", "0", "2")), "0102"),
         "array \"b\": found elements from byte 0, expected 2");
  refuse(File(both(array("a", "0", "2"), array("a", "2", "4")), "01020304"),
         "found the array \"a\" a second time");
  refuse(File("{" + array("a", "0", "2") + "}", "01"), "found 1 bytes of elements, expected 2");
  refuse(File("{" + array("a", "0", "3") + "}", "010203"),
         "array \"a\": found data_offsets [0,3] for shape (2,) of uint8");
  refuse(File("{" + array("a", "-2", "0") + "}", ""), "found -2 in data_offsets");
  refuse(File("{" + array("a", "0", "2.0") + "}", "0102"), "found 2.0 in data_offsets");
  refuse(File("{" + array("a", "0", "2", "[4611686018427387904,4]") + "}", "0102"), "for shape");
  refuse(File("{" + array("a", "0", "2", "2") + "}", "0102"), "found a shape that is no array");
  refuse(File(R"({"a":{"dtype":"U8","shape":[]}})", ""), "two data_offsets");
  refuse(File(R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})", "00"),
         "found dtype a second time");
  refuse(File(R"({"a":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}})", "02"), "as a boolean");
  ExpectError(Error::kUnimplemented, "array \"a\": element type \"F8_E4M3\"", [] {
    DeserializeSafetensors(
        File(R"({"a":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]}})", "00"));
  });
  ExpectError(Error::kUnimplemented, "rank 9 is not supported", [&] {
    DeserializeSafetensors(File("{" + array("a", "0", "1", "[1,1,1,1,1,1,1,1,1]") + "}", "00"));
  });
  ExpectError(Error::kNotFound, "nowhere", [] { LoadSafetensors("/nowhere/a.safetensors"); });
}

TEST(SafetensorsTest, ManySmallArraysStayWithinFourTimesTheFile) {
  for (const int64_t count : {80000, 400000}) {
    std::string header = "{";
    for (int64_t i = 0; i < count; ++i) {
      header.append(i == 0 ? "\"" : ",\"").append(std::to_string(i));
      header += R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    }
    const std::string file = File(header + "}", "");
    header = "";
    const int64_t growth = PeakGrowthBytes([&] {
      try {
        EXPECT_THAT(DeserializeSafetensors(file).arrays, SizeIs(count));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Error::kResourceExhausted) << error.what();
        EXPECT_GT(count, 80000);
      }
      NDArray::WaitAll();
    });
    EXPECT_LE(growth, static_cast<int64_t>(4 * file.size() + (64 << 20))) << count;
  }
}

TEST(SafetensorsTest, SizesBeyondTheFileTakeNoMemory) {
  const int64_t before = Storage::Get()->Stats(Device::Cpu()).allocations;
  ExpectError(kDataLoss, "found 1 bytes of elements", [] {
    DeserializeSafetensors(File(
        R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", "00"));
  });
  EXPECT_EQ(Storage::Get()->Stats(Device::Cpu()).allocations, before);
}

TEST(SafetensorsTest, AFailedSaveLeavesTheFileAsItWas) {
  const std::string path = ::testing::TempDir() + "/kept.safetensors";
  SaveSafetensors(path, {.metadata = {{"kept", "yes"}}});
  NDArray broken({2});
  Engine::Get()->PushSync([](RunContext) { throw OutOfRange("the operation broke"); },
                          Device::Cpu(), {}, {broken.var()});
  ExpectError(Error::kOutOfRange, "the operation broke", [&] {
    SaveSafetensors(path, {.arrays = {{"a", broken}}});
  });
  EXPECT_THAT(LoadSafetensors(path).metadata, ElementsAre(Pair("kept", "yes")));
}

TEST(SafetensorsFuzzTest, DamageLoadsOrThrows) {
  const std::string files[] = {PythonsFile()};
  for (size_t size = 0; size < files[0].size(); ++size) {
    ExpectError(kDataLoss, "", [&] { DeserializeSafetensors(files[0].substr(0, size)); });
  }
  DamageEverywhere(files[0], 5, Fuzz);
  const uint64_t numbers[] = {0, 1, 100000000, 0x3030303030303030, ~uint64_t{0}};
  DamageAtRandom(files, numbers, 20000, Fuzz);
}

}  // namespace
}  // namespace tessera
