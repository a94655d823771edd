#!/bin/bash
# A model of characters learns from a text and writes: characters_test.sh PROGRAM TEXT ARGUMENT...
set -uo pipefail
source examples/training_folder/stop_and_continue.sh
unset BUILD_WORKING_DIRECTORY
program="$1"
text="$2"
shift 2

fail() {
  echo "FAILED: $*"
  exit 1
}

output="$("$program" --text="$text" --generate=100 "$@")" || fail "ended with $?"
echo "$output"
bits="$(sed -n 's/^bits per character of the last tenth: model \([0-9.]*\),.*/\1/p' <<<"$output")"
# Without a look at other characters, one of this text takes 4.4 bits.
awk -v bits="${bits:-9}" 'BEGIN { exit !(bits < 4.2) }' || fail "expected less than 4.2 bits per character"
paragraph="$(sed '1,/^a paragraph behind the first 48 characters/d' <<<"$output")"
# The text's last tenth: the prompt.
size="$(stat -Lc %s "$text")"
prompt="$(tail -c "+$((size / 10 * 9 + 1))" "$text" | head -c 48)"
[[ "$paragraph" == "$prompt"* ]] || fail "the paragraph does not begin with the prompt: $prompt"
# Spaces and ends of lines at its end are lost above.
((${#paragraph} > 48 + 50)) || fail "the paragraph has ${#paragraph} characters, expected 148"

# A training that is stopped goes on to the same end as a whole one.
scratch="$(mktemp -d "${TEST_TMPDIR:-/tmp}/characters.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
end() { sed -n '/^bits per character of/,$p' <<<"$1"; }
stops_and_continues "epoch  1/20" "$program" --text="$text" --generate=20 --units=16 --epochs=20

status=0
message="$("$program" --text="$text.missing" "$@" 2>&1)" || status=$?
((status == 2)) && [[ "$message" == *"$text.missing cannot be read"* ]] ||
  fail "a missing text: ended with $status: $message"
