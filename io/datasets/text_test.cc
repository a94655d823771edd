#include "tessera/io/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/io/internal/idx_bytes.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using io_internal::Gzip;
using io_internal::WriteTestFile;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string WriteText(const std::string& name, std::string_view text) {
  return WriteTestFile(name, {text.begin(), text.end()});
}

TEST(TextTest, FilesAreReadWhole) {
  EXPECT_EQ(ReadTextFile(WriteText("empty.txt", "")), "");
  const std::string nul("a\0b", 3);
  EXPECT_EQ(ReadTextFile(WriteText("nul.txt", nul)), nul);
  // One less than the size of a read, that size, and one more.
  for (const size_t size : {65535u, 65536u, 65537u}) {
    const std::string text(size, 'x');
    EXPECT_EQ(ReadTextFile(WriteText("long.txt", text)), text);
    const std::string packed = WriteTestFile("long.gz", Gzip({text.begin(), text.end()}));
    EXPECT_EQ(ReadTextFile(packed), text);
  }
  EXPECT_EQ(ErrorOf([] { ReadTextFile("no-such.txt"); }).code(), Error::kNotFound);
}

TEST(TextTest, BytesAreTokens) {
  const std::vector<int32_t> tokens = ByteTokens("a\n\xff");
  EXPECT_THAT(tokens, ElementsAre(97, 10, 255));
  EXPECT_EQ(TextOfBytes(tokens), "a\n\xff");
  EXPECT_THAT(ByteTokens(""), IsEmpty());
  const std::vector<int32_t> wrong = {1, 256};
  const Error error = ErrorOf([&] { TextOfBytes(wrong); });
  EXPECT_EQ(error.code(), Error::kOutOfRange);
  EXPECT_THAT(error.what(), HasSubstr("token 256 at position 1"));
}

TEST(TextTest, BlanksSeparateWords) {
  EXPECT_THAT(SplitWords("one  two\n\tthree"), ElementsAre("one", "two", "three"));
  EXPECT_THAT(SplitWords(" \f\v\r\n"), IsEmpty());
  EXPECT_THAT(SplitWords(""), IsEmpty());
  EXPECT_THAT(SplitWords(" a "), ElementsAre("a"));
  EXPECT_THAT(SplitWords("\xc3\xa4\xc2\xa0z"), ElementsAre("\xc3\xa4\xc2\xa0z"));  // bytes alone
}

TEST(VocabularyTest, FrequentWordsComeFirst) {
  const Vocabulary vocabulary(SplitWords("b a c a b a <unk> d"));
  EXPECT_EQ(vocabulary.size(), 5);
  const std::vector<int32_t> all = {0, 1, 2, 3, 4};
  EXPECT_EQ(vocabulary.Text(all), "<unk> a b c d");
  EXPECT_EQ(vocabulary.Token("b"), 2);
  EXPECT_EQ(vocabulary.Token("z"), 0);
  EXPECT_THAT(vocabulary.Tokens(SplitWords("d z a")), ElementsAre(4, 0, 1));
  EXPECT_EQ(vocabulary.Text({}), "");
  EXPECT_THAT(ErrorOf([&] { vocabulary.Word(5); }).what(), HasSubstr("token 5, expected 0 to 4"));
  EXPECT_EQ(ErrorOf([&] { vocabulary.Word(-1); }).code(), Error::kOutOfRange);
}

TEST(VocabularyTest, OptionsLimitTheWords) {
  const std::vector<std::string_view> words = SplitWords("a a a b b c <eos>");
  const std::vector<int32_t> first = {0, 1, 2};
  const Vocabulary frequent(words, {.min_count = 2});
  EXPECT_EQ(frequent.Text(first), "<unk> a b");
  EXPECT_EQ(frequent.size(), 3);
  const Vocabulary small(words, {.max_size = 3, .unknown = "?", .reserved = {"<eos>"}});
  EXPECT_EQ(small.Text(first), "? <eos> a");
  EXPECT_EQ(small.size(), 3);
  EXPECT_THAT(ErrorOf([&] {
                Vocabulary(words, {.reserved = {"x", "x"}});
              }).what(),
              HasSubstr("reserved word x occurs twice"));
  EXPECT_THAT(ErrorOf([&] { Vocabulary(words, {.max_size = -1}); }).what(),
              HasSubstr("max_size -1"));
}

