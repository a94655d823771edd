// Record files, data iterators and the profiler as a client in C uses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/compat/mxnet/core/types.h"

extern "C" {
const char* MXGetLastError();
int MXRecordIOReaderCreate(const char* uri, RecordIOHandle* out);
int MXRecordIOReaderFree(RecordIOHandle handle);
int MXRecordIOReaderReadRecord(RecordIOHandle handle, const char** buf, size_t* size);
int MXRecordIOReaderSeek(RecordIOHandle handle, size_t pos);
int MXRecordIOReaderTell(RecordIOHandle handle, size_t* pos);
int MXRecordIOWriterCreate(const char* uri, RecordIOHandle* out);
int MXRecordIOWriterFree(RecordIOHandle handle);
int MXRecordIOWriterWriteRecord(RecordIOHandle handle, const char* buf, size_t size);
int MXRecordIOWriterTell(RecordIOHandle handle, size_t* pos);
int MXListDataIters(uint32_t* out_size, DataIterCreator** out_array);
int MXDataIterGetIterInfo(DataIterCreator creator, const char** name, const char** description,
                          uint32_t* num_args, const char*** arg_names, const char*** arg_type_infos,
                          const char*** arg_descriptions);
int MXDataIterCreateIter(DataIterCreator handle, uint32_t num_param, const char** keys,
                         const char** vals, DataIterHandle* out);
int MXDataIterFree(DataIterHandle handle);
int MXDataIterNext(DataIterHandle handle, int* out);
int MXDataIterBeforeFirst(DataIterHandle handle);
int MXDataIterGetData(DataIterHandle handle, NDArrayHandle* out);
int MXDataIterGetLabel(DataIterHandle handle, NDArrayHandle* out);
int MXDataIterGetPadNum(DataIterHandle handle, int* pad);
int MXDataIterGetIndex(DataIterHandle handle, uint64_t** out_index, uint64_t* out_size);
int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void* data, size_t size);
int MXNDArrayGetShapeEx(NDArrayHandle handle, int* out_dim, const int** out_pdata);
int MXNDArrayGetDType(NDArrayHandle handle, int* out_dtype);
int MXNDArrayFree(NDArrayHandle handle);
int MXNDArrayGetStorageType(NDArrayHandle handle, int* out_storage_type);
int MXSetProfilerConfig(int num_params, const char* const* keys, const char* const* vals);
int MXSetProfilerState(int state);
int MXDumpProfile(int finished);
int MXProfilePause(int paused);
int MXAggregateProfileStatsPrintEx(const char** out_str, int reset, int format, int sort_by,
                                   int ascending);
int MXProfileCreateDomain(const char* domain, ProfileHandle* out);
int MXProfileCreateTask(ProfileHandle domain, const char* task_name, ProfileHandle* out);
int MXProfileCreateEvent(const char* event_name, ProfileHandle* out);
int MXProfileCreateCounter(ProfileHandle domain, const char* counter_name, ProfileHandle* out);
int MXProfileDestroyHandle(ProfileHandle handle);
int MXProfileDurationStart(ProfileHandle handle);
int MXProfileDurationStop(ProfileHandle handle);
int MXProfileSetCounter(ProfileHandle handle, uint64_t value);
int MXProfileAdjustCounter(ProfileHandle handle, int64_t value);
int MXProfileSetMarker(ProfileHandle domain, const char* name, const char* scope);
}

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

#define EXPECT_OK(call) EXPECT_EQ(call, 0) << MXGetLastError()

/// Expects a call to have failed, with that text in its error.
void ExpectFailure(int result, std::string_view text) {
  EXPECT_EQ(result, -1);
  EXPECT_THAT(MXGetLastError(), HasSubstr(std::string(text)));
}

