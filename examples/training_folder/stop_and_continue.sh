# For tests of examples that keep their training in a folder. To be sourced by a test that has a function `fail`
# and a folder $scratch.

# stops_and_continues LINE PROGRAM ARGUMENT...: a training that is stopped after a line of its output that begins
# with LINE goes on to the same weights as a whole one, and to the same of what the test's function `end` prints of
# an output. The output of the whole training is left in $whole.
stops_and_continues() {
  local line="$1" waited status=0 continued last
  shift
  whole="$("$@" --training="$scratch/whole")" || fail "the whole training ended with $?"
  # Not ignored, as SIGINT is in what a script starts in the background.
  env --default-signal "$@" --training="$scratch/stopped" >"$scratch/output" 2>&1 &
  for ((waited = 0; waited < 6000; ++waited)); do
    grep -q "^$line" "$scratch/output" && break
    sleep 0.02
  done
  kill -INT $!
  wait $! || status=$?
  ((status == 130)) || fail "SIGINT: ended with $status: $(cat "$scratch/output")"
  tail -n 1 "$scratch/output"
  continued="$("$@" --training="$scratch/stopped")" || fail "the training that goes on ended with $?"
  grep -E '^continued from update [0-9]+$' <<<"$continued" || fail "it did not go on: $continued"
  [[ -n "$(end "$whole")" && "$(end "$continued")" == "$(end "$whole")" ]] || fail "another end: $(end "$continued")"
  last="$(ls "$scratch/whole" | tail -n 1)"
  cmp "$scratch/whole/$last/layers.params" "$scratch/stopped/$last/layers.params" || fail "the weights differ"
}
