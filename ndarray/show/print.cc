#include "tessera/ndarray/print.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ndarray/show/float_text.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

constexpr index_t kThreshold = 1000;  // elements, above which an array is summarized
constexpr index_t kEdge = 3;          // positions at each end of an axis of a summary
constexpr size_t kLineLength = 75;

/// The elements of an array that are printed.
class Selection {
 public:
  explicit Selection(const TShape& shape) : shape_(shape), is_summary_(shape.Size() > kThreshold) {}

  int rank() const { return shape_.ndim(); }
  /// Returns whether positions in the middle of the axis are left out.
  bool Skips(int axis) const { return is_summary_ && shape_[axis] > 2 * kEdge; }
  /// Returns how many positions of the axis are printed.
  index_t Count(int axis) const { return Skips(axis) ? 2 * kEdge : shape_[axis]; }

  /// Returns the elements' offsets in row-major order.
  std::vector<index_t> Offsets() const {
    std::vector<index_t> offsets = {0};
    for (int axis = 0; axis < rank(); ++axis) {
      std::vector<index_t> longer;
      longer.reserve(offsets.size() * static_cast<size_t>(Count(axis)));
      for (const index_t offset : offsets) {
        for (index_t i = 0; i < Count(axis); ++i) {
          const bool in_back = Skips(axis) && i >= kEdge;
          longer.push_back(offset * shape_[axis] + (in_back ? shape_[axis] - 2 * kEdge + i : i));
        }
      }
      offsets = std::move(longer);
    }
    return offsets;
  }

 private:
  const TShape& shape_;
  const bool is_summary_;
};

/// Makes all texts as long as the longest, by spaces before them.
void AlignRight(std::vector<std::string>* texts) {
  size_t length = 0;
  for (const std::string& text : *texts) length = std::max(length, text.size());
  for (std::string& text : *texts) text.insert(0, length - text.size(), ' ');
}

/// Returns the elements at the offsets as texts.
template <typename T>
std::vector<std::string> Texts(const T* data, const std::vector<index_t>& offsets, bool is_scalar) {
  std::vector<std::string> texts;
  if constexpr (std::is_integral_v<T>) {
    for (const index_t offset : offsets) {
      const T value = data[offset];
      if constexpr (std::is_same_v<T, bool>) {
        texts.push_back(value ? "True" : "False");
      } else {
        texts.push_back(std::to_string(value));
      }
    }
    // NumPy leaves room for False even where all are True.
    if (std::is_same_v<T, bool> && !is_scalar) {
      for (std::string& text : texts) text.insert(0, 5 - text.size(), ' ');
    }
    AlignRight(&texts);
    return texts;
  } else {
    if (is_scalar) return {ndarray_internal::FloatText(data[0])};
    std::vector<T> values;
    values.reserve(offsets.size());
    for (const index_t offset : offsets) values.push_back(data[offset]);
    return ndarray_internal::FloatTexts(values);
  }
}

/// Arranges texts in brackets, with lines broken where they would be too long.
class Layout {
 public:
  Layout(const Selection& selection, const std::vector<std::string>& texts)
      : selection_(selection), next_(texts.begin()) {}

  /// Returns the array, whose rank is at least 1.
  std::string Print() { return Axis(0); }

 private:
  std::string Axis(int axis) {
    // Rows stand below the first, behind its brackets.
    const std::string indent(static_cast<size_t>(axis) + 1, ' ');
    const std::string text = axis + 1 == selection_.rank() ? Row(axis, indent) : Rows(axis, indent);
    return "[" + text.substr(indent.size()) + "]";
  }

  std::string Rows(int axis, const std::string& indent) {
    const std::string end_line(static_cast<size_t>(selection_.rank() - axis - 1), '\n');
    std::string text;
    for (index_t i = 0; i < selection_.Count(axis); ++i) {
      if (i > 0) text += end_line;
      if (i == kEdge && selection_.Skips(axis)) text += indent + "..." + end_line;
      text += indent + Axis(axis + 1);
    }
    return text;
  }

  std::string Row(int axis, const std::string& indent) {
    // All brackets that may follow the last element find room.
    const size_t length = kLineLength - static_cast<size_t>(selection_.rank());
    std::string text, line = indent;
    const auto add = [&](const std::string& word) {
      if (line.size() + word.size() > length && line.size() > indent.size()) {
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = indent;
      }
      line += word;
    };
    for (index_t i = 0; i < selection_.Count(axis); ++i) {
      if (i > 0) line += ' ';
      if (i == kEdge && selection_.Skips(axis)) {
        add("...");
        line += ' ';
      }
      add(*next_++);
    }
    return text + line;
  }

  const Selection& selection_;
  std::vector<std::string>::const_iterator next_;
};

template <typename T>
std::string PrintElements(const NDArray& array) {
  const TShape& shape = array.shape();
  std::unique_ptr<T[]> copy;
  const T* data = nullptr;
  if (array.device().dev_mask() == cpu::kDevMask) {
    array.WaitToRead();
    data = array.data().dptr<T>();
  } else {
    copy = std::make_unique<T[]>(static_cast<size_t>(shape.Size()));
    array.SyncCopyToCPU(copy.get(), shape.Size());
    data = copy.get();
  }
  const bool is_scalar = shape.ndim() == 0;
  const Selection selection(shape);
  const std::vector<std::string> texts = Texts(data, selection.Offsets(), is_scalar);
  return is_scalar ? texts.front() : Layout(selection, texts).Print();
}

/// Returns the line below the elements.
std::string Describe(const NDArray& array) {
  std::string extents;
  for (const index_t extent : array.shape()) {
    extents += (extents.empty() ? "" : "x") + std::to_string(extent);
  }
  if (extents.empty()) extents = "scalar";
  const StorageType storage = StorageTypeOf(array);
  const std::string kind =
      storage == StorageType::kDefault ? "" : " " + std::string(StorageTypeName(storage));
  return "<NDArray " + extents + " " + std::string(DTypeName(array.dtype())) + kind + " @" +
         array.device().ToString() + ">";
}

/// Returns the elements of a dense array.
std::string Elements(const NDArray& array) {
  if (array.shape().Size() == 0) return "[]";
  return VisitDType(array.dtype(), [&array](auto tag) {
    return PrintElements<typename decltype(tag)::type>(array);
  });
}

}  // namespace

std::string ToString(const NDArray& array) {
  if (array.is_none()) return "<NDArray none>";
  if (StorageTypeOf(array) == StorageType::kDefault)
    return Elements(array) + "\n" + Describe(array);
  std::string text =
      Elements(sparse::Values(array)) + "\nindices " + Elements(sparse::Indices(array)) + "\n";
  if (StorageTypeOf(array) == StorageType::kCsr) {
    text += "indptr " + Elements(sparse::IndPtr(array)) + "\n";
  }
  return text + Describe(array);
}

std::ostream& operator<<(std::ostream& os, const NDArray& array) { return os << ToString(array); }

}  // namespace tessera
