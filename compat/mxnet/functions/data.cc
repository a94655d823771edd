// Data iterators. Functions of MXNet's C API; see types.h.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/extents.h"
#include "tessera/io/csv_iter.h"
#include "tessera/io/idx_iter.h"
#include "tessera/io/image_det_record_iter.h"
#include "tessera/io/image_record_iter.h"
#include "tessera/io/libsvm_iter.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {
namespace {

/// A kind of iterator as clients see it.
struct IteratorKind {
  std::string name;
  std::string description;
  std::vector<ParameterInfo> parameters;
  std::unique_ptr<DataIter> (*create)(const ParameterMap& parameters) = nullptr;
};

/// The parameters of MNISTIter.
struct MnistParameters {
  std::string image = "./train-images-idx3-ubyte";
  std::string label = "./train-labels-idx1-ubyte";
  int batch_size = 128;
  bool shuffle = true;
  bool flat = false;
  int seed = 0;
  bool silent = false;
  int num_parts = 1;
  int part_index = 0;
  int64_t prefetch_buffer = 4;
  std::string ctx = "gpu";
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<MnistParameters>& schema) {
    using P = MnistParameters;
    schema.Optional("image", &P::image, "the file of images");
    schema.Optional("label", &P::label, "the file of labels");
    schema.Optional("batch_size", &P::batch_size, "the number of examples in a batch");
    schema.Range(1);
    schema.Optional("shuffle", &P::shuffle, "whether each epoch has a new order");
    schema.Optional("flat", &P::flat, "whether images are flattened");
    schema.Optional("seed", &P::seed, "of the order");
    schema.Optional("silent", &P::silent, "has no effect: nothing is printed");
    schema.Optional("num_parts", &P::num_parts, "the number of parts of the data");
    schema.Optional("part_index", &P::part_index, "the part that is read");
    schema.Optional("prefetch_buffer", &P::prefetch_buffer, "has no effect");
    schema.Optional("ctx", &P::ctx, "has no effect: batches lie on the host");
    schema.Choice("dtype", &P::dtype, {{"None", DType::kFloat32}, {"float32", DType::kFloat32}},
                  "the type of the batches");
  }
};

/// The parameters of CSVIter.
struct CsvParameters {
  std::string data_csv;
  TShape data_shape;
  std::string label_csv = "NULL";
  TShape label_shape = {1};
  int64_t batch_size = 0;
  bool round_batch = true;
  int64_t prefetch_buffer = 4;
  std::string ctx = "gpu";
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<CsvParameters>& schema) {
    using P = CsvParameters;
    schema.Required("data_csv", &P::data_csv, "the file of examples, or a folder of files");
    schema.Required("data_shape", &P::data_shape, "the shape of an example");
    schema.Optional("label_csv", &P::label_csv, "the file of labels; NULL: labels are 0");
    schema.Optional("label_shape", &P::label_shape, "the shape of a label");
    schema.Required("batch_size", &P::batch_size, "the number of examples in a batch");
    schema.Range(1);
    schema.Optional("round_batch", &P::round_batch,
                    "whether the first examples of the next epoch pad the last batch");
    schema.Optional("prefetch_buffer", &P::prefetch_buffer, "has no effect");
    schema.Optional("ctx", &P::ctx, "has no effect: batches lie on the host");
    schema.Choice("dtype", &P::dtype,
                  {{"None", DType::kFloat32},
                   {"float32", DType::kFloat32},
                   {"int32", DType::kInt32},
                   {"int64", DType::kInt64}},
                  "the type of the batches; None is float32");
  }
};

const std::vector<std::pair<std::string, DamagedImages>>& DamageChoices() {
  static const auto* const choices = new std::vector<std::pair<std::string, DamagedImages>>{
      {"error", DamagedImages::kThrow}, {"skip", DamagedImages::kSkip}};
  return *choices;
}

/// The parameters of the iterators over image records. The numbers of augmentations that Tessera
/// does not have must keep their defaults.
struct ImageRecordParameters {
  std::string path_imglist, path_imgrec, path_imgidx;
  std::string aug_seq = "aug_default";
  int label_width = 1;
  TShape data_shape;
  int preprocess_threads = 4;
  bool verbose = true;
  int num_parts = 1, part_index = 0;
  int device_id = 0;
  int64_t shuffle_chunk_size = 0;
  int shuffle_chunk_seed = 0;
  std::optional<int> seed_aug;
  bool shuffle = false;
  int seed = 0;
  int64_t batch_size = 0;
  bool round_batch = true;
  int64_t prefetch_buffer = 4;
  std::string ctx = "gpu";
  DType dtype = DType::kUnknown;
  int resize = -1;
  bool rand_crop = false, random_resized_crop = false;
  int max_rotate_angle = 0;
  float max_aspect_ratio = 0;
  std::optional<float> min_aspect_ratio;
  float max_shear_ratio = 0;
  int max_crop_size = -1, min_crop_size = -1;
  float max_random_scale = 1, min_random_scale = 1;
  float max_random_area = 1, min_random_area = 1;
  float max_img_size = 1e10f, min_img_size = 0;
  float brightness = 0, contrast = 0, saturation = 0, pca_noise = 0;
  int random_h = 0, random_s = 0, random_l = 0;
  int rotate = -1;
  int fill_value = 255;
  int inter_method = 1;
  int pad = 0;
  bool mirror = false, rand_mirror = false;
  std::string mean_img;
  float mean_r = 0, mean_g = 0, mean_b = 0, mean_a = 0;
  float std_r = 1, std_g = 1, std_b = 1, std_a = 1;
  float scale = 1;
  float max_random_contrast = 0, max_random_illumination = 0;
  DamagedImages damaged = DamagedImages::kThrow;

