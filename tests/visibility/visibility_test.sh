#!/bin/bash
# The components' real graph respects the table, and the checker would notice if it did not.

set -uo pipefail

here=tests/visibility
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect STATUS FORGED_EDGE...
expect() {
  local wanted="$1" graph="$TEST_TMPDIR/forged" got=0 edge
  shift
  printf 'digraph mygraph {\n' >"$graph"
  for edge in "$@"; do printf '  "%s" -> "%s"\n' "${edge%% *}" "${edge##* }" >>"$graph"; done
  printf '}\n' >>"$graph"
  "$here/check_edges.sh" "$here/allowed_dependencies.txt" "$graph" >"$TEST_TMPDIR/output" || got=$?
  if ((got != wanted)); then
    fail "'$*' gave status $got, expected $wanted"
    cat "$TEST_TMPDIR/output"
  fi
}

if ! "$here/check_edges.sh" "$here/allowed_dependencies.txt" "$here/component_graph"; then
  fail "the components break the table"
fi

# Allowed.
expect 0 "//tensor:tensor //base:base"
expect 0 "//ops/nn:pooling //tensor:tensor" "//ops/nn:pooling //ops:operator"
expect 0 "//ops:operator //resource:handle"
expect 0 "//engine:engine //third_party/tbb:tbb" "//third_party/tbb:tbb @onetbb//:tbb"
expect 0 "//examples/digits:digits //:train" "//:train //train:train"
expect 0 "//tests/stress:stress //engine:engine"
expect 0 "//ops:operators_benchmark //third_party/eigen:eigen"
expect 0 "//graph:nodes //ops:core" "//graph:passes_test //ops/nn:nn" "//graph/testing:evaluate //ops/nn:nn"
expect 0 "//ndarray:op //ops:ops" "//symbol:op //ndarray:op" "//train:optimizer //ops/optimizer:optimizer"
expect 0 "//symbol:executor_test //ndarray/testing:array_values"
expect 0 "//train/nn:basic //ops/nn:nn" "//train/nn:basic //train:initializer"
# Against the table.
expect 1 "//engine:engine //tensor:tensor"
expect 1 "//tensor:tensor //engine:engine"
expect 1 "//base:base //tensor:tensor"
expect 1 "//ops/nn:pooling //ndarray:ndarray"
expect 1 "//io/idx:reader //symbol:symbol"
expect 1 "//tensor:tensor //base:base" "//storage:storage //engine:engine"
# Around the facade, around the aliases, around third_party.
expect 1 "//ndarray:ndarray //engine:queue"
expect 1 "//ndarray:ndarray //ops/nn:nn"
expect 1 "//ndarray:array //ops:ops"
expect 1 "//symbol:executor //ndarray:op"
expect 1 "//train:module //ops/nn:nn"
expect 1 "//train/nn:layer //ops:ops"
expect 1 "//graph:passes_test //ops/nn:convolution"
expect 1 "//symbol:executor //ndarray/testing:array_values"
expect 1 "//engine:engine_test //tensor/testing:test_values"
expect 1 "//engine:engine //:tensor"
expect 1 "//tensor:tensor //:base"
expect 1 "//engine:engine //:operators_nn"
expect 1 "//io:io //:train_core"
expect 1 "//examples/digits:digits //train:train"
expect 1 "//engine:engine @onetbb//:tbb"
expect 1 "//engine:engine //third_party/eigen:eigen"
expect 1 "//base:base //third_party/eigen:eigen"
expect 1 "//io:io //third_party/tbb:tbb"
# A graph without edges proves nothing.
expect 2

if ((failures)); then
  echo "$failures failures"
  exit 1
fi
echo "the table is respected"
