#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
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
#include "tessera/ndarray/serialization.h"
#include "tessera/ndarray/sparse.h"
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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kDataLoss = Error::kDataLoss;

std::string TempPath(const std::string& name) { return ::testing::TempDir() + "/" + name; }

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The format written by hand, apart from the code under test.
class Bytes {
 public:
  Bytes& U32(uint32_t value) { return Add(&value, sizeof(value)); }
  Bytes& I32(int32_t value) { return Add(&value, sizeof(value)); }
  Bytes& U64(uint64_t value) { return Add(&value, sizeof(value)); }
  Bytes& I64(int64_t value) { return Add(&value, sizeof(value)); }
  Bytes& F32(std::vector<float> values) {
    return Add(values.data(), values.size() * sizeof(float));
  }
  Bytes& Text(const std::string& text) {
    U64(text.size());
    return Add(text.data(), text.size());
  }
  /// Everything before the first array of a file.
  Bytes& Header(uint64_t num_arrays) { return U64(0x112).U64(0).U64(num_arrays); }
  /// A dense array of two floats on cpu(0).
  Bytes& TwoFloats(float a, float b) {
    return U32(0xf993fac9).I32(0).I32(1).I64(2).I32(1).I32(0).I32(0).F32({a, b});
  }

  const std::string& get() const { return bytes_; }

 private:
  Bytes& Add(const void* data, size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }
  std::string bytes_;
};

std::map<std::string, NDArray> LoadBytes(const std::string& bytes) {
  const std::string path = TempPath("load_bytes.params");
  WriteFile(path, bytes);
  return LoadNDArrays(path);
}

TEST(SerializationTest, ReadsWhatItWrote) {
  const std::string path = TempPath("all_types.params");
  std::map<std::string, NDArray> arrays;
  for (int flag = 0; flag <= static_cast<int>(DType::kBFloat16); ++flag) {
    NDArray array({2, 3}, Device::Cpu(), static_cast<DType>(flag));
    array = 1.0f;
    array.At(1) = 0.0f;
    arrays["arg:" + std::to_string(flag)] = array;
  }
  arrays["aux:scalar"] = NDArray{TShape(std::span<const index_t>())};
  arrays["aux:scalar"] = 2.5f;
  arrays["aux:empty"] = NDArray({3, 0});
  arrays[""] = NDArray::FromVector(std::vector<float>{1, 2}, {1, 1, 1, 1, 1, 1, 1, 2});
  arrays["part"] = NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {4}).Slice(1, 3);
  SaveNDArrays(path, arrays);

  const std::map<std::string, NDArray> loaded = LoadNDArrays(path);
  ASSERT_THAT(loaded, SizeIs(arrays.size()));
  for (const auto& [name, array] : arrays) {
    ASSERT_TRUE(loaded.contains(name)) << name;
    EXPECT_EQ(loaded.at(name).shape(), array.shape()) << name;
    EXPECT_EQ(loaded.at(name).dtype(), array.dtype()) << name;
    EXPECT_EQ(loaded.at(name).ToVector(), array.ToVector()) << name;
  }
}

TEST(SerializationTest, WritesMxnetsBytesAndAChecksum) {
  const std::string path = TempPath("exact.params");
  SaveNDArrays(path, {{"arg:w", NDArray::FromVector(std::vector<float>{1, -2}, {2})}});
  const std::string mxnets = Bytes().Header(1).TwoFloats(1, -2).U64(1).Text("arg:w").get();
  EXPECT_EQ(ReadFile(path), mxnets + Bytes().U32(0x4b434843).U32(0x6be31b60).get());
}

TEST(SerializationTest, KeepsADigestBesideTheChecksum) {
  const std::string path = TempPath("digest.params");
  const std::map<std::string, NDArray> arrays = {
      {"arg:w", NDArray::FromVector(std::vector<float>{1, -2}, {2})}};
  SaveNDArrays(path, arrays, 0x0123456789abcdef);
  const std::string mxnets = Bytes().Header(1).TwoFloats(1, -2).U64(1).Text("arg:w").get();
  EXPECT_EQ(
      ReadFile(path),
      mxnets +
          Bytes().U32(0x54534744).U64(0x0123456789abcdef).U32(0x4b434843).U32(0x4c21d01f).get());
  std::optional<uint64_t> digest;
  EXPECT_THAT(LoadNDArrays(path, nullptr, &digest), SizeIs(1));
  EXPECT_EQ(digest, 0x0123456789abcdef);
  EXPECT_THAT(LoadNDArrays(path), SizeIs(1));
  SaveNDArrays(path, arrays);
  LoadNDArrays(path, nullptr, &digest);
  EXPECT_EQ(digest, std::nullopt);
  ExpectError(kDataLoss, "found 20 more bytes, expected the file to end",
              [&] { LoadBytes(mxnets + Bytes().U32(1).U64(2).U32(0x4b434843).U32(0).get()); });
}

class SerializationDigestTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, SerializationDigestTest, ::testing::Bool());

TEST_P(SerializationDigestTest, NoBitChangesUnnoticed) {
  const bool has_digest = GetParam();
  const std::string path = TempPath("checksum.params");
  SaveNDArrays(path, {{"a", NDArray::FromVector(std::vector<float>{1, -2}, {2})}},
               has_digest ? std::optional<uint64_t>(5) : std::nullopt);
  const std::string file = ReadFile(path);
  // With a digest, the bytes of the array before the names are those without one.
  const size_t first = has_digest ? file.size() - 40 : 0;
  for (size_t bit = 8 * first; bit < 8 * file.size(); ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(LoadBytes(damaged), Error) << bit;
  }
  for (size_t size = 0; size < file.size(); ++size) {
    if (size == file.size() - (has_digest ? 20 : 8)) {
      EXPECT_THAT(LoadBytes(file.substr(0, size)), SizeIs(1)) << "as MXNet writes it";
    } else {
      EXPECT_THROW(LoadBytes(file.substr(0, size)), Error) << size;
    }
  }
  std::string damaged = file;
  damaged[60] = 1;
  const std::string checked = std::to_string(file.size() - 8);
  ExpectError(kDataLoss,
              "load_bytes.params: damaged: the bytes before byte " + checked + " have checksum 0x",
              [&] { LoadBytes(damaged); });
}

TEST(SerializationTest, NothingIsAFileToo) {
  const std::string path = TempPath("nothing.params");
  SaveNDArrays(path, {});
  EXPECT_THAT(LoadNDArrays(path), IsEmpty());
}

TEST(SerializationTest, LargeArraysPassTheBuffers) {
  const std::string path = TempPath("large.params");
  std::vector<float> values((1 << 17) + 3);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const NDArray large = NDArray::FromVector(values, {static_cast<index_t>(values.size())});
  SaveNDArrays(path, {{"a", large.Slice(0, 3)}, {"b", large}, {"c", large.Slice(0, 16384)}});
  const std::map<std::string, NDArray> loaded = LoadNDArrays(path);
  EXPECT_THAT(loaded.at("a").ToVector(), ElementsAre(0, 1, 2));
  EXPECT_EQ(loaded.at("b").ToVector(), values);
  EXPECT_EQ(loaded.at("c").ToVector()[16383], 16383);
}

