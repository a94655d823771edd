#!/bin/bash
# Installs Tessera below a folder of its own and builds against it as people without Bazel do, by
# CMake with both libraries and by pkg-config with the shared one. So are the programs of the workspaces that
# ../check.sh does not build whole. The headers that are there keep what tests/headers/check.py says.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
here="$PWD"

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
# Runs a command and prints only compilers' warnings of what it says.
quietly() {
  "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; return 1; }
  grep ': warning: ' "$scratch/log" || true
}

quietly ../../../bazelw run //tools:install -- "--prefix=$scratch/installed"
# Nothing that was installed may remember where.
mv "$scratch/installed" "$scratch/prefix"

quietly cmake -S "$here" -B "$scratch/build" "-DCMAKE_PREFIX_PATH=$scratch/prefix"
quietly cmake --build "$scratch/build"
export PKG_CONFIG_PATH="$scratch/prefix/lib/pkgconfig"
flags="$(pkg-config --cflags --libs tessera)"
# The compiler's flags are words.
quietly g++ graph.cc -o "$scratch/build/with_pkg_config" $flags

for program in with_shared with_static with_pkg_config; do
  printed="$(LD_LIBRARY_PATH="$scratch/prefix/lib" "$scratch/build/$program")"
  echo "$program: $printed"
  [[ "$printed" == "2 4 6 " ]] || { echo "expected 2 4 6"; exit 1; }
done

# FOLDER/PROGRAM SOURCE...: prints what FOLDER/PROGRAM.expected says.
check_consumer() {
  local program="$1" sources=("${@:2}") printed
  # The compiler's flags are words.
  quietly g++ "${sources[@]/#/../${program%/*}/}" -o "$scratch/build/${program#*/}" $flags
  printed="$(LD_LIBRARY_PATH="$scratch/prefix/lib" "$scratch/build/${program#*/}")"
  echo "${program#*/}: ${printed//$'\n'/; }"
  [[ "$printed" == "$(<"../$program.expected")" ]] || { echo "this is not what $program.expected says"; return 1; }
}
check_consumer everything/exclusive_or exclusive_or.cc
check_consumer everything/my_smooth_l1 my_smooth_l1.cc
check_consumer ops/use_short_rows short_rows.cc use_short_rows.cc
check_consumer ops/use_swish swish.cc use_swish.cc

# MXNet's C API is a library of its own, which a program in C links by the name without a version.
quietly gcc mxnet_version.c -o "$scratch/build/mxnet_version" "-L$scratch/prefix/lib" -ltessera_mxnet
printed="$(LD_LIBRARY_PATH="$scratch/prefix/lib" "$scratch/build/mxnet_version")"
echo "mxnet_version: $printed"
[[ "$printed" == "10901" ]] || { echo "expected 10901"; exit 1; }

# A process has one scheduler of TBB's, which is why that is in nobody's library but its own.
for file in "$scratch"/prefix/lib/libtessera{,_mxnet}.so "$scratch/build/with_static"; do
  readelf -d "$file" | grep 'NEEDED.*\[libtbb\.so' >/dev/null || { echo "${file##*/} does not take TBB shared"; exit 1; }
done

python3 ../../headers/check.py "--include=$scratch/prefix/include"
