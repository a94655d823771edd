// Data iterators. Functions of MXNet's C API; see types.h.
#include <cstdint>
#include <memory>
#include <mutex>
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
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {
namespace {

/// A kind of iterator as clients see it.
struct IteratorKind {
  std::string name;
  std::string description;
  std::vector<ParameterInfo> parameters;
  /// Creates an iterator; null if Tessera has none of the kind.
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
    for (const char* const name :
         {"ImageDetRecordIter", "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1",
          "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1", "LibSVMIter"}) {
      made->push_back(
          Kinds().Add({name, "Not implemented: creating one is an error.", {}, nullptr}));
    }
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
using tessera::Unimplemented;
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
    if (kind->create == nullptr) {
      throw Unimplemented("the data iterator ", kind->name, " is not implemented");
    }
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
