"""Stands in for horovod.mxnet, whose library cannot load Tessera's, over a store of many workers.

Every worker calls these functions for the same tensors. Calls with one name, shape and type are matched in
their order; the first of these, which waits for the other workers, must have the same place in each worker's
program. The memory for a name, shape and type is kept until shutdown().
"""

import hashlib
import importlib
import socket
import sys
import types
import warnings

import mxnet as mx
import numpy as np


class _Job:
    """The store of init(), and this worker's place in the job."""

    def __init__(self):
        self.store = mx.kv.create("dist_sync")
        self._keys = set()
        digest = hashlib.sha256(socket.gethostname().encode()).digest()
        machine = int.from_bytes(digest[:7], "little")
        machines = self.gather_numbers(machine)
        self.local_rank = machines[:self.store.rank].count(machine)
        self.local_size = machines.count(machine)

    def add(self, arrays, outs, name, priority=0):
        """Writes the sum of the arrays over all workers to each of the outs."""
        dtype = np.dtype(arrays[0].dtype).name
        key = f"{name} {arrays[0].shape} {dtype}"
        if key not in self._keys:
            self.store.init(key, mx.nd.zeros(arrays[0].shape, dtype=dtype))
            self._keys.add(key)
        self.store.pushpull(key, arrays, out=outs, priority=priority)

    def gather_numbers(self, number):
        """Returns an integer of each worker."""
        numbers = np.zeros(self.store.num_workers, dtype="int64")
        numbers[self.store.rank] = number
        array = mx.nd.array(numbers, dtype="int64")
        self.add([array], [array], "horovod.numbers")
        return array.asnumpy().tolist()


_job = None


def _running():
    if _job is None:
        raise ValueError("horovod.mxnet has not been initialized; expected a call of hvd.init()")
    return _job


def init():
    """Joins the job. Every worker calls it."""
    global _job  # pylint: disable=global-statement
    if _job is None:
        _job = _Job()


def shutdown():
    """Leaves the job. Every worker calls it; without it, the end of the program does so."""
    global _job  # pylint: disable=global-statement
    if _job is not None:
        _job.store.close()
        _job = None


def is_initialized():
    """Returns whether init() has been called, and shutdown() not."""
    return _job is not None


def rank():
    """Returns this worker's number."""
    return _running().store.rank


def size():
    """Returns the number of workers."""
    return _running().store.num_workers


def local_rank():
    """Returns this worker's number among those of its machine."""
    return _running().local_rank


def local_size():
    """Returns the number of workers on this machine."""
    return _running().local_size


def allreduce(tensor, average=True, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0):
    """Returns the average, or the sum, of the workers' tensors."""
    summed = tensor.copy() if prescale_factor == 1.0 else tensor * prescale_factor
    return allreduce_(summed, average, name, priority, postscale_factor=postscale_factor)


def allreduce_(tensor, average=True, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0):
    """Replaces the tensor by the average, or the sum, of the workers' tensors, and returns it."""
    if prescale_factor != 1.0:
        tensor *= prescale_factor
    _running().add([tensor], [tensor], f"horovod.allreduce.{name}", priority)
    if average:
        tensor /= size()
    if postscale_factor != 1.0:
        tensor *= postscale_factor
    return tensor


def allgather(tensor, name=None, priority=0):
    """Returns the workers' tensors in the order of the ranks, joined along the first axis.

    The tensors may differ in the length of that axis alone.
    """
    lengths = _running().gather_numbers(tensor.shape[0])
    joined = mx.nd.zeros((sum(lengths),) + tensor.shape[1:], ctx=tensor.context, dtype=tensor.dtype)
    begin = sum(lengths[:rank()])
    if lengths[rank()] > 0:
        joined[begin:begin + lengths[rank()]] = tensor
    if sum(lengths) > 0:
        _running().add([joined], [joined], f"horovod.allgather.{name}", priority)
    return joined


def broadcast(tensor, root_rank, name=None, priority=0):
    """Returns the root's tensor."""
    return broadcast_(tensor.copy(), root_rank, name, priority)