  static void Declare(ParameterSchema<ImageRecordParameters>& schema) {
    using P = ImageRecordParameters;
    schema.Optional("path_imglist", &P::path_imglist, "labels by the images' numbers");
    schema.Required("path_imgrec", &P::path_imgrec, "the record file");
    schema.Optional("path_imgidx", &P::path_imgidx, "has no effect: no index is needed");
    schema.Optional("aug_seq", &P::aug_seq, "has no effect: there is one sequence");
    schema.Optional("label_width", &P::label_width, "the number of labels of an image");
    schema.Required("data_shape", &P::data_shape, "the shape of an image: channels, height, width");
    schema.Optional("preprocess_threads", &P::preprocess_threads,
                    "has no effect: the engine's workers decode");
    schema.Optional("verbose", &P::verbose, "has no effect: nothing is printed");
    schema.Optional("num_parts", &P::num_parts, "the number of parts of the data");
    schema.Optional("part_index", &P::part_index, "the part that is read");
    schema.Optional("device_id", &P::device_id, "has no effect");
    schema.Optional("shuffle_chunk_size", &P::shuffle_chunk_size,
                    "has no effect: orders are of all records");
    schema.Optional("shuffle_chunk_seed", &P::shuffle_chunk_seed, "has no effect");
    schema.Optional("seed_aug", &P::seed_aug, "of the augmentation, in place of seed");
    schema.Optional("shuffle", &P::shuffle, "whether each epoch has a new order");
    schema.Optional("seed", &P::seed, "of the orders");
    schema.Required("batch_size", &P::batch_size, "the number of images in a batch");
    schema.Range(1);
    schema.Optional("round_batch", &P::round_batch,
                    "whether the first images of the next epoch pad the last batch");
    schema.Optional("prefetch_buffer", &P::prefetch_buffer, "batches that are made ahead");
    schema.Optional("ctx", &P::ctx, "has no effect: batches lie on the host");
    schema.Choice("dtype", &P::dtype,
                  {{"None", DType::kUnknown},
                   {"float32", DType::kFloat32},
                   {"uint8", DType::kUint8},
                   {"int8", DType::kInt8}},
                  "the type of the images");
    schema.Optional("resize", &P::resize, "the new length of the shorter side; -1: as it is");
    schema.Optional("rand_crop", &P::rand_crop, "whether a random place is cut out");
    schema.Optional("random_resized_crop", &P::random_resized_crop,
                    "whether a random part is resized");
    schema.Optional("max_rotate_angle", &P::max_rotate_angle, "0");
    schema.Optional("max_aspect_ratio", &P::max_aspect_ratio, "of the part");
    schema.Optional("min_aspect_ratio", &P::min_aspect_ratio, "of the part");
    schema.Optional("max_shear_ratio", &P::max_shear_ratio, "0");
    schema.Optional("max_crop_size", &P::max_crop_size, "of a square's side; -1: none");
    schema.Optional("min_crop_size", &P::min_crop_size, "of a square's side");
    schema.Optional("max_random_scale", &P::max_random_scale, "of both sides");
    schema.Optional("min_random_scale", &P::min_random_scale, "of both sides");
    schema.Optional("max_random_area", &P::max_random_area, "of the part");
    schema.Optional("min_random_area", &P::min_random_area, "of the part");
    schema.Optional("max_img_size", &P::max_img_size, "of the sides then");
    schema.Optional("min_img_size", &P::min_img_size, "of the sides then");
    schema.Optional("brightness", &P::brightness, "the range of its change");
    schema.Optional("contrast", &P::contrast, "the range of its change");
    schema.Optional("saturation", &P::saturation, "the range of its change");
    schema.Optional("pca_noise", &P::pca_noise,
                    "the deviation of noise along the axes of ImageNet's colors");
    schema.Optional("random_h", &P::random_h, "the range of the hue's change");
    schema.Optional("random_s", &P::random_s, "the range of the saturation's change");
    schema.Optional("random_l", &P::random_l, "the range of the lightness's change");
    schema.Optional("rotate", &P::rotate, "-1");
    schema.Optional("fill_value", &P::fill_value, "the level of padding");
    schema.Optional("inter_method", &P::inter_method,
                    "0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 drawn");
    schema.Optional("pad", &P::pad, "pixels that are added to each side");
    schema.Optional("mirror", &P::mirror, "whether images are mirrored");
    schema.Optional("rand_mirror", &P::rand_mirror, "whether half of the images are mirrored");
    schema.Optional("mean_img", &P::mean_img, "empty");
    schema.Optional("mean_r", &P::mean_r, "subtracted from red");
    schema.Optional("mean_g", &P::mean_g, "subtracted from green");
    schema.Optional("mean_b", &P::mean_b, "subtracted from blue");
    schema.Optional("mean_a", &P::mean_a, "subtracted from alpha");
    schema.Optional("std_r", &P::std_r, "divides red");
    schema.Optional("std_g", &P::std_g, "divides green");
    schema.Optional("std_b", &P::std_b, "divides blue");
    schema.Optional("std_a", &P::std_a, "divides alpha");
    schema.Optional("scale", &P::scale, "multiplies all");
    schema.Optional("max_random_contrast", &P::max_random_contrast, "the range of its change");
    schema.Optional("max_random_illumination", &P::max_random_illumination,
                    "the range of its change");
    schema.Choice("damaged", &P::damaged, DamageChoices(),
                  "whether a damaged image is an error or is left out; MXNet has no such choice");
  }

