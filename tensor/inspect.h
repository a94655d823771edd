#ifndef TESSERA_TENSOR_INSPECT_H_
#define TESSERA_TENSOR_INSPECT_H_

#include <algorithm>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "tessera/base/dtype.h"
#include "tessera/tensor/dense.h"
#include "tessera/tensor/reductions.h"

/// Inspect says which loops an expression will run, without running them:
///
///     std::cout << Inspect(r, (a - sum(a)) * b);
///
/// prints, on a machine with two threads and a processor compiled for SSE,
///
///     pass 1: reduces (1000,1000) float32 to a number; reads 1 per element; packets of 4 (SSE or
///     NEON); up to 2 threads
///     pass 2: writes (1000,1000) float32 as one row; reads 2, writes 1 per element; packets of 4
///     (SSE or NEON); up to 2 threads
///     temporaries: none
///
/// with each pass on one line. A pass that combines with the old values (dst += …) also reads the
/// destination; Inspect describes the plain assignment.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

template <typename E>
inline constexpr bool kIsView = false;
template <typename E>
requires requires(const E& e) { PlaceOf(e); }
inline constexpr bool kIsView<E> = true;

/// How many elements of memory one element of the expression reads, a node that reads several
/// places of an operand counted once.
template <typename E>
constexpr int ReadsPerElement() {
  if constexpr (kIsView<E>) {
    return 1;
  } else {
    return []<typename... Operand>(std::type_identity<std::tuple<Operand...>>) {
      return (0 + ... + ReadsPerElement<Operand>());
    }(std::type_identity<decltype(OperandsOf(std::declval<const E&>()))>());
  }
}

/// Collects the description of the passes while an expression is walked as Prepare walks it.
class Inspection {
 public:
  /// What `e` is once its parts are computed, with tensors without memory in the places of
  /// temporaries. Notes every pass that computing them takes.
  template <typename E>
  auto Ready(const E& e) {
    if constexpr (!IsComputedFirst<E>()) {
      return e;
    } else if constexpr (requires { E::kComputedFirst; }) {
      return Compute(e);
    } else {
      return std::apply(
          [&](const auto&... operand) {
            const std::tuple<decltype(Ready(operand))...> ready{Ready(operand)...};  // in order
            return std::apply([&](const auto&... part) { return e.WithOperands(part...); }, ready);
          },
          OperandsOf(e));
    }
  }

  /// Notes a pass that evaluates or reduces `e` over its shape.
  template <typename E>
  void Pass(const E& e, const std::string& what, bool flat, int writes,
            int reads = ReadsPerElement<E>()) {
    using T = typename E::value_type;
    const auto shape = e.shape();
    text_ << "pass " << ++passes_ << ": " << what << "; reads " << reads;
    if (writes > 0) text_ << ", writes " << writes;
    text_ << " per element; ";
    if constexpr (std::is_same_v<DeviceOf<E>, gpu>) {
      text_ << "one CUDA thread an element\n";
      return;
    }
    if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable) {
      text_ << "packets of " << PacketTraits<T>::kSize << " (" << kInstructionSet << ")";
    } else if constexpr (HasEvalRow<E, T>) {
      text_ << "row by row in the node's own loop";
    } else {
      text_ << "one element at a time";
    }
    const index_t tasks = std::max<index_t>(1, shape.Size() / kElementsPerTask);
    const index_t threads =
        std::min<index_t>({tasks, ParallelWidth(), flat ? tasks : shape.FlatTo2D()[0]});
    text_ << "; "
          << (threads <= 1 ? std::string("1 thread")
                           : "up to " + std::to_string(threads) + " threads")
          << "\n";
  }

  void Temporary(const std::string& what) {
    temporaries_ << (temporaries_.tellp() > 0 ? ", " : "") << what;
  }

  std::string Text() const {
    const std::string temporaries = temporaries_.str();
    return text_.str() + "temporaries: " + (temporaries.empty() ? "none" : temporaries) + "\n";
  }

  template <typename E>
  static std::string Described(const E& e) {
    std::ostringstream text;
    text << e.shape() << " " << DTypeName(kDTypeOf<typename E::value_type>);
    return text.str();
  }

 private:
  template <typename E>
  auto Compute(const E& e) {
    using T = typename E::value_type;
    using Device = std::conditional_t<std::is_void_v<DeviceOf<E>>, cpu, DeviceOf<E>>;
    if constexpr (requires { e.whole; }) {
      Note("computes " + Described(e) + " as a whole (a product or a reduction to a vector)");
      return Stored<Device>(e);
    } else if constexpr (E::kRank == 0) {
      const auto ready = Ready(e.e);
      Pass(ready, "reduces " + Described(ready) + " to a number", ready.IsFlat(), 0);
      return ScalarExp<T>(T());
    } else {
      const auto ready = Ready(e.e);
      using Operand = std::remove_cv_t<decltype(ready)>;
      if constexpr (Operand::kRank > E::kRank) {  // a reduction along an axis
        Pass(ready, "reduces " + Described(ready) + " to " + Described(e), false, 0);
        return Stored<Device>(e);
      } else if constexpr (kIsTensor<Operand>) {  // what is spread
        return e.WithOperands(ready);
      } else {
        Pass(ready, "writes " + Described(ready) + " to be spread", ready.IsFlat(), 1);
        return e.WithOperands(Stored<Device>(ready));
      }
    }
  }
  template <typename Device, typename E>
  auto Stored(const E& e) {
    Temporary(Described(e));
    return Tensor<Device, E::kRank, typename E::value_type>(nullptr, e.shape());
  }
  void Note(const std::string& what) { text_ << "pass " << ++passes_ << ": " << what << "\n"; }

  std::ostringstream text_;
  std::ostringstream temporaries_;
  int passes_ = 0;
};

