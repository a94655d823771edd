#include "tessera/io/idx_iter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

/// Calls visitor(span of the elements) with their type.
template <typename Visitor>
auto VisitValues(const HostArray& array, Visitor&& visitor) {
  switch (array.dtype) {
    case DType::kUint8:
      return visitor(array.values<uint8_t>());
    case DType::kInt8:
      return visitor(array.values<int8_t>());
    case DType::kInt16:
      return visitor(array.values<int16_t>());
    case DType::kInt32:
      return visitor(array.values<int32_t>());
    case DType::kFloat32:
      return visitor(array.values<float>());
    default:
      return visitor(array.values<double>());
  }
}

/// Sets to[i] = from[i] * scale. g++ at -O2 vectorizes blocks of constant length.
template <typename T>
void CopyRow(const T* __restrict from, index_t count, float scale, float* __restrict to) {
  constexpr index_t kStep = 16;
  index_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (index_t k = 0; k < kStep; ++k) to[i + k] = static_cast<float>(from[i + k]) * scale;
  }
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale;
}

void CopyScaled(const HostArray& array, index_t row_size, float scale,
                std::span<const index_t> examples, float* rows) {
  VisitValues(array, [&](auto values) {
    for (const index_t example : examples) {
      CopyRow(values.data() + example * row_size, row_size, scale, rows);
      rows += row_size;
    }
  });
}

float ScaleToOne(const HostArray& image, const std::string& path) {
  return VisitValues(image, [&](auto values) {
    double largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = static_cast<double>(values[i]);
      if (!std::isfinite(value)) {
        throw DataLoss(path, ": pixel ", value, " at position ", i, ", expected finite numbers");
      }
      largest = std::max(largest, value);
    }
    return largest > 0 ? static_cast<float>(1 / largest) : 1.0f;
  });
}

void CheckLabels(const HostArray& label, const std::string& path, index_t num_classes) {
  if (num_classes <= 0) return;
  VisitValues(label, [&](auto values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = static_cast<double>(values[i]);
      if (value >= 0 && value < static_cast<double>(num_classes) && value == std::floor(value)) {
        continue;
      }
      throw OutOfRange(path, ": label ", value, " at position ", i,
                       ", expected a whole number from 0 to ", num_classes - 1);
    }
  });
}

/// Returns the shape of a batch of images.
TShape BatchShape(const TShape& image, const IdxIterOptions& options) {
  // ExampleIter refuses a size below 1, with a better message than TShape's.
  const index_t batch = std::max<index_t>(options.batch_size, 1);
  if (options.flat) return {batch, image.ProdShape(1, image.ndim())};
  switch (image.ndim()) {
    case 2:
      return {batch, 1, 1, image[1]};
    case 3:
      return {batch, 1, image[1], image[2]};
    default:
      return {batch, image[1], image[2], image[3]};
  }
}

}  // namespace

struct IdxIter::Contents {
  explicit Contents(const IdxIterOptions& options)
      : image(ReadIdxFile(options.image)), label(ReadIdxFile(options.label)) {
    if (image.shape.ndim() < 2 || image.shape.ndim() > 4) {
      throw DataLoss(options.image, ": the array has shape ", image.shape,
                     ", expected images (examples, height, width), as in a file with magic number "
                     "0x00000803");
    }
    if (image.shape.ProdShape(1, image.shape.ndim()) == 0) {
      throw DataLoss(options.image, ": the array has shape ", image.shape,
                     ", expected images of at least one pixel");
    }
    if (label.shape.ndim() != 1) {
      throw DataLoss(options.label, ": the array has shape ", label.shape,
                     ", expected labels (examples), as in a file with magic number 0x00000801");
    }
    if (image.shape[0] != label.shape[0]) {
      throw DataLoss(options.label, ": found ", label.shape[0], " labels, expected ",
                     image.shape[0], ", the number of images in ", options.image);
    }
    CheckLabels(label, options.label, options.num_classes);
  }

  HostArray image;
  HostArray label;
};

IdxIter::IdxIter(const IdxIterOptions& options) : IdxIter(options, Contents(options)) {}

IdxIter::IdxIter(const IdxIterOptions& options, Contents contents)
    : ExampleIter(options.image, {{options.data_name, BatchShape(contents.image.shape, options)}},
                  {{options.label_name, {std::max<index_t>(options.batch_size, 1)}}},
                  contents.image.shape[0],
                  {.batch_size = options.batch_size,
                   .shuffle = options.shuffle,
                   .seed = options.seed,
                   .last_batch = options.round_batch ? LastBatch::kPad : LastBatch::kDiscard,
                   .num_parts = options.num_parts,
                   .part_index = options.part_index}),
      image_(std::move(contents.image)),
      label_(std::move(contents.label)),
      pixels_(image_.shape.ProdShape(1, image_.shape.ndim())),
      scale_(options.scale ? *options.scale : ScaleToOne(image_, options.image)) {}

void IdxIter::CopyRows(int array, std::span<const index_t> examples, void* rows) const {
  if (array == 0) {
    CopyScaled(image_, pixels_, scale_, examples, static_cast<float*>(rows));
  } else {
    CopyScaled(label_, 1, 1.0f, examples, static_cast<float*>(rows));
  }
}

}  // namespace tessera