  /// Throws Error(kUnimplemented) that names a parameter whose augmentation is missing.
  void CheckImplemented(const char* iterator) const {
    const std::pair<const char*, bool> missing[] = {
        {"max_rotate_angle", max_rotate_angle != 0},
        {"rotate", rotate > 0},
        {"max_shear_ratio", max_shear_ratio != 0},
        {"mean_img", !mean_img.empty()},
        {"max_aspect_ratio", !random_resized_crop && max_aspect_ratio != 0}};
    for (const auto& [name, is_given] : missing) {
      if (is_given) throw Unimplemented(iterator, ": ", name, " is not implemented");
    }
  }
};

/// The parameters of ImageDetRecordIter.
struct ImageDetRecordParameters {
  std::string path_imglist, path_imgrec;
  std::string aug_seq = "det_aug_default";
  int64_t label_width = -1;
  TShape data_shape;
  int preprocess_threads = 4;
  bool verbose = true;
  int num_parts = 1, part_index = 0;
  int64_t shuffle_chunk_size = 0;
  int shuffle_chunk_seed = 0;
  int64_t label_pad_width = 0;
  float label_pad_value = -1;
  bool shuffle = false;
  int seed = 0;
  int64_t batch_size = 0;
  bool round_batch = true;
  int64_t prefetch_buffer = 4;
  std::string ctx = "gpu";
  DType dtype = DType::kFloat32;
  int resize = -1;
  float rand_crop_prob = 0;
  std::vector<float> min_crop_scales = {0}, max_crop_scales = {1};
  std::vector<float> min_crop_aspect_ratios = {1}, max_crop_aspect_ratios = {1};
  std::vector<float> min_crop_overlaps = {0}, max_crop_overlaps = {1};
  std::vector<float> min_crop_sample_coverages = {0}, max_crop_sample_coverages = {1};
  std::vector<float> min_crop_object_coverages = {0}, max_crop_object_coverages = {1};
  int num_crop_sampler = 1;
  CropEmitMode crop_emit_mode = CropEmitMode::kCenter;
  float emit_overlap_thresh = 0.3f;
  std::vector<int64_t> max_crop_trials = {25};
  float rand_pad_prob = 0, max_pad_scale = 1;
  int max_random_hue = 0;
  float random_hue_prob = 0;
  int max_random_saturation = 0;
  float random_saturation_prob = 0;
  int max_random_illumination = 0;
  float random_illumination_prob = 0;
  float max_random_contrast = 0, random_contrast_prob = 0;
  float rand_mirror_prob = 0;
  int fill_value = 127;
  int inter_method = 1;
  DetResizeMode resize_mode = DetResizeMode::kForce;
  std::string mean_img;
  float mean_r = 0, mean_g = 0, mean_b = 0, mean_a = 0;
  float std_r = 0, std_g = 0, std_b = 0, std_a = 0;
  float scale = 1;
  DamagedImages damaged = DamagedImages::kThrow;

