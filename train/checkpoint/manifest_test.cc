#include "tessera/train/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/train/checkpoint/crc32c.h"

namespace tessera::train_internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kNames = {"a.params", "b.json"};

Error ErrorOf(const std::string& text) {
  try {
    ReadManifest("out/manifest", text, kNames);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("out/manifest"), HasSubstr("expected")));
    return error;
  }
  ADD_FAILURE() << "no error for: " << text;
  return Error(absl::StatusCode{}, "");
}

/// Returns the lines with the checksum that they need.
std::string Signed(const std::string& lines) {
  std::string text = lines + "end ";
  const uint32_t checksum = Crc32c(lines);
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(checksum >> shift) & 15];
  return text + "\n";
}

TEST(ManifestTest, ReadsWhatItWrote) {
  const Manifest manifest = {.step = 1200,
                             .files = {{"b.json", 0, 0}, {"a.params", int64_t{1} << 40, ~0u}}};
  const std::string text = WriteManifest(manifest);
  EXPECT_EQ(text, Signed("tessera-checkpoint 1\nstep 1200\nfile b.json 0 00000000\n"
                         "file a.params 1099511627776 ffffffff\n"));
  const Manifest read = ReadManifest("m", text, kNames);
  EXPECT_EQ(read.step, 1200);
  ASSERT_EQ(read.files.size(), 2u);
  EXPECT_EQ(read.files[1].name, "a.params");
  EXPECT_EQ(read.files[1].size_bytes, int64_t{1} << 40);
  EXPECT_EQ(read.files[1].checksum, ~0u);
}

TEST(ManifestTest, EachCutAndEachChangedByteIsRefused) {
  const std::string text = WriteManifest({.step = 7, .files = {{"a.params", 12, 34}}});
  for (size_t size = 0; size < text.size(); ++size) ErrorOf(text.substr(0, size));
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'\0', ' ', '\n', '5', 'f', '\xff'}) {
      std::string changed = text;
      changed[i] = c;
      if (c != text[i]) ErrorOf(changed);
    }
  }
  ErrorOf(text + "\n");
  ErrorOf(text + text);
}

TEST(ManifestTest, HostileLinesAreRefusedThoughTheirChecksumFits) {
  const std::string head = "tessera-checkpoint 1\nstep 7\n";
  ReadManifest("m", Signed(head), kNames);
  const std::vector<std::string> wrong_ones = {
      "",
      "tessera-checkpoint 1\n",
      "step 7\n",
      "tessera-checkpoint 1\nstep -7\n",
      "tessera-checkpoint 1\nstep 9223372036854775808\n",
      "tessera-checkpoint 1\nstep 7.5\n",
      "tessera-checkpoint 1\nstep\n",
      head + "file ../../etc/passwd 12 00000000\n",
      head + "file /a.params 12 00000000\n",
      head + "file c.params 12 00000000\n",
      head + "file a.params 12 00000000\nfile a.params 12 00000000\n",
      head + "file a.params -1 00000000\n",
      head + "file a.params 99999999999999999999 00000000\n",
      head + "file a.params 1,5 00000000\n",
      head + "file a.params 12 0\n",
      head + "file a.params 12 0x000000\n",
      head + "file a.params 12 -0000001\n",
      head + "file a.params 12 00000000 \n",
      head + "file a.params\n",
      head + "file \n",
      head + "link a.params 12 00000000\n",
      head + "\n",
      head + "end 00000000\n",
      std::string(100000, 'x') + "\n",
      std::string(1000, '\n')};
  for (const std::string& lines : wrong_ones) {
    EXPECT_EQ(ErrorOf(Signed(lines)).code(), Error::kDataLoss) << lines.substr(0, 100);
  }
  const Error error = ErrorOf(Signed("tessera-checkpoint 2\nstep 7\n"));
  EXPECT_EQ(error.code(), Error::kUnimplemented);
  EXPECT_THAT(error.what(), HasSubstr("version 2"));
}

TEST(ManifestTest, MeasuresFiles) {
  std::ofstream(testing::TempDir() + "/measured", std::ios::binary) << "123456789";
  const ManifestFile file = Measure(testing::TempDir(), "measured");
  EXPECT_EQ(file.size_bytes, 9);
  EXPECT_EQ(file.checksum, 0xE3069283u);
  try {
    Measure(testing::TempDir(), "absent");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("/absent"));
  }
}

}  // namespace
}  // namespace tessera::train_internal
