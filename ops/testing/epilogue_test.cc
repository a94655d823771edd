// Operators that run an epilogue give it each element of their first output once, complete, and do
// not look at it again, in each implementation.
#include "tessera/ops/epilogue.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/encoding.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/test_device.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

/// Memory that begins at a cache line.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t size) : size_(static_cast<size_t>(size)), memory_(size_ + kLine) {}
  AlignedBytes(const AlignedBytes& other) : AlignedBytes(static_cast<int64_t>(other.size_)) {
    std::memcpy(data(), other.data(), size_);
  }
  AlignedBytes& operator=(const AlignedBytes&) = delete;

  char* data() const {
    void* data = const_cast<char*>(memory_.data());
    size_t space = memory_.size();
    return static_cast<char*>(std::align(kLine, size_, data, space));
  }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kLine = 64;
  size_t size_;
  std::vector<char> memory_;
};

class Workspace final : public Resource {
 public:
  ResourceRequest request() const override { return {ResourceRequest::Type::kTempSpace}; }
  Device device() const override { return Device::Cpu(); }
  void* GetSpaceBytes(int64_t size_bytes) override {
    spaces_.push_back(std::make_unique<AlignedBytes>(size_bytes));
    return spaces_.back()->data();
  }
  PhiloxState* GetRandomState() override { return nullptr; }

 private:
  std::vector<std::unique_ptr<AlignedBytes>> spaces_;
};

/// Counts the elements that it takes, compares them with what is expected, and destroys them.
class Destroyer final : public Epilogue {
 public:
  Destroyer(const TBlob& output, const char* expected)
      : data_(static_cast<char*>(output.dptr_)),
        expected_(expected),
        size_(static_cast<size_t>(DTypeSizeBytes(output.type_flag_))),
        counts_(static_cast<size_t>(output.Size())) {}

  void Run(const ElementSegments& elements) const override {
    for (index_t s = 0; s < elements.count; ++s) {
      for (index_t i = 0; i < elements.run; ++i) {
        const auto at = static_cast<size_t>(elements.first + s * elements.stride + i);
        if (at >= counts_.size()) {
          ++wrong_;
          continue;
        }
        ++counts_[at];
        if (std::memcmp(data_ + at * size_, expected_ + at * size_, size_) != 0) ++wrong_;
        std::memset(data_ + at * size_, kDestroyed, size_);
      }
    }
  }

  void Check() const {
    EXPECT_EQ(wrong_, 0) << "elements were not complete, or are none of the output's";
    const auto other = std::find_if(counts_.begin(), counts_.end(),
                                    [](const std::atomic<int>& count) { return count != 1; });
    EXPECT_EQ(other, counts_.end()) << "element " << other - counts_.begin() << " of "
                                    << counts_.size() << " was taken " << other->load() << " times";
    for (size_t i = 0; i < counts_.size() * size_; ++i) {
      ASSERT_EQ(data_[i], kDestroyed) << "byte " << i << " was written again";
    }
  }

 private:
  static constexpr char kDestroyed = 0x55;
  char* const data_;
  const char* const expected_;
  const size_t size_;
  mutable std::vector<std::atomic<int>> counts_;
  mutable std::atomic<int> wrong_ = 0;
};

struct Case {
  std::string op;
  ParameterMap parameters;
  std::vector<TShape> shapes;  ///< of the first inputs
  std::string implementation = "";
  bool is_train = false;
};

/// An operator with arguments of one type.
class Call {
 public:
  Call(const Case& test, DType dtype)
      : test_(test), property_(OperatorRegistry::Get().Create(test.op, test.parameters)) {
    in_shapes_.resize(property_->ListArguments().size());
    out_shapes_.resize(property_->ListOutputs().size());
    std::copy(test.shapes.begin(), test.shapes.end(), in_shapes_.begin());
    EXPECT_TRUE(property_->InferShape(&in_shapes_, &out_shapes_));
    in_types_.assign(in_shapes_.size(), DType::kUnknown);
    out_types_.assign(out_shapes_.size(), DType::kUnknown);
    in_types_[0] = dtype;
    EXPECT_TRUE(property_->InferType(&in_types_, &out_types_));
    op_ =
        property_->CreateImplementation(test.implementation, Device::Cpu(), in_shapes_, in_types_);
    std::mt19937 random(5);
    forms_.reserve(in_shapes_.size());  // prepared_ points into it
    for (size_t i = 0; i < in_shapes_.size(); ++i) {
      inputs_.push_back(Random(in_shapes_[i], in_types_[i], &random));
      const PreparedForm form =
          op_->InputForm(static_cast<int>(i), Device::Cpu(), in_shapes_, in_types_);
      forms_.emplace_back(form.size_bytes);
      if (form.size_bytes > 0) {
        form.make({}, Blob(inputs_[i], in_shapes_[i], in_types_[i]), forms_[i].data());
      }
      prepared_.push_back(form.size_bytes > 0 ? forms_[i].data() : nullptr);
    }
    for (size_t i = 0; i < out_shapes_.size(); ++i) {
      outputs_.push_back(Random(out_shapes_[i], out_types_[i], &random));
    }
  }

