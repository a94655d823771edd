// What mshadow's headers promise beyond what the programs in tests/mshadow_programs show.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "mshadow/tensor.h"

// Names that a program may have: they must not meet those of Tessera.
struct relu {
  MSHADOW_XINLINE static float Map(float a) { return a > 0.0f ? a : 0.0f; }
};
struct Device {
  int number;
};
struct Error {};
enum class DType { kMine };
static float limit = 2.0f;

using namespace mshadow;        // NOLINT: what such programs do
using namespace mshadow::expr;  // NOLINT

// Operators call kernels that a file included later adds to the namespace.
template <typename xpu>
void CallsWhatIsAddedLater(Tensor<xpu, 1> v) {
  AddedLater(v);
}

// A program may add to the namespace, and to mshadow's own inside it.
namespace mshadow {
inline void AddedLater(Tensor<cpu, 1> v) { v = 7.0f; }
namespace op {
struct twice {
  template <typename T>
  MSHADOW_XINLINE static T Map(T a) {
    return a + a;
  }
};
}  // namespace op
inline Shape<2> Turned(const Shape<2>& shape) { return Shape2(shape[1], shape[0]); }
}  // namespace mshadow

namespace {

static_assert(std::is_same_v<Tensor<cpu, 2>, Tensor<cpu, 2, default_real_t>>);
static_assert(cpu::kDevCPU && !gpu::kDevCPU && cpu::kDevMask == 1 && gpu::kDevMask == 2);
static_assert(MSHADOW_USE_CUDA == 0 && MSHADOW_USE_CBLAS == 0 && MSHADOW_IN_CXX11);
static_assert(DataType<half::half_t>::kFlag == kFloat16 && DataType<int64_t>::kFlag == kInt64);
static_assert(LayoutType<kNCHW>::kNdim == 4 && LayoutType<kCDHWN>::kNdim == 5);
static_assert(sizeof(index_t) == 8);

/// A template over the device compiles for a gpu without CUDA as long as it allocates nothing.
template <typename xpu>
struct Layer {
  Tensor<xpu, 2> weight;
  TBlob blob;
  Stream<xpu>* stream = nullptr;
  int mask() const { return xpu::kDevMask; }
  void Resize(Shape<4> shape) { TensorContainer<xpu, 4>().Resize(shape); }
};

// Functions on tensors such as programs write, under names that Tessera has as well.
float sum(const Tensor<cpu, 1>& v) { return v[0] + 1000.0f; }
void clamp(Tensor<cpu, 1> v, float low, float high) { v = low + high; }
template <int dim, typename DType>
int norm(const Tensor<cpu, dim, DType>&) {
  return dim;
}
template <typename E>
int mean(const E&) {
  return -1;
}
void tanh(Tensor<cpu, 1>& v) { v += 5.0f; }
template <typename xpu>
void Assign(Tensor<xpu, 1> v, const Tensor<xpu, 1>& w) {
  v = w + 100.0f;
}
int max(const Tensor<cpu, 1>&, const Tensor<cpu, 1>&) { return 7; }

template <typename Function>
std::string MessageOf(Function function) {
  try {
    function();
  } catch (const dmlc::Error& error) {
    return error.what();
  }
  return "";
}

TEST(MshadowTest, NamesOfAProgramDoNotMeetTesseras) {
  const Device device{3};
  const DType type = DType::kMine;
  EXPECT_EQ(device.number, 3);
  EXPECT_EQ(type, DType::kMine);
  EXPECT_THROW(throw Error(), Error);
  TensorContainer<cpu, 1> a(Shape1(2), -1.0f);
  a[1] = limit;
  a = F<relu>(F<op::twice>(a));
  EXPECT_EQ(a[0], 0.0f);
  EXPECT_EQ(a[1], 4.0f);
  EXPECT_EQ(Turned(Shape2(2, 3)), Shape2(3, 2));
}

TEST(MshadowTest, FunctionsOfAProgramComeBeforeTesseras) {
  TensorContainer<cpu, 1> container(Shape1(3), 2.0f);
  Tensor<cpu, 1> handle = container;
  EXPECT_EQ(sum(container), 1002.0f);
  EXPECT_EQ(sum(handle), 1002.0f);
  EXPECT_EQ(norm(container) + norm(handle), 2);
  EXPECT_EQ(mean(container) + mean(handle), -2);
  EXPECT_EQ(max(container, container) + max(handle, container), 14);
  tanh(container);
  EXPECT_EQ(container[1], 7.0f);
  clamp(container, -1.0f, 4.0f);
  EXPECT_EQ(container[2], 3.0f);
  Assign<cpu>(container, handle);
  EXPECT_EQ(container[0], 103.0f);
}

TEST(MshadowTest, PoolTakesTheArgumentsOfEveryYear) {
  TensorContainer<cpu, 4> image(Shape4(2, 1, 4, 6)), pooled(Shape4(2, 1, 2, 3)), other;
  for (index_t i = 0; i < image.MSize(); ++i) image.dptr_[i] = static_cast<float>(i % 11);
  const Shape<2> positions = pooled[0][0].shape_;
  pooled = pool<red::maximum>(image, positions, 2, 2, 2, 2);
  for (int form = 0; form < 5; ++form) {
    other.Resize(pooled.shape_, -1.0f);
    switch (form) {
      case 0:
        other = pool<red::maximum>(image, positions, 2, 2);
        break;
      case 1:
        other = pool<red::maximum>(image, positions, 2, 2, 2);
        break;
      case 2:
        other = pool<red::maximum>(image, 2, 2);
        break;
      case 3:
        other = pool<red::maximum>(image, 2, 2, 2);
        break;
      default:
        other = pool<red::maximum>(image, 2, 2, 2, 2);
    }
    for (index_t i = 0; i < pooled.MSize(); ++i) {
      EXPECT_EQ(other.dptr_[i], pooled.dptr_[i]) << form << " " << i;
    }
  }
}

TEST(MshadowTest, ChpoolWithStrideHasMshadowsShape) {
  const TensorContainer<cpu, 4> image(Shape4(2, 12, 1, 2), 1.0f);
  struct Case {
    index_t size, stride, pad, windows;
  };
  for (const Case& c : {Case{3, 3, 0, 3},
                        {4, 2, 1, 5},
                        {3, 2, 0, 5},
                        {3, 1, 1, 12},
                        {12, 1, 0, 1},
                        {5, 4, 2, 3},
                        {4, 3, 0, 3}}) {
    TensorContainer<cpu, 4> pooled, grad(image.shape_);
    pooled = chpool<red::sum>(image, c.size, c.stride, c.pad);
    EXPECT_EQ(pooled.shape_, Shape4(2, c.windows, 1, 2)) << c.size << " " << c.stride;
    // Each window holds the channels that it covers, and gets its gradient back.
    float covered = 0.0f;
    for (index_t w = 0; w < c.windows; ++w) {
      const index_t begin = std::max<index_t>(w * c.stride - c.pad, 0);
      const index_t end = std::min<index_t>(w * c.stride - c.pad + c.size, 12);
      EXPECT_EQ(pooled[1][w][0][1], static_cast<float>(end - begin));
      covered += static_cast<float>((end - begin) * (end - begin));
    }
    grad = ch_unpool<red::sum>(image, pooled, pooled, c.size, c.stride, c.pad);
    float sum = 0.0f;
    for (index_t k = 0; k < 12; ++k) sum += grad[1][k][0][1];
    EXPECT_EQ(sum, covered);
  }
  // Tessera's own counts every window that fits.
  EXPECT_EQ(tessera::chpool<red::sum>(image, 3, 3, 0).shape(), Shape4(2, 4, 1, 2));
  EXPECT_EQ(chpool<red::sum>(image * 2.0f, 3, 3, 0).shape(), Shape4(2, 3, 1, 2));
  EXPECT_EQ(chpool<red::sum>(image, 3).shape(), image.shape_);
  EXPECT_NE(MessageOf([&] { chpool<red::sum>(image, 12, 2, 0); }).find("1 / 2"), std::string::npos);
  EXPECT_NE(MessageOf([&] { chpool<red::sum>(image, 13, 1, 0); }), "");
  EXPECT_NE(MessageOf([&] { chpool<red::sum>(image, 3, 0, 0); }), "");
}

TEST(MshadowTest, AGpuIsATypeInEveryBuild) {
  EXPECT_EQ(Layer<gpu>().mask(), 2);
  EXPECT_EQ(Layer<cpu>().mask(), 1);
}

TEST(MshadowTest, StreamsComeInEveryForm) {
  for (Stream<cpu>* stream : {NewStream<cpu>(), NewStream<cpu>(0), NewStream<cpu>(true, false),
                              NewStream<cpu>(false, true, -1)}) {
    stream->Wait();
    EXPECT_TRUE(stream->CheckIdle());
    stream->CreateBlasHandle();
    stream->DestroyBlasHandle();
    DeleteStream(stream);
  }
  InitTensorEngine<cpu>(0);
  InitTensorEngine<cpu>();
  InitTensorEngine();
  ShutdownTensorEngine();
  ShutdownTensorEngine<cpu>();
}

TEST(MshadowTest, SaversAndReducersWorkByHandInEveryForm) {
  float a = 2.0f, residual = 9.0f;
  sv::plusto::Save(a, 3.0f);
  EXPECT_EQ(a, 5.0f);
  sv::saveto::Save(a, 1.0f);
  EXPECT_EQ(a, 1.0f);
  volatile float b;
  volatile const float c = 4.0f;
  red::sum::SetInitValue(b);
  red::sum::Reduce(b, c);
  EXPECT_EQ(b, 4.0f);
  red::sum::SetInitValue(a, residual);
  red::sum::Reduce(a, 7.0f, residual);
  red::sum::Finalize(a, residual);
  EXPECT_EQ(a, 7.0f);
  EXPECT_EQ(residual, 0.0f);
  volatile half::half_t h, half_one;
  half_one = 1.0f;
  red::maximum::SetInitValue(h);
  red::maximum::Reduce(h, half_one);
  EXPECT_EQ(static_cast<float>(h), 1.0f);
}

// A program's own reducer and saver, which combine in place.
struct Product {
  template <typename DType>
  MSHADOW_XINLINE static void Reduce(volatile DType& dst, DType src) {  // NOLINT
    dst = dst * src;
  }
  template <typename DType>
  MSHADOW_XINLINE static void SetInitValue(DType& value) {  // NOLINT
    value = 1;
  }
};
struct MaxTo {
  template <typename DType>
  MSHADOW_XINLINE static void Save(DType& a, DType b) {  // NOLINT
    if (b > a) a = b;
  }
};

TEST(MshadowTest, AProgramsReducersAndSaversAreTaken) {
  TensorContainer<cpu, 2> a(Shape2(2, 3), 2.0f);
  TensorContainer<cpu, 1> products(Shape1(2), 0.0f);
  products = expr::reduce_except_dim<0, Product>(a);
  EXPECT_EQ(products[0], 8.0f);
  a[0][0] = 5.0f;
  TensorContainer<cpu, 2> b(Shape2(2, 3), 3.0f);
  MapExp<MaxTo>(&b, a * 1.0f);
  EXPECT_EQ(b[0][0], 5.0f);
  EXPECT_EQ(b[0][1], 3.0f);
  EXPECT_EQ(sv::minusto::AlphaBLAS(), -1.0f);
  EXPECT_EQ(sv::saveto::BetaBLAS(), 0.0f);
}

TEST(MshadowTest, ATensorAssignedFromAContainerIsItsHandle) {
  TensorContainer<cpu, 2> c(Shape2(3, 4), 1.0f), d(Shape2(3, 4), 5.0f);
  Tensor<cpu, 2> t;
  t = c;
  EXPECT_EQ(t.dptr_, c.dptr_);
  t = d;
  EXPECT_EQ(t.dptr_, d.dptr_);
  EXPECT_EQ(c[0][0], 1.0f);
}

TEST(MshadowTest, FunctionsAddedToTheNamespaceLaterAreFound) {
  TensorContainer<cpu, 1> c(Shape1(3), 0.0f);
  CallsWhatIsAddedLater<cpu>(c);
  EXPECT_EQ(c[2], 7.0f);
}

TEST(MshadowTest, SmoothedGradientsOfImagesShareTheRest) {
  TensorContainer<cpu, 3> p(Shape3(1, 3, 2), 0.5f), g(Shape3(1, 3, 2), 0.0f);
  TensorContainer<cpu, 2> label(Shape2(1, 2), 1.0f);
  SmoothSoftmaxGrad(g, p, label, 0.2f);
  EXPECT_NEAR(g[0][1][0], 0.5f - 0.8f, 1e-6);
  EXPECT_NEAR(g[0][0][1], 0.5f - 0.1f, 1e-6);
  label[0][1] = 9.0f;
  SmoothSoftmaxGrad(g, p, label, 9, 0.2f);
  EXPECT_EQ(g[0][0][1], 0.0f);
  EXPECT_NEAR(g[0][1][0], 0.5f - 0.8f, 1e-6);
}

TEST(MshadowTest, EnumeratorsAreNumbers) {
  enum { kIgnored = -1, kWindow = 3 };
  TensorContainer<cpu, 1> a(Shape1(2)), b(Shape1(2));
  a = kWindow;
  b = kIgnored;
  b += a * kWindow + kIgnored;
  EXPECT_EQ(b[1], 7.0f);
  b = F<op::minus>(a, kIgnored) / kWindow;
  EXPECT_FLOAT_EQ(b[0], 4.0f / 3.0f);
  TensorContainer<cpu, 1, half::half_t> h(Shape1(2));
  h = kWindow;
  h = h * kWindow + kIgnored;
  EXPECT_EQ(static_cast<float>(h[1]), 8.0f);
}

TEST(MshadowTest, HalfNumbersStayHalfBesideNumbers) {
  half::half_t h(3.0f);
  h = 0.5f;
  auto product = 2.0f * h;
  static_assert(std::is_same_v<decltype(product), half::half_t>);
  EXPECT_EQ(static_cast<float>(product), 1.0f);
  EXPECT_EQ(MSHADOW_HALF_MIN, red::limits::MinValue<half::half_t>());
  EXPECT_EQ(MSHADOW_HALF_MAX, red::limits::MaxValue<half::half_t>());
  EXPECT_EQ(MSHADOW_BF16_MIN, red::limits::MinValue<bfloat::bf16_t>());
  EXPECT_EQ(MSHADOW_BF16_MAX, red::limits::MaxValue<bfloat::bf16_t>());
}

TEST(MshadowTest, PairsOfHalvesAreComputedEachForItself) {
  using half::half2_t;
  using half::half_t;
  static_assert(sizeof(half2_t) == 4 && alignof(half2_t) == 4);
  static_assert(DataType<half2_t>::kFlag == kFloat16 && DataType<half2_t>::kLanes == 2);
  const half2_t a(half_t(1.5f), half_t(-2.0f)), two(2);
  half2_t b;
  b = 0.5f;
  EXPECT_EQ(a * two + b - 1.0f, half2_t(half_t(2.5f), half_t(-4.5f)));
  EXPECT_EQ(2.0f / two, half2_t(half_t(1)));
  EXPECT_EQ(-(+a), half2_t(half_t(-1.5f), half_t(2.0f)));
  EXPECT_FALSE(a == -a);
  b += a;
  b -= half_t(1);
  b *= 2;
  b /= two;
  EXPECT_EQ(b, half2_t(half_t(1), half_t(-2.5f)));
  // As elements of a tensor, and as those of a blob of halves.
  TensorContainer<cpu, 1, half2_t> v(Shape1(3), a), w(Shape1(3), two);
  v = v * w + F<op::minus>(w, v);
  v *= 2.0f;
  v += b;
  EXPECT_EQ(v[2], half2_t(half_t(8), half_t(-2.5f)));
  const TBlob blob(&v[0].half_t2[0], Shape1(6), cpu::kDevMask);
  EXPECT_EQ(blob.dptr<half2_t>(), v.dptr_);
  EXPECT_EQ(blob.dptr<half_t>()[5], half_t(-2.5f));
  const TBlob floats(static_cast<float*>(nullptr), Shape1(0), cpu::kDevMask);
  EXPECT_NE(MessageOf([&] { floats.dptr<half2_t>(); }).find("float16"), std::string::npos);
}

template <packet::PacketArch Arch, typename DType>
void ExpectPackets() {
  using P = packet::Packet<DType, Arch>;
  static_assert(P::kSize == (Arch == packet::kPlain ? 1 : 16 / sizeof(DType)) &&
                P::size == P::kSize);
  constexpr index_t kCount = 2 * P::kSize;
  DType a[kCount], out[kCount];
  for (index_t i = 0; i < kCount; ++i) a[i] = static_cast<DType>(i + 1);
  for (index_t i = 0; i < kCount; i += P::kSize) {
    P two;
    two = DType(2);
    P p = packet::PacketOp<op::mul, DType, Arch>::Map(P::Load(a + i), two);
    p = packet::PacketOp<op::plus, DType, Arch>::Map(p, P::Fill(DType(3)));
    p = packet::PacketOp<op::minus, DType, Arch>::Map(p, P::LoadUnAligned(a + i));
    p = packet::PacketOp<op::div, DType, Arch>::Map(p, two);
    packet::PacketOp<op::identity, DType, Arch>::Map(p).Store(out + i);
    DType sum = 0;
    for (index_t k = 0; k < P::kSize; ++k) sum += out[i + k];
    EXPECT_EQ(p.Sum(), sum);
  }
  for (index_t i = 0; i < kCount; ++i) EXPECT_EQ(out[i], (a[i] + DType(3)) / DType(2)) << i;
  EXPECT_EQ((packet::UpperAlign<DType, Arch>(5) % P::kSize), 0);
  EXPECT_GE((packet::UpperAlign<DType, Arch>(5)), 5);
  EXPECT_EQ((packet::LowerAlign<DType, Arch>(5)), 5 / P::kSize * P::kSize);
  size_t pitch = 0;
  void* const lines = packet::AlignedMallocPitch(&pitch, 5 * sizeof(float), 3);
  std::memset(lines, 1, 3 * pitch);
  EXPECT_EQ(pitch, 32u);
  EXPECT_TRUE(packet::CheckAlign<Arch>(pitch) && packet::CheckAlign<Arch>(lines));
  EXPECT_FALSE(packet::CheckAlign<Arch>(static_cast<size_t>(packet::AlignBytes<Arch>::value + 1)));
  packet::AlignedFree(lines);
  static_assert(!packet::PacketOp<relu, DType, Arch>::kEnabled);
}

TEST(MshadowTest, PacketsComputeElementByElement) {
  ExpectPackets<packet::kPlain, float>();
  ExpectPackets<packet::kSSE2, float>();
  ExpectPackets<MSHADOW_DEFAULT_PACKET, double>();
  ExpectPackets<packet::kSSE2, double>();
  size_t pitch = 0;
  EXPECT_THROW(packet::AlignedMallocPitch(&pitch, ~size_t{0} - 4, 2), std::bad_alloc);
}

TEST(MshadowTest, ContainersCopyTheirElements) {
  TensorContainer<cpu, 2> a(Shape2(2, 3), 1.0f), b;
  const std::vector<TensorContainer<cpu, 2>> several(3, a);
  b = several[2];
  b += 1.0f;
  EXPECT_EQ(several[2][1][2], 1.0f);
  EXPECT_EQ(b[1][2], 2.0f);
  a = std::move(b);
  EXPECT_EQ(a[1][2], 2.0f);
  const Tensor<cpu, 2>& handle = a;
  b = handle;
  EXPECT_NE(b.dptr_, a.dptr_);
  b = a * 2.0f + handle;
  EXPECT_EQ(b[0][0], 6.0f);
  b = 0;
  EXPECT_EQ(b.shape_, Shape2(2, 3));
  EXPECT_EQ(b[0][0], 0.0f);
}

TEST(MshadowTest, ShapesThatDifferThrow) {
  TensorContainer<cpu, 2> a(Shape2(2, 3)), b(Shape2(3, 2));
  const std::string message = MessageOf([&] { static_cast<Tensor<cpu, 2>&>(a) = b + 1.0f; });
  EXPECT_NE(message.find("(2,3)"), std::string::npos) << message;
  EXPECT_NE(message.find("(3,2)"), std::string::npos) << message;
}

class Bytes : public utils::IStream {
 public:
  size_t Read(void* ptr, size_t size) override {
    const size_t count = std::min(size, text.size() - at);
    std::memcpy(ptr, text.data() + at, count);
    at += count;
    return count;
  }
  void Write(const void* ptr, size_t size) override {
    text.append(static_cast<const char*>(ptr), size);
  }
  std::string text;
  size_t at = 0;
};

TEST(MshadowIoTest, FilesHoldExtentsOf32BitsAndRowsWithoutPadding) {
  Tensor<cpu, 2, int16_t> t = NewTensor<cpu>(Shape2(2, 3), static_cast<int16_t>(0x0102), true);
  Bytes bytes;
  SaveBinary(bytes, t);
  EXPECT_EQ(bytes.text.size(), 2 * sizeof(uint32_t) + 6 * sizeof(int16_t));
  EXPECT_EQ(bytes.text[0], 2);
  EXPECT_EQ(bytes.text[4], 3);
  t = static_cast<int16_t>(0);
  LoadBinary(bytes, &t, true);
  EXPECT_EQ(t[1][2], 0x0102);
  FreeSpace(&t);
}

TEST(MshadowIoTest, FilesOfTheProgramAreStreams) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  utils::FileStream stream(file);
  TensorContainer<cpu, 2> a(Shape2(2, 3), 1.5f), b(Shape2(2, 3), 0.0f);
  SaveBinary(stream, a);
  std::rewind(file);
  LoadBinary(stream, b, true);
  EXPECT_EQ(b[1][2], 1.5f);
  std::fclose(file);
}