std::string WriteText(const std::string& name, std::string_view text) {
  std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(RecordIoFunctionsTest, RecordsComeBack) {
  const std::string path = testing::TempDir() + "/functions.rec";
  const std::vector<std::string> records = {"", "a",
                                            "abcd\x0a\x23\xd7\xce"
                                            "efg",
                                            std::string(100000, 'x')};
  RecordIOHandle writer = nullptr;
  ASSERT_EQ(MXRecordIOWriterCreate(path.c_str(), &writer), 0);
  std::vector<size_t> offsets;
  for (const std::string& record : records) {
    EXPECT_OK(MXRecordIOWriterTell(writer, &offsets.emplace_back()));
    EXPECT_OK(MXRecordIOWriterWriteRecord(writer, record.data(), record.size()));
  }
  EXPECT_OK(MXRecordIOWriterFree(writer));
  ExpectFailure(MXRecordIOWriterFree(writer), "no handle of a writer of records");

  RecordIOHandle reader = nullptr;
  ASSERT_EQ(MXRecordIOReaderCreate(path.c_str(), &reader), 0);
  const char* bytes = nullptr;
  size_t size = 0;
  for (const std::string& record : records) {
    EXPECT_OK(MXRecordIOReaderReadRecord(reader, &bytes, &size));
    ASSERT_NE(bytes, nullptr);
    EXPECT_TRUE(std::string_view(bytes, size) == record);
  }
  EXPECT_OK(MXRecordIOReaderReadRecord(reader, &bytes, &size));
  EXPECT_EQ(bytes, nullptr);
  EXPECT_EQ(size, 0u);
  EXPECT_OK(MXRecordIOReaderSeek(reader, offsets[2]));
  size_t offset = 0;
  EXPECT_OK(MXRecordIOReaderTell(reader, &offset));
  EXPECT_EQ(offset, offsets[2]);
  EXPECT_OK(MXRecordIOReaderReadRecord(reader, &bytes, &size));
  EXPECT_EQ(std::string_view(bytes, size), records[2]);
  ExpectFailure(MXRecordIOReaderReadRecord(reader, nullptr, &size), "buf is a null pointer");
  ExpectFailure(MXRecordIOReaderSeek(reader, SIZE_MAX), "offset -1");
  EXPECT_OK(MXRecordIOReaderFree(reader));
  ExpectFailure(MXRecordIOReaderReadRecord(reader, &bytes, &size), "no handle of a reader");
  ExpectFailure(MXRecordIOReaderCreate("/no/such.rec", &reader), "/no/such.rec");
}

TEST(RecordIoFunctionsTest, ThreadsThatShareAReaderGetWholeRecordsOrAnError) {
  constexpr int kThreads = 4, kRecords = 200;
  const std::string path = testing::TempDir() + "/shared.rec";
  RecordIOHandle writer = nullptr, reader = nullptr;
  ASSERT_EQ(MXRecordIOWriterCreate(path.c_str(), &writer), 0);
  for (int i = 0; i < kRecords; ++i) {
    const std::string record(static_cast<size_t>(100 + i), static_cast<char>('a' + i % 26));
    EXPECT_OK(MXRecordIOWriterWriteRecord(writer, record.data(), record.size()));
  }
  EXPECT_OK(MXRecordIOWriterFree(writer));
  ASSERT_EQ(MXRecordIOReaderCreate(path.c_str(), &reader), 0);
  std::atomic<int> read{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const char* bytes = nullptr;
      size_t size = 0;
      do {
        bytes = "";
        if (MXRecordIOReaderReadRecord(reader, &bytes, &size) != 0) {
          EXPECT_THAT(MXGetLastError(), HasSubstr("used by another call"));
        } else if (bytes != nullptr) {
          const auto letter = static_cast<char>('a' + (size - 100) % 26);
          EXPECT_EQ(std::string_view(bytes, size), std::string(size, letter));
          ++read;
        }
      } while (bytes != nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read.load(), kRecords);
  EXPECT_OK(MXRecordIOReaderFree(reader));
}

/// Returns the creator of an iterator by its name.
DataIterCreator CreatorOf(std::string_view wanted) {
  uint32_t count = 0;
  DataIterCreator* creators = nullptr;
  EXPECT_OK(MXListDataIters(&count, &creators));
  for (uint32_t i = 0; i < count; ++i) {
    const char *name = nullptr, *description = nullptr;
    uint32_t num_args = 0;
    const char **arg_names = nullptr, **types = nullptr, **descriptions = nullptr;
    EXPECT_OK(MXDataIterGetIterInfo(creators[i], &name, &description, &num_args, &arg_names, &types,
                                    &descriptions));
    if (name == wanted) return creators[i];
  }
  ADD_FAILURE() << "no iterator " << wanted;
  return nullptr;
}

int CreateIterator(std::string_view name, const std::map<std::string, std::string>& parameters,
                   DataIterHandle* out) {
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : parameters) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  return MXDataIterCreateIter(CreatorOf(name), static_cast<uint32_t>(keys.size()), keys.data(),
                              values.data(), out);
}

/// Returns the elements of an array, and frees it.
template <typename T>
std::vector<T> Take(NDArrayHandle array, std::vector<int>* shape) {
  int rank = 0;
  const int* extents = nullptr;
  EXPECT_OK(MXNDArrayGetShapeEx(array, &rank, &extents));
  shape->assign(extents, extents + rank);
  size_t size = 1;
  for (const int extent : *shape) size *= static_cast<size_t>(extent);
  std::vector<T> values(size);
  EXPECT_OK(MXNDArraySyncCopyToCPU(array, values.data(), size));
  EXPECT_OK(MXNDArrayFree(array));
  return values;
}

TEST(DataFunctionsTest, CsvIterHasTheParametersOfMxnet) {
  const std::string data = WriteText("api-data.csv", "1,2\n3,4\n5,6\n");
  const std::string labels = WriteText("api-labels.csv", "7\n8\n9\n");
  DataIterHandle iterator = nullptr;
  // MXNet ignores parameters that an iterator does not have.
  ASSERT_EQ(CreateIterator("CSVIter",
                           {{"data_csv", data},
                            {"data_shape", "(1, 2)"},
                            {"label_csv", labels},
                            {"batch_size", "2"},
                            {"dtype", "int32"},
                            {"data_name", "x"}},
                           &iterator),
            0)
      << MXGetLastError();
  int has_batch = 0, pad = 0;
  EXPECT_OK(MXDataIterNext(iterator, &has_batch));
  EXPECT_OK(MXDataIterNext(iterator, &has_batch));
  ASSERT_EQ(has_batch, 1);
  NDArrayHandle array = nullptr;
  std::vector<int> shape;
  EXPECT_OK(MXDataIterGetData(iterator, &array));
  EXPECT_THAT(Take<int32_t>(array, &shape), ElementsAre(5, 6, 1, 2));
  EXPECT_THAT(shape, ElementsAre(2, 1, 2));
  EXPECT_OK(MXDataIterGetLabel(iterator, &array));
  EXPECT_THAT(Take<int32_t>(array, &shape), ElementsAre(9, 7));
  EXPECT_THAT(shape, ElementsAre(2));
  EXPECT_OK(MXDataIterGetPadNum(iterator, &pad));
  EXPECT_EQ(pad, 1);
  uint64_t* index = nullptr;
  uint64_t index_size = 0;
  EXPECT_OK(MXDataIterGetIndex(iterator, &index, &index_size));
  EXPECT_THAT(std::vector<uint64_t>(index, index + index_size), ElementsAre(2, 0));
  EXPECT_OK(MXDataIterNext(iterator, &has_batch));
  EXPECT_EQ(has_batch, 0);
  EXPECT_OK(MXDataIterFree(iterator));
  ExpectFailure(MXDataIterNext(iterator, &has_batch), "no handle of a data iterator");

  ExpectFailure(CreateIterator("CSVIter", {{"data_csv", data}, {"batch_size", "2"}}, &iterator),
                "data_shape");
  ExpectFailure(
      CreateIterator(
          "CSVIter",
          {{"data_csv", data}, {"data_shape", "(2,)"}, {"batch_size", "2"}, {"dtype", "float16"}},
          &iterator),
      "int64");
}

TEST(DataFunctionsTest, MnistIterDividesBy256AndDropsTheRest) {
  using namespace std::string_literals;
  const std::string images = WriteText("api-images",
                                       "\0\0\x08\x03\0\0\0\x03\0\0\0\x01\0\0\0\x02"s
                                       "\x00\x40\x80\xc0\xff\x01"s);
  const std::string labels = WriteText("api-labels", "\0\0\x08\x01\0\0\0\x03\x05\x06\x07"s);
  DataIterHandle iterator = nullptr;
  ASSERT_EQ(CreateIterator("MNISTIter",
                           {{"image", images},
                            {"label", labels},
                            {"batch_size", "2"},
                            {"shuffle", "False"},
                            {"input_shape", "(2,)"}},
                           &iterator),
            0)
      << MXGetLastError();
  for (int epoch = 0; epoch < 2; ++epoch) {
    int has_batch = 0;
    EXPECT_OK(MXDataIterNext(iterator, &has_batch));
    ASSERT_EQ(has_batch, 1);
    NDArrayHandle array = nullptr;
    std::vector<int> shape;
    EXPECT_OK(MXDataIterGetData(iterator, &array));
    EXPECT_THAT(Take<float>(array, &shape), ElementsAre(0, 0.25, 0.5, 0.75));
    EXPECT_THAT(shape, ElementsAre(2, 1, 1, 2));
    EXPECT_OK(MXDataIterGetLabel(iterator, &array));
    EXPECT_THAT(Take<float>(array, &shape), ElementsAre(5, 6));
    EXPECT_OK(MXDataIterNext(iterator, &has_batch));
    EXPECT_EQ(has_batch, 0);
    EXPECT_OK(MXDataIterBeforeFirst(iterator));
  }
  EXPECT_OK(MXDataIterFree(iterator));
}

TEST(DataFunctionsTest, MissingParametersOfImageIteratorsSaySo) {
  DataIterHandle iterator = nullptr;
  std::map<std::string, std::string> given = {
      {"path_imgrec", "x.rec"}, {"data_shape", "(3, 4, 4)"}, {"batch_size", "2"}};
  given["max_rotate_angle"] = "10";
  ExpectFailure(CreateIterator("ImageRecordIter", given, &iterator),
                "max_rotate_angle is not implemented");
  ExpectFailure(CreateIterator("ImageRecordUInt8Iter", {{"path_imgrec", "x.rec"}}, &iterator),
                "data_shape");
  given["mean_img"] = "mean.bin";
  ExpectFailure(CreateIterator("ImageDetRecordIter", given, &iterator),
                "mean_img is not implemented");
  given.erase("mean_img");
  given["num_crop_sampler"] = "2";
  given["min_crop_scales"] = "(0.1, 0.2, 0.3)";
  ExpectFailure(CreateIterator("ImageDetRecordIter", given, &iterator),
                "min_crop_scales has 3 values, expected 1 or num_crop_sampler, 2");
}

TEST(DataFunctionsTest, LibSvmIterHasTheParametersOfMxnet) {
  const std::string path = WriteText("rows.svm", "1 0:0.5 2:2\n-3 1:4\n5\n");
  const std::map<std::string, std::string> given = {
      {"data_libsvm", path}, {"data_shape", "(3,)"}, {"batch_size", "2"}};
  DataIterHandle iterator = nullptr;
  ASSERT_EQ(CreateIterator("LibSVMIter", given, &iterator), 0) << MXGetLastError();
  int more = 0;
  EXPECT_OK(MXDataIterNext(iterator, &more));
  ASSERT_EQ(more, 1);
  NDArrayHandle data = nullptr, label = nullptr;
  EXPECT_OK(MXDataIterGetData(iterator, &data));
  EXPECT_OK(MXDataIterGetLabel(iterator, &label));
  int data_storage = 0, label_storage = -1;
  EXPECT_OK(MXNDArrayGetStorageType(data, &data_storage));
  EXPECT_OK(MXNDArrayGetStorageType(label, &label_storage));
  EXPECT_EQ(data_storage, 2) << "csr";
  EXPECT_EQ(label_storage, 0) << "dense";
  std::vector<float> rows(6), labels(2);
  EXPECT_OK(MXNDArraySyncCopyToCPU(data, rows.data(), rows.size()));
  EXPECT_OK(MXNDArraySyncCopyToCPU(label, labels.data(), labels.size()));
  EXPECT_THAT(rows, ElementsAre(0.5f, 0, 2, 0, 4, 0));
  EXPECT_THAT(labels, ElementsAre(1, -3));
  EXPECT_OK(MXNDArrayFree(data));
  EXPECT_OK(MXNDArrayFree(label));
  EXPECT_OK(MXDataIterFree(iterator));
  std::map<std::string, std::string> square = given;
  square["data_shape"] = "(3, 2)";
  ExpectFailure(CreateIterator("LibSVMIter", square, &iterator), "one dimension");
}

TEST(ProfilerFunctionsTest, MeasuresWhatAClientMeasures) {
  const std::string path = testing::TempDir() + "/functions-profile.json";
  const char* const keys[] = {"filename", "aggregate_stats", "profile_all", "profile_process"};
  const char* const values[] = {path.c_str(), "True", "1", "worker"};
  ASSERT_EQ(MXSetProfilerConfig(4, keys, values), 0) << MXGetLastError();
  ASSERT_EQ(MXSetProfilerState(1), 0);
  ProfileHandle domain = nullptr, task = nullptr, event = nullptr, counter = nullptr;
  EXPECT_OK(MXProfileCreateDomain("the domain", &domain));
  EXPECT_OK(MXProfileCreateTask(domain, "the task", &task));
  EXPECT_OK(MXProfileCreateEvent("the event", &event));
  EXPECT_OK(MXProfileCreateCounter(domain, "the counter", &counter));
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(MXProfileDurationStart(task));
    EXPECT_OK(MXProfileDurationStop(task));
  }
  EXPECT_OK(MXProfileDurationStop(event));  // was not started: nothing to record
  EXPECT_OK(MXProfileSetCounter(counter, 5));
  EXPECT_OK(MXProfileAdjustCounter(counter, -3));
  EXPECT_OK(MXProfilePause(1));
  EXPECT_OK(MXProfileSetCounter(counter, 100));
  EXPECT_OK(MXProfilePause(0));
  EXPECT_OK(MXProfileSetMarker(domain, "the marker", "process"));
  uint32_t count = 0;
  DataIterCreator* creators = nullptr;
  EXPECT_OK(MXListDataIters(&count, &creators));
  const char* text = nullptr;
  EXPECT_OK(MXAggregateProfileStatsPrintEx(&text, 1, 1, 0, 0));
  EXPECT_THAT(text, AllOf(HasSubstr("\"the task\": {\"Count\": 2,"),
                          HasSubstr("\"the counter\": {\"Count\": 2, \"Min\": 2, \"Max\": 5"),
                          HasSubstr("\"MXListDataIters\": {\"Count\": 1,"),
                          testing::Not(HasSubstr("the event"))));
  EXPECT_OK(MXDumpProfile(1));
  ExpectFailure(MXDumpProfile(1), "has not run");

  ExpectFailure(MXProfileDurationStart(counter), "is a counter, expected a task, frame or event");
  ExpectFailure(MXProfileSetMarker(domain, "m", "somewhere"), "expected global, process");
  ExpectFailure(MXProfileSetMarker(domain, "\xff", "global"), "UTF-8");
  ExpectFailure(MXAggregateProfileStatsPrintEx(&text, 0, 0, 5, 0), "sort_by is 5");
  ExpectFailure(MXSetProfilerState(2), "no state 2");
  const char* const wrong[] = {"file_name"};
  ExpectFailure(MXSetProfilerConfig(1, wrong, values), "did you mean \"filename\"");
  for (const ProfileHandle handle : {domain, task, event, counter}) {
    EXPECT_OK(MXProfileDestroyHandle(handle));
    ExpectFailure(MXProfileDestroyHandle(handle), "no handle of a profile's object");
  }
}

}  // namespace