  const Operator& op() const { return *op_; }
  bool has_forms() const {
    return std::any_of(prepared_.begin(), prepared_.end(),
                       [](const void* form) { return form != nullptr; });
  }

  /// Runs the operator without and with an epilogue.
  void Check(OpReqType req, bool is_prepared) const {
    const std::vector<AlignedBytes> expected = outputs_, actual = outputs_;
    Run(req, is_prepared, expected, nullptr);
    const TBlob output = Blob(actual[0], out_shapes_[0], out_types_[0]);
    const Destroyer epilogue(output, expected[0].data());
    Run(req, is_prepared, actual, &epilogue);
    epilogue.Check();
    for (size_t i = 1; i < actual.size(); ++i) {
      EXPECT_EQ(std::memcmp(actual[i].data(), expected[i].data(), actual[i].size()), 0)
          << "output " << i;
    }
  }

 private:
  static AlignedBytes Random(const TShape& shape, DType dtype, std::mt19937* random) {
    std::uniform_real_distribution<double> uniform(0.1, 1);
    ops_testing::Values values(shape);
    for (double& value : values.data) value = uniform(*random);
    const ops_testing::Bytes encoded = ops_testing::Encode(values, dtype);
    AlignedBytes bytes(static_cast<int64_t>(encoded.size()));
    if (!encoded.empty()) std::memcpy(bytes.data(), encoded.data(), encoded.size());
    return bytes;
  }
  static TBlob Blob(const AlignedBytes& bytes, const TShape& shape, DType dtype) {
    return TBlob(bytes.data(), shape, dtype, Device::Cpu());
  }

  void Run(OpReqType req, bool is_prepared, const std::vector<AlignedBytes>& outputs,
           const Epilogue* epilogue) const {
    const std::vector<AlignedBytes> inputs = inputs_;  // some may be changed
    std::vector<TBlob> in_data, out_data;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in_data.push_back(Blob(inputs[i], in_shapes_[i], in_types_[i]));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      out_data.push_back(Blob(outputs[i], out_shapes_[i], out_types_[i]));
    }
    std::vector<OpReqType> requests(outputs.size(), kWriteTo);
    requests[0] = req;
    requests.insert(requests.end(), property_->MutatedInputs().size(), kWriteInplace);
    std::vector<Workspace> spaces(property_->ForwardResource(in_shapes_).size());
    std::vector<Resource*> resources;
    for (Workspace& space : spaces) resources.push_back(&space);
    OpContext context{.is_train = test_.is_train, .requested = resources, .epilogue = epilogue};
    if (is_prepared) context.prepared = prepared_;
    op_->Forward(context, in_data, requests, out_data);
  }

  const Case& test_;
  const std::unique_ptr<OperatorProperty> property_;
  std::unique_ptr<Operator> op_;
  std::vector<TShape> in_shapes_, out_shapes_;
  std::vector<DType> in_types_, out_types_;
  std::vector<AlignedBytes> inputs_, outputs_, forms_;
  std::vector<const void*> prepared_;  // by input
};

