// Symbols with 50,000 outputs and inputs. A copy of the list for each of them would take minutes.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mxnet/c_api.h"
#include "tessera/compat/mxnet/testing/client.h"

namespace tessera::mxnet {
namespace {

constexpr uint32_t kCount = 50000;

/// Returns a handle of each output.
std::vector<Owned> OutputsOf(SymbolHandle symbol) {
  uint32_t count = 0;
  Check(MXSymbolGetNumOutputs(symbol, &count));
  std::vector<Owned> outputs;
  for (uint32_t i = 0; i < count; ++i) {
    SymbolHandle output = nullptr;
    Check(MXSymbolGetOutput(symbol, i, &output));
    outputs.emplace_back(output, MXSymbolFree);
  }
  return outputs;
}

TEST(ManyOutputsTest, AreTakenOneByOneAndJoined) {
  const std::string count = std::to_string(kCount);
  const Owned x = MakeVariable("x");
  const Owned split =
      Apply("SliceChannel", "split", {x.get()}, {{"num_outputs", count}, {"axis", "0"}});
  const std::vector<Owned> parts = OutputsOf(split.get());
  ASSERT_EQ(parts.size(), kCount);
  std::vector<SymbolHandle> handles;
  for (const Owned& part : parts) handles.push_back(part.get());
  SymbolHandle group = nullptr;
  Check(MXSymbolCreateGroup(kCount, handles.data(), &group));
  const Owned owned_group(group, MXSymbolFree);
  uint32_t size = 0;
  const char** names = nullptr;
  Check(MXSymbolListOutputs(group, &size, &names));
  ASSERT_EQ(size, kCount);
  EXPECT_EQ(names[kCount - 1], "split_output" + std::to_string(kCount - 1));

  const Owned joined = Apply("Concat", "join", handles, {{"num_args", count}, {"dim", "0"}});
  SymbolHandle children = nullptr;
  Check(MXSymbolGetChildren(joined.get(), &children));
  const Owned owned_children(children, MXSymbolFree);
  EXPECT_EQ(OutputsOf(children).size(), kCount);
}

}  // namespace
}  // namespace tessera::mxnet