TEST(VocabularyTest, ASavedVocabularyIsTheSame) {
  const std::string path = WriteText("words.txt", "old");
  Vocabulary(SplitWords("b a b")).Save(path);
  EXPECT_EQ(ReadTextFile(path), "<unk>\nb\na\n");
  const Vocabulary loaded = Vocabulary::Load(path);
  EXPECT_EQ(loaded.size(), 3);
  EXPECT_EQ(loaded.Token("a"), 2);
  EXPECT_EQ(Vocabulary::Load(WriteText("no-end.txt", "x\ny")).size(), 2);
}

TEST(VocabularyTest, ADamagedFileIsRefused) {
  const auto error = [](std::string_view text) {
    const std::string path = WriteText("damaged.txt", text);
    return ErrorOf([&] { Vocabulary::Load(path); });
  };
  EXPECT_EQ(error("").code(), Error::kDataLoss);
  EXPECT_THAT(error("").what(), AllOf(HasSubstr("damaged.txt"), HasSubstr("is empty")));
  EXPECT_THAT(error("a\n\nb\n").what(), HasSubstr("line 2 is empty"));
  EXPECT_THAT(error("a\nb\na\n").what(), HasSubstr("line 3 repeats the word a"));
  const std::vector<std::string_view> words = {"two\nlines"};
  EXPECT_EQ(ErrorOf([&] { Vocabulary(words).Save("x"); }).code(), Error::kInvalidArgument);
}

TEST(NextTokenDatasetTest, WindowsFollowEachOther) {
  const NextTokenDataset dataset({10, 11, 12, 13, 14, 15, 16, 17}, 3);
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_THAT(dataset.Get(1)[0].values<int32_t>(), ElementsAre(13, 14, 15));
  EXPECT_THAT(dataset.Get(1)[1].values<int32_t>(), ElementsAre(14, 15, 16));
  EXPECT_EQ(dataset.Get(1)[1].shape, TShape({3}));
  EXPECT_THAT(dataset.Lengths(), ElementsAre(3, 3));
  EXPECT_EQ(NextTokenDataset({1, 2, 3, 4}, 3).size(), 1);
  EXPECT_THAT(ErrorOf([] {
                NextTokenDataset({1, 2, 3}, 3);
              }).what(),
              AllOf(HasSubstr("3 tokens"), HasSubstr("at least 4")));
  EXPECT_THAT(ErrorOf([] { NextTokenDataset({1, 2, 3}, 0); }).what(), HasSubstr("length 0"));
  EXPECT_EQ(ErrorOf([&] { dataset.Get(2); }).code(), Error::kOutOfRange);
}

TEST(NextTokenDatasetTest, SequencesStandAlone) {
  const std::vector<std::vector<int32_t>> sequences = {{1, 2, 3}, {4, 5}};
  const NextTokenDataset dataset(sequences);
  EXPECT_THAT(dataset.Lengths(), ElementsAre(2, 1));
  EXPECT_THAT(dataset.Get(0)[1].values<int32_t>(), ElementsAre(2, 3));
  EXPECT_THAT(dataset.Get(1)[0].values<int32_t>(), ElementsAre(4));
  EXPECT_THAT(dataset.Get(1)[1].values<int32_t>(), ElementsAre(5));
  const std::vector<std::vector<int32_t>> wrong = {{1, 2}, {1}};
  EXPECT_THAT(ErrorOf([&] { NextTokenDataset dataset(wrong); }).what(),
              HasSubstr("sequence 1 has 1 tokens"));
}

}  // namespace
}  // namespace tessera
