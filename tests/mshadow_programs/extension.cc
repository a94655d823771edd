// Expressions of the program's own: a difference along the rows, and pooling in which a mask moves
// every element that is read, as a regularizer. Both with their gradients, in a small network.
#include <mshadow/tensor.h>

namespace mshadow {
namespace expr {

// out(y, x) = src(y, x + step) - src(y, x); 0 where there is no x + step
template <typename SrcExp, typename DType, int dim>
struct DifferenceExp : public MakeTensorExp<DifferenceExp<SrcExp, DType, dim>, SrcExp, dim, DType> {
  const SrcExp &src_;
  index_t step_;
  DifferenceExp(const SrcExp &src, index_t step) : src_(src), step_(step) {
    this->shape_ = ShapeCheck<dim, SrcExp>::Check(src_);
  }
};
template <typename SrcExp, typename DType, int etype>
inline DifferenceExp<SrcExp, DType, ExpInfo<SrcExp>::kDim> difference(
    const Exp<SrcExp, DType, etype> &src, index_t step = 1) {
  TypeCheckPass<ExpInfo<SrcExp>::kDim >= 1>::Error_Expression_Does_Not_Meet_Dimension_Req();
  return DifferenceExp<SrcExp, DType, ExpInfo<SrcExp>::kDim>(src.self(), step);
}
template <typename SrcExp, typename DType, int dim>
struct Plan<DifferenceExp<SrcExp, DType, dim>, DType> {
 public:
  explicit Plan(const DifferenceExp<SrcExp, DType, dim> &e)
      : src_(MakePlan(e.src_)), step_(e.step_), width_(e.shape_[dim - 1]) {}
  MSHADOW_XINLINE DType Eval(index_t i, index_t j) const {
    if (j + step_ >= width_) return static_cast<DType>(0);
    return src_.Eval(i, j + step_) - src_.Eval(i, j);
  }

 private:
  Plan<SrcExp, DType> src_;
  const index_t step_, width_;
};

// the gradient of difference with regard to its source
template <typename SrcExp, typename DType, int dim>
struct DifferenceGradExp
    : public MakeTensorExp<DifferenceGradExp<SrcExp, DType, dim>, SrcExp, dim, DType> {
  const SrcExp &grad_;
  index_t step_;
  DifferenceGradExp(const SrcExp &grad, index_t step) : grad_(grad), step_(step) {
    this->shape_ = ShapeCheck<dim, SrcExp>::Check(grad_);
  }
};
template <typename SrcExp, typename DType, int etype>
inline DifferenceGradExp<SrcExp, DType, ExpInfo<SrcExp>::kDim> difference_grad(
    const Exp<SrcExp, DType, etype> &grad, index_t step = 1) {
  return DifferenceGradExp<SrcExp, DType, ExpInfo<SrcExp>::kDim>(grad.self(), step);
}
template <typename SrcExp, typename DType, int dim>
struct Plan<DifferenceGradExp<SrcExp, DType, dim>, DType> {
 public:
  explicit Plan(const DifferenceGradExp<SrcExp, DType, dim> &e)
      : grad_(MakePlan(e.grad_)), step_(e.step_), width_(e.shape_[dim - 1]) {}
  MSHADOW_XINLINE DType Eval(index_t i, index_t j) const {
    DType sum = 0;
    if (j >= step_) sum += grad_.Eval(i, j - step_);
    if (j + step_ < width_) sum -= grad_.Eval(i, j);
    return sum;
  }

