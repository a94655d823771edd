#!/bin/bash
# Code for different instruction sets must not share a name, or the linker keeps one body for all.
#
#   gemm_symbols_test.sh BASELINE_ARCHIVE AVX2_ARCHIVE
#
# No symbol that the linker may merge (weak W and V, unique u) is in both archives, and those of the
# AVX2 archive all lie in its renamed Eigen. The exception is a pointer to the C++ run time's
# personality routine, which has no instructions.

set -euo pipefail

readonly exempt='^DW\.ref\.__gxx_personality_v0$'

mergeable() {
  nm --defined-only "$1" | awk 'NF == 3 && $2 ~ /^[WVu]$/ { print $3 }' | sort -u | grep -vE "$exempt"
}

baseline="$(mergeable "$1")"
avx2="$(mergeable "$2")"
status=0

complain() {
  echo "$1:" >&2
  c++filt <<<"$2" | cut -c 1-150 | sed -n '1,20s/^/  /p' >&2
  status=1
}

for pair in "$1 baseline" "$2 avx2"; do
  read -r archive isa <<<"$pair"
  if ! nm --defined-only "$archive" | grep "tessera_eigen_$isa" >/dev/null; then
    complain "no symbol of this instruction set's Eigen" "$archive: tessera_eigen_$isa"
  fi
done
shared="$(comm -12 <(echo "$baseline") <(echo "$avx2"))"
if [[ -n "$shared" ]]; then complain "both archives define" "$shared"; fi
outside="$(grep -v tessera_eigen_avx2 <<<"$avx2" || true)"
if [[ -n "$outside" ]]; then complain "the AVX2 archive defines, outside its own Eigen" "$outside"; fi
exit "$status"
