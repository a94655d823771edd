#!/bin/bash
# The factorization machine learns what no sum over columns predicts: factorization_machine_test.sh PROGRAM
set -uo pipefail
source examples/training_folder/stop_and_continue.sh

fail() {
  echo "FAILED: $*"
  exit 1
}

scratch="$(mktemp -d "${TEST_TMPDIR:-/tmp}/factorization.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT

# A training that is stopped goes on to the same end as a whole one.
end() { tail -n 2 <<<"$1" | sed 's/  [0-9]* examples.*//'; }
stops_and_continues "epoch  2/6" "$1" --features=5000 --data="$scratch"
echo "$whole"

# The probabilities that the clicks were drawn with have an area of 0.86, the same model without pairs one of 0.58.
auc="$(sed -n 's/^test_auc=\([01]\.[0-9]*\)$/\1/p' <<<"$whole")"
awk -v auc="${auc:-0}" 'BEGIN { exit !(auc > 0.79) }' || fail "expected an area above 0.79"

status=0
message="$("$1" --features=5000 --data=/no/such/folder 2>&1)" || status=$?
((status == 2)) && [[ "$message" == *"factorization_machine: "*"/no/such/folder"* ]] ||
  fail "a folder that is not there: ended with $status: $message"
