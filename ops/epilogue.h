#ifndef TESSERA_OPS_EPILOGUE_H_
#define TESSERA_OPS_EPILOGUE_H_

#include "tessera/base/shape.h"

namespace tessera {

/// Elements of an array: `count` segments of `run` adjacent elements. The first segment begins at
/// element `first`, and each further one `stride` elements after the one before it.
struct ElementSegments {
  index_t first = 0;
  index_t run = 0;
  index_t count = 1;
  index_t stride = 0;
};

/// Work on the elements of a call's first output, which the call does for some elements at a time
/// as soon as it has written them, while they are in a near cache: the element-wise operators
/// behind the call's own one.
class Epilogue {
 public:
  virtual ~Epilogue() = default;

  /// Takes elements that are complete. They may have other values afterwards. Must not throw.
  /// Threads: calls may overlap. A call runs no parallel loop.
  virtual void Run(const ElementSegments& elements) const = 0;
};

}  // namespace tessera

#endif  // TESSERA_OPS_EPILOGUE_H_
