#!/bin/bash
# Runs the commands of docs/data-to-serving.md, of which it interrupts the first and repeats it:
# data_to_serving_test.sh PAGE DIGITS SERVE
set -uo pipefail
unset BUILD_WORKING_DIRECTORY
scratch="$(mktemp -d "${TEST_TMPDIR:-/tmp}/page.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "FAILED: $*"
  exit 1
}

# The indented lines; one that ends in a backslash continues in the next.
mapfile -t commands < <(sed -n 's/^    //p' "$1" | sed -e ':more' -e '/\\$/N; s/\\\n//; t more')
((${#commands[@]} == 2)) || fail "the page has ${#commands[@]} commands, expected 2"
for i in 0 1; do
  commands[i]="${commands[i]//\/tmp\/digits-/$scratch/digits-}"
  commands[i]="${commands[i]/.\/bazelw run \/\/examples\/digits --/$PWD/$2}"
  commands[i]="${commands[i]/.\/bazelw run \/\/examples\/serve --/$PWD/$3}"
done
read -ra train <<<"${commands[0]}"
read -ra serve <<<"${commands[1]}"
[[ -x "${train[0]}" && -x "${serve[0]}" ]] || fail "no program in: ${commands[*]}"

# Not ignored, as SIGINT is in what a script starts in the background.
env --default-signal "${train[@]}" >"$scratch/output" 2>&1 &
for ((waited = 0; waited < 3000; ++waited)); do
  grep -q '^epoch  2' "$scratch/output" && break
  sleep 0.02
done
kill -INT $!
status=0
wait $! || status=$?
((status == 130)) || fail "the interrupted training ended with $status: $(cat "$scratch/output")"
tail -n 1 "$scratch/output"
output="$("${train[@]}" 2>&1)" || fail "the training that goes on ended with $?: $output"
head -n 1 <<<"$output"
tail -n 3 <<<"$output"
grep -qE '^continued from update [0-9]+$' <<<"$output" || fail "it did not go on: $output"
grep -q "^saved $scratch/digits-model-0150.params$" <<<"$output" || fail "there is no model: $output"

# A training that was not stopped has the same weights.
mv "$scratch/digits-model-0150.params" "$scratch/stopped.params"
rm -r "$scratch/digits-training"
"${train[@]}" >/dev/null || fail "the whole training ended with $?"
cmp "$scratch/digits-model-0150.params" "$scratch/stopped.params" || fail "the weights differ"

output="$("${serve[@]}" 2>&1)" || fail "the server ended with $?: $output"
(($(grep -cE '^digits-images\.npy [0-9]+:( [0-9] \([0-9.e+-]*\)){5}$' <<<"$output") == 360)) ||
  fail "expected 360 answers: $output"
tail -n 1 <<<"$output"
tail -n 1 <<<"$output" | grep -q ' requests/s, ' || fail "the last line has no rate"
