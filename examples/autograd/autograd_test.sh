#!/bin/bash
# The example reads at least 93 of 100 new digits: autograd_test.sh PROGRAM
set -uo pipefail
output="$("$1")" || { echo "ended with $?"; exit 1; }
echo "$output"
accuracy="$(sed -n 's/^test_accuracy=\([0-9.]*\)$/\1/p' <<<"$output")"
awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy >= 0.93) }' || { echo "expected 0.93 or more"; exit 1; }