// Streams of programs, which return the number of bytes, 1 for "done", or anything else.
template <typename Count>
struct Stream2014 {
  explicit Stream2014(Bytes* bytes, int64_t returns = 1) : bytes_(bytes), returns_(returns) {}
  Count Read(void* ptr, size_t size) {
    const bool done = bytes_->Read(ptr, size) == size;
    return static_cast<Count>(done ? returns_ : 0);
  }
  Bytes* bytes_;
  int64_t returns_;
};

TEST(MshadowIoTest, StreamsMayReturnOneForDone) {
  TensorContainer<cpu, 2> a(Shape2(2, 3), 1.5f), b, c(Shape2(2, 3), 0.0f);
  Bytes bytes;
  a.SaveBinary(bytes);
  TShape(a.shape_).Save(&bytes);
  TShape shape;
  const auto load = [&](auto in) {
    bytes.at = 0;
    b.Release();
    b.LoadBinary(in);
    EXPECT_EQ(b[1][2], 1.5f);
    ASSERT_TRUE(shape.Load(&in));
    EXPECT_EQ(shape, a.shape_);
    c = 0.0f;
    bytes.at = 0;
    LoadBinary(in, &c, true);
    EXPECT_EQ(c[1][2], 1.5f);
  };
  load(Stream2014<bool>(&bytes));
  load(Stream2014<int>(&bytes));
  load(Stream2014<size_t>(&bytes));
}

