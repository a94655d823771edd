#!/bin/bash
# The example reads at least 90 of 100 new digits, and its training goes on after a stop to the same end:
# layers_test.sh LAYERS RESUMABLE
set -uo pipefail
unset BUILD_WORKING_DIRECTORY
program="$2"

fail() {
  echo "FAILED: $*"
  exit 1
}

output="$("$1")" || fail "ended with $?"
echo "$output"
accuracy="$(sed -n 's/^epoch 10: test accuracy \([0-9.]*\)$/\1/p' <<<"$output")"
awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy >= 0.9) }' || fail "expected 0.9 or more"

scratch="$(mktemp -d "${TEST_TMPDIR:-/tmp}/layers.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
whole="$("$program" "$scratch/whole")" || fail "the whole training ended with $?"
[[ "$whole" == "$output" ]] || fail "a training that is kept is another one: $whole"

# stops SIGNAL STATUS: sends the signal to a training that has come to the end of an epoch.
mkfifo "$scratch/pipe"
stops() {
  local line rest status=0
  # Not ignored, as SIGINT is in what a script starts in the background.
  env --default-signal "$program" "$scratch/stopped" >"$scratch/pipe" 2>&1 &
  exec 3<"$scratch/pipe"
  while read -r line <&3 && [[ "$line" != epoch* ]]; do :; done
  kill "-$1" $!
  rest="$(cat <&3)"
  wait $! || status=$?
  ((status == $2)) || fail "SIG$1: ended with $status: $line $rest"
  grep -E "^stopped in epoch [0-9]+; the same command goes on from $scratch/stopped$" <<<"$rest" ||
    fail "SIG$1: it does not say where it stopped: $rest"
}
stops INT 130
stops TERM 143
continued="$("$program" "$scratch/stopped")" || fail "the training that goes on ended with $?"
grep -E '^continued from update [0-9]+$' <<<"$continued" || fail "it did not go on: $continued"
[[ "$(tail -n 1 <<<"$continued")" == "$(tail -n 1 <<<"$whole")" ]] || fail "another end: $continued"
last="$(ls "$scratch/whole" | tail -n 1)"
cmp "$scratch/whole/$last/layers.params" "$scratch/stopped/$last/layers.params" || fail "the weights differ"