 private:
  Plan<SrcExp, DType> grad_;
  const index_t step_, width_;
};

// where an element of the mask moves position (y, x): up, down, to the left, to the right, nowhere
template <typename DType>
MSHADOW_XINLINE void Jitter(DType u, index_t height, index_t width, index_t *y, index_t *x) {
  if (u < DType(0.2f)) {
    if (*y > 0) --*y;
  } else if (u < DType(0.4f)) {
    if (*y + 1 < height) ++*y;
  } else if (u < DType(0.6f)) {
    if (*x > 0) --*x;
  } else if (u < DType(0.8f)) {
    if (*x + 1 < width) ++*x;
  }
}

template <typename Reducer, typename SrcExp, typename MaskExp, typename DType, int dim>
struct JitterPoolExp : public MakeTensorExp<JitterPoolExp<Reducer, SrcExp, MaskExp, DType, dim>,
                                            SrcExp, dim, DType> {
  const SrcExp &src_;
  const MaskExp &mask_;
  index_t ksize_, height_, width_;
  JitterPoolExp(const SrcExp &src, const MaskExp &mask, index_t ksize)
      : src_(src), mask_(mask), ksize_(ksize) {
    Shape<dim> sshape = ShapeCheck<dim, SrcExp>::Check(src_);
    Shape<dim> smask = ShapeCheck<dim, MaskExp>::Check(mask_);
    CHECK(sshape == smask) << "JitterPoolExp: source and mask have different shapes";
    height_ = sshape[dim - 2];
    width_ = sshape[dim - 1];
    this->shape_ = sshape;
    this->shape_[dim - 2] = height_ / ksize;
    this->shape_[dim - 1] = width_ / ksize;
  }
};
template <typename Reducer, typename SrcExp, typename MaskExp, typename DType, int etype, int mtype>
inline JitterPoolExp<Reducer, SrcExp, MaskExp, DType, ExpInfo<SrcExp>::kDim> jitter_pool(
    const Exp<SrcExp, DType, etype> &src, const Exp<MaskExp, DType, mtype> &mask, index_t ksize) {
  TypeCheckPass<ExpInfo<SrcExp>::kDim >= 2>::Error_Expression_Does_Not_Meet_Dimension_Req();
  return JitterPoolExp<Reducer, SrcExp, MaskExp, DType, ExpInfo<SrcExp>::kDim>(src.self(),
                                                                               mask.self(), ksize);
}
template <typename Reducer, typename SrcExp, typename MaskExp, typename DType, int dim>
struct Plan<JitterPoolExp<Reducer, SrcExp, MaskExp, DType, dim>, DType> {
 public:
  explicit Plan(const JitterPoolExp<Reducer, SrcExp, MaskExp, DType, dim> &e)
      : src_(MakePlan(e.src_)),
        mask_(MakePlan(e.mask_)),
        ksize_(e.ksize_),
        height_(e.height_),
        width_(e.width_),
        new_height_(e.shape_[dim - 2]) {}
  MSHADOW_XINLINE DType Eval(index_t i, index_t j) const {
    const index_t py = i % new_height_, c = i / new_height_;
    DType result;
    Reducer::SetInitValue(result);
    for (index_t y = py * ksize_; y < (py + 1) * ksize_; ++y) {
      for (index_t x = j * ksize_; x < (j + 1) * ksize_; ++x) {
        index_t my = y, mx = x;
        Jitter(mask_.Eval(c * height_ + y, x), height_, width_, &my, &mx);
        Reducer::Reduce(result, src_.Eval(c * height_ + my, mx));
      }
    }
    return result;
  }

