// Reads and writes `.npz` files.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/ndarray/files/testing/damage.h"
#include "tessera/ndarray/files/testing/hex.h"
#include "tessera/ndarray/files/testing/peak_memory.h"
#include "tessera/ndarray/npy.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_internal::DamageAtRandom;
using ndarray_internal::DamageEverywhere;
using ndarray_internal::FromHex;
using ndarray_internal::Fuzz;
using ndarray_internal::PeakGrowthBytes;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kDataLoss = Error::kDataLoss;

// What NumPy 1.19.5 wrote: savez of w = [1, 2] of uint8, and savez_compressed of 100 zeros of
// float32 as "zeros" and [[1.5], [2]] of float64 as "weiß".
constexpr std::string_view kNumpyStored =
    "504b0304140000000000000021006202655f820000008200000005001400772e6e707901001000820000"
    "00000000008200000000000000934e554d5059010076007b276465736372273a20277c7531272c202766"
    "6f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028322c292c207d20202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "20202020202020202020202020200a0102504b01021403140000000000000021006202655f8200000082"
    "000000050000000000000000000000800100000000772e6e7079504b0506000000000100010033000000"
    "b90000000000";
constexpr std::string_view kNumpyDeflated =
    "504b030414000000080000002100efb97d1b4b00000010020000090014007a65726f732e6e7079010010"
    "0010020000000000004b000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2"
    "aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a8606063a9a3a0ab50a64"
    "032e865130a80000504b030414000008080000002100688ee1bd4e0000009000000009001400776569c3"
    "9f2e6e70790100100090000000000000004e000000000000009bec17ea1b10c9c850c650ad9e925a9c5c"
    "a46ea5a06e9366a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a"
    "0a869a3a0ab50a64032e0630f8610fa1191c00504b0102140314000000080000002100efb97d1b4b0000"
    "00100200000900000000000000000000008001000000007a65726f732e6e7079504b0102140314000008"
    "080000002100688ee1bd4e00000090000000090000000000000000000000800186000000776569c39f2e"
    "6e7079504b050600000000020002006e0000000f0100000000";

TEST(NpzTest, ReadsNumpysFiles) {
  const std::vector<NamedArray> stored = DeserializeNpz(FromHex(kNumpyStored));
  ASSERT_THAT(stored, SizeIs(1));
  EXPECT_EQ(stored[0].name, "w");
  EXPECT_EQ(stored[0].array.dtype(), DType::kUint8);
  EXPECT_THAT(stored[0].array.ToVector(), ElementsAre(1, 2));
  const std::string path = ::testing::TempDir() + "/deflated.npz";
  std::ofstream(path, std::ios::binary) << FromHex(kNumpyDeflated);
  const std::vector<NamedArray> deflated = LoadNpz(path);
  ASSERT_THAT(deflated, SizeIs(2));
  EXPECT_EQ(deflated[0].name, "zeros");
  EXPECT_EQ(deflated[0].array.shape(), TShape({100}));
  EXPECT_THAT(deflated[0].array.ToVector(), Each(0));
  EXPECT_EQ(deflated[1].name, "weiß");
  EXPECT_EQ(deflated[1].array.shape(), TShape({2, 1}));
  EXPECT_THAT(deflated[1].array.ToVector(), ElementsAre(1.5, 2));
}

TEST(NpzTest, ReadsBackWhatItWrote) {
  std::vector<NamedArray> arrays;
  for (int i = 0; i < 20; ++i) {
    NDArray array({i, 100});
    array = static_cast<float>(i);
    arrays.push_back({"weiß " + std::to_string(i), array});
  }
  arrays.push_back({"", NDArray::FromVector(std::vector<float>{3}, {1})});
  for (const NpzCompression compression : {NpzCompression::kStored, NpzCompression::kDeflated}) {
    const std::string bytes = SerializeNpz(arrays, compression);
    EXPECT_EQ(SerializeNpz(arrays, compression), bytes);
    const std::string path = ::testing::TempDir() + "/written.npz";
    SaveNpz(path, arrays, compression);
    std::ifstream file(path, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), bytes);
    const std::vector<NamedArray> loaded = LoadNpz(path);
    ASSERT_THAT(loaded, SizeIs(arrays.size()));
    for (size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_EQ(loaded[i].name, arrays[i].name);
      EXPECT_EQ(loaded[i].array.shape(), arrays[i].array.shape());
      EXPECT_EQ(loaded[i].array.ToVector(), arrays[i].array.ToVector());
    }
  }
  EXPECT_GT(SerializeNpz(arrays).size(), 76000u);
  EXPECT_LT(SerializeNpz(arrays, NpzCompression::kDeflated).size(), 10000u);
  EXPECT_THAT(SerializeNpz({}), SizeIs(22));
  EXPECT_THAT(DeserializeNpz(SerializeNpz({})), IsEmpty());
}