TEST(SerializationTest, ReadsEveryVersion) {
  Bytes bytes;
  bytes.Header(5);
  bytes.U32(2).U32(1).U32(2).I32(1).I32(0).I32(0).F32({1, 2});                  // V0
  bytes.U32(0xf993fac8).I32(1).I64(2).I32(2).I32(7).I32(0).F32({3, 4});         // V1, gpu(7)
  bytes.U32(0xf993fac9).I32(0).I32(1).I64(2).I32(3).I32(0).I32(0).F32({5, 6});  // V2, pinned
  bytes.U32(0xf993faca).I32(0).I32(0).I32(1).I32(0).I32(0).F32({7});            // V3, a scalar
  bytes.U32(0xf993faca).I32(0).I32(2).I64(0).I64(3).I32(1).I32(0).I32(0);       // V3, empty
  bytes.U64(5).Text("v0").Text("v1").Text("v2").Text("v3").Text("empty");
  const std::map<std::string, NDArray> loaded = LoadBytes(bytes.get());
  EXPECT_EQ(loaded.at("v0").shape(), TShape({1, 2}));
  EXPECT_THAT(loaded.at("v0").ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(loaded.at("v1").ToVector(), ElementsAre(3, 4));
  EXPECT_EQ(loaded.at("v1").device(), Device::Cpu());
  EXPECT_THAT(loaded.at("v2").ToVector(), ElementsAre(5, 6));
  EXPECT_EQ(loaded.at("v3").shape().ndim(), 0);
  EXPECT_THAT(loaded.at("v3").ToVector(), ElementsAre(7));
  EXPECT_EQ(loaded.at("empty").shape(), TShape({0, 3}));
}

TEST(SerializationTest, ArraysWithoutShapeAreNone) {
  Bytes bytes;
  bytes.Header(4).U32(0).U32(0xf993fac8).I32(0).U32(0xf993fac9).I32(0).I32(0);
  bytes.U32(0xf993faca).I32(0).I32(-1).U64(0);
  const std::map<std::string, NDArray> loaded = LoadBytes(bytes.get());
  ASSERT_THAT(loaded, SizeIs(4));
  for (const auto& [name, array] : loaded) EXPECT_TRUE(array.is_none()) << name;
}

TEST(SerializationTest, ListsWithoutNamesAreNumbered) {
  const std::map<std::string, NDArray> loaded =
      LoadBytes(Bytes().Header(2).TwoFloats(1, 2).TwoFloats(3, 4).U64(0).get());
  EXPECT_THAT(loaded.at("0").ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(loaded.at("1").ToVector(), ElementsAre(3, 4));
}

TEST(SerializationTest, SaysWhatIsDamagedAndWhere) {
  const auto refuse = [](const Bytes& bytes, const std::string& text) {
    ExpectError(kDataLoss, text, [&] { LoadBytes(bytes.get()); });
  };
  refuse(Bytes(), "load_bytes.params: damaged at byte 0: found 0 more bytes, expected 8");
  refuse(Bytes().U64(0x113), "found magic number 0x113, expected 0x112");
  refuse(Bytes().U64(0x112).U64(1), "damaged at byte 8: found 0x1, expected 0 in the reserved");
  refuse(Bytes().Header(uint64_t{1} << 60), "as the number of arrays, but only 0 bytes follow");
  refuse(Bytes().Header(1).U32(0xf993facb),
         "damaged at byte 24 (array 0): found 0xf993facb, expected the magic number");
  refuse(Bytes().Header(1).U32(0xf993fac9).I32(3), "found storage type 3");
  refuse(Bytes().Header(1).U32(0xf993fac9).I32(0).I32(33), "found rank 33, expected 0 to 32");
  refuse(Bytes().Header(1).U32(33), "found 0x21, expected the magic number of an array");
  refuse(Bytes().Header(1).U32(0xf993fac9).I32(0).I32(1).I64(-2),
         "byte 36 (array 0): found extent -2");
  refuse(Bytes().Header(1).U32(0xf993fac9).I32(0).I32(1).I64(2).I32(4), "found device type 4");
  refuse(Bytes().Header(1).U32(0xf993fac9).I32(0).I32(1).I64(2).I32(1).I32(-1),
         "found device number -1");
  refuse(Bytes().Header(1).U32(0xf993fac9).I32(0).I32(1).I64(2).I32(1).I32(0).I32(13),
         "found element type 13, expected 0 to 12");
  refuse(Bytes().Header(1).U32(0xf993fac9).I32(0).I32(1).I64(2).I32(1).I32(0).I32(0).F32({1}),
         "byte 56 (array 0): found 4 more bytes, expected 8 for the elements");
  refuse(Bytes()
             .Header(1)
             .U32(0xf993fac9)
             .I32(0)
             .I32(2)
             .I64(2)
             .I64(2)
             .I32(1)
             .I32(0)
             .I32(7)
             .U32(0x201)
             .U64(0),
         "byte 65 (array 0): found 2 as a boolean, expected 0 or 1");
  refuse(Bytes().Header(2).TwoFloats(1, 2).TwoFloats(1, 2).U64(1).Text("a"),
         "found 1 names for 2 arrays");
  refuse(Bytes().Header(2).TwoFloats(1, 2).TwoFloats(1, 2).U64(2).Text("a").Text("a"),
         "found the name \"a\" a second time");
  refuse(Bytes().Header(1).TwoFloats(1, 2).U64(1).U64(uint64_t{1} << 63),
         "found a name of 9223372036854775808 bytes, but only 0 follow");
  refuse(Bytes().Header(1).TwoFloats(1, 2).U64(1).Text("a").U32(0),
         "found 4 more bytes, expected the file to end");
}

TEST(SerializationTest, SizesBeyondTheFileTakeNoMemory) {
  const int64_t before = Storage::Get()->Stats(Device::Cpu()).allocations;
  const int64_t huge = int64_t{1} << 40;
  const auto array = [](std::vector<int64_t> extents) {
    Bytes bytes;
    bytes.Header(1).U32(0xf993fac9).I32(0).I32(static_cast<int32_t>(extents.size()));
    for (const int64_t extent : extents) bytes.I64(extent);
    return bytes.I32(1).I32(0).I32(0).get();
  };
  ExpectError(kDataLoss, "for the elements", [&] { LoadBytes(array({huge})); });
  ExpectError(kDataLoss, "too large for any file", [&] { LoadBytes(array({huge, huge})); });
  EXPECT_EQ(Storage::Get()->Stats(Device::Cpu()).allocations, before);
}

/// Adds a matrix of three rows and two columns in which row 1 is stored, as MXNet 1.9.1 does.
Bytes& AddRowSparse(Bytes& bytes, int32_t index_type = 6) {
  bytes.U32(0xf993fac9).I32(1).I32(2).I64(1).I64(2).I32(2).I64(3).I64(2).I32(1).I32(0).I32(0);
  bytes.I32(index_type).I32(1).I64(1).F32({5, 6});
  return index_type == 6 ? bytes.I64(1) : bytes.I32(1);
}

/// Adds a matrix of two rows and three columns with one element.
Bytes& AddCsr(Bytes& bytes) {
  bytes.U32(0xf993fac9).I32(2).I32(1).I64(1).I32(2).I64(2).I64(3).I32(1).I32(0).I32(0);
  return bytes.I32(6).I32(1).I64(3).I32(6).I32(1).I64(1).F32({7}).I64(0).I64(1).I64(1).I64(2);
}

/// Adds an array of one element whose rank is above TShape's limit.
Bytes& AddRank(Bytes& bytes, int32_t rank) {
  bytes.U32(0xf993fac9).I32(0).I32(rank);
  for (int32_t i = 0; i < rank; ++i) bytes.I64(1);
  return bytes.I32(1).I32(0).I32(0).F32({8});
}

TEST(SerializationTest, ArraysThatAreNotSupportedAreNamed) {
  Bytes indices, rank_9, rank_32;
  AddRowSparse(indices.Header(2).TwoFloats(1, 2), /*index_type=*/4)
      .U64(2)
      .Text("a")
      .Text("embedding");
  AddRank(rank_9.Header(1), 9).U64(1).Text("deep");
  AddRank(rank_32.Header(1), 32).U64(0);
  ExpectError(Error::kUnimplemented,
              "\"embedding\": sparse arrays with int32 indices is not supported",
              [&] { LoadBytes(indices.get()); });
  ExpectError(Error::kUnimplemented, "\"deep\": rank 9 is not supported, at most 8",
              [&] { LoadBytes(rank_9.get()); });
  ExpectError(Error::kUnimplemented, "\"0\": rank 32", [&] { LoadBytes(rank_32.get()); });
  // V0 has the rank in its first four bytes.
  Bytes v0;
  v0.Header(1).U32(9);
  for (int i = 0; i < 9; ++i) v0.U32(1);
  v0.I32(1).I32(0).I32(0).F32({1}).U64(0);
  ExpectError(Error::kUnimplemented, "rank 9", [&] { LoadBytes(v0.get()); });
}

TEST(SerializationTest, ManyArraysThatAreNotSupportedAreTenNames) {
  Bytes bytes;
  bytes.Header(1000);
  for (int i = 0; i < 1000; ++i) AddRank(bytes, 9);
  bytes.U64(1000);
  for (int i = 0; i < 1000; ++i) bytes.Text(std::string(1000, 'n') + std::to_string(i));
  try {
    LoadBytes(bytes.get());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(" and 990 more"));
    EXPECT_LT(std::string(error.what()).size(), 3000u);
  }
}

TEST(SerializationTest, TheRestOfAFileIsReturned) {
  Bytes bytes;
  AddCsr(AddRank(AddRowSparse(bytes.Header(5).TwoFloats(1, 2)), 9)).TwoFloats(3, 4);
  bytes.U64(5).Text("a").Text("rows").Text("deep").Text("csr").Text("b");
  const std::string path = TempPath("left_out.params");
  WriteFile(path, bytes.get());
  std::vector<LeftOutArray> left_out = {{"from before", ""}};
  const std::map<std::string, NDArray> loaded = LoadNDArrays(path, &left_out);
  ASSERT_THAT(loaded, SizeIs(4));
  EXPECT_THAT(loaded.at("a").ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(loaded.at("rows").ToVector(), ElementsAre(0, 0, 5, 6, 0, 0));
  EXPECT_THAT(loaded.at("csr").ToVector(), ElementsAre(0, 0, 7, 0, 0, 0));
  EXPECT_THAT(loaded.at("b").ToVector(), ElementsAre(3, 4));
  ASSERT_THAT(left_out, SizeIs(1));
  EXPECT_EQ(left_out[0].name, "deep");
  EXPECT_EQ(left_out[0].reason, "rank 9 is not supported, at most 8");
  // Arrays that are left out are checked as far as the file describes them.
  for (size_t size = 0; size < bytes.get().size(); ++size) {
    WriteFile(path, bytes.get().substr(0, size));
    ExpectError(kDataLoss, "left_out.params", [&] { LoadNDArrays(path, &left_out); });
  }
}

TEST(SerializationTest, FilesInThePlaceOfParametersAreRecognized) {
  for (const auto& [bytes, words] : std::initializer_list<std::pair<std::string, const char*>>{
           {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n", "Git LFS"},
           {"<!DOCTYPE html><html><body>404</body></html>", "HTML page"},
           {"\n\n\n\n\n\n\n\n\n<html>", "HTML page"},
           {"{\"nodes\": []}", "JSON text"},
           {"\x1f\x8b\x08\x08 and so on", "gzip"}}) {
    ExpectError(kDataLoss, words, [&bytes = bytes] { LoadBytes(bytes); });
  }
}

TEST(SerializationTest, NamesTheFileThatCannotBeUsed) {
  const NDArray array({2});
  const std::string nowhere = TempPath("no_such_folder/x.params");
  ExpectError(Error::kNotFound, nowhere, [&] { LoadNDArrays(nowhere); });
  ExpectError(Error::kNotFound, nowhere, [&] { SaveNDArrays(nowhere, {{"a", array}}); });
  const std::string folder = ::testing::TempDir();
  ExpectError(Error::kFailedPrecondition, folder, [&] { LoadNDArrays(folder); });
  ExpectError(Error::kFailedPrecondition, folder, [&] { SaveNDArrays(folder, {{"a", array}}); });
}

TEST(SerializationTest, AFailedSaveLeavesTheFileAsItWas) {
  const std::string path = TempPath("kept.params");
  SaveNDArrays(path, {{"a", NDArray::FromVector(std::vector<float>{1, 2}, {2})}});
  const std::string before = ReadFile(path);
  ExpectError(Error::kInvalidArgument, "entry \"none\" is no array", [&] {
    SaveNDArrays(path, {{"none", NDArray()}});
  });
  NDArray broken({2});
  Engine::Get()->PushSync([](RunContext) { throw OutOfRange("the operation broke"); },
                          Device::Cpu(), {}, {broken.var()});
  ExpectError(Error::kOutOfRange, "the operation broke", [&] {
    SaveNDArrays(path, {{"a", broken}});
  });
  EXPECT_EQ(ReadFile(path), before);
  NDArray::WaitAll();
}

/// A file with every kind of field.
std::string SampleFile() {
  Bytes bytes;
  bytes.Header(4);
  bytes.U32(2).U32(1).U32(2).I32(1).I32(0).I32(0).F32({1, 2});
  bytes.U32(0xf993fac8).I32(1).I64(1).I32(2).I32(0).I32(0).F32({3});
  bytes.U32(0xf993fac9).I32(0).I32(2).I64(2).I64(2).I32(1).I32(0).I32(7).U32(0x00010001);
  bytes.U32(0xf993faca).I32(0).I32(0).I32(1).I32(0).I32(1).U64(0);
  bytes.U64(4).Text("a").Text("bc").Text("").Text("d");
  return bytes.get();
}

/// A file with sparse arrays and one that is left out.
std::string SparseFile() {
  Bytes bytes;
  AddCsr(AddRank(AddRowSparse(bytes.Header(3)), 9));
  return bytes.U64(3).Text("a").Text("b").Text("c").get();
}

// What MXNet 1.9.1 wrote for a = [1, 2] of uint8 and h = [[1.5, -2]] of float16: nd.save of the
// list [a, h] and of the dictionary {b: a, a: h}, and MXNDArraySaveRawBytes of h and of a scalar 1.
constexpr std::string_view kMxnetList =
    "120100000000000000000000000000000200000000000000c9fa93f90000000001000000020000000000"
    "00000100000000000000030000000102c9fa93f900000000020000000100000000000000020000000000"
    "0000010000000000000002000000003e00c00000000000000000";
constexpr std::string_view kMxnetNamed =
    "120100000000000000000000000000000200000000000000c9fa93f90000000001000000020000000000"
    "00000100000000000000030000000102c9fa93f900000000020000000100000000000000020000000000"
    "0000010000000000000002000000003e00c0020000000000000001000000000000006201000000000000"
    "0061";
constexpr std::string_view kMxnetRaw =
    "c9fa93f9000000000200000001000000000000000200000000000000010000000000000002000000003e"
    "00c0";
constexpr std::string_view kMxnetRawScalar =
    "cafa93f900000000000000000100000000000000000000000000803f";
constexpr size_t kChecksumBytes = 8;

TEST(NDArrayListTest, ReadsAndWritesMxnetsBytesInOrder) {
  for (const std::string_view hex : {kMxnetList, kMxnetNamed}) {
    const std::string bytes = FromHex(hex);
    const NDArrayList list = DeserializeNDArrayList(bytes);
    EXPECT_EQ(list.has_names, hex == kMxnetNamed);
    ASSERT_THAT(list.arrays, SizeIs(2));
    EXPECT_EQ(list.arrays[0].name, list.has_names ? "b" : "");
    EXPECT_EQ(list.arrays[1].name, list.has_names ? "a" : "");
    EXPECT_THAT(list.arrays[0].array.ToVector(), ElementsAre(1, 2));
    EXPECT_EQ(list.arrays[1].array.dtype(), DType::kFloat16);
    EXPECT_THAT(list.arrays[1].array.ToVector(), ElementsAre(1.5, -2));
    // Only the checksum is added.
    const std::string written = SerializeNDArrayList(list);
    EXPECT_EQ(written.substr(0, written.size() - kChecksumBytes), bytes);
    const std::string path = TempPath("list.params");
    SaveNDArrayList(path, list);
    EXPECT_EQ(ReadFile(path), written);
    EXPECT_EQ(SerializeNDArrayList(LoadNDArrayList(path)), written);
  }
}

TEST(NDArrayListTest, KeepsTheDigestAndRefusesWhatNoFileCanHold) {
  const NDArray array({1});
  EXPECT_EQ(DeserializeNDArrayList(SerializeNDArrayList({.digest = 7})).digest, 7);
  EXPECT_TRUE(DeserializeNDArrayList(SerializeNDArrayList({})).has_names);
  ExpectError(Error::kInvalidArgument, "two arrays with the name \"a\"", [&] {
    SerializeNDArrayList({.arrays = {{"a", array}, {"b", array}, {"a", array}}});
  });
  ExpectError(Error::kInvalidArgument, "no array", [] {
    SerializeNDArrayList({.arrays = {{"", NDArray()}}, .has_names = false});
  });
}

TEST(NDArrayListTest, AnArrayWithoutANameIsLeftOutByItsNumber) {
  Bytes bytes;
  AddRank(bytes.Header(2), 9).TwoFloats(3, 4).U64(0);
  std::vector<LeftOutArray> left_out;
  const NDArrayList list = DeserializeNDArrayList(bytes.get(), &left_out);
  ASSERT_THAT(list.arrays, SizeIs(1));
  EXPECT_EQ(list.arrays[0].name, "");
  EXPECT_THAT(list.arrays[0].array.ToVector(), ElementsAre(3, 4));
  ASSERT_THAT(left_out, SizeIs(1));
  EXPECT_EQ(left_out[0].name, "0");
}

// What MXNet 1.9.1 wrote by MXNDArraySaveRawBytes for a row_sparse array of shape (3, 2) with row
// 1, [5, 6]; a csr array of shape (2, 3) with the element 7; and zeros of shape (3, 2) of both
// kinds.
constexpr std::string_view kMxnetSparse[] = {
    "c9fa93f9010000000200000001000000000000000200000000000000020000000300000000000000020000"
    "0000000000010000000000000000000000060000000100000001000000000000000000a0400000c0400100"
    "000000000000",
    "c9fa93f9020000000100000001000000000000000200000002000000000000000300000000000000010000"
    "00000000000000000006000000010000000300000000000000060000000100000001000000000000000000"
    "e0400000000000000000010000000000000001000000000000000200000000000000",
    "c9fa93f9010000000200000000000000000000000200000000000000020000000300000000000000020000"
    "000000000001000000000000000000000006000000010000000000000000000000",
    "c9fa93f9020000000100000000000000000000000200000003000000000000000200000000000000010000"
    "00000000000000000006000000010000000400000000000000060000000100000000000000000000000000"
    "000000000000000000000000000000000000000000000000000000000000"};

TEST(RawArrayTest, ReadsAndWritesMxnetsSparseArrays) {
  const std::vector<float> elements[] = {
      {0, 0, 5, 6, 0, 0}, {0, 0, 7, 0, 0, 0}, std::vector<float>(6), std::vector<float>(6)};
  for (size_t i = 0; i < std::size(kMxnetSparse); ++i) {
    const std::string raw = FromHex(kMxnetSparse[i]);
    const NDArray array = DeserializeArray(raw);
    EXPECT_EQ(StorageTypeOf(array), i % 2 == 0 ? StorageType::kRowSparse : StorageType::kCsr);
    EXPECT_EQ(array.shape(), i == 1 ? TShape({2, 3}) : TShape({3, 2}));
    EXPECT_EQ(array.ToVector(), elements[i]);
    EXPECT_EQ(SerializeArray(array), raw);
    EXPECT_EQ(SerializeArray(array, ShapeMeaning::kNumpy), raw);
  }
}

TEST(RawArrayTest, WrongPartsOfSparseArraysAreNamed) {
  // A row_sparse array of shape (3, 1) with two rows, or a csr array of shape (2, 3) with two
  // elements.
  const auto rows = [](int64_t first, int64_t second, int64_t extent = 3, int64_t num_values = 2) {
    Bytes bytes;
    bytes.U32(0xf993fac9).I32(1).I32(2).I64(num_values).I64(1).I32(2).I64(extent).I64(1);
    bytes.I32(1).I32(0).I32(0).I32(6).I32(1).I64(2).F32({5, 6}).I64(first).I64(second);
    return bytes.get();
  };
  const auto csr = [](int64_t end, int64_t column, int64_t num_ends = 3) {
    Bytes bytes;
    bytes.U32(0xf993fac9).I32(2).I32(1).I64(2).I32(2).I64(2).I64(3).I32(1).I32(0).I32(0);
    bytes.I32(6).I32(1).I64(num_ends).I32(6).I32(1).I64(2).F32({7, 8});
    return bytes.I64(0).I64(1).I64(end).I64(0).I64(column).get();
  };
  const auto refuse = [](const std::string& bytes, const std::string& words) {
    ExpectError(kDataLoss, words, [&] { DeserializeArray(bytes); });
  };
  DeserializeArray(rows(0, 2));
  refuse(rows(2, 0), "indices[1] is 0 after 2, expected indices that rise");
  refuse(rows(0, 3), "indices[1] is 3, expected 0 <= index < 3");
  refuse(rows(-1, 1), "indices[0] is -1");
  refuse(rows(0, 1, 3, 1), "found values of shape (1,1) and 2 indices");
  refuse(rows(0, 1, int64_t{1} << 62), "in a row_sparse array of shape (4611686018427387904,1)");
  DeserializeArray(csr(2, 1));
  refuse(csr(3, 1), "indptr[2] is 3, expected 2, the number of elements");
  refuse(csr(2, 3), "indices[1] is 3");
  refuse(csr(2, 1, 2), "found indptr of shape (2,) in a csr array of shape (2,3)");
  // A large array takes no more memory than what the file stores.
  const NDArray large = DeserializeArray(rows(5, int64_t{1} << 40, int64_t{1} << 60));
  EXPECT_EQ(sparse::Count(large), 2);
}

TEST(RawArrayTest, ReadsAndWritesMxnetsBytes) {
  const std::string raw = FromHex(kMxnetRaw);
  const NDArray array = DeserializeArray(raw);
  EXPECT_EQ(array.shape(), TShape({1, 2}));
  EXPECT_EQ(array.dtype(), DType::kFloat16);
  EXPECT_THAT(array.ToVector(), ElementsAre(1.5, -2));
  EXPECT_EQ(SerializeArray(array), raw);
  const NDArray scalar = DeserializeArray(FromHex(kMxnetRawScalar));
  EXPECT_EQ(scalar.shape().ndim(), 0);
  EXPECT_EQ(SerializeArray(scalar), FromHex(kMxnetRawScalar));
}

TEST(NDArrayListTest, VersionsSayWhatShapesMean) {
  const NDArray array(TShape{1}), empty(TShape{0, 2}), scalar(TShape::OfRank(0));
  const auto versions = [&](const NDArray& of) {
    std::string text;
    for (const ShapeMeaning shapes :
         {ShapeMeaning::kMixed, ShapeMeaning::kLegacy, ShapeMeaning::kNumpy}) {
      const std::string raw = SerializeArray(of, shapes);
      text += raw[0] == '\xca' ? '3' : '2';
      ShapeMeaning read = ShapeMeaning::kMixed;
      EXPECT_EQ(DeserializeArray(raw, &read).shape(), of.shape());
      EXPECT_EQ(read, text.back() == '3' ? ShapeMeaning::kNumpy : ShapeMeaning::kLegacy);
    }
    return text;
  };
  EXPECT_EQ(versions(array), "223");
  EXPECT_EQ(versions(empty), "323");
  EXPECT_EQ(versions(scalar), "333");

  const auto shapes_of = [](const NDArrayList& list) {
    return DeserializeNDArrayList(SerializeNDArrayList(list)).shapes;
  };
  EXPECT_EQ(shapes_of({}), ShapeMeaning::kMixed);
  EXPECT_EQ(shapes_of({.arrays = {{"a", array}}}), ShapeMeaning::kLegacy);
  EXPECT_EQ(shapes_of({.arrays = {{"a", array}, {"b", empty}}}), ShapeMeaning::kMixed);
  EXPECT_EQ(shapes_of({.arrays = {{"a", array}, {"b", empty}}, .shapes = ShapeMeaning::kLegacy}),
            ShapeMeaning::kLegacy);
  EXPECT_EQ(shapes_of({.arrays = {{"a", array}, {"b", empty}}, .shapes = ShapeMeaning::kNumpy}),
            ShapeMeaning::kNumpy);
}

TEST(RawArrayTest, RefusesDamage) {
  const std::string raw = FromHex(kMxnetRaw);
  for (size_t size = 0; size < raw.size(); ++size) {
    ExpectError(kDataLoss, "DeserializeArray: damaged at byte",
                [&] { DeserializeArray(raw.substr(0, size)); });
  }
  ExpectError(kDataLoss, "found 1 more bytes, expected the array to end",
              [&] { DeserializeArray(raw + "x"); });
  ExpectError(Error::kInvalidArgument, "no array", [] { SerializeArray(NDArray()); });
}

TEST(NDArrayListTest, ManySmallArraysStayWithinFourTimesTheFile) {
  // An array without a shape has 4 bytes in V0, one without elements 24 bytes in V1.
  for (const std::string& array :
       {Bytes().U32(0).get(),
        Bytes().U32(0xf993fac8).I32(1).I64(0).I32(1).I32(0).get() + Bytes().I32(0).get(),
        Bytes().U32(0xf993fac8).I32(1).I64(1).I32(1).I32(0).get() + Bytes().I32(3).get() + "x"}) {
    for (const int64_t count : {80000, 400000}) {
      std::string file = Bytes().Header(static_cast<uint64_t>(count)).get();
      for (int64_t i = 0; i < count; ++i) file += array;
      file += Bytes().U64(0).get();
      const auto size_bytes = static_cast<int64_t>(file.size());
      const int64_t growth = PeakGrowthBytes([&] {
        try {
          EXPECT_THAT(DeserializeNDArrayList(file).arrays, SizeIs(count));
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Error::kResourceExhausted) << error.what();
          EXPECT_GT(count, 80000);
        }
        NDArray::WaitAll();
      });
      EXPECT_LE(growth, 4 * size_bytes + (64 << 20)) << count << " of " << array.size() << " bytes";
    }
  }
}

TEST(SerializationFuzzTest, TruncationAtEveryByteIsAnError) {
  const std::string file = SampleFile();
  ASSERT_THAT(LoadBytes(file), SizeIs(4));
  for (size_t size = 0; size < file.size(); ++size) {
    ExpectError(kDataLoss, "", [&] { LoadBytes(file.substr(0, size)); });
  }
}

TEST(SerializationFuzzTest, DamageLoadsOrThrows) {
  const std::string files[] = {SampleFile(), SparseFile(), FromHex(kMxnetRaw)};
  for (const std::string& file : files) DamageEverywhere(file, 3, Fuzz);
  const uint64_t numbers[] = {
      0,          1,          0x112,          0xf993fac8,        0xf993fac9,
      0xf993faca, 0xffffffff, 0x7fffffffffff, uint64_t{1} << 63, ~uint64_t{0}};
  DamageAtRandom(files, numbers, 20000, Fuzz);
}

}  // namespace
}  // namespace tessera