 private:
  Plan<SrcExp, DType> src_;
  Plan<MaskExp, DType> mask_;
  const index_t ksize_, height_, width_, new_height_;
};

// the gradient of jitter_pool: an element receives from every position that was moved onto it
template <typename Reducer, typename SrcExp, typename PoolExp, typename GradExp, typename MaskExp,
          typename DType, int dim>
struct JitterUnpoolExp
    : public MakeTensorExp<JitterUnpoolExp<Reducer, SrcExp, PoolExp, GradExp, MaskExp, DType, dim>,
                           SrcExp, dim, DType> {
  const SrcExp &src_;
  const PoolExp &pooled_;
  const GradExp &grad_;
  const MaskExp &mask_;
  index_t ksize_, new_height_, new_width_;
  JitterUnpoolExp(const SrcExp &src, const PoolExp &pooled, const GradExp &grad,
                  const MaskExp &mask, index_t ksize)
      : src_(src), pooled_(pooled), grad_(grad), mask_(mask), ksize_(ksize) {
    Shape<dim> gshape = ShapeCheck<dim, GradExp>::Check(grad_);
    new_height_ = gshape[dim - 2];
    new_width_ = gshape[dim - 1];
    this->shape_ = ShapeCheck<dim, SrcExp>::Check(src_);
  }
};
template <typename Reducer, typename SrcExp, typename PoolExp, typename GradExp, typename MaskExp,
          typename DType, int stype, int ptype, int gtype, int mtype>
inline JitterUnpoolExp<Reducer, SrcExp, PoolExp, GradExp, MaskExp, DType, ExpInfo<SrcExp>::kDim>
jitter_unpool(const Exp<SrcExp, DType, stype> &src, const Exp<PoolExp, DType, ptype> &pooled,
              const Exp<GradExp, DType, gtype> &grad, const Exp<MaskExp, DType, mtype> &mask,
              index_t ksize) {
  return JitterUnpoolExp<Reducer, SrcExp, PoolExp, GradExp, MaskExp, DType, ExpInfo<SrcExp>::kDim>(
      src.self(), pooled.self(), grad.self(), mask.self(), ksize);
}
template <typename Reducer, typename SrcExp, typename PoolExp, typename GradExp, typename MaskExp,
          typename DType, int dim>
struct Plan<JitterUnpoolExp<Reducer, SrcExp, PoolExp, GradExp, MaskExp, DType, dim>, DType> {
 public:
  explicit Plan(const JitterUnpoolExp<Reducer, SrcExp, PoolExp, GradExp, MaskExp, DType, dim> &e)
      : src_(MakePlan(e.src_)),
        pooled_(MakePlan(e.pooled_)),
        grad_(MakePlan(e.grad_)),
        mask_(MakePlan(e.mask_)),
        ksize_(e.ksize_),
        height_(e.shape_[dim - 2]),
        width_(e.shape_[dim - 1]),
        new_height_(e.new_height_),
        new_width_(e.new_width_) {}
  MSHADOW_XINLINE DType Eval(index_t i, index_t j) const {
    const index_t y = i % height_, c = i / height_;
    const DType value = src_.Eval(i, j);
    DType sum = 0;
    for (index_t fy = y > 0 ? y - 1 : 0; fy < height_ && fy <= y + 1; ++fy) {
      for (index_t fx = j > 0 ? j - 1 : 0; fx < width_ && fx <= j + 1; ++fx) {
        index_t my = fy, mx = fx;
        Jitter(mask_.Eval(c * height_ + fy, fx), height_, width_, &my, &mx);
        const index_t py = fy / ksize_, px = fx / ksize_;
        if (my == y && mx == j && py < new_height_ && px < new_width_) {
          const index_t row = c * new_height_ + py;
          sum += Reducer::PartialGrad(value, pooled_.Eval(row, px)) * grad_.Eval(row, px);
        }
      }
    }
    return sum;
  }

 private:
  Plan<SrcExp, DType> src_;
  Plan<PoolExp, DType> pooled_;
  Plan<GradExp, DType> grad_;
  Plan<MaskExp, DType> mask_;
  const index_t ksize_, height_, width_, new_height_, new_width_;
};

// as such classes were written before there were other types than real_t
template <typename SrcExp, int dim>
struct ReverseRowsExp : public MakeTensorExp<ReverseRowsExp<SrcExp, dim>, SrcExp, dim> {
  const SrcExp &src_;
  ReverseRowsExp(const SrcExp &src) : src_(src) {
    this->shape_ = ShapeCheck<dim, SrcExp>::Check(src_);
  }
};
template <typename SrcExp, int dim>
struct Plan<ReverseRowsExp<SrcExp, dim> > {
 public:
  Plan(const ReverseRowsExp<SrcExp, dim> &e)
      : src_(MakePlan(e.src_)), last_(e.shape_[dim - 1] - 1) {}
  MSHADOW_XINLINE real_t Eval(index_t i, index_t j) const { return src_.Eval(i, last_ - j); }

 private:
  Plan<SrcExp> src_;
  const index_t last_;
};
template <typename SrcExp, int etype>
inline ReverseRowsExp<SrcExp, ExpInfo<SrcExp>::kDim> reverse_rows(
    const Exp<SrcExp, real_t, etype> &src) {
  return ReverseRowsExp<SrcExp, ExpInfo<SrcExp>::kDim>(src.self());
}

}  // namespace expr
}  // namespace mshadow

using namespace mshadow;
using namespace mshadow::expr;

struct tanh_op {
  MSHADOW_XINLINE static real_t Map(real_t a) { return tanhf(a); }
};
struct tanh_grad {
  MSHADOW_XINLINE static real_t Map(real_t a) { return 1.0f - a * a; }
};

// a function of the program for whatever stands on the right of an assignment
template <typename E, typename DType, int etype>
inline void AddScaled(Tensor<cpu, 2, DType> dst, DType scale, const Exp<E, DType, etype> &e) {
  dst += scale * e.self();
}

template <int dim>
void Show(const char *name, const Tensor<cpu, dim> &t) {
  Tensor<cpu, 2> m = t.FlatTo2D();
  printf("%s:", name);
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) printf(" %.5f", m[i][j]);
  }
  printf("\n");
}

