// Memory: containers that resize, padding, the allocation functions of several years, and files.
#include <string>

#include "mshadow/tensor.h"
#include "mshadow/tensor_container.h"

using namespace mshadow;
using namespace mshadow::expr;

class MemoryStream : public utils::IStream {
 public:
  MemoryStream() : position_(0) {}
  virtual size_t Read(void* ptr, size_t size) {
    const size_t count = std::min(size, buffer_.length() - position_);
    memcpy(ptr, buffer_.data() + position_, count);
    position_ += count;
    return count;
  }
  virtual void Write(const void* ptr, size_t size) {
    buffer_.append(static_cast<const char*>(ptr), size);
  }
  size_t size() const { return buffer_.length(); }

 private:
  std::string buffer_;
  size_t position_;
};

template <typename T>
double Total(const T& t) {
  double total = 0;
  for (index_t i = 0; i < t.size(0); ++i) {
    for (index_t j = 0; j < t.size(1); ++j) total += t[i][j];
  }
  return total;
}

int main() {
  TensorContainer<cpu, 2> a(Shape2(3, 5), 2.0f);
  TensorContainer<cpu, 2, float> b(a);
  TensorContainer<cpu, 2> empty(false), unpadded;
  unpadded.set_pad(false);
  unpadded.Resize(Shape2(3, 5), 1);
  printf("unpadded contiguous %d\n", unpadded.CheckContiguous() ? 1 : 0);
  b += 1.0f;
  printf("copies %.1f %.1f\n", Total(a), Total(b));
  a = b;
  b = 0.0f;
  printf("assigned %.1f %.1f\n", Total(a), Total(b));
  a.Resize(Shape2(2, 2), 0.5f);
  printf("resized %.1f\n", Total(a));
  a.Resize(Shape2(30, 40));
  a = 0.25f;
  printf("grown %.1f\n", Total(a));
  empty.Resize(a.shape_);
  empty = a * 2.0f;
  printf("expression %.1f\n", Total(empty));
  empty.Release();

  // every kind of expression, without a Resize before it
  TensorContainer<cpu, 2> mapped, product(Shape2(4, 4)), transposed;
  TensorContainer<cpu, 1> sums(Shape1(5));
  TensorContainer<cpu, 2> left(Shape2(4, 3), 2.0f), right(Shape2(3, 5), 0.5f);
  mapped = left * 3.0f + 1.0f;
  product.Resize(Shape2(4, 5));
  product = dot(left, right);
  transposed = right.T();
  sums = sum_rows(right);
  printf("kinds %.1f %.1f %.1f %.1f %d\n", Total(mapped), Total(product), Total(transposed),
         sums[4], static_cast<int>(transposed.size(0)));

  // pointers, and the references of the first version
  Tensor<cpu, 2, float> p(Shape2(3, 5));
  AllocSpace(&p, true);
  p = 1.0f;
  printf("padded row %d of %d\n", p.stride_ >= 5 ? 1 : 0, static_cast<int>(p.size(1)));
  p[1] = 3.0f;
  printf("by pointer %.1f\n", Total(p));
  FreeSpace(&p);
  Tensor<cpu, 2> r(Shape2(2, 2));
  AllocSpace(r);
  r = 4.0f;
  printf("by reference %.1f\n", Total(r));
  FreeSpace(r);
  Tensor<cpu, 2> c = NewCTensor(Shape2(2, 3), 1.25f);
  printf("new %.2f\n", Total(c));
  Tensor<cpu, 2, double> d = NewTensor<cpu>(Shape2(2, 3), 1.5, false);
  printf("double %.2f stride %d\n", Total(d), static_cast<int>(d.stride_));
  FreeSpace(&c);

  MemoryStream stream;
  SaveBinary(stream, d);
  a.Resize(Shape2(2, 7), 3.0f);
  a[1][6] = -1.0f;
  a.SaveBinary(stream);
  printf("bytes %d\n", static_cast<int>(stream.size()));
  Tensor<cpu, 2, double> loaded;
  LoadBinary(stream, &loaded, false);
  b.LoadBinary(stream);
  printf("loaded %.2f %.2f %.1f\n", Total(loaded), Total(b), b[1][6]);
  std::cout << loaded.shape_ << b.shape_ << "\n";
  FreeSpace(&loaded);
  FreeSpace(&d);
  return 0;
}