  static void Declare(ParameterSchema<ImageDetRecordParameters>& schema) {
    using P = ImageDetRecordParameters;
    schema.Optional("path_imglist", &P::path_imglist, "labels by the images' numbers");
    schema.Required("path_imgrec", &P::path_imgrec, "the record file");
    schema.Optional("aug_seq", &P::aug_seq, "has no effect: there is one sequence");
    schema.Optional("label_width", &P::label_width, "labels of each image; -1: any number");
    schema.Required("data_shape", &P::data_shape, "the shape of an image: channels, height, width");
    schema.Optional("preprocess_threads", &P::preprocess_threads,
                    "has no effect: the engine's workers decode");
    schema.Optional("verbose", &P::verbose, "has no effect: nothing is printed");
    schema.Optional("num_parts", &P::num_parts, "the number of parts of the data");
    schema.Optional("part_index", &P::part_index, "the part that is read");
    schema.Optional("shuffle_chunk_size", &P::shuffle_chunk_size,
                    "has no effect: orders are of all records");
    schema.Optional("shuffle_chunk_seed", &P::shuffle_chunk_seed, "has no effect");
    schema.Optional("label_pad_width", &P::label_pad_width,
                    "labels to which each image's are padded; 0 or -1: the most that one has");
    schema.Optional("label_pad_value", &P::label_pad_value, "the value of padding");
    schema.Optional("shuffle", &P::shuffle, "whether each epoch has a new order");
    schema.Optional("seed", &P::seed, "of the orders and of the augmentation");
    schema.Required("batch_size", &P::batch_size, "the number of images in a batch");
    schema.Range(1);
    schema.Optional("round_batch", &P::round_batch,
                    "whether the first images of the next epoch pad the last batch");
    schema.Optional("prefetch_buffer", &P::prefetch_buffer, "batches that are made ahead");
    schema.Optional("ctx", &P::ctx, "has no effect: batches lie on the host");
    schema.Choice("dtype", &P::dtype, {{"None", DType::kFloat32}, {"float32", DType::kFloat32}},
                  "the type of the images");
    schema.Optional("resize", &P::resize, "the new length of the shorter side; -1: as it is");
    schema.Optional("rand_crop_prob", &P::rand_crop_prob, "the probability that a part is cut out");
    schema.Optional("min_crop_scales", &P::min_crop_scales, "of the parts' lengths");
    schema.Optional("max_crop_scales", &P::max_crop_scales, "of the parts' lengths");
    schema.Optional("min_crop_aspect_ratios", &P::min_crop_aspect_ratios, "of width to height");
    schema.Optional("max_crop_aspect_ratios", &P::max_crop_aspect_ratios, "of width to height");
    schema.Optional("min_crop_overlaps", &P::min_crop_overlaps,
                    "of the intersection of part and object in their union");
    schema.Optional("max_crop_overlaps", &P::max_crop_overlaps, "of the same");
    schema.Optional("min_crop_sample_coverages", &P::min_crop_sample_coverages,
                    "of the intersection in the part");
    schema.Optional("max_crop_sample_coverages", &P::max_crop_sample_coverages, "of the same");
    schema.Optional("min_crop_object_coverages", &P::min_crop_object_coverages,
                    "of the intersection in the object");
    schema.Optional("max_crop_object_coverages", &P::max_crop_object_coverages, "of the same");
    schema.Optional("num_crop_sampler", &P::num_crop_sampler, "the ways of cutting out parts");
    schema.Range(1, 1000);
    schema.Choice("crop_emit_mode", &P::crop_emit_mode,
                  {{"center", CropEmitMode::kCenter}, {"overlap", CropEmitMode::kOverlap}},
                  "keep objects by their centers, or by the share that is in the part");
    schema.Optional("emit_overlap_thresh", &P::emit_overlap_thresh, "that share");
    schema.Optional("max_crop_trials", &P::max_crop_trials, "parts that are drawn at most");
    schema.Optional("rand_pad_prob", &P::rand_pad_prob, "the probability of padding");
    schema.Optional("max_pad_scale", &P::max_pad_scale, "of the padded sides");
    schema.Optional("max_random_hue", &P::max_random_hue, "the range of the hue's change");
    schema.Optional("random_hue_prob", &P::random_hue_prob, "its probability");
    schema.Optional("max_random_saturation", &P::max_random_saturation,
                    "the range of the saturation's change");
    schema.Optional("random_saturation_prob", &P::random_saturation_prob, "its probability");
    schema.Optional("max_random_illumination", &P::max_random_illumination,
                    "the range of the lightness's change");
    schema.Optional("random_illumination_prob", &P::random_illumination_prob, "its probability");
    schema.Optional("max_random_contrast", &P::max_random_contrast, "the range of its change");
    schema.Optional("random_contrast_prob", &P::random_contrast_prob, "its probability");
    schema.Optional("rand_mirror_prob", &P::rand_mirror_prob, "the probability of mirroring");
    schema.Optional("fill_value", &P::fill_value, "the level of padding");
    schema.Optional("inter_method", &P::inter_method,
                    "0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 drawn");
    schema.Choice("resize_mode", &P::resize_mode,
                  {{"force", DetResizeMode::kForce},
                   {"shrink", DetResizeMode::kShrink},
                   {"fit", DetResizeMode::kFit}},
                  "resize to data_shape, or into it with the image's ratio");
    schema.Optional("mean_img", &P::mean_img, "empty");
    schema.Optional("mean_r", &P::mean_r, "subtracted from red");
    schema.Optional("mean_g", &P::mean_g, "subtracted from green");
    schema.Optional("mean_b", &P::mean_b, "subtracted from blue");
    schema.Optional("mean_a", &P::mean_a, "subtracted from alpha");
    schema.Optional("std_r", &P::std_r, "divides red unless it is 0");
    schema.Optional("std_g", &P::std_g, "divides green unless it is 0");
    schema.Optional("std_b", &P::std_b, "divides blue unless it is 0");
    schema.Optional("std_a", &P::std_a, "divides alpha unless it is 0");
    schema.Optional("scale", &P::scale, "multiplies all");
    schema.Choice("damaged", &P::damaged, DamageChoices(),
                  "whether a damaged image is an error or is left out; MXNet has no such choice");
  }