int main() {
  InitTensorEngine<cpu>();
  TensorContainer<cpu, 2> a(Shape2(3, 5)), b(Shape2(3, 5)), out(Shape2(3, 5)), w(Shape2(5, 2));
  for (index_t i = 0; i < 3; ++i) {
    for (index_t j = 0; j < 5; ++j) {
      a[i][j] = sinf(1.0f + 5 * i + j);
      b[i][j] = 0.1f * (i + 1) * j;
    }
  }
  for (index_t i = 0; i < 5; ++i) {
    for (index_t j = 0; j < 2; ++j) w[i][j] = 0.2f * i - 0.3f * j;
  }
  out = difference(a);
  Show("difference", out);
  out += 2.0f * difference(a, 2) + b;
  Show("in a sum", out);
  out -= difference(difference(a * b));
  Show("nested", out);
  out *= F<tanh_op>(reverse_rows(difference(a - b)) + 1.0f);
  Show("mapped", out);
  out /= reverse_rows(b) + 1.0f;
  Show("divided", out);
  TensorContainer<cpu, 1> columns(Shape1(5)), rows(Shape1(3));
  columns = sumall_except_dim<1>(difference(a));
  Show("columns", columns);
  rows = 0.5f * sumall_except_dim<0>(F<tanh_op>(difference(a, 3)));
  Show("rows", rows);
  TensorContainer<cpu, 2> product(Shape2(3, 2));
  product = dot(difference(a), w);
  Show("dot", product);
  AddScaled<>(out, 0.5f, difference(b));
  AddScaled<>(product, -1.0f, dot(a, w));
  AddScaled<>(out, 2.0f, a);
  Show("added", out);
  Show("added dot", product);

  // difference, jitter pooling, a fully connected layer with tanh: descent on the squared output
  const int batch = 2, channels = 2, size = 6, half = 3, hidden = 3;
  TensorContainer<cpu, 4> image(Shape4(batch, channels, size, size)), diff(image.shape_),
      mask(image.shape_), grad(image.shape_);
  TensorContainer<cpu, 4> pooled(Shape4(batch, channels, half, half)), pooled_grad(pooled.shape_);
  TensorContainer<cpu, 2> flat(Shape2(batch, channels * half * half)), weight(Shape2(18, hidden)),
      weight_grad(weight.shape_), act(Shape2(batch, hidden)), act_grad(act.shape_);
  for (index_t i = 0; i < image.MSize(); ++i) {
    image.dptr_[i] = cosf(0.7f * i) + 0.01f * i;
    mask.dptr_[i] = 0.5f + 0.5f * sinf(1.3f * i);
  }
  for (index_t i = 0; i < weight.MSize(); ++i) weight.dptr_[i] = 0.3f * sinf(0.9f * i);
  for (int step = 0; step < 6; ++step) {
    diff = difference(image);
    if (step % 2 == 0) {
      pooled = jitter_pool<red::maximum>(diff, mask, 2);
    } else {
      pooled = 0.25f * jitter_pool<red::sum>(difference(image), 1.0f - mask, 2);
    }
    flat = reshape(pooled, flat.shape_);
    act = dot(flat, weight);
    act = F<tanh_op>(act);
    float loss = 0;
    for (index_t i = 0; i < batch; ++i) {
      for (index_t j = 0; j < hidden; ++j) loss += 0.5f * act[i][j] * act[i][j];
    }
    printf("step %d loss %.5f\n", step, loss);
    act_grad = act * F<tanh_grad>(act);
    weight_grad = dot(flat.T(), act_grad);
    flat = dot(act_grad, weight.T());
    pooled_grad = reshape(flat, pooled_grad.shape_);
    if (step % 2 == 0) {
      grad = difference_grad(jitter_unpool<red::maximum>(diff, pooled, pooled_grad, mask, 2));
    } else {
      grad = 0.25f *
             difference_grad(jitter_unpool<red::sum>(diff, pooled, pooled_grad, 1.0f - mask, 2));
    }
    weight -= 0.2f * weight_grad;
    image -= 0.2f * grad;
  }
  TensorContainer<cpu, 1> sums(Shape1(channels));
  sums = sumall_except_dim<1>(grad * mask);
  Show("gradient", sums);
  sums = sumall_except_dim<1>(jitter_pool<red::maximum>(image, mask, 3));
  Show("image", sums);
  ShutdownTensorEngine<cpu>();
  return 0;
}