TEST(MshadowIoTest, AnythingElseThatAStreamReturnsIsAnError) {
  TensorContainer<cpu, 2> a(Shape2(2, 3), 1.0f), b;
  Bytes whole;
  a.SaveBinary(whole);
  const auto message = [&](auto in) { return MessageOf([&] { b.LoadBinary(in); }); };
  for (const int64_t returns : {-1, 2, 1000}) {
    whole.at = 0;
    EXPECT_NE(message(Stream2014<int>(&whole, returns)), "") << returns;
    whole.at = 0;
    TShape shape;
    Stream2014<int> in(&whole, returns);
    EXPECT_FALSE(shape.Load(&in)) << returns;
  }
  // A file that ends anywhere, also after one byte, for streams of both kinds.
  for (size_t length = 0; length < whole.text.size(); ++length) {
    Bytes cut = whole;
    cut.text.resize(length);
    cut.at = 0;
    EXPECT_NE(message(cut).find("ends after"), std::string::npos) << length;
    EXPECT_NE(message(Stream2014<bool>(&cut)).find("ends after"), std::string::npos) << length;
    TShape shape;
    Bytes three;
    TShape(Shape3(1, 0, 0)).Save(&three);
    three.text.resize(std::min<size_t>(length, three.text.size() - 1));
    EXPECT_FALSE(shape.Load(&three)) << length;
  }
}

