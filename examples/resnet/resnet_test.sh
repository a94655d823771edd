#!/bin/bash
# The residual network learns a few digits by heart, and reads others: resnet_test.sh PROGRAM
set -uo pipefail
source examples/training_folder/stop_and_continue.sh

fail() {
  echo "FAILED: $*"
  exit 1
}

# The part has 32 images, which are one batch: 15 steps.
output="$("$1" --num_parts=44 --epochs=15)" || fail "ended with $?"
echo "$output"
loss="$(sed -n 's|^epoch 15/15  loss \([0-9.]*\) .*|\1|p' <<<"$output")"
# Ten classes of equal probability have a loss of 2.3.
awk -v loss="${loss:-9}" 'BEGIN { exit !(loss < 1.2) }' || fail "expected a loss below 1.2"
grep -qx 'test_accuracy=[01]\.[0-9]*' <<<"$output" || fail "there is no test accuracy"

# A training that is stopped goes on to the same end as a whole one.
scratch="$(mktemp -d "${TEST_TMPDIR:-/tmp}/resnet.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
end() { tail -n 2 <<<"$1" | sed 's/  [0-9]* images.*//'; }
stops_and_continues "epoch  1/4" "$1" --num_parts=11 --epochs=4

status=0
message="$("$1" --num_parts=1000 2>&1)" || status=$?
((status == 2)) && [[ "$message" == *"resnet: "*"batch"* ]] ||
  fail "fewer images than a batch: ended with $status: $message"