  /// Returns the ways of cutting out parts. A list of one value holds for all of them. Throws
  /// Error(kInvalidArgument) that names a list of another length.
  std::vector<DetectionCrop> Crops() const {
    std::vector<DetectionCrop> crops(static_cast<size_t>(num_crop_sampler));
    const auto set = [&crops](const char* name, const auto& values, auto member) {
      if (values.size() != 1 && values.size() != crops.size()) {
        throw InvalidArgument("ImageDetRecordIter: ", name, " has ", values.size(),
                              " values, expected 1 or num_crop_sampler, ", crops.size());
      }
      for (size_t i = 0; i < crops.size(); ++i) {
        crops[i].*member = values[values.size() == 1 ? 0 : i];
      }
    };
    using C = DetectionCrop;
    set("min_crop_scales", min_crop_scales, &C::min_scale);
    set("max_crop_scales", max_crop_scales, &C::max_scale);
    set("min_crop_aspect_ratios", min_crop_aspect_ratios, &C::min_aspect_ratio);
    set("max_crop_aspect_ratios", max_crop_aspect_ratios, &C::max_aspect_ratio);
    set("min_crop_overlaps", min_crop_overlaps, &C::min_overlap);
    set("max_crop_overlaps", max_crop_overlaps, &C::max_overlap);
    set("min_crop_sample_coverages", min_crop_sample_coverages, &C::min_sample_coverage);
    set("max_crop_sample_coverages", max_crop_sample_coverages, &C::max_sample_coverage);
    set("min_crop_object_coverages", min_crop_object_coverages, &C::min_object_coverage);
    set("max_crop_object_coverages", max_crop_object_coverages, &C::max_object_coverage);
    set("max_crop_trials", max_crop_trials, &C::max_trials);
    return crops;
  }
};

/// The parameters of LibSVMIter.
struct LibSvmParameters {
  std::string data_libsvm;
  TShape data_shape;
  std::string label_libsvm = "NULL";
  TShape label_shape = {1};
  int num_parts = 1, part_index = 0;
  int64_t batch_size = 0;
  bool round_batch = true;
  int64_t prefetch_buffer = 4;
  std::string ctx = "gpu";
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<LibSvmParameters>& schema) {
    using P = LibSvmParameters;
    schema.Required("data_libsvm", &P::data_libsvm, "the file of examples");
    schema.Required("data_shape", &P::data_shape, "the shape of an example: (length)");
    schema.Optional("label_libsvm", &P::label_libsvm,
                    "the file of labels, which are csr; NULL: those in data_libsvm");
    schema.Optional("label_shape", &P::label_shape, "the shape of a label: (length)");
    schema.Optional("num_parts", &P::num_parts, "the number of parts of the data");
    schema.Optional("part_index", &P::part_index, "the part that is read");
    schema.Required("batch_size", &P::batch_size, "the number of examples in a batch");
    schema.Range(1);
    schema.Optional("round_batch", &P::round_batch,
                    "whether the first examples of the next epoch pad the last batch");
    schema.Optional("prefetch_buffer", &P::prefetch_buffer, "has no effect");
    schema.Optional("ctx", &P::ctx, "has no effect: batches lie on the host");
    schema.Choice("dtype", &P::dtype, {{"None", DType::kFloat32}, {"float32", DType::kFloat32}},
                  "the type of the batches");
  }
};

/// Returns the parameters that an iterator has. Clients give others too, such as the names of
/// Python's DataDesc, and MXNet ignores them.
template <typename Parameters>
Parameters ParseKnown(const char* iterator, const ParameterMap& given) {
  const auto& schema = ParameterSchema<Parameters>::Get();
  ParameterMap known;
  for (const ParameterInfo& info : schema.Describe()) {
    const auto found = given.find(info.name);
    if (found != given.end()) known.insert(*found);
  }
  return schema.Parse(iterator, known);
}