TEST(MshadowIoTest, DamagedFilesAndOtherShapesThrow) {
  TensorContainer<cpu, 2> a(Shape2(2, 3), 1.0f), b(Shape2(3, 2));
  Bytes bytes;
  a.SaveBinary(bytes);
  Bytes cut = bytes;
  cut.text.resize(20);
  EXPECT_NE(MessageOf([&] { b.LoadBinary(cut); }).find("ends after"), std::string::npos);
  Bytes nothing;
  EXPECT_NE(MessageOf([&] { b.LoadBinary(nothing); }).find("ends after"), std::string::npos);
  Tensor<cpu, 2>* const other = &b;
  b.Resize(Shape2(3, 2));
  const std::string message = MessageOf([&] { LoadBinary(bytes, other, true); });
  EXPECT_NE(message.find("(2,3)"), std::string::npos) << message;
  EXPECT_NE(message.find("(3,2)"), std::string::npos) << message;
}

TEST(MshadowChecksTest, FailedChecksThrowAndShowBothSides) {
  CHECK(true) << "not shown";
  CHECK_EQ(1 + 1, 2);
  const std::string message = MessageOf([] { CHECK_LE(3, 2) << "of elements"; });
  EXPECT_NE(message.find("3 <= 2"), std::string::npos) << message;
  EXPECT_NE(message.find("3 vs. 2"), std::string::npos) << message;
  EXPECT_NE(message.find("of elements"), std::string::npos) << message;
  EXPECT_NE(MessageOf([] { LOG(FATAL) << "no " << 5; }).find("no 5"), std::string::npos);
  EXPECT_EQ(MessageOf([] { utils::Check(false, "%d of %s", 3, "x"); }), "3 of x");
  EXPECT_EQ(MessageOf([] { utils::Error("no %s", "file"); }), "no file");
  EXPECT_EQ(MessageOf([] { utils::Assert(true, "fine"); }), "");
  EXPECT_NE(MessageOf([] { utils::FopenCheck("/no/such/file", "r"); }).find("/no/such/file"),
            std::string::npos);
  DCHECK_EQ(1 + 1, 2) << "not shown";
  LOG_IF(FATAL, 1 + 1 == 3) << "not thrown";
  EXPECT_NE(MessageOf([] { LOG_IF(FATAL, true) << "thrown"; }).find("thrown"), std::string::npos);
  int number = 5;
  EXPECT_EQ(CHECK_NOTNULL(&number), &number);
  int* const nothing = nullptr;
  EXPECT_NE(MessageOf([&] { CHECK_NOTNULL(nothing); }).find("nothing"), std::string::npos);
  // A check is one statement, also where an else follows.
  if (limit > 0.0f)
    CHECK(true);
  else
    FAIL();
}

