"""The CUDA repository for Bzlmod."""

load(":cuda_repository.bzl", "cuda_repository")

def _cuda_impl(_module_ctx):
    cuda_repository(name = "tessera_cuda")

cuda = module_extension(implementation = _cuda_impl)