TEST(NpzTest, RefusesWhatNoFileCanHold) {
  const NDArray array({1});
  const auto refuse = [](absl::StatusCode code, const std::string& text,
                         const std::vector<NamedArray>& arrays) {
    ExpectError(code, text, [&] { SerializeNpz(arrays); });
  };
  refuse(Error::kInvalidArgument, "entry \"a\" exists twice", {{"a", array}, {"a", array}});
  refuse(Error::kInvalidArgument, "entry \"a\" is no array", {{"a", NDArray()}});
  refuse(Error::kInvalidArgument, "zero byte", {{std::string("a\0b", 3), array}});
  refuse(Error::kInvalidArgument, "is not UTF-8", {{"\xff", array}});
  refuse(Error::kUnimplemented, "bfloat16", {{"a", NDArray({1}, Device::Cpu(), DType::kBFloat16)}});
}

/// Returns the file with `find` replaced by as many bytes.
std::string Replaced(std::string file, std::string_view find, std::string_view replacement) {
  EXPECT_EQ(find.size(), replacement.size());
  for (size_t at = file.find(find); at != file.npos; at = file.find(find, at + 1)) {
    file.replace(at, find.size(), replacement);
  }
  return file;
}

TEST(NpzTest, SaysWhatIsDamaged) {
  const std::string stored = FromHex(kNumpyStored);
  ExpectError(kDataLoss, "not an .npz file: found 0 bytes", [] { DeserializeNpz(""); });
  ExpectError(kDataLoss, "not an .npz file; expected a zip archive",
              [] { DeserializeNpz("something of more than 22 bytes"); });
  ExpectError(kDataLoss, "not an .npz file, but an HTML page",
              [] { DeserializeNpz("<!DOCTYPE html><html><body>404</body></html>"); });
  ExpectError(kDataLoss, "entry \"w.npy\": damaged: CRC error",
              [&] { DeserializeNpz(Replaced(stored, "\n\1\2PK", "\n\1\3PK")); });
  ExpectError(Error::kUnimplemented, "entry \"w.txt\" is no array",
              [&] { DeserializeNpz(Replaced(stored, "w.npy", "w.txt")); });
  // Method 12 (bzip2) in both headers of the entry.
  std::string packed = stored;
  packed[8] = packed[packed.find("PK\1\2") + 10] = 12;
  ExpectError(Error::kUnimplemented, "compressed by method 12", [&] { DeserializeNpz(packed); });
  // The directory names the first entry twice.
  const std::vector<NamedArray> two = {{"a", NDArray({1})}, {"b", NDArray({1})}};
  ExpectError(kDataLoss, "found the entry \"a.npy\" a second time",
              [&] { DeserializeNpz(Replaced(SerializeNpz(two), "b.npy", "a.npy")); });
  ExpectError(Error::kNotFound, "nowhere.npz",
              [] { LoadNpz(::testing::TempDir() + "/nowhere.npz"); });
}

TEST(NpzTest, NoBitOfAnArrayChangesUnnoticed) {
  for (const std::string_view hex : {kNumpyStored, kNumpyDeflated}) {
    const std::string file = FromHex(hex);
    const std::string good = SerializeNpz(DeserializeNpz(file));
    for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
      std::string damaged = file;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      try {
        // A name, a date, or another field that holds no element.
        const std::vector<NamedArray> loaded = DeserializeNpz(damaged);
        const std::vector<NamedArray> expected = DeserializeNpz(good);
        ASSERT_THAT(loaded, SizeIs(expected.size())) << bit;
        for (size_t i = 0; i < loaded.size(); ++i) {
          EXPECT_EQ(loaded[i].array.ToVector(), expected[i].array.ToVector()) << bit;
        }
      } catch (const Error&) {
      }
    }
    for (size_t size = 0; size < file.size(); ++size) {
      EXPECT_THROW(DeserializeNpz(file.substr(0, size)), Error) << size;
    }
  }
}

