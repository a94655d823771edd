#include "tessera/base/tshape.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera {

TShape::TShape(std::initializer_list<index_t> extents)
    : TShape(std::span<const index_t>(extents.begin(), extents.size())) {}

TShape::TShape(std::span<const index_t> extents) {
  if (extents.size() > kMaxRank) {
    throw InvalidArgument("TShape: rank ", extents.size(), " is above the limit of ", kMaxRank);
  }
  ndim_ = static_cast<int>(extents.size());
  for (int i = 0; i < ndim_; ++i) {
    if (extents[i] < kUnknown) {
      throw InvalidArgument("TShape: extent ", extents[i], " of dimension ", i, " is negative");
    }
    extents_[i] = extents[i];
  }
}

TShape TShape::OfRank(int rank) {
  if (rank < 0 || rank > kMaxRank) {
    throw InvalidArgument("TShape::OfRank: rank ", rank, " is not in [0, ", kMaxRank, "]");
  }
  TShape shape;
  shape.ndim_ = rank;
  std::fill_n(shape.extents_.begin(), rank, kUnknown);
  return shape;
}

TShape TShape::Parse(std::string_view given) {
  const absl::string_view whole(given.data(), given.size());
  absl::string_view text = absl::StripAsciiWhitespace(whole);
  const bool round = absl::StartsWith(text, "(");
  const bool square = absl::StartsWith(text, "[");
  if (round || square) {
    text.remove_prefix(1);
    if (!absl::ConsumeSuffix(&text, round ? ")" : "]")) {
      throw InvalidArgument("shape \"", Excerpt(given), "\": unbalanced brackets");
    }
  }
  text = absl::StripAsciiWhitespace(text);
  if (text == "None" && !round && !square) return TShape();
  if (text.empty()) return TShape(std::span<const index_t>());
  TShape shape = OfRank(0);
  absl::ConsumeSuffix(&text, ",");
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    piece = absl::StripAsciiWhitespace(piece);
    absl::ConsumeSuffix(&piece, "L");  // Python 2 wrote long integers so
    index_t extent = 0;
    if (piece == "None") {
      extent = kUnknown;
    } else if (!absl::SimpleAtoi(piece, &extent)) {
      throw InvalidArgument("shape \"", Excerpt(given), "\": \"",
                            Excerpt(std::string_view(piece.data(), piece.size())),
                            "\" is not an integer; expected e.g. (2,3)");
    } else if (extent < kUnknown) {
      throw InvalidArgument("shape \"", Excerpt(given), "\": extent ", extent, " is negative");
    }
    if (shape.ndim_ == kMaxRank) {
      throw InvalidArgument("shape \"", Excerpt(given), "\": the rank is above the limit of ",
                            kMaxRank);
    }
    shape[shape.ndim_++] = extent;
  }
  return shape;
}

bool TShape::known() const {
  return ndim_ >= 0 && std::all_of(begin(), end(), [](index_t extent) { return extent >= 0; });
}

index_t TShape::Size() const {
  if (!known()) throw FailedPrecondition("TShape::Size: shape ", *this, " is not fully known");
  return ProdShape(0, ndim_);
}

index_t TShape::ProdShape(int begin, int end) const {
  TESSERA_DCHECK(0 <= begin && begin <= end && end <= ndim_);
  CheckedSize product = 1;
  for (int i = begin; i < end; ++i) product = product * extents_[i];
  if (product.valid()) return *product.value();
  const index_t* const first = extents_.data();
  const auto zeros_outside =
      std::count(first, first + begin, 0) + std::count(first + end, first + ndim_, 0);
  if (zeros_outside > 0) return 0;
  throw InvalidArgument("TShape: the number of elements of ", *this, " does not fit in 63 bits");
}

Shape<2> TShape::FlatTo2D() const {
  if (ndim_ == 0) return Shape2(1, 1);
  return Shape2(ProdShape(0, ndim_ - 1), extents_[ndim_ - 1]);
}

Shape<3> TShape::FlatTo3D(int axis_begin, int axis_end) const {
  if (axis_begin < 0 || axis_begin > axis_end || axis_end >= ndim_) {
    throw InvalidArgument("TShape::FlatTo3D: axes [", axis_begin, ", ", axis_end,
                          "] are not in shape ", *this);
  }
  return Shape3(ProdShape(0, axis_begin), ProdShape(axis_begin, axis_end + 1),
                ProdShape(axis_end + 1, ndim_));
}

bool TShape::Merge(const TShape& other) {
  if (!other.rank_known()) return true;
  if (!rank_known()) {
    *this = other;
    return true;
  }
  if (ndim_ != other.ndim_) return false;
  TShape merged = *this;
  for (int i = 0; i < ndim_; ++i) {
    if (other[i] == kUnknown) continue;
    if (merged[i] == kUnknown) merged[i] = other[i];
    if (merged[i] != other[i]) return false;
  }
  *this = merged;
  return true;
}

bool TShape::operator==(const TShape& other) const {
  return ndim_ == other.ndim_ && std::equal(begin(), end(), other.begin());
}

std::string TShape::ToString() const {
  if (!rank_known()) return "None";
  std::string text = "(";
  for (int i = 0; i < ndim_; ++i) {
    if (i > 0) text += ',';
    text += extents_[i] == kUnknown ? "None" : absl::StrCat(extents_[i]);
  }
  if (ndim_ == 1) text += ',';
  return text + ")";
}

void TShape::RequireRank(int rank) const {
  if (ndim_ != rank) {
    throw InvalidArgument("shape ", *this, " has rank ", ndim_, ", expected rank ", rank);
  }
}

std::ostream& operator<<(std::ostream& os, const TShape& shape) { return os << shape.ToString(); }

}  // namespace tessera