struct Extents {
  static const int kCount = 3;  // which has no address
};
enum class Kind { kFirst, kSecond };

TEST(MshadowChecksTest, WhatIsComparedMayBeOfTwoTypes) {
  const std::vector<float> values(6);
  const Tensor<cpu, 2> t(nullptr, Shape2(2, 3));
  CHECK_EQ(values.size(), t.MSize());
  CHECK_LT(t.size(0), values.size());
  CHECK_EQ(TShape(t.shape_).ndim(), 2U);
  DCHECK_GE(values.size(), t.size(1));
  CHECK_EQ(Extents::kCount, 3);
  CHECK_EQ(std::string("a"), "a");
  const float* const first = values.data();
  CHECK_NE(first, nullptr);
  CHECK_NE(first, NULL);
  CHECK_NE(NULL, first);
  CHECK_NE(std::make_unique<int>(1), NULL);
  EXPECT_NE(MessageOf([&] { CHECK_EQ(first, NULL); }).find("first == "), std::string::npos);
  // What cannot be printed can be compared.
  const std::string message = MessageOf([] { CHECK_EQ(Kind::kFirst, Kind::kSecond) << "kinds"; });
  EXPECT_NE(message.find("kinds"), std::string::npos) << message;
}

// An operator beside the program's checks, and away from its operands.
namespace elsewhere {
struct Version {
  int number;
};
/// Converts to what would compare by itself.
struct Release {
  int number;
  char letter;
  operator int() const { return number; }  // NOLINT: implicit
};
}  // namespace elsewhere
bool operator==(const elsewhere::Release& a, const elsewhere::Release& b) {
  return a.number == b.number && a.letter == b.letter;
}
bool operator==(const elsewhere::Version& a, const elsewhere::Version& b) {
  return a.number == b.number;
}
bool operator<(const elsewhere::Version& a, long b) { return a.number < b; }  // NOLINT: as NULL is