TEST(NpzTest, ABombIsRefusedUnlessTheLimitAllowsIt) {
  // 96 MiB of zeros in some 100 kB.
  NDArray zeros({24 << 20});
  zeros = 0.0f;
  const std::string bomb = SerializeNpz({{{"zeros", zeros}}}, NpzCompression::kDeflated);
  zeros = NDArray();
  NDArray::WaitAll();
  ASSERT_LT(bomb.size(), 200000u);
  const int64_t growth = PeakGrowthBytes([&] {
    ExpectError(Error::kResourceExhausted, "NpzLimits with a higher limit",
                [&] { DeserializeNpz(bomb); });
  });
  EXPECT_LE(growth, static_cast<int64_t>(4 * bomb.size() + (64 << 20)));
  EXPECT_THAT(DeserializeNpz(bomb, {.size_bytes = 100 << 20}), SizeIs(1));
  ExpectError(Error::kResourceExhausted, "take more than 1000 bytes",
              [&] { DeserializeNpz(bomb, {.size_bytes = 1000}); });
}

TEST(NpzTest, ADeclaredSizeThatDeflateCannotReachIsDamage) {
  const std::string file = FromHex(kNumpyDeflated);
  // The decompressed size of the first entry, in the directory.
  std::string damaged = file;
  const uint32_t size = 1 << 20;
  std::memcpy(damaged.data() + damaged.find("PK\1\2") + 24, &size, sizeof(size));
  ExpectError(kDataLoss, "found 75 compressed bytes, which cannot hold 1048576",
              [&] { DeserializeNpz(damaged); });
}

TEST(NpzTest, ALargeDirectoryStaysWithinFourTimesTheFile) {
  // One entry of a zip archive and its extra fields of four bytes, over and over.
  std::string entry = FromHex("504b01021403140000000000000021000000000000000000000000000100");
  std::string extra;
  for (int i = 0; i < 16000; ++i) extra += FromHex("feca0000");
  const auto extra_size = static_cast<uint16_t>(extra.size());
  entry.append(reinterpret_cast<const char*>(&extra_size), 2).append(14, '\0');
  entry.append("a").append(extra);
  for (const bool is_alone : {true, false}) {
    std::string file = "PK\3\4" + std::string(is_alone ? 0 : 40 << 20, '\0');
    const auto offset = static_cast<uint32_t>(file.size());
    for (int i = 0; i < 300; ++i) file += entry;
    const auto size = static_cast<uint32_t>(file.size() - offset);
    file += FromHex("504b0506000000002c012c01");
    file.append(reinterpret_cast<const char*>(&size), 4);
    file.append(reinterpret_cast<const char*>(&offset), 4).append(2, '\0');
    const int64_t growth = PeakGrowthBytes([&] {
      ExpectError(is_alone ? Error::kResourceExhausted : Error::kUnimplemented,
                  is_alone ? "a directory of" : "entry \"a\" is no array",
                  [&] { DeserializeNpz(file); });
    });
    EXPECT_LE(growth, static_cast<int64_t>(4 * file.size() + (64 << 20)));
  }
}

TEST(NpzFuzzTest, DamageLoadsOrThrows) {
  const std::string files[] = {FromHex(kNumpyStored), FromHex(kNumpyDeflated)};
  DamageEverywhere(files[0], 3, Fuzz);
  DamageEverywhere(files[1], 15, Fuzz);
  const uint64_t numbers[] = {0, 1, 0x04034b50, 0x02014b50, 0x06054b50, 0xffffffff, ~uint64_t{0}};
  DamageAtRandom(files, numbers, 5000, Fuzz);
}

}  // namespace
}  // namespace tessera
