#!/bin/bash
# The factorization machine learns what no sum over columns predicts: factorization_machine_test.sh PROGRAM
set -uo pipefail

fail() {
  echo "FAILED: $*"
  exit 1
}

scratch="$(mktemp -d "${TEST_TMPDIR:-/tmp}/factorization.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
small=(--features=5000 --data="$scratch")

# The probabilities that the clicks were drawn with have an area of 0.86, the same model without pairs one of 0.58.
output="$("$1" "${small[@]}" --training="$scratch/whole")" || fail "ended with $?"
echo "$output"
auc="$(sed -n 's/^test_auc=\([01]\.[0-9]*\)$/\1/p' <<<"$output")"
awk -v auc="${auc:-0}" 'BEGIN { exit !(auc > 0.79) }' || fail "expected an area above 0.79"

# A training that is stopped goes on to the same end as a whole one.
env --default-signal "$1" "${small[@]}" --training="$scratch/stopped" >"$scratch/output" 2>&1 &
for ((waited = 0; waited < 6000; ++waited)); do
  grep -q '^epoch  2/6' "$scratch/output" && break
  sleep 0.02
done
kill -INT $!
status=0
wait $! || status=$?
((status == 130)) || fail "SIGINT: ended with $status: $(cat "$scratch/output")"
tail -n 1 "$scratch/output"
continued="$("$1" "${small[@]}" --training="$scratch/stopped")" || fail "the training that goes on ended with $?"
grep -E '^continued from update [0-9]+$' <<<"$continued" || fail "it did not go on: $continued"
end() { tail -n 2 <<<"$1" | sed 's/  [0-9]* examples.*//'; }
[[ "$(end "$continued")" == "$(end "$output")" ]] || fail "another end: $(end "$continued")"
last="$(ls "$scratch/whole" | tail -n 1)"
cmp "$scratch/whole/$last/layers.params" "$scratch/stopped/$last/layers.params" || fail "the weights differ"

status=0
message="$("$1" --features=5000 --data=/no/such/folder 2>&1)" || status=$?
((status == 2)) && [[ "$message" == *"factorization_machine: "*"/no/such/folder"* ]] ||
  fail "a folder that is not there: ended with $status: $message"