/// The passes of `dst = e`, one line each, and the temporaries they use.
/// Throws Error(kInvalidArgument) where the assignment would.
template <Expression To, AssignableTo<NodeOf<To>> E>
std::string Inspect(const To& to, const E& e) {
  const NodeOf<To>& dst = AsNode(to);
  Inspection inspection;
  if constexpr (Scalar<E>) {
    inspection.Pass(dst, "writes " + Inspection::Described(dst), dst.IsFlat(), 1, /*reads=*/0);
    return inspection.Text();
  } else if constexpr (ComputesInto<E, NodeOf<To>>) {
    return "pass 1: computes " + Inspection::Described(dst) +
           " as a whole (a product or a reduction to a vector)\ntemporaries: none\n";
  } else {
    const auto ready = inspection.Ready(AsNode(e));
    if constexpr (E::kRank > 0) {
      if (e.shape() != dst.shape()) {
        throw InvalidArgument("Inspect: the expression has shape ", e.shape(),
                              " but the destination has shape ", dst.shape());
      }
    }
    const bool flat = dst.IsFlat() && ready.IsFlat();
    const std::string shape = Inspection::Described(dst);
    if constexpr (E::kRank > 0) {
      if (PlaceOf(dst).begin != 0 && ReadsElsewhere(ready, PlaceOf(dst))) {
        inspection.Temporary(shape + " because an operand shares memory with the destination");
        inspection.Pass(ready, "writes " + shape + " to a temporary", ready.IsFlat(), 1);
        inspection.Pass(dst, "copies it to the destination", dst.IsFlat(), 1);
        return inspection.Text();
      }
      inspection.Pass(ready, "writes " + shape + (flat ? " as one row" : " row by row"), flat, 1);
    } else {
      inspection.Pass(dst, "writes " + shape, flat, 1, ReadsPerElement<decltype(ready)>());
    }
    return inspection.Text();
  }
}

/// The passes of an expression assigned to a new contiguous tensor, or of a reduction to a number.
template <Operand E>
std::string Inspect(const E& e) {
  if constexpr (E::kRank == 0) {
    Inspection inspection;
    inspection.Ready(AsNode(e));
    return inspection.Text();
  } else {
    using Device = std::conditional_t<std::is_void_v<DeviceOf<E>>, cpu, DeviceOf<E>>;
    return Inspect(Tensor<Device, E::kRank, typename E::value_type>(nullptr, e.shape()), e);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Inspect;

}  // namespace tessera

#endif  // TESSERA_TENSOR_INSPECT_H_
