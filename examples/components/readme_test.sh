#!/bin/bash
# Fails unless every example stands in the README to the letter and prints what expected_output.txt says.
set -u
folder=examples/components
status=0
actual="$(mktemp)"
for component in "$@"; do
  source="$folder/${component}_example.cc"
  # Both texts as one line each, so that a plain substring test compares them whole.
  if [[ "$(<README.md)" != *"$(<"$source")"* ]]; then
    echo "README.md does not show $source as it is"
    status=1
  fi
  echo "== $component" >>"$actual"
  "$folder/${component}_example" >>"$actual" 2>&1 || { echo "$component example failed"; status=1; }
done
if ! diff "$folder/expected_output.txt" "$actual"; then
  echo "the examples print something else than $folder/expected_output.txt"
  status=1
fi
exit "$status"