TEST(MshadowChecksTest, ComparisonsFindTheOperatorsOfTheProgram) {
  CHECK_EQ(elsewhere::Version{3}, elsewhere::Version{3});
  CHECK_LT(elsewhere::Version{3}, 4L);
  EXPECT_THROW(CHECK_EQ((elsewhere::Release{1, 'a'}), (elsewhere::Release{1, 'b'})), dmlc::Error);
  const std::string message =
      MessageOf([] { CHECK_EQ(elsewhere::Version{3}, elsewhere::Version{4}); });
  EXPECT_NE(message.find("Version{3} == "), std::string::npos) << message;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wshadow"
TEST(MshadowChecksTest, WhatACheckPrintsMayHoldAnother) {
  const auto described = [](int number) { return "number " + std::to_string(number); };
  const std::string message = MessageOf([&] {
    CHECK_EQ(1, 2) << [&] {
      CHECK_NE(3, 4) << "not shown";
      return described(5);
    }();
  });
  EXPECT_NE(message.find("number 5"), std::string::npos) << message;
}
#pragma GCC diagnostic pop

TEST(MshadowChecksTest, AFailedComparisonHasEvaluatedEachSideOnce) {
  int calls = 0;
  const std::string message = MessageOf([&calls] { CHECK_EQ(++calls, 5); });
  EXPECT_EQ(calls, 1);
  EXPECT_NE(message.find("1 vs. 5"), std::string::npos) << message;
  if (limit < 0.0f)
    CHECK_EQ(calls, 5);
  else
    ++calls;
  EXPECT_EQ(calls, 2);
  for (; calls < 4; ++calls) CHECK_LT(calls, 4);
  EXPECT_EQ(calls, 4);
}

// As dmlc-core's parameters have one.
struct ParameterError : public dmlc::Error {
  explicit ParameterError(const std::string& message) : dmlc::Error(message) {}
};

TEST(MshadowChecksTest, ProgramsThrowAndDeriveErrorsOfDmlc) {
  dmlc::InitLogging("program");
  EXPECT_EQ(MessageOf([] { throw dmlc::Error("mine"); }), "mine");
  EXPECT_EQ(MessageOf([] { throw ParameterError("kernel"); }), "kernel");
  // Tessera's own are among them.
  TensorContainer<cpu, 2> a(Shape2(2, 3), 1.0f), b;
  EXPECT_NE(MessageOf([&] { b = dot(a, a); }).find("(2,3)"), std::string::npos);
  LG << "shown";
  DLOG_IF(FATAL, limit < 0.0f) << "not thrown";
}

TEST(MshadowSwitchTest, EveryTypeHasItsCase) {
  std::vector<size_t> sizes;
  for (int flag : {kFloat32, kFloat64, kFloat16, kUint8, kInt32, kInt8, kInt64}) {
    MSHADOW_TYPE_SWITCH(flag, DType, {
      EXPECT_EQ(DataType<DType>::kFlag, flag);
      sizes.push_back(sizeof(DType));
    });
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{4, 8, 2, 1, 4, 1, 8}));
  for (int flag : {kUint8, kInt8, kInt32, kInt64}) {
    int cases = 0;
    MSHADOW_IDX_TYPE_SWITCH(flag, IType, { cases += DataType<IType>::kFlag == flag ? 1 : 0; });
    MSHADOW_INT_TYPE_SWITCH(flag, IType, { cases += DataType<IType>::kFlag == flag ? 1 : 0; });
    EXPECT_EQ(cases, 2) << flag;
  }
  for (int flag : {kFloat32, kFloat64, kFloat16, kUint8, kInt8, kInt32, kInt64, kBool, kBfloat16}) {
    MSHADOW_TYPE_SWITCH_WITH_BOOL(flag, DType, { EXPECT_EQ(DataType<DType>::kFlag, flag); });
  }
  for (int flag = kFloat32; flag <= kBfloat16; ++flag) {
    int cases = 0;
    MSHADOW_TYPE_SWITCH_EXT_WITH_BOOL(flag, DType,
                                      { cases += DataType<DType>::kFlag == flag ? 1 : 0; });
    if (flag != kBool) {
      MSHADOW_TYPE_SWITCH_EXT(flag, DType, {
        cases += DataType<DType>::kFlag == flag && sizeof(DType) == mshadow_sizeof(flag) ? 1 : 0;
      });
    }
    EXPECT_EQ(cases, flag == kBool ? 1 : 2) << flag;
  }
}

