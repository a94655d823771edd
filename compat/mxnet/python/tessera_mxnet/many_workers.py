"""MXNet's stores of many workers, which are the processes that mpirun has started.

MXNet's own class would send the optimizer to servers. Here there are none: each worker updates its copy of
the weights by the sums of all gradients.
"""

import atexit
import ctypes
import os
import sys

from mxnet import optimizer as optimizers
from mxnet import profiler
from mxnet.base import _LIB, KVStoreHandle, MXNetError, c_str, check_call
from mxnet.kvstore import KVStore, KVStoreBase

_PROCESS = os.getpid()

# The stores that have not ended, by their handles, in the order in which they were made.
_open_stores = {}


class ManyWorkersStore(KVStore):
    """A store whose values are summed over all workers. Every worker makes the same stores in the same order.

    Its end waits for the other workers, and Python may collect an object at any time. So a store ends by
    close(), or when the program ends.
    """

    def __init__(self):
        if os.environ.get("DMLC_ROLE", "worker") != "worker":
            raise MXNetError("this process was started as a server or scheduler of MXNet's, which stores on Tessera "
                             "do not have: start the program by mpirun -n WORKERS")
        handle = KVStoreHandle()
        check_call(_LIB.MXKVStoreCreate(c_str(type(self).__name__), ctypes.byref(handle)))
        super().__init__(handle)
        _open_stores[handle.value] = handle
        profiler.set_kvstore_handle(handle)
        workers = os.environ.get("DMLC_NUM_WORKER", str(self.num_workers))
        if workers != str(self.num_workers):
            raise MXNetError(f"the job has {self.num_workers} workers and DMLC_NUM_WORKER is {workers}: start the "
                             f"program by mpirun -n {workers}, or python -m tessera_mxnet.launch -n {workers}")

    def __del__(self):
        pass  # in place of MXNet's, which would end the store

    def close(self):
        """Ends the store, once every worker does so. Does nothing if it has ended."""
        _close(self.handle.value)

    def set_optimizer(self, optimizer):
        """Registers an optimizer, which each worker then runs on its copy of the weights."""
        self._set_updater(optimizers.get_updater(optimizer))


def _close(address):
    handle = _open_stores.pop(address, None)
    if handle is not None:
        check_call(_LIB.MXKVStoreFree(handle))


def _close_all():
    if os.getpid() == _PROCESS:
        for address in list(_open_stores):
            _close(address)


def fail(cause):
    """Ends the job of this process's stores, if there are any, because of an error of this worker alone."""
    if _open_stores and os.getpid() == _PROCESS:
        _LIB.MXTesseraKVStoreFail(next(iter(_open_stores.values())), c_str(cause))


def _fail_at_exceptions():
    """Has an exception that ends the program end the job, whose other workers would wait for this one."""
    print_exception = sys.excepthook

    def end_job(kind, error, trace):
        print_exception(kind, error, trace)
        sys.stderr.flush()
        fail(f"{kind.__name__}: {error}")

    sys.excepthook = end_job


for _name in ("dist", "dist_sync", "dist_sync_device", "dist_device_sync"):
    KVStoreBase.register(type(_name, (ManyWorkersStore,), {"__doc__": ManyWorkersStore.__doc__}))
atexit.register(_close_all)
_fail_at_exceptions()
