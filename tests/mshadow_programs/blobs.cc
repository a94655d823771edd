// Tensors whose type and rank are known at run time, and code that is chosen by type and layout.
#include <sstream>
#include <vector>

#include "mshadow/tensor.h"
#include "mshadow/tensor_blob.h"

using namespace mshadow;
using namespace mshadow::expr;

void FillRamp(const TBlob& blob) {
  MSHADOW_TYPE_SWITCH(blob.type_flag_, DType, {
    Tensor<cpu, 1, DType> flat = blob.FlatTo1D<cpu, DType>();
    for (index_t i = 0; i < flat.size(0); ++i) flat[i] = static_cast<DType>(i);
  });
}

double Sum(const TBlob& blob) {
  double total = 0;
  MSHADOW_TYPE_SWITCH(blob.type_flag_, DType, {
    Tensor<cpu, 2, DType> m = blob.FlatTo2D<cpu, DType>();
    for (index_t i = 0; i < m.size(0); ++i) {
      for (index_t j = 0; j < m.size(1); ++j) total += static_cast<double>(m[i][j]);
    }
  });
  return total;
}

template <typename Function>
void Refused(const char* name, Function function) {
  try {
    function();
    printf("%s accepted\n", name);
  } catch (const dmlc::Error&) {
    printf("%s refused\n", name);
  }
}

int main() {
  std::vector<float> f(24);
  std::vector<double> d(24);
  std::vector<int> i32(24);
  std::vector<uint8_t> u8(24);
  std::vector<half::half_t> h(24);
  TShape shape;
  printf("empty shape %d\n", static_cast<int>(shape.ndim()));
  shape = Shape3(2, 3, 4);
  const std::vector<TBlob> blobs = {
      TBlob(&f[0], shape, cpu::kDevMask), TBlob(&d[0], shape, cpu::kDevMask),
      TBlob(static_cast<void*>(&i32[0]), shape, cpu::kDevMask, kInt32),
      TBlob(static_cast<void*>(&u8[0]), shape, cpu::kDevMask, DataType<uint8_t>::kFlag),
      TBlob(&h[0], shape, cpu::kDevMask)};
  for (size_t k = 0; k < blobs.size(); ++k) {
    FillRamp(blobs[k]);
    printf("flag %d bytes %d sum %.0f\n", blobs[k].type_flag_,
           static_cast<int>(mshadow_sizeof(blobs[k].type_flag_)), Sum(blobs[k]));
  }

  const TBlob& blob = blobs[0];
  Tensor<cpu, 3, float> cube = blob.get<cpu, 3, float>();
  cube[1] *= 2.0f;
  Tensor<cpu, 2, float> matrix = blob.get_with_shape<cpu, 2, float>(Shape2(4, 6));
  std::cout << cube.shape_ << matrix.shape_ << blob.FlatTo2D<cpu, float>().shape_
            << blob.FlatTo3D<cpu, float>(1).shape_ << blob.FlatTo3D<cpu, float>(0, 1).shape_
            << blob.FlatToKD<cpu, 2, float>().shape_ << blob.FlatToKD<cpu, 4, float>().shape_
            << std::endl;
  printf("shared %.0f %.0f ndim %d size %d %d contiguous %d\n", matrix[3][5], Sum(blob),
         static_cast<int>(blob.ndim()), static_cast<int>(blob.size(1)),
         static_cast<int>(blob.Size()), blob.CheckContiguous() ? 1 : 0);

  Tensor<cpu, 2, float> padded = NewTensor<cpu>(Shape2(3, 5), 1.0f, true);
  TBlob view;
  view = padded;
  printf("padded %d sum %.0f\n", view.CheckContiguous() ? 1 : 0, Sum(view));
  Refused("joining padded rows", [&] { view.FlatTo1D<cpu, float>(); });
  Refused("another type", [&] { blob.get<cpu, 3, double>(); });
  Refused("another rank", [&] { blob.get<cpu, 2, float>(); });
  Refused("another device", [&] { blob.get<gpu, 3, float>(); });
  Refused("another size", [&] { blob.get_with_shape<cpu, 2, float>(Shape2(5, 5)); });
  Refused("an unknown flag", [&] { FillRamp(TBlob(&f[0], shape, cpu::kDevMask, 99)); });
  Refused("shapes that differ", [&] { matrix += padded; });
  FreeSpace(&padded);

  std::istringstream in("(5, 6,7) (8,) 9");
  TShape one, two, three;
  in >> one >> two >> three;
  std::cout << one << two << three << (one == Shape3(5, 6, 7)) << (one != two) << std::endl;
  TShape ones(3);
  ones[1] = 4;
  std::vector<index_t> extents(2, 6);
  three = extents;
  std::cout << ones << three << ones.ProdShape(0, 2) << ones.Size() << std::endl;

  const int layouts[] = {kNCHW, kNHWC, kNDHWC};
  for (int k = 0; k < 3; ++k) {
    MSHADOW_LAYOUT_SWITCH(layouts[k], Layout, {
      printf("layout %d of %d dimensions\n", Layout, static_cast<int>(LayoutType<Layout>::kNdim));
    });
  }
  std::cout << ConvertLayout(Shape4(2, 3, 4, 5), kNCHW, kNHWC)
            << ConvertLayout(Shape4(2, 4, 5, 3), kNHWC, kCHWN)
            << ConvertLayout(Shape5(2, 4, 5, 6, 3), kNDHWC, kNCDHW)
            << ConvertLayout(Shape3(2, 3, 4), kNCW, kNWC) << std::endl;

  MSHADOW_REAL_TYPE_SWITCH_EX(kFloat16, DType, DLarge, {
    printf("%d bytes sum in %d\n", static_cast<int>(sizeof(DType)),
           static_cast<int>(sizeof(DLarge)));
  });
  MSHADOW_IDX_TYPE_SWITCH(kInt64, IType,
                          { printf("index %d\n", static_cast<int>(sizeof(IType))); });
  MSHADOW_SGL_DBL_TYPE_SWITCH(kFloat64, DType,
                              { printf("real %d\n", static_cast<int>(sizeof(DType))); });
  return 0;
}
