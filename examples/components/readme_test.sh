#!/bin/bash
# Fails unless every program prints what expected_output.txt says, and README shows readme_example.cc to the
# letter with what it prints.
set -u
folder=examples/components
status=0
actual="$(mktemp)"
for component in "$@"; do
  echo "== $component" >>"$actual"
  "$folder/${component}_example" >>"$actual" 2>&1 || { echo "$component example failed"; status=1; }
done
if ! diff "$folder/expected_output.txt" "$actual"; then
  echo "the examples print something else than $folder/expected_output.txt"
  status=1
fi
readme="$(<README.md)"
if [[ "$readme" != *"$(<"$folder/readme_example.cc")"* ]]; then
  echo "README.md does not show $folder/readme_example.cc as it is"
  status=1
fi
printed="$("$folder/readme_example" 2>&1)"
if [[ "$readme" != *$'\n```text\n'"$printed"$'\n```\n'* ]]; then
  echo "README.md does not show what $folder/readme_example.cc prints: $printed"
  status=1
fi
exit "$status"
