#!/bin/bash
# Gathers the GPU tests and benchmarks, stripped, with the libraries that they need, into one folder
# that runs on a GPU machine without Bazel:
#
#   tools/gpu_bundle.sh OUT && scp -r OUT machine: && ssh machine OUT/run.sh
#
# cuBLAS stays behind, for it is huge, and so does what comes with the driver.

set -euo pipefail

readonly max_bytes=$((60 * 1000 * 1000))

if (($# != 1)); then
  echo "usage: tools/gpu_bundle.sh OUT" >&2
  exit 2
fi
mkdir -p "$1"
out="$(cd "$1" && pwd)"
if [[ -n "$(ls -A "$out")" && ! -e "$out/run.sh" ]]; then
  echo "gpu_bundle: $out is not empty and holds no bundle; nothing was written." >&2
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

labels() { # KIND
  ./bazelw query --noshow_progress "kind($1, attr(tags, '\\bgpu\\b', //...))"
}
found="$(labels cc_test)"
mapfile -t tests <<<"$found"
found="$(labels cc_binary)"
mapfile -t benchmarks < <(printf '%s' "${found:+$found$'\n'}")
if [[ -z "${tests[0]}" ]]; then
  echo "gpu_bundle: no test is tagged gpu." >&2
  exit 1
fi

./bazelw build --config=cuda -- "${tests[@]}" ${benchmarks[@]+"${benchmarks[@]}"}

rm -rf "$out"/{run.sh,tests,benchmarks,lib,data}
mkdir -p "$out"/{tests,benchmarks,lib,data}

# add FOLDER LABEL: "//tensor/testing:fuse_gpu_test" becomes FOLDER/tensor.testing.fuse_gpu_test.
add() {
  local path="${2#//}" name binary library runfiles
  path="${path/://}"
  name="${path//\//.}"
  binary="bazel-bin/$path"
  strip -o "$out/$1/$name" "$binary"
  while read -r library; do
    case "${library##*/}" in
      ld-linux* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so*) ;;
      libcuda.so* | libcublas* | libnv*) ;;
      *) cp -Lu "$library" "$out/lib/" ;;
    esac
  done < <(ldd "$binary" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }')
  # What the test reads lies where it lies below the workspace.
  for runfiles in "$binary.runfiles"/{tessera,_main}; do
    if [[ -d "$runfiles" ]]; then
      (cd "$runfiles" && find . \( -type l -o -type f \) ! -path "./$path" ! -name '*.so*' \
        -exec cp -L --parents -t "$out/data" {} +)
    fi
  done
}
for label in "${tests[@]}"; do add tests "$label"; done
for label in ${benchmarks[@]+"${benchmarks[@]}"}; do add benchmarks "$label"; done
find "$out/lib" -type f -exec strip --strip-unneeded {} + 2>/dev/null || true

cat >"$out/run.sh" <<'EOF'
#!/bin/bash
# Runs every GPU test of this bundle and prints PASS or FAIL for each; exits 1 if any failed.
# With --benchmarks it runs the benchmarks after them; CUDA_HOME names a toolkit in an unusual place.

set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
path="$here/lib"
for directory in "${CUDA_HOME:-/usr/local/cuda}"/{lib64,lib} /usr/local/cuda-*/lib64; do
  if [[ -d "$directory" ]]; then path="$path:$directory"; fi
done
export LD_LIBRARY_PATH="$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
TEST_TMPDIR="$(mktemp -d)"
export TEST_TMPDIR TESSERA_TEST_NEEDS_GPU=1
trap 'rm -rf "$TEST_TMPDIR"' EXIT
cd "$here/data" || exit 1

passed=0
failed=0
for test in "$here"/tests/*; do
  if "$test" >"$TEST_TMPDIR/log" 2>&1; then
    echo "PASS ${test##*/}"
    passed=$((passed + 1))
  else
    echo "FAIL ${test##*/}"
    sed 's/^/    /' "$TEST_TMPDIR/log" | tail -n 60
    failed=$((failed + 1))
  fi
done
if [[ "${1:-}" == --benchmarks ]]; then
  for benchmark in "$here"/benchmarks/*; do
    [[ -e "$benchmark" ]] || continue
    echo "=== ${benchmark##*/}"
    "$benchmark" || failed=$((failed + 1))
  done
fi
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
EOF
chmod +x "$out/run.sh"

size="$(du -sb "$out" | cut -f1)"
echo "$out: ${#tests[@]} tests, ${#benchmarks[@]} benchmarks, $size bytes"
if ((size > max_bytes)); then
  echo "gpu_bundle: the bundle is larger than $max_bytes bytes." >&2
  exit 1
fi