TEST(MshadowSwitchTest, FlagsWithoutACaseAreRefused) {
  const std::string message =
      MessageOf([] { MSHADOW_REAL_TYPE_SWITCH(kInt32, DType, { FAIL() << sizeof(DType); }); });
  EXPECT_NE(message.find("MSHADOW_REAL_TYPE_SWITCH: flag 4"), std::string::npos) << message;
  EXPECT_NE(MessageOf([] { MSHADOW_LAYOUT_SWITCH(99, Layout, { FAIL() << Layout; }); }), "");
  EXPECT_NE(MessageOf([] { MSHADOW_IDX_TYPE_SWITCH(kFloat32, I, { FAIL() << sizeof(I); }); }), "");
  EXPECT_NE(MessageOf([] { MSHADOW_INT_TYPE_SWITCH(kFloat32, I, { FAIL() << sizeof(I); }); }), "");
  // As in 2019: a body need not know these types.
  EXPECT_NE(MessageOf([] { MSHADOW_TYPE_SWITCH(kBfloat16, T, { FAIL() << sizeof(T); }); }), "");
  EXPECT_NE(MessageOf([] { MSHADOW_TYPE_SWITCH(kBool, T, { FAIL() << sizeof(T); }); }), "");
  EXPECT_NE(MessageOf([] { MSHADOW_TYPE_SWITCH_EXT(kBool, T, { FAIL() << sizeof(T); }); }), "");
  EXPECT_NE(MessageOf([] { MSHADOW_TYPE_SWITCH_EXT_WITH_BOOL(13, T, { FAIL() << sizeof(T); }); }),
            "");
}

TEST(MshadowSwitchTest, LayoutsConvertBothWays) {
  const Shape<4> nchw = Shape4(2, 3, 4, 5);
  EXPECT_EQ(ConvertLayout(nchw, kNCHW, kNHWC), Shape4(2, 4, 5, 3));
  EXPECT_EQ(ConvertLayout(nchw, kNCHW, kCHWN), Shape4(3, 4, 5, 2));
  for (int layout : {kNCHW, kNHWC, kCHWN}) {
    EXPECT_EQ(ConvertLayout(ConvertLayout(nchw, kNCHW, layout), layout, kNCHW), nchw);
  }
  EXPECT_EQ(ConvertLayout(Shape5(2, 3, 4, 5, 6), kNCDHW, kNDHWC), Shape5(2, 4, 5, 6, 3));
  EXPECT_EQ(ConvertLayout(Shape3(2, 3, 4), kNCW, kCWN), Shape3(3, 4, 2));
  EXPECT_NE(MessageOf([&] { ConvertLayout(nchw, kNCHW, kNCDHW); }).find("layout 32"),
            std::string::npos);
}

