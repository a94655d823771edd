#!/bin/bash
# The example reads at least 90 of 100 new digits: layers_test.sh PROGRAM
set -uo pipefail
output="$("$1")" || { echo "ended with $?"; exit 1; }
echo "$output"
accuracy="$(sed -n 's/^epoch 10: test accuracy \([0-9.]*\)$/\1/p' <<<"$output")"
awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy >= 0.9) }' || { echo "expected 0.9 or more"; exit 1; }