std::unique_ptr<DataIter> CreateMnist(const ParameterMap& parameters) {
  const auto given = ParseKnown<MnistParameters>("MNISTIter", parameters);
  return std::make_unique<IdxIter>(IdxIterOptions{.image = given.image,
                                                  .label = given.label,
                                                  .batch_size = given.batch_size,
                                                  .shuffle = given.shuffle,
                                                  .seed = static_cast<uint64_t>(given.seed),
                                                  .round_batch = false,
                                                  .flat = given.flat,
                                                  .num_parts = given.num_parts,
                                                  .part_index = given.part_index,
                                                  .scale = 1.0f / 256});
}

std::unique_ptr<DataIter> CreateCsv(const ParameterMap& parameters) {
  const auto given = ParseKnown<CsvParameters>("CSVIter", parameters);
  return std::make_unique<CsvIter>(
      CsvIterOptions{.data_csv = given.data_csv,
                     .data_shape = given.data_shape,
                     .label_csv = given.label_csv == "NULL" ? "" : given.label_csv,
                     .label_shape = given.label_shape,
                     .batch_size = given.batch_size,
                     .round_batch = given.round_batch,
                     .dtype = given.dtype});
}

int Prefetched(int64_t batches) { return static_cast<int>(std::clamp<int64_t>(batches, 1, 64)); }

void CheckImageShape(const char* iterator, const TShape& shape) {
  if (shape.ndim() == 3) return;
  throw InvalidArgument(iterator, ": data_shape ", shape, ", expected (channels, height, width)");
}

std::unique_ptr<DataIter> CreateImageRecord(const char* iterator, DType dtype,
                                            const ParameterMap& parameters) {
  const auto given = ParseKnown<ImageRecordParameters>(iterator, parameters);
  given.CheckImplemented(iterator);
  CheckImageShape(iterator, given.data_shape);
  const int seed = given.seed_aug.value_or(given.seed);
  return std::make_unique<ImageRecordIter>(
      ImageRecordIterOptions{.path_imgrec = given.path_imgrec,
                             .path_imglist = given.path_imglist,
                             .label_width = given.label_width,
                             .channels = given.data_shape[0],
                             .batch_size = given.batch_size,
                             .round_batch = given.round_batch,
                             .shuffle = given.shuffle,
                             .seed = static_cast<uint64_t>(seed),
                             .num_parts = given.num_parts,
                             .part_index = given.part_index,
                             .prefetch_buffer = Prefetched(given.prefetch_buffer),
                             .damaged = given.damaged,
                             .augmenter = {.size = {given.data_shape[1], given.data_shape[2]},
                                           .inter_method = given.inter_method,
                                           .resize = given.resize > 0 ? given.resize : -1,
                                           .random_resized_crop = given.random_resized_crop,
                                           .min_random_area = given.min_random_area,
                                           .max_random_area = given.max_random_area,
                                           .min_aspect_ratio = given.min_aspect_ratio,
                                           .max_aspect_ratio = given.max_aspect_ratio,
                                           .min_random_scale = given.min_random_scale,
                                           .max_random_scale = given.max_random_scale,
                                           .min_img_size = given.min_img_size,
                                           .max_img_size = given.max_img_size,
                                           .pad = given.pad,
                                           .fill_value = given.fill_value,
                                           .rand_crop = given.rand_crop,
                                           .min_crop_size = given.min_crop_size,
                                           .max_crop_size = given.max_crop_size,
                                           .brightness = given.brightness,
                                           .contrast = given.contrast,
                                           .saturation = given.saturation,
                                           .random_h = given.random_h,
                                           .random_s = given.random_s,
                                           .random_l = given.random_l,
                                           .pca_noise = given.pca_noise},
                             .mirror = given.mirror,
                             .rand_mirror = given.rand_mirror,
                             .mean = {given.mean_r, given.mean_g, given.mean_b, given.mean_a},
                             .deviation = {given.std_r, given.std_g, given.std_b, given.std_a},
                             .scale = given.scale,
                             .max_random_contrast = given.max_random_contrast,
                             .max_random_illumination = given.max_random_illumination,
                             .dtype = given.dtype == DType::kUnknown ? dtype : given.dtype});
}

