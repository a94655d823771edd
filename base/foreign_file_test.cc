#include "tessera/base/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ForeignFileTest, RecognizesFilesInThePlaceOfModels) {
  for (const auto& [bytes, words] : std::initializer_list<std::pair<std::string_view, const char*>>{
           {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", "Git LFS pointer"},
           {"<!DOCTYPE html>\n<html>", "HTML page"},
           {"\xef\xbb\xbf\r\n <html lang=\"en\">", "HTML page"},
           {"<HTML>", "HTML page"},
           {"<?xml version=\"1.0\"?><Error><Code>NoSuchKey", "XML document"},
           {"\x1f\x8b\x08", "gzip"},
           {"PK\x03\x04\x14", "ZIP"}}) {
    EXPECT_THAT(DescribeForeignFile(bytes), HasSubstr(words)) << bytes;
  }
}

TEST(ForeignFileTest, KnowsNothingOfOtherFiles) {
  for (const std::string_view bytes :
       {"", "{\"nodes\": []}", "version", "<", "<ht", "  ", "\x12\x01", "P", "\x1f"}) {
    EXPECT_THAT(DescribeForeignFile(bytes), IsEmpty()) << bytes;
  }
}

}  // namespace
}  // namespace tessera
