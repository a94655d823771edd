#include "tessera/compat/mxnet/custom/client_functions.h"

#include <map>
#include <utility>

#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/custom/custom_operator.h"

namespace tessera::mxnet {
namespace {

std::map<std::string, ClientOp*>& Ops() {
  static auto* const ops = new std::map<std::string, ClientOp*>;
  return *ops;
}

/// The texts of a description, in memory that lives as long as it.
struct Description {
  ClientOp* op;
  std::array<std::vector<char*>, 3> lists = {};
  std::vector<int> deps = {};
  std::array<void*, 8> contexts = {};
};

/// An object that computes.
struct Object {
  ClientOp* op;
  NDArray kept = {};
  std::array<void*, 3> contexts = {};
};

template <typename Function>
auto Generic(Function* function) {
  return reinterpret_cast<int (*)()>(reinterpret_cast<void (*)()>(function));
}

template <size_t kList>
int List(char*** list, void* context) {
  auto* const description = static_cast<Description*>(context);
  ClientOp& op = *description->op;
  auto& names = kList == 0 ? op.arguments : kList == 1 ? op.outputs : op.aux_states;
  std::vector<char*>& pointers = description->lists[kList];
  pointers.clear();
  for (std::string& name : names) pointers.push_back(name.data());
  pointers.push_back(nullptr);
  *list = pointers.data();
  return 1;
}

int InferShape(int count, int* ranks, int** extents, void*) {
  for (int i = 1; i < count; ++i) {
    ranks[i] = ranks[0];
    extents[i] = extents[0];
  }
  return 1;
}

int InferType(int count, int* types, void*) {
  for (int i = 1; i < count; ++i) types[i] = types[0];
  return 1;
}

int Depend(const int* out_grad, const int* in_data, const int* out_data, int* count, int** deps,
           void* context) {
  auto* const description = static_cast<Description*>(context);
  const ClientOp& op = *description->op;
  description->deps.clear();
  const auto add = [&](const int* ids, size_t size) {
    description->deps.insert(description->deps.end(), ids, ids + size);
  };
  if (op.backward_reads_out_grad) add(out_grad, op.outputs.size());
  add(in_data, op.arguments.size());
  add(out_data, op.outputs.size());
  *count = static_cast<int>(description->deps.size());
  *deps = description->deps.data();
  return 1;
}

template <bool kBackward>
int Run(int count, void** handles, int* tags, const int* requests, int is_train, void* context) {
  auto* const object = static_cast<Object*>(context);
  ClientCall call{.is_train = is_train != 0, .kept = &object->kept};
  for (int i = 0; i < count; ++i) {
    call.arrays[static_cast<size_t>(tags[i])].push_back(ArrayOf(handles[i]));
    Arrays().Remove(handles[i]);
  }
  const size_t num_requests = (kBackward ? call.in_grad() : call.out_data()).size();
  for (size_t i = 0; i < num_requests; ++i) {
    call.requests.push_back(static_cast<OpReqType>(requests[i]));
  }
  try {
    return (kBackward ? object->op->backward : object->op->forward)(call) ? 1 : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

int DeleteObject(void* context) {
  auto* const object = static_cast<Object*>(context);
  --object->op->objects;
  delete object;
  return 1;
}

int CreateObject(const char*, int, unsigned**, const int*, const int*, MXCallbackList* result,
                 void* context) {
  static int (*functions[])() = {Generic(DeleteObject), Generic(Run<false>), Generic(Run<true>)};
  auto* const object = new Object{.op = static_cast<Description*>(context)->op};
  ++object->op->objects;
  object->contexts.fill(object);
  *result = {3, functions, object->contexts.data()};
  return 1;
}

int DeleteDescription(void* context) {
  auto* const description = static_cast<Description*>(context);
  --description->op->descriptions;
  delete description;
  return 1;
}

int CreateDescription(const char* op_type, int num_parameters, const char**, const char**,
                      MXCallbackList* result) {
  static int (*functions[])() = {Generic(DeleteDescription), Generic(List<0>),    Generic(List<1>),
                                 Generic(List<2>),           Generic(InferShape), Generic(Depend),
                                 Generic(CreateObject),      Generic(InferType)};
  ClientOp* const op = Ops().at(op_type);
  op->num_parameters = num_parameters;
  if (!op->can_create) return 0;
  auto* const description = new Description{.op = op};
  ++op->descriptions;
  description->contexts.fill(description);
  *result = {8, functions, description->contexts.data()};
  return 1;
}

}  // namespace

void ClientOp::Register(const std::string& op_type) {
  Ops()[op_type] = this;
  RegisterCustomOperator(op_type, CreateDescription);
}

}  // namespace tessera::mxnet
