#ifndef TESSERA_ENGINE_TESTING_STREAM_FIXTURE_H_
#define TESSERA_ENGINE_TESTING_STREAM_FIXTURE_H_

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/simulated_device.h"

namespace tessera::engine_internal {

/// A test of operations of devices, with an engine and a device.
class StreamFixture : public testing::TestWithParam<EngineConfiguration> {
 protected:
  Variable* New(std::string_view name = {}) { return engine_->NewVariable(name); }

  /// Pushes an operation that has the device run `work`.
  void PushWork(std::function<void()> work, VariableList reads, VariableList writes,
                const PushOptions& options = {}) {
    engine_->PushSync([work = std::move(work)](
                          RunContext context) { SimulatedDevice::Enqueue(context.stream, work); },
                      Device::Gpu(0), reads, writes, options);
  }

  SimulatedDevice device_;  // outlives the engine
  std::unique_ptr<Engine> engine_ = GetParam().Make();
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_STREAM_FIXTURE_H_
