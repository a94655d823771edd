#!/bin/bash
# The families of operators include only what lies below them, and the checker would notice if one did
# not.

set -uo pipefail

here=tests/visibility
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect STATUS "FILE INCLUDED"...: paths below ops/.
expect() {
  local wanted="$1" forged="$TEST_TMPDIR/forged" got=0 include
  shift
  rm -rf "$forged"
  mkdir -p "$forged/ops"
  for include in "$@"; do
    mkdir -p "$(dirname "$forged/ops/${include%% *}")"
    printf '#include "tessera/ops/%s"\n' "${include##* }" >>"$forged/ops/${include%% *}"
  done
  "$here/check_family_includes.sh" "$forged" >"$TEST_TMPDIR/output" || got=$?
  if ((got != wanted)); then
    fail "'$*' gave status $got, expected $wanted"
    cat "$TEST_TMPDIR/output"
  fi
}

if ! "$here/check_family_includes.sh" .; then
  fail "the families break the rules"
fi
# Each package of ops that programs link has its sources in //ops:files.
folders=0
while read -r folder; do
  folders=$((folders + 1))
  compgen -G "$folder/*.h" >/dev/null || compgen -G "$folder/*.cc" >/dev/null ||
    fail "the sources of $folder are not among //ops:files"
done < <(grep -oE '"//ops(/[^":]*)?:' "$here/component_graph" | tr -d '":' | cut -c3- | sort -u)
((folders)) || fail "there is no package of ops in the graph"

# Allowed.
expect 0 "nn/pooling.cc loops/map.h" "nn/pooling.cc windows/pooling_parameters.h"
expect 0 "nn/pooling.cc nn/pooling_loops.h" "nn/pooling.cc simple_op.h" "nn/pooling.cc operator.h"
expect 0 "windows/convolution_loops.cc loops/convert_row.h" "simple_op.h loops/map.h"
expect 0 "loops/map.h kernel.h"
expect 0 "registry.cc mxnet/operators.h" "testing/operator_row.h operator.h"
expect 0 "simple_op_test.cc testing/operator_row.h" "nn/pooling_test.cc testing/operator_row.h"
expect 0 "elemwise/binary_row.h testing/operator_row.h" "vision/box_reference.h testing/operator_row.h"
expect 0 "vision/boxes/anchors.h vision/regions/boxes.h" \
  "vision/regions/proposal.cc vision/zero_gradient.h"
# From one family to another.
expect 1 "loss/ctc_loss.cc norm/norm_gradient.h"
expect 1 "loss/ctc_loss_test.cc norm/norm_gradient.h"
expect 1 "vision/boxes/anchors.h linalg/factors/dense_matrix.h"
expect 1 "nn/pooling.cc loops/map.h" "nn/pooling.cc new_family/loops.h"
# Upwards.
expect 1 "loops/map.cc windows/window_parameters.h"
expect 1 "loops/map.cc elemwise/binary.h"
expect 1 "loops/map.cc simple_op.h"
expect 1 "windows/convolution_loops.h nn/pooling_loops.h"
expect 1 "operator.h elemwise/binary.h"
expect 1 "kernel.h loops/map.h"
expect 1 "simple_op.h elemwise/binary.h"
expect 1 "mxnet/operators.cc registry.h"
expect 1 "testing/shape_reference.h shape/move.h"
# What tests share, elsewhere than in tests.
expect 1 "nn/pooling.cc testing/operator_row.h"
expect 1 "loops/map.h testing/operator_row.h"
# In a circle.
expect 1 "vision/boxes/anchors.h vision/regions/boxes.h" \
  "vision/regions/proposal_test.cc vision/boxes/box_reference.h"
expect 1 "linalg/dot.cc linalg/factors/dense_matrix.h" "linalg/factors/rotate.h linalg/dot.h"
# Sources without includes prove nothing.
expect 2

if ((failures)); then
  echo "$failures failures"
  exit 1
fi
echo "families lie side by side in $folders folders"
