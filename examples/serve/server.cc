#include "tessera/examples/serve/server.h"

#include <algorithm>
#include <exception>
#include <map>
#include <string>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::serve {
namespace {

// While one batch is computed, the next is put together and its first operators run.
constexpr size_t kBatchesAtOnce = 2;

TShape WithBatch(index_t batch, const TShape& example) {
  std::vector<index_t> extents = {batch};
  extents.insert(extents.end(), example.begin(), example.end());
  return TShape(std::span<const index_t>(extents));
}

/// Returns the place of the only input that has no value and is no label.
size_t FindData(const std::vector<std::string>& names, const ModelParameters& parameters) {
  std::vector<size_t> found;
  for (size_t i = 0; i < names.size(); ++i) {
    if (parameters.arg.contains(names[i]) || parameters.aux.contains(names[i])) continue;
    if (!names[i].ends_with("label")) found.push_back(i);
  }
  if (found.size() == 1) return found[0];
  std::string list;
  for (const size_t i : found) list += " " + names[i];
  throw InvalidArgument("the network has ", found.size(), " arguments without a value:", list,
                        "; expected one, the data");
}

}  // namespace

struct Server::Request {
  std::span<const float> example;
  std::vector<float> answer = {};
  std::exception_ptr error = nullptr;
  bool is_done = false;
};

Server::Server(const Checkpoint& model, const TShape& example, size_t max_batch)
    : example_(example), network_(model.symbol) {
  data_ = FindData(network_.input_names(), model.parameters);
  const std::vector<float> zeros(static_cast<size_t>(example.Size()));
  for (size_t size = 1; size <= max_batch; ++size) {
    inputs_.push_back(InputsFor(model, static_cast<index_t>(size)));
    std::vector<Request> requests(size, Request{.example = zeros});
    std::vector<Request*> batch;
    for (Request& request : requests) batch.push_back(&request);
    Compute(batch);
    if (requests[0].error) std::rethrow_exception(requests[0].error);
  }
}

std::vector<NDArray> Server::InputsFor(const Checkpoint& model, index_t batch) const {
  const std::vector<std::string>& names = network_.input_names();
  const InferredShapes shapes =
      model.symbol.InferShape({{names[data_], WithBatch(batch, example_)}});
  const std::vector<std::string> arguments = model.symbol.ListArguments();
  std::vector<NDArray> inputs;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [arg, aux] = model.parameters;
    if (i == data_) {
      inputs.emplace_back();
    } else if (const auto value = arg.find(names[i]); value != arg.end()) {
      inputs.push_back(value->second);
    } else if (const auto state = aux.find(names[i]); state != aux.end()) {
      inputs.push_back(state->second);
    } else {
      const auto place = std::find(arguments.begin(), arguments.end(), names[i]);
      NDArray label(shapes.arguments[static_cast<size_t>(place - arguments.begin())]);
      label = 0.0f;
      inputs.push_back(label);
    }
  }
  return inputs;
}

void Server::Compute(std::span<Request* const> batch) const {
  try {
    std::vector<float> data;
    for (const Request* const request : batch) {
      data.insert(data.end(), request->example.begin(), request->example.end());
    }
    std::vector<NDArray> inputs = inputs_[batch.size() - 1];
    inputs[data_] =
        NDArray::FromVector(data, WithBatch(static_cast<index_t>(batch.size()), example_));
    const std::vector<float> output = network_(inputs)[0].ToVector();
    if (output.size() % batch.size() != 0) {
      throw InvalidArgument("the network gives ", output.size(), " numbers for ", batch.size(),
                            " examples, expected as many for each");
    }
    const auto row = static_cast<std::ptrdiff_t>(output.size() / batch.size());
    auto begin = output.begin();
    for (Request* const request : batch) {
      request->answer.assign(begin, begin + row);
      begin += row;
    }
  } catch (...) {
    for (Request* const request : batch) request->error = std::current_exception();
  }
}

std::vector<float> Server::Answer(std::span<const float> example) {
  if (static_cast<index_t>(example.size()) != example_.Size()) {
    throw InvalidArgument("Server::Answer: ", example.size(), " elements, expected those of shape ",
                          example_);
  }
  Request request{.example = example};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&request);
  while (!request.is_done) {
    if (running_ == kBatchesAtOnce || waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto size = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), inputs_.size()));
    const std::vector<Request*> batch(waiting_.begin(), waiting_.begin() + size);
    waiting_.erase(waiting_.begin(), waiting_.begin() + size);
    ++running_;
    ++num_batches_;
    lock.unlock();
    Compute(batch);
    lock.lock();
    --running_;
    for (Request* const answered : batch) answered->is_done = true;
    changed_.notify_all();
  }
  if (request.error) std::rethrow_exception(request.error);
  return std::move(request.answer);
}

size_t Server::num_batches() const {
  const std::lock_guard lock(mutex_);
  return num_batches_;
}

}  // namespace tessera::serve
