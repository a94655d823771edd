// Eigen's product, compiled for one instruction set with Eigen's namespace renamed, for the reason
// that tensor/linalg/gemm_kernel.h gives.
#include <Eigen/Core>
#include <cstdint>

namespace tessera::TESSERA_PEER_NAMESPACE {

void Run(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a_data,
         const float* b_data, float* c_data) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> a(a_data, transpose_a ? k : m, transpose_a ? m : k);
  const Eigen::Map<const Matrix> b(b_data, transpose_b ? n : k, transpose_b ? k : n);
  Eigen::Map<Matrix> c(c_data, m, n);
  if (transpose_a && transpose_b) {
    c.noalias() = a.transpose() * b.transpose();
  } else if (transpose_a) {
    c.noalias() = a.transpose() * b;
  } else if (transpose_b) {
    c.noalias() = a * b.transpose();
  } else {
    c.noalias() = a * b;
  }
}

}  // namespace tessera::TESSERA_PEER_NAMESPACE
