// Shapes, element types, sizes that never wrap, devices and errors: what the others build on.
#include <iostream>

#include "tessera/base/checked_size.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"

using namespace tessera;  // NOLINT

int main() {
  TShape batch = TShape::Parse("(None, 3, 32, 32)");
  batch.Merge({128, 3, 32, 32});
  const DType type = DTypeFromName("bfloat16").value();
  std::cout << batch << " of " << type << " on " << Device::Parse("gpu(1)") << '\n';
  try {
    const CheckedSize bytes = CheckedSize(batch.Size()) * DTypeSizeBytes(type) * (int64_t{1} << 50);
    std::cout << bytes.ValueOrThrow("size of the data set in bytes") << '\n';
  } catch (const Error& error) {
    std::cout << error.what() << '\n';
  }
}
