#include "tessera/kvstore/kvstore_local.h"

#include <utility>

#include "tessera/kvstore/gradient_compression.h"
#include "tessera/kvstore/stored_values.h"

namespace tessera::kvstore_internal {
namespace {

class LocalStore final : public KVStore {
 public:
  std::string_view type() const override { return "local"; }

  void Init(const KVKey& key, const NDArray& value) override { values_.Add(key, value); }

  void Push(const KVKey& key, std::span<const NDArray> values, int priority) override {
    const StoredValues::Entry entry = values_.Find("Push", key);
    StoredValues::Check("Push", key, entry.stored, values);
    StoredValues::Update(key, entry, SumOnHost(compression_.Sent(key, values), priority), priority);
  }

  void Pull(const KVKey& key, std::span<const NDArray> out, int priority) override {
    const NDArray stored = values_.Find("Pull", key).stored;
    StoredValues::Check("Pull", key, stored, out);
    for (const NDArray& array : out) CopyFromTo(stored, array, priority);
  }

  void PullRows(const KVKey& key, const NDArray& out, const NDArray& rows) override {
    values_.PullRows(key, out, rows);
  }

  void set_updater(Updater updater) override { values_.set_updater(std::move(updater)); }

  void CompressGradients(float threshold) override { compression_.Start(threshold); }

  int rank() const override { return 0; }
  int num_workers() const override { return 1; }
  void Barrier() override {}
  void SumOverWorkers(std::span<double>) override {}
  void Fail(const std::string&) override {}

 private:
  StoredValues values_;
  GradientCompression compression_;
};

}  // namespace

std::unique_ptr<KVStore> MakeLocalStore() { return std::make_unique<LocalStore>(); }

}  // namespace tessera::kvstore_internal