TEST(MshadowShapeTest, RunTimeShapesReadAndCompare) {
  TShape shape, other;
  EXPECT_EQ(shape.ndim(), 0);
  static_assert(std::is_same_v<decltype(shape.ndim()), index_t>);
  const TShape listed = {2, 3, 4};
  EXPECT_TRUE(listed == Shape3(2, 3, 4));
  std::istringstream good("( 2,3 ,4 ) (5,) 6 ()");
  good >> shape;
  EXPECT_TRUE(shape == Shape3(2, 3, 4));
  EXPECT_TRUE(shape != Shape3(2, 3, 5));
  good >> shape >> other;
  EXPECT_TRUE(shape == Shape1(5));
  EXPECT_TRUE(other == Shape1(6));
  good >> other;
  EXPECT_EQ(other.ndim(), 0);
  for (const char* text : {"", "(2,3", "(a)", "x"}) {
    std::istringstream bad(text);
    bad >> shape;
    EXPECT_TRUE(bad.fail()) << text;
    EXPECT_TRUE(shape == Shape1(5)) << text;
  }
  const index_t extents[] = {7, 8};
  other.CopyFrom(extents, extents + 2);
  EXPECT_EQ(other.data()[1], 8);
  other.data()[1] = 9;
  EXPECT_EQ(other.get<2>(), Shape2(7, 9));
}

TEST(MshadowBlobTest, ScalarsAndEmptyBlobsHaveViews) {
  float value = 3;
  const TBlob scalar(&value, TShape(), cpu::kDevMask);
  EXPECT_EQ((scalar.FlatTo1D<cpu, float>()[0]), 3.0f);
  EXPECT_TRUE(scalar.CheckContiguous());
  const TBlob empty(static_cast<float*>(nullptr), Shape2(0, 4), cpu::kDevMask);
  EXPECT_EQ((empty.get<cpu, 2, float>().shape_), Shape2(0, 4));
  EXPECT_EQ((empty.FlatToKD<cpu, 3, float>().shape_), Shape3(1, 0, 4));
  EXPECT_EQ(TBlob().type_flag_, kFloat32);
}

TEST(MshadowBlobTest, OtherNumbersOfDimensionsAreRefused) {
  const TBlob blob(static_cast<float*>(nullptr), Shape3(2, 0, 4), cpu::kDevMask);
  const std::string message = MessageOf([&] { blob.get<cpu, 2, float>(); });
  EXPECT_NE(message.find("TBlob: shape (2,0,4) has 3 dimensions"), std::string::npos) << message;
  EXPECT_NE(message.find("tensor of 2"), std::string::npos) << message;
}

TEST(MshadowRandomTest, IntegersComeFromAClosedRangeAndSamplersAreCalledInOrder) {
  Random<cpu, int> random(3);
  TensorContainer<cpu, 1, int> x(Shape1(300), 0);
  random.SampleUniform(&x, 2, 4);
  int seen[3] = {0, 0, 0};
  for (index_t i = 0; i < x.size(0); ++i) {
    ASSERT_TRUE(2 <= x[i] && x[i] <= 4) << x[i];
    ++seen[x[i] - 2];
  }
  EXPECT_TRUE(seen[0] > 0 && seen[1] > 0 && seen[2] > 0);
  int next = 0;
  random.SampleDistribution(&x, [&next] { return next++; });
  EXPECT_EQ(x[299], 299);
}

TEST(MshadowRandomTest, EveryFormDraws) {
  Random<cpu> random(3);
  TensorContainer<cpu, 2> a(Shape2(20, 30), -5.0f);
  random.SampleUniform(&a);
  EXPECT_GE(a[19][29], 0.0f);
  random.SampleGaussian(a, 100, 0.01);
  EXPECT_NEAR(a[0][0], 100.0f, 1.0f);
  random.SampleExponential(&a, 2.0f);
  EXPECT_GE(a[0][0], 0.0f);
  random.SampleGamma(&a, 2, 1);
  random.SamplePoisson(&a, 3);
  EXPECT_EQ(a[0][0], static_cast<float>(static_cast<int>(a[0][0])));
  random.SampleNegativeBinomial(&a, 2, 0.5);
  random.SampleGeneralizedNegativeBinomial(&a, 2, 0.5);
  Tensor<cpu, 2> view = a.Slice(3, 5);
  random.SampleUniform(&view, 7, 8);
  EXPECT_GE(a[4][0], 7.0f);
  Random<cpu, half::half_t> halves(1);
  TensorContainer<cpu, 1, half::half_t> h(Shape1(5));
  halves.SampleUniform(&h, half::half_t(1), half::half_t(2));
  EXPECT_GE(static_cast<float>(h[4]), 1.0f);
}

}  // namespace
