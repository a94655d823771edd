// Signals and their spectra, in complex numbers whose parts lie in turn; functions that state the
// type of the expression they return; loops over a Plan; shapes in files, and seeds.
#include <mshadow/extension/complex.h>
#include <mshadow/tensor.h>

#include <string>

using namespace mshadow;
using namespace mshadow::expr;

struct hypotenuse {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType a, DType b) {
    return DType(sqrtf(a * a + b * b));
  }
};
struct decibel {
  MSHADOW_XINLINE static real_t Map(real_t a) { return 10.0f * log10f(a + 1.0f); }
};
struct choose {
  MSHADOW_XINLINE static real_t Map(real_t a, real_t b, real_t c) { return a > 0.0f ? b : c; }
};

template <typename TA, typename TB, typename DType, int ta, int tb>
inline BinaryMapExp<hypotenuse, TA, TB, DType, (ta | tb | type::kMapper)> hypot_of(
    const Exp<TA, DType, ta>& a, const Exp<TB, DType, tb>& b) {
  return MakeExp<hypotenuse>(a.self(), b.self());
}
template <typename TA, typename DType, int ta>
inline UnaryMapExp<decibel, TA, DType, (ta | type::kMapper)> in_decibel(
    const Exp<TA, DType, ta>& a) {
  return MakeExp<decibel>(a.self());
}
template <typename TA, typename TB, typename TC, typename DType, int ta, int tb, int tc>
inline TernaryMapExp<choose, TA, TB, TC, DType, (ta | tb | tc | type::kMapper)> choose_from(
    const Exp<TA, DType, ta>& a, const Exp<TB, DType, tb>& b, const Exp<TC, DType, tc>& c) {
  return F<choose>(a.self(), b.self(), c.self());
}
template <typename DType>
inline TransposeExp<Tensor<cpu, 2, DType>, DType> turned(const Tensor<cpu, 2, DType>& m) {
  return m.T();
}
template <typename DType>
inline DotExp<Tensor<cpu, 2, DType>, Tensor<cpu, 2, DType>, false, true, DType> products(
    const Tensor<cpu, 2, DType>& a, const Tensor<cpu, 2, DType>& b) {
  return dot(a, b.T());
}

struct keep_larger {
  template <typename DType>
  MSHADOW_XINLINE static void Save(DType& a, DType b) {
    if (b > a) a = b;
  }
};

class Buffer {
 public:
  Buffer() : position_(0) {}
  void Write(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  size_t Read(void* data, size_t size) {
    const size_t count = std::min(size, bytes_.size() - position_);
    memcpy(data, bytes_.data() + position_, count);
    position_ += count;
    return count;
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
  size_t position_;
};

template <int dim>
void Show(const char* name, const Tensor<cpu, dim>& t) {
  Tensor<cpu, 2> m = t.FlatTo2D();
  printf("%s:", name);
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) printf(" %.4f", m[i][j]);
  }
  printf("\n");
}