def broadcast_(tensor, root_rank, name=None, priority=0):
    """Replaces the tensor by that of the root, and returns it."""
    if not 0 <= root_rank < size():
        raise ValueError(f"broadcast: root_rank is {root_rank}, expected 0 to {size() - 1}")
    value = tensor if rank() == root_rank else mx.nd.zeros(tensor.shape, ctx=tensor.context, dtype=tensor.dtype)
    _running().add([value], [tensor], f"horovod.broadcast.{name}", priority)
    return tensor


def broadcast_parameters(params, root_rank=0, prefix=None):
    """Gives every worker the root's parameters: a ParameterDict, or a dict of arrays or parameters.

    A parameter whose shape is not known yet follows when it is initialized.
    """
    for name, value in sorted(params.items()):
        name = (prefix or "") + name
        if isinstance(value, mx.nd.NDArray):
            broadcast_(value, root_rank, name)
            continue
        try:
            arrays = value.list_data()
        except mx.gluon.parameter.DeferredInitializationError:
            _broadcast_when_initialized(value, root_rank, name)
        else:
            _broadcast_arrays(arrays, root_rank, name)


def _broadcast_arrays(arrays, root_rank, name):
    broadcast_(arrays[0], root_rank, name)
    for array in arrays[1:]:
        arrays[0].copyto(array)


def _broadcast_when_initialized(parameter, root_rank, name):
    initialize = parameter._init_impl  # pylint: disable=protected-access

    def initialize_and_broadcast(self, *arguments, **keywords):
        initialize(*arguments, **keywords)
        _broadcast_arrays(self.list_data(), root_rank, name)

    parameter._init_impl = types.MethodType(initialize_and_broadcast, parameter)  # pylint: disable=protected-access


class DistributedOptimizer(mx.optimizer.Optimizer):
    """An optimizer that averages gradients over all workers before each update."""

    def __init__(self, optimizer):  # pylint: disable=super-init-not-called
        object.__setattr__(self, "_optimizer", optimizer)
        optimizer.rescale_grad /= size()

    def __getattr__(self, name):
        if name == "_optimizer":  # of an object that is being unpickled
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def __getstate__(self):
        return {"_optimizer": self._optimizer}

    def __setstate__(self, state):
        object.__setattr__(self, "_optimizer", state["_optimizer"])

    def __setattr__(self, name, value):
        setattr(self._optimizer, name, value)

    def _reduce(self, index, grad):
        if not isinstance(index, (tuple, list)):
            index, grad = [index], [grad]
        for number, array in zip(index, grad):
            allreduce_(array, average=False, name=f"gradient.{number}")

    def create_state(self, index, weight):
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index, weight):
        return self._optimizer.create_state_multi_precision(index, weight)

    def update(self, index, weight, grad, state):
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr):
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(mx.gluon.Trainer):
    """A Trainer that averages gradients over all workers: step(batch_size) takes one worker's batch size."""

    def __init__(self, params, optimizer, optimizer_params=None, prefix=None):
        if isinstance(optimizer, DistributedOptimizer):
            warnings.warn("DistributedTrainer averages the gradients itself; the DistributedOptimizer that it was "
                          "given does not")
            optimizer = optimizer._optimizer  # pylint: disable=protected-access
            optimizer.rescale_grad *= size()
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._scale /= size()
        self._prefix = prefix or ""

    def _allreduce_grads(self):
        for i, parameter in enumerate(self._params):
            if parameter.grad_req != "null":
                grads = parameter.list_grad()
                _running().add(grads, grads, f"horovod.allreduce.{self._prefix}gradient.{i}", priority=-i)


def install():
    """Makes this module what `import horovod.mxnet` finds."""
    try:
        package = importlib.import_module("horovod")
    except ImportError:
        package = sys.modules["horovod"] = types.ModuleType("horovod")
        package.__path__ = []
    package.mxnet = sys.modules["horovod.mxnet"] = sys.modules[__name__]
