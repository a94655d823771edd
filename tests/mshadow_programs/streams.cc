// Streams, and a program that is one source for both devices: `streams`, or `streams gpu`.
#include <cstring>

#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

template <typename xpu>
int Run(int argc, char** argv) {
  const int dev_id = argc > 2 ? atoi(argv[2]) : 0;
  InitTensorEngine<xpu>(dev_id);
  SetDevice<xpu>(dev_id);
  Stream<xpu>* first = NewStream<xpu>();
  Stream<xpu>* second = NewStream<xpu>(true, false);
  Stream<xpu>* third = NewStream<xpu>(true, false, dev_id);
  Stream<xpu>* fourth = NewStream<xpu>(dev_id);
  printf("cpu %d mask %d\n", xpu::kDevCPU ? 1 : 0, xpu::kDevMask);

  Tensor<xpu, 2, float> ts1(Shape2(2, 5)), ts2(Shape2(2, 5));
  ts1.stream_ = first;
  ts2.set_stream(second);
  AllocSpace(&ts1);
  AllocSpace(&ts2);
  ts1 = 1;
  ts2 = 2;
  first->Wait();
  second->Wait();
  Tensor<xpu, 2> res = NewTensor<xpu, float>(Shape2(2, 2), 0.0f, true, third);
  res = dot(ts1, ts2.T());
  res += 0.5f * dot(ts1, ts2.T());
  res -= dot(ts1, ts1.T()) * 2.0f;

  Tensor<cpu, 2, float> host = NewTensor<cpu>(Shape2(2, 2), 0.0f);
  Copy(host, res, third);
  third->Wait();
  printf("idle %d\n", third->CheckIdle() ? 1 : 0);
  for (index_t i = 0; i < host.size(0); ++i) printf("%.2f %.2f\n", host[i][0], host[i][1]);

  host = 3.0f;
  TensorContainer<xpu, 2> there;
  there.set_stream(fourth);
  there.Resize(Shape2(2, 2));
  Copy(there, host, fourth);
  there *= there;
  Copy(host, there);  // without a stream: done when it returns
  printf("%.1f\n", host[1][1]);
  Tensor<cpu, 2, float> pinned(Shape2(2, 2));
  AllocHost<xpu>(&pinned);
  Copy(pinned, there, fourth);
  fourth->Wait();
  printf("%.1f\n", pinned[0][1]);
  FreeHost<xpu>(&pinned);

  FreeSpace(&host);
  FreeSpace(&res);
  FreeSpace(&ts1);
  FreeSpace(&ts2);
  there.Release();
  DeleteStream(first);
  DeleteStream(second);
  DeleteStream<xpu>(third);
  DeleteStream<xpu>(fourth);
  ShutdownTensorEngine<xpu>();
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "gpu") == 0) {
#if MSHADOW_USE_CUDA
    return Run<gpu>(argc, argv);
#else
    utils::Check(false, "%s was not compiled for a gpu", argv[0]);
#endif
  }
  printf("gpu mask %d\n", gpu::kDevMask);
  return Run<cpu>(argc, argv);
}
