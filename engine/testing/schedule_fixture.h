#ifndef TESSERA_ENGINE_TESTING_SCHEDULE_FIXTURE_H_
#define TESSERA_ENGINE_TESTING_SCHEDULE_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"

namespace tessera::engine_internal {

/// The message of the Error that `call` throws, which must have the code.
template <typename Call>
std::string MessageWith(absl::StatusCode code, Call call) {
  const Error error = base_testing::ErrorOf(call);
  EXPECT_EQ(error.code(), code) << error.what();
  return error.what();
}

/// A test of schedules with an engine, whose variables go with the test.
class ScheduleFixture : public EngineConfigurationTest {
 protected:
  ~ScheduleFixture() override {
    for (Variable* variable : variables_) engine_->DeleteVariable(variable);
  }
  Variable* New(std::string_view name = {}) {
    variables_.push_back(engine_->NewVariable(name));
    return variables_.back();
  }
  void Push(std::function<void()> fn, VariableList reads, VariableList writes,
            const PushOptions& options = {}) {
    engine_->PushSync([fn = std::move(fn)](RunContext) { fn(); }, Device::Cpu(), reads, writes,
                      options);
  }

 private:
  std::vector<Variable*> variables_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_SCHEDULE_FIXTURE_H_
