#include "tessera/ops/sparse.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

/// Parts that a test chooses.
struct Parts {
  StorageType storage;
  TShape shape;
  std::vector<int64_t> indices;
  std::vector<int64_t> indptr{};
  std::optional<index_t> num_values{};

  /// Returns the message of CheckParts, or "" if it accepts the parts.
  std::string Check(bool full) {
    std::vector<float> values(indices.size() * 8);
    SparseBlob blob{.storage = storage,
                    .shape = shape,
                    .values = TBlob(values.data(), TShape{0}, DType::kFloat32, Device::Cpu())};
    blob.SetParts(static_cast<index_t>(indices.size()), values.data(), indices.data(),
                  indptr.data());
    if (num_values) blob.values.shape_[0] = *num_values;
    if (storage == StorageType::kCsr) blob.indptr = indptr;
    try {
      CheckParts(blob, full);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      return error.what();
    }
    return "";
  }
};

TEST(CheckPartsTest, AcceptsWhatIsInOrder) {
  for (const bool full : {false, true}) {
    EXPECT_EQ((Parts{StorageType::kRowSparse, {5, 2}, {}}.Check(full)), "");
    EXPECT_EQ((Parts{StorageType::kRowSparse, {5, 2}, {0, 3, 4}}.Check(full)), "");
    EXPECT_EQ((Parts{StorageType::kRowSparse, {1}, {0}}.Check(full)), "");
    EXPECT_EQ((Parts{StorageType::kCsr, {0, 3}, {}, {0}}.Check(full)), "");
    EXPECT_EQ((Parts{StorageType::kCsr, {2, 3}, {}, {0, 0, 0}}.Check(full)), "");
    EXPECT_EQ((Parts{StorageType::kCsr, {3, 3}, {0, 2, 1}, {0, 2, 2, 3}}.Check(full)), "");
  }
}

TEST(CheckPartsTest, NamesTheWrongNumber) {
  const auto rows = [](std::vector<int64_t> indices) {
    return Parts{StorageType::kRowSparse, {5, 2}, std::move(indices)}.Check(true);
  };
  EXPECT_THAT(rows({0, 5}), HasSubstr("row_sparse array of shape (5,2): indices[1] is 5"));
  EXPECT_THAT(rows({-1, 3}), HasSubstr("indices[0] is -1, expected 0 <= index < 5"));
  EXPECT_THAT(rows({3, 1}), HasSubstr("indices[1] is 1 after 3, expected indices that rise"));
  EXPECT_THAT(rows({3, 3}), HasSubstr("indices[1] is 3 after 3"));
  const auto csr = [](std::vector<int64_t> indices, std::vector<int64_t> indptr, bool full = true) {
    return Parts{StorageType::kCsr, {3, 3}, std::move(indices), std::move(indptr)}.Check(full);
  };
  EXPECT_THAT(csr({0, 3, 1}, {0, 2, 2, 3}), HasSubstr("indices[1] is 3, expected 0 <= index < 3"));
  EXPECT_THAT(csr({2, 0, 1}, {0, 2, 2, 3}), HasSubstr("indices[1] is 0 after 2"));
  EXPECT_THAT(csr({0, 2, 1}, {0, 4, 2, 3}), HasSubstr("indptr[2] is 2, expected 4 or more"));
  for (const bool full : {false, true}) {
    EXPECT_THAT(csr({0, 2, 1}, {1, 2, 2, 3}, full), HasSubstr("indptr[0] is 1, expected 0"));
    EXPECT_THAT(csr({0, 2, 1}, {0, 2, 2, 4}, full),
                HasSubstr("indptr[3] is 4, expected 3, the number of elements"));
    EXPECT_THAT(csr({0, 2, 1}, {0, 3}, full), HasSubstr("indptr has 2 numbers, expected 4"));
    EXPECT_THAT(csr({}, {}, full), HasSubstr("indptr has 0 numbers"));
    EXPECT_THAT((Parts{StorageType::kRowSparse, {5, 2}, {0, 1}, {}, 3}.Check(full)),
                HasSubstr("3 values and 2 indices"));
  }
  // Numbers in the middle are looked at by a full check alone.
  EXPECT_EQ(csr({2, 0, 7}, {0, 9, 2, 3}, false), "");
}

/// A form that computes nothing.
class NoForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType>,
                                    std::span<const StorageType>) const override {
    return std::nullopt;
  }
  void Forward(const OperatorProperty&, std::span<SparseBlob>, std::span<const OpReqType>,
               std::span<SparseBlob>) const override {}
};

TEST(SparseFormTest, TheFirstFormOfANameStays) {
  EXPECT_EQ(FindSparseForm("of_no_operator"), nullptr);
  EXPECT_TRUE(RegisterSparseForm("of_a_test", std::make_unique<NoForm>()));
  const SparseForm* const form = FindSparseForm("of_a_test");
  ASSERT_NE(form, nullptr);
  EXPECT_TRUE(RegisterSparseForm("of_a_test", std::make_unique<NoForm>()));
  EXPECT_EQ(FindSparseForm("of_a_test"), form);
}

TEST(StorageTypeTest, HasMxnetsNames) {
  EXPECT_EQ(StorageTypeName(StorageType::kUndefined), "undefined");
  EXPECT_EQ(StorageTypeName(StorageType::kDefault), "default");
  EXPECT_EQ(StorageTypeName(StorageType::kRowSparse), "row_sparse");
  EXPECT_EQ(StorageTypeName(StorageType::kCsr), "csr");
}

}  // namespace
}  // namespace tessera
