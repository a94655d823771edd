#!/bin/bash
# A saved network answers digits, and memory does not grow: serve_test.sh SERVE DIGITS DATA_FOLDER
set -uo pipefail
unset BUILD_WORKING_DIRECTORY
serve="$PWD/$1"
digits="$PWD/$2"
data="$PWD/$3"
scratch="$(mktemp -d "${TEST_TMPDIR:-/tmp}/serve.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "FAILED: $*"
  exit 1
}

# at_most NUMBER BOUND
at_most() { awk -v number="$1" -v bound="$2" 'BEGIN { exit !(number <= bound) }'; }

# npy SHAPE: the header of an array of bytes, version 1.0, in 128 bytes.
npy() { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': $1, }"; }

# refuses WORDS ARGUMENT...: exit status 2, and a message that has the words in it.
refuses() {
  local words="$1" status=0 message
  shift
  message="$("$serve" "$@" 2>&1)" || status=$?
  ((status == 2)) && [[ "$message" == serve:*"$words"* ]] || fail "$*: ended with $status: $message"
}

"$digits" --model=mlp --epochs=15 --checkpoint="$scratch/model" || fail "the digits' training ended with $?"

# The test's images in two files, of 300 and 60 images, behind the 16 bytes of their own header.
images="$data/t10k-images-idx3-ubyte"
(npy "(300, 64)"; tail -c +17 "$images" | head -c 19200) >"$scratch/first.npy"
(npy "(60, 64)"; tail -c +17 "$images" | tail -c 3840) >"$scratch/second.npy"
output="$("$serve" --model="$scratch/model" --epoch=15 --scale=0.0625 --requests=20000 \
  "$scratch/first.npy" "$scratch/second.npy")" || fail "ended with $?"
answers="$(grep '^\(first\|second\)\.npy ' <<<"$output")"
echo "$(head -n 3 <<<"$answers")"
grep -v '\.npy ' <<<"$output"

# Five classes each, in the order of the files and of their probabilities.
number='[0-9.e+-]*'
(($(grep -cE "^(first|second)\.npy [0-9]+:( [0-9] \($number\)){5}$" <<<"$answers") == 360)) ||
  fail "expected 360 lines of five classes each"
[[ "$(sed 's/:.*//' <<<"$answers")" == "$(seq -f 'first.npy %g' 0 299; seq -f 'second.npy %g' 0 59)" ]] ||
  fail "the answers are not in the order of the examples"
tr '()' '  ' <<<"$answers" | awk '{ for (i = 6; i <= NF; i += 2) if ($i > $(i - 2)) exit 1 }' ||
  fail "an answer's probabilities rise"
right="$(paste -d' ' <(sed -E 's/.*: ([0-9]) \(.*\) [0-9] .*/\1/; s/ .*//' <<<"$answers") \
  <(od -An -v -tu1 -w1 -j8 "$data/t10k-labels-idx1-ubyte" | tr -d ' ') | awk '$1 == $2' | wc -l)"
((right >= 300)) || fail "$right of 360 digits are read rightly, expected 300 or more"

# memory REQUESTS KIND: bytes after so many requests.
memory() { sed -n "s/^memory after $1 requests: .*$2 \([0-9]*\) bytes.*/\1/p" <<<"$output"; }
[[ "$(memory 20000 arrays)" == "$(memory 2000 arrays)" ]] || fail "arrays are left behind"
at_most "$(memory 20000 resident)" "$(($(memory 2000 resident) + (2 << 20)))" || fail "the resident memory grows"
read -r p50 p99 rate together < <(sed -nE \
  's|^8 threads: p50 ([0-9.]+) ms, p99 ([0-9.]+) ms, ([0-9]+) requests/s, ([0-9.]+) requests in a batch$|\1 \2 \3 \4|p' \
  <<<"$output") || fail "the measurement's line is missing"
at_most "$p50" "$p99" && at_most 1 "$rate" && at_most 1 "$together" && at_most "$together" 4 ||
  fail "p50 $p50, p99 $p99, $rate requests/s, $together in a batch"

refuses "model-0009.params" --model="$scratch/model" --epoch=9 "$scratch/first.npy"
refuses "missing.npy" --model="$scratch/model" --epoch=15 "$scratch/missing.npy"
(npy "(2, 30)"; head -c 60 "$images") >"$scratch/narrow.npy"
refuses "narrow.npy: examples of shape (30,), expected (64,)" --model="$scratch/model" --epoch=15 \
  "$scratch/first.npy" "$scratch/narrow.npy"
refuses "shape" --model="$scratch/model" --epoch=15 "$scratch/narrow.npy"
refuses "--model" --epoch=15 "$scratch/first.npy"
echo "all as it should be"
