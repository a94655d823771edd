"""Asks for a CUDA module, which the library refuses, and ends."""

import mxnet as mx

try:
    mx.rtc.CudaModule("")
except mx.base.MXNetError as error:
    print("refused:", error)