std::unique_ptr<DataIter> CreateImageDetRecord(const ParameterMap& parameters) {
  constexpr const char* kName = "ImageDetRecordIter";
  const auto given = ParseKnown<ImageDetRecordParameters>(kName, parameters);
  if (!given.mean_img.empty()) throw Unimplemented(kName, ": mean_img is not implemented");
  CheckImageShape(kName, given.data_shape);
  const auto divisor = [](float deviation) { return deviation == 0 ? 1 : deviation; };
  return std::make_unique<ImageDetRecordIter>(ImageDetRecordIterOptions{
      .path_imgrec = given.path_imgrec,
      .path_imglist = given.path_imglist,
      .label_width = given.label_width,
      .label_pad_width = given.label_pad_width,
      .label_pad_value = given.label_pad_value,
      .channels = given.data_shape[0],
      .batch_size = given.batch_size,
      .round_batch = given.round_batch,
      .shuffle = given.shuffle,
      .seed = static_cast<uint64_t>(given.seed),
      .num_parts = given.num_parts,
      .part_index = given.part_index,
      .prefetch_buffer = Prefetched(given.prefetch_buffer),
      .damaged = given.damaged,
      .augmenter = {.size = {given.data_shape[1], given.data_shape[2]},
                    .inter_method = given.inter_method,
                    .resize = given.resize > 0 ? given.resize : -1,
                    .max_random_hue = given.max_random_hue,
                    .random_hue_prob = given.random_hue_prob,
                    .max_random_saturation = given.max_random_saturation,
                    .random_saturation_prob = given.random_saturation_prob,
                    .max_random_illumination = given.max_random_illumination,
                    .random_illumination_prob = given.random_illumination_prob,
                    .max_random_contrast = given.max_random_contrast,
                    .random_contrast_prob = given.random_contrast_prob,
                    .rand_mirror_prob = given.rand_mirror_prob,
                    .rand_pad_prob = given.rand_pad_prob,
                    .max_pad_scale = given.max_pad_scale,
                    .fill_value = given.fill_value,
                    .rand_crop_prob = given.rand_crop_prob,
                    .crops = given.Crops(),
                    .crop_emit_mode = given.crop_emit_mode,
                    .emit_overlap_thresh = given.emit_overlap_thresh,
                    .resize_mode = given.resize_mode},
      .mean = {given.mean_r, given.mean_g, given.mean_b, given.mean_a},
      .deviation = {divisor(given.std_r), divisor(given.std_g), divisor(given.std_b),
                    divisor(given.std_a)},
      .scale = given.scale});
}

std::unique_ptr<DataIter> CreateLibSvm(const ParameterMap& parameters) {
  constexpr const char* kName = "LibSVMIter";
  const auto given = ParseKnown<LibSvmParameters>(kName, parameters);
  for (const TShape& shape : {given.data_shape, given.label_shape}) {
    if (shape.ndim() == 1) continue;
    throw InvalidArgument(kName, ": the shape ", shape, ", expected one of one dimension");
  }
  return std::make_unique<LibSvmIter>(
      LibSvmIterOptions{.data_libsvm = given.data_libsvm,
                        .data_size = given.data_shape[0],
                        .label_libsvm = given.label_libsvm == "NULL" ? "" : given.label_libsvm,
                        .label_size = given.label_shape[0],
                        .num_parts = given.num_parts,
                        .part_index = given.part_index,
                        .batch_size = given.batch_size,
                        .round_batch = given.round_batch});
}

Handles<IteratorKind>& Kinds() {
  static auto* const kinds = new Handles<IteratorKind>("a kind of data iterator", 9);
  return *kinds;
}

/// Returns the handles of all kinds.
const std::vector<void*>& KindHandles() {
  static const auto* const handles = [] {
    auto* const made = new std::vector<void*>;
    made->push_back(Kinds().Add({"MNISTIter", "Images and labels in two files of MNIST's format.",
                                 ParameterSchema<MnistParameters>::Get().Describe(), CreateMnist}));
    made->push_back(Kinds().Add({"CSVIter", "The rows of CSV files, in their order.",
                                 ParameterSchema<CsvParameters>::Get().Describe(), CreateCsv}));
    const auto add_images = [made](const char* name, auto create) {
      made->push_back(
          Kinds().Add({name, "The images of a record file, decoded and augmented.",
                       ParameterSchema<ImageRecordParameters>::Get().Describe(), create}));
    };
    add_images("ImageRecordIter", [](const ParameterMap& parameters) {
      return CreateImageRecord("ImageRecordIter", DType::kFloat32, parameters);
    });
    add_images("ImageRecordIter_v1", [](const ParameterMap& parameters) {
      return CreateImageRecord("ImageRecordIter_v1", DType::kFloat32, parameters);
    });
    add_images("ImageRecordUInt8Iter", [](const ParameterMap& parameters) {
      return CreateImageRecord("ImageRecordUInt8Iter", DType::kUint8, parameters);
    });
    add_images("ImageRecordUInt8Iter_v1", [](const ParameterMap& parameters) {
      return CreateImageRecord("ImageRecordUInt8Iter_v1", DType::kUint8, parameters);
    });
    add_images("ImageRecordInt8Iter", [](const ParameterMap& parameters) {
      return CreateImageRecord("ImageRecordInt8Iter", DType::kInt8, parameters);
    });
    made->push_back(Kinds().Add(
        {"ImageDetRecordIter", "The images of a record file with the boxes of their objects.",
         ParameterSchema<ImageDetRecordParameters>::Get().Describe(), CreateImageDetRecord}));
    made->push_back(
        Kinds().Add({"LibSVMIter", "The rows of a LibSVM file, as csr arrays.",
                     ParameterSchema<LibSvmParameters>::Get().Describe(), CreateLibSvm}));
    return made;
  }();
  return *handles;
}