Case Convolution(const TShape& data, int filters, const std::string& kernel,
                 ParameterMap parameters = {}, const std::string& implementation = "native") {
  parameters["num_filter"] = std::to_string(filters);
  parameters["kernel"] = kernel;
  return {.op = "Convolution",
          .parameters = parameters,
          .shapes = {data},
          .implementation = implementation};
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      Convolution({2, 5, 13, 11}, 7, "(3, 3)", {{"pad", "(1, 1)"}}),
      Convolution({2, 5, 13, 11}, 7, "(3, 3)", {{"stride", "(2, 2)"}, {"no_bias", "True"}}),
      Convolution({2, 4, 13, 17}, 6, "(3, 2)", {{"dilate", "(2, 1)"}, {"num_group", "2"}}),
      Convolution({1, 16, 40, 41}, 48, "(3, 3)", {{"pad", "(1, 1)"}}),  // several pieces
      Convolution({2, 8, 45, 45}, 70, "(1, 1)", {}),                    // the image itself
      Convolution({1, 8, 45, 45}, 9, "(1, 1)", {{"no_bias", "True"}}),  // few filters
      Convolution({7, 6, 5, 4}, 9, "(1, 1)", {}),                       // images share a product
      Convolution({7, 36, 7, 7}, 8, "(3, 3)", {{"num_group", "2"}}),    // and have groups
      Convolution({1, 2, 3, 3}, 3, "(3, 3)", {}),                       // one position
      Convolution({2, 6, 20, 9}, 6, "(3, 3)", {{"num_group", "6"}}),    // depthwise
      Convolution({2, 6, 21, 30}, 10, "(3, 3)", {{"num_group", "2"}}),  // few channels a group
      Convolution({2, 6, 20, 40}, 12, "(3, 3)", {{"num_group", "6"}, {"dilate", "(2, 2)"}}),
      Convolution({2, 3, 29}, 5, "(4,)", {{"stride", "(3,)"}}),
      Convolution({2, 3, 5, 6, 7}, 4, "(2, 3, 2)", {{"pad", "(1, 0, 1)"}}),
      Convolution({3, 32, 9, 11}, 33, "(3, 3)", {{"pad", "(1, 1)"}}, "winograd"),
      Convolution({1, 40, 61, 58}, 64, "(3, 3)", {{"no_bias", "True"}}, "winograd"),
      Convolution({30, 32, 7, 7}, 100, "(3, 3)", {{"pad", "(1, 1)"}}, "winograd"),
  };
  const auto add = [&cases](const std::string& op, const ParameterMap& parameters,
                            const std::vector<TShape>& shapes) {
    cases.push_back({.op = op, .parameters = parameters, .shapes = shapes});
  };
  add("FullyConnected", {{"num_hidden", "200"}}, {{5, 300}});
  add("FullyConnected", {{"num_hidden", "3"}, {"no_bias", "True"}}, {{130, 7}});
  add("FullyConnected", {{"num_hidden", "500"}, {"flatten", "False"}}, {{3, 70, 64}});
  add("FullyConnected", {{"num_hidden", "1"}}, {{1, 20}});
  add("dot", {}, {{33, 40}, {40, 300}});
  add("dot", {}, {{40}, {40}});
  add("batch_dot", {{"transpose_b", "True"}}, {{6, 20, 8}, {6, 30, 8}});
  add("_contrib_interleaved_matmul_selfatt_qk", {{"heads", "2"}}, {{20, 3, 48}});
  add("_contrib_interleaved_matmul_encdec_qk", {{"heads", "2"}}, {{20, 3, 16}, {70, 3, 32}});
  for (const bool is_train : {true, false}) {
    for (const TShape& shape : {TShape{3, 4, 12, 12}, TShape{1, 3, 200}}) {
      add("BatchNorm", {{"fix_gamma", "False"}}, {shape});
      cases.back().is_train = is_train;
    }
  }
  return cases;
}

TEST(EpilogueTest, TakesEachElementOnceWhenItIsComplete) {
  int num_prepared = 0;
  for (const Case& test : Cases()) {
    for (const DType dtype : kTypes) {
      if (test.implementation == "winograd" && dtype != DType::kFloat32) continue;
      const Call call(test, dtype);
      ASSERT_TRUE(call.op().RunsEpilogue());
      for (const OpReqType req : {kWriteTo, kAddTo}) {
        for (const int threads : {1, 4}) {
          for (const bool is_prepared : {false, true}) {
            if (is_prepared && !call.has_forms()) continue;
            SCOPED_TRACE(testing::Message()
                         << test.op << " of " << test.shapes[0] << ", " << dtype << ", "
                         << test.implementation << (req == kAddTo ? ", added" : "")
                         << (is_prepared ? ", prepared" : "") << ", threads " << threads);
            tbb::task_arena(threads).execute([&] { call.Check(req, is_prepared); });
            if (testing::Test::HasFailure()) return;
            num_prepared += is_prepared ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(num_prepared, 0);
}

TEST(EpilogueTest, ShortPiecesOfChannelsAreNotWorthIt) {
  const Case test = {.op = "BatchNorm", .parameters = {}, .shapes = {{8, 4, 7, 7}}};
  EXPECT_FALSE(Call(test, DType::kFloat32).op().RunsEpilogue());
}

}  // namespace
}  // namespace tessera
