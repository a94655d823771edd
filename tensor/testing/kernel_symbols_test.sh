#!/bin/bash
# Code for different instruction sets must not share a name, or the linker keeps one body for all.
#
#   kernel_symbols_test.sh KERNEL=ARCHIVE...      where KERNEL is gemm_avx2, math_baseline, …
#
# No archive defines a symbol that the linker may merge (weak W and V, unique u) outside its own
# renamed Eigen or its own namespace, whose names end in the kernel's. The exception is a pointer to
# the C++ run time's personality routine, which has no instructions. Each must define its own
# kernel, so that an empty archive does not pass. Kernels of functions have all that these do to
# packets in their loops (ForEachPacket in math_kernel.h); only what is rare is called.

set -euo pipefail

readonly exempt='^DW\.ref\.__gxx_personality_v0$'
readonly rare='WithLargeLanes'
status=0

complain() {
  echo "$1:" >&2
  c++filt <<<"$2" | cut -c 1-150 | sed -n '1,20s/^/  /p' >&2
  status=1
}

for argument in "$@"; do
  kernel="${argument%%=*}"
  archive="${argument#*=}"
  if ! nm --defined-only "$archive" | grep " T .*$kernel" >/dev/null; then
    complain "no kernel" "$archive: $kernel"
  fi
  outside="$(nm --defined-only "$archive" | awk 'NF == 3 && $2 ~ /^[WVu]$/ { print $3 }' |
    sort -u | grep -vE "$exempt" | grep -vE "(tessera_eigen|isa)_$kernel" || true)"
  if [[ -n "$outside" ]]; then
    complain "the archive of $kernel defines, outside its own Eigen" "$outside"
  fi
  if [[ "$kernel" == math_* ]]; then
    called="$(nm --defined-only "$archive" | awk 'NF == 3 && $2 ~ /^[WtT]$/ { print $3 }' |
      grep -E '11packet_math|tessera_eigen' | grep -vE "$rare" || true)"
    if [[ -n "$called" ]]; then complain "kernels of $kernel call" "$called"; fi
  fi
done
if (($# < 2)); then complain "nothing to compare" "$*"; fi
exit "$status"
