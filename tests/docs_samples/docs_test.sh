#!/bin/bash
# Fails unless docs/arrays-and-gradients.md, docs/graphs.md and docs/loading-data.md show their samples to the letter,
# and what these print: docs_test.sh SAMPLE...
set -u
status=0
for name in "$@"; do
  page="${name//_/-}"
  sample="tests/docs_samples/${name}_example"
  # Each text as one line, so that a plain substring test compares it whole.
  document="$(<"docs/$page.md")"
  if [[ "$document" != *"$(<"$sample.cc")"* ]]; then
    echo "docs/$page.md does not show $sample.cc as it is"
    status=1
  fi
  output="$("$sample")" || { echo "$sample failed"; status=1; }
  if [[ "$document" != *"$output"* ]]; then
    printf 'docs/%s.md does not show what its sample prints:\n%s\n' "$page" "$output"
    status=1
  fi
done
exit "$status"