int main() {
  InitTensorEngine<cpu>();
  const index_t signals = 3, n = 5;
  TensorContainer<cpu, 2> x(Shape2(signals, n)), gain(x.shape_), power(x.shape_), out(x.shape_);
  TensorContainer<cpu, 2> forward(Shape2(n, 2 * n)), back(Shape2(2 * n, n));
  TensorContainer<cpu, 2> spectrum(Shape2(signals, 2 * n)), filtered, z;
  for (index_t i = 0; i < signals; ++i) {
    for (index_t t = 0; t < n; ++t) {
      x[i][t] = sinf(0.8f * (i + 1) * (t + 1)) + 0.25f * i;
      gain[i][t] = 1.0f / (1 + i + t);
    }
  }
  for (index_t t = 0; t < n; ++t) {
    for (index_t k = 0; k < n; ++k) {
      const float angle = 2 * kPi * (k * t % n) / n;
      forward[t][2 * k] = cosf(angle);
      forward[t][2 * k + 1] = -sinf(angle);
      back[2 * k][t] = cosf(angle) / n;
      back[2 * k + 1][t] = -sinf(angle) / n;
    }
  }
  spectrum = dot(x, forward);
  power = complex_abs_square(spectrum);
  Show<2>("power", power);
  out = dot(spectrum, back);
  Show<2>("there and back", out);
  filtered = complex_mul_cr(spectrum, gain);
  out = dot(filtered, back);
  Show<2>("filtered", out);
  z = complex_mul_rc(gain * 2.0f, spectrum) - filtered;
  out = dot(z, back);
  Show<2>("filtered again", out);
  z = complex_mul_cc(spectrum, conj(filtered));
  Show<2>("correlation", z);
  z = complex_div_cc(filtered, spectrum + 4.0f);
  Show<2>("quotient", z);
  z = complex_div_cr(spectrum, gain);
  out = complex_toreal(z);
  Show<2>("real parts", out);
  z = complex_div_rc(gain, spectrum + 4.0f);
  out = complex_sum_real_imag(z);
  Show<2>("sums of parts", out);
  z = complex_exchange(spectrum) + complex_pad_imag(x);
  Show<2>("exchanged", z);
  z = ComplexF<op::complex::kBinaryCC, op::complex::mul>(complex_pad_imag(x), z * 0.5f);
  Show<2>("half", z);
  // each number is read for both of its parts, although the first is written before the second
  spectrum = complex_mul_cc(spectrum, spectrum);
  Show<2>("squared in place", spectrum);
  TensorContainer<cpu, 1> energy(Shape1(signals));
  energy = sumall_except_dim<0>(complex_abs_square(spectrum));
  Show<1>("energy", energy);
  TensorContainer<cpu, 3> volume(Shape3(2, 3, 4)), turned_volume(volume.shape_);
  for (index_t i = 0; i < volume.MSize(); ++i) volume.dptr_[i] = 0.5f * (i % 7) - 1.0f;
  turned_volume = volume + 2.0f * conj(volume);
  Show<3>("volume", turned_volume);

  out = in_decibel(hypot_of(x, gain * 3.0f)) - 1.0f;
  Show<2>("decibel", out);
  out = choose_from(x, gain, power * 0.1f);
  Show<2>("chosen", out);
  TensorContainer<cpu, 2> square(Shape2(signals, signals)), tall(Shape2(n, signals));
  tall = turned<float>(x);
  square = products<float>(x, gain);
  square += 0.5f * dot(x, tall);
  Show<2>("products", square);
  out = 0.75f;
  MapPlan<keep_larger>(&out, MakePlan(x * 2.0f - gain));
  Show<2>("larger", out);
  MapPlan<sv::minusto>(&energy, MakePlan(energy * 0.5f));
  Show<1>("halved", energy);

  // every other pair of columns of memory that exists
  float data[24];
  for (int i = 0; i < 24; ++i) data[i] = 0.1f * i;
  Tensor<cpu, 2> columns(data, Shape2(3, 2), 8);
  columns += 10.0f;
  Show<1>("memory", Tensor<cpu, 1>(data, Shape1(24)));

  Buffer buffer;
  TShape shape(4), loaded;
  shape[1] = 7;
  shape[3] = 300;
  shape.Save(&buffer);
  const bool first = loaded.Load(&buffer), second = loaded.Load(&buffer);
  printf("shape of %d bytes:", static_cast<int>(buffer.size()));
  for (index_t i = 0; i < loaded.ndim(); ++i) printf(" %d", static_cast<int>(loaded[i]));
  printf(" loaded %d %d equal %d\n", first ? 1 : 0, second ? 1 : 0, loaded == shape ? 1 : 0);

  Random<cpu> random(7), same(7);
  TensorContainer<cpu, 1, unsigned> seeds(Shape1(50)), again(Shape1(50));
  random.GetRandInt(seeds);
  same.GetRandInt(again);
  unsigned any = 0, differing = 0, equal = 0;
  for (index_t i = 0; i < 50; ++i) {
    any |= seeds[i];
    differing += i > 0 && seeds[i] != seeds[i - 1] ? 1 : 0;
    equal += seeds[i] == again[i] ? 1 : 0;
  }
  printf("seeds %x differ %u repeat %u\n", any, differing, equal);
  ShutdownTensorEngine<cpu>();
  return 0;
}
