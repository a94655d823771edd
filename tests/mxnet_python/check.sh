#!/bin/bash
# Tests pip's package mxnet on the wheel of tessera_mxnet: check.sh [PYTHON [ARGUMENT_OF_PYTEST...]]
# PYTHON is Debian's by default. The first run needs a network: it makes an environment below the
# user's cache folder, which later runs use. With --library=mxnet the tests run on MXNet's own library.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python="${1:-/usr/bin/python3}"
shift || true
here=tests/mxnet_python
export PYTHONDONTWRITEBYTECODE=1

# The oldest and the newest NumPy that there are for these Pythons, and what lies between.
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
case "$version" in
  3.8) numpy=numpy==1.19.5 ;;
  3.9 | 3.10 | 3.11) numpy=numpy==1.23.5 ;;
  3.12) numpy=numpy==1.26.4 ;;
  *) numpy=numpy ;;
esac
packages=("$numpy" requests "graphviz<0.9" onnx onnxruntime pytest)

# Named by what is in it; whole, or not there.
key="$(printf '%s\n' "${packages[@]}" | sha256sum | cut -c 1-12)"
environment="${XDG_CACHE_HOME:-$HOME/.cache}/tessera/mxnet_python/$version-$key"
pip=("$environment/bin/python" -m pip --disable-pip-version-check --quiet install)
if [[ ! -e "$environment/whole" ]]; then
  echo "making an environment for Python $version in $environment"
  rm -rf "$environment"
  "$python" -m venv "$environment"
  "${pip[@]}" "${packages[@]}"
  # MXNet's own metadata asks for a NumPy that newer Pythons do not have.
  "${pip[@]}" --no-deps mxnet==1.9.1
  touch "$environment/whole"
fi

targets=(//compat/mxnet:wheel //tools/im2rec)
# Without MPI and its headers, conftest.py leaves the tests of many workers out.
if type -P mpirun >/dev/null && [[ -n "${MPI_HOME:-}" || -e "/usr/include/$(uname -m)-linux-gnu/mpi/mpi.h" ]]; then
  targets+=(//kvstore/mpi:libtessera_mpi.so)
  export TESSERA_MPI_LIBRARY="$PWD/bazel-bin/kvstore/mpi/libtessera_mpi.so"
fi
./bazelw build "${targets[@]}"
wheels=(bazel-bin/compat/mxnet/python/wheel/*.whl)
"${pip[@]}" --force-reinstall --no-deps "${wheels[@]}"
"$environment/bin/python" -m pytest -q -p no:cacheprovider -W ignore "$here" "$@"
