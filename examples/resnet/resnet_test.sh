#!/bin/bash
# The residual network learns a few digits by heart, and reads others: resnet_test.sh PROGRAM
set -uo pipefail

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
small=(--num_parts=11 --epochs=4)
whole="$("$1" "${small[@]}" --training="$scratch/whole")" || fail "the whole training ended with $?"
# Not ignored, as SIGINT is in what a script starts in the background.
env --default-signal "$1" "${small[@]}" --training="$scratch/stopped" >"$scratch/output" 2>&1 &
for ((waited = 0; waited < 6000; ++waited)); do
  grep -q '^epoch  1/4' "$scratch/output" && break
  sleep 0.02
done
kill -INT $!
status=0
wait $! || status=$?
((status == 130)) || fail "SIGINT: ended with $status: $(cat "$scratch/output")"
tail -n 1 "$scratch/output"
continued="$("$1" "${small[@]}" --training="$scratch/stopped")" || fail "the training that goes on ended with $?"
grep -E '^continued from update [0-9]+$' <<<"$continued" || fail "it did not go on: $continued"
end() { tail -n 2 <<<"$1" | sed 's/  [0-9]* images.*//'; }
[[ "$(end "$continued")" == "$(end "$whole")" ]] || fail "another end: $(end "$continued")"
last="$(ls "$scratch/whole" | tail -n 1)"
cmp "$scratch/whole/$last/layers.params" "$scratch/stopped/$last/layers.params" || fail "the weights differ"

status=0
message="$("$1" --num_parts=1000 2>&1)" || status=$?
((status == 2)) && [[ "$message" == *"resnet: "*"batch"* ]] ||
  fail "fewer images than a batch: ended with $status: $message"