/// The object behind an iterator's handle. Batches are lent, so each is copied once.
struct ApiIterator {
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  std::unique_ptr<DataIter> iterator ABSL_GUARDED_BY(*mutex);
  NDArray data ABSL_GUARDED_BY(*mutex), label ABSL_GUARDED_BY(*mutex);
  index_t pad ABSL_GUARDED_BY(*mutex) = 0;
  std::vector<uint64_t> index ABSL_GUARDED_BY(*mutex);
};

Handles<ApiIterator>& Iterators() {
  static auto* const iterators = new Handles<ApiIterator>("a data iterator", 10);
  return *iterators;
}

/// An iterator that the calling thread alone uses meanwhile.
class LockedIterator {
 public:
  explicit LockedIterator(DataIterHandle handle)
      : iterator_(Iterators().Get(handle)), lock_(*iterator_->mutex) {}
  ApiIterator* operator->() const { return iterator_.get(); }
  ApiIterator* get() const { return iterator_.get(); }

 private:
  const std::shared_ptr<ApiIterator> iterator_;
  const std::lock_guard<std::mutex> lock_;
};

bool Next(ApiIterator* object) {
  if (!object->iterator->Next()) return false;
  const DataBatch& batch = object->iterator->GetBatch();
  object->data = batch.data[0].Copy(batch.data[0].device());
  object->label = batch.label.empty() ? NDArray() : batch.label[0].Copy(batch.label[0].device());
  object->pad = batch.pad;
  object->index.assign(batch.index.begin(), batch.index.end());
  return true;
}

}  // namespace
}  // namespace tessera::mxnet

using tessera::NDArray;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXListDataIters(uint32_t* out_size, DataIterCreator** out_array) {
  return ApiCall([&] {
    *NotNull(out_size, "out_size") = static_cast<uint32_t>(KindHandles().size());
    *NotNull(out_array, "out_array") = const_cast<DataIterCreator*>(KindHandles().data());
  });
}

TESSERA_MXNET_API int MXDataIterGetIterInfo(DataIterCreator creator, const char** name,
                                            const char** description, uint32_t* num_args,
                                            const char*** arg_names, const char*** arg_type_infos,
                                            const char*** arg_descriptions) {
  return ApiCall([&] {
    const auto kind = Kinds().Get(creator);
    Results& results = Results::OfThread();
    std::vector<std::string> names, types, descriptions;
    for (const tessera::ParameterInfo& info : kind->parameters) {
      names.push_back(info.name);
      types.push_back(info.type + (info.required ? std::string(", required")
                                                 : ", optional, default=" + info.default_value));
      descriptions.push_back(info.description);
    }
    *NotNull(name, "name") = kind->name.c_str();
    *NotNull(description, "description") = kind->description.c_str();
    *NotNull(num_args, "num_args") = static_cast<uint32_t>(names.size());
    *NotNull(arg_names, "arg_names") = results.Keep(std::move(names));
    *NotNull(arg_type_infos, "arg_type_infos") = results.Keep(std::move(types));
    *NotNull(arg_descriptions, "arg_descriptions") = results.Keep(std::move(descriptions));
  });
}

TESSERA_MXNET_API int MXDataIterCreateIter(DataIterCreator handle, uint32_t num_param,
                                           const char** keys, const char** vals,
                                           DataIterHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    const auto kind = Kinds().Get(handle);
    ApiIterator object;
    object.iterator = kind->create(ParametersOf(num_param, keys, vals));
    *out = Iterators().Add(std::move(object));
  });
}

TESSERA_MXNET_API int MXDataIterFree(DataIterHandle handle) {
  return ApiCall([&] { Iterators().Remove(handle); });
}

TESSERA_MXNET_API int MXDataIterNext(DataIterHandle handle, int* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Next(LockedIterator(handle).get());
  });
}

TESSERA_MXNET_API int MXDataIterBeforeFirst(DataIterHandle handle) {
  return ApiCall([&] { LockedIterator(handle)->iterator->BeforeFirst(); });
}

TESSERA_MXNET_API int MXDataIterGetData(DataIterHandle handle, NDArrayHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Arrays().Add(LockedIterator(handle)->data);
  });
}

TESSERA_MXNET_API int MXDataIterGetLabel(DataIterHandle handle, NDArrayHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Arrays().Add(LockedIterator(handle)->label);
  });
}

TESSERA_MXNET_API int MXDataIterGetPadNum(DataIterHandle handle, int* pad) {
  return ApiCall([&] {
    *NotNull(pad, "pad") =
        NumberForClient<int>("MXDataIterGetPadNum", "pad", LockedIterator(handle)->pad);
  });
}

TESSERA_MXNET_API int MXDataIterGetIndex(DataIterHandle handle, uint64_t** out_index,
                                         uint64_t* out_size) {
  return ApiCall([&] {
    const std::vector<uint64_t> index = LockedIterator(handle)->index;
    *NotNull(out_size, "out_size") = index.size();
    *NotNull(out_index, "out_index") = Results::OfThread().Keep(index);
  });
}
