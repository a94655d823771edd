#!/bin/bash
# Runs a program and compares what it prints with a file: equal words, and numbers that differ by at
# most 2e-4 of their size (or of 1), which is what float arithmetic in another order may do.
# usage: compare_output.sh PROGRAM EXPECTED

set -euo pipefail
actual="$(mktemp)"
trap 'rm -f "$actual"' EXIT
"./$1" >"$actual"
awk -v expected="$2" '
  function is_number(s) { return s ~ /^-?[0-9]+(\.[0-9]+)?$/ }
  function differ(a, e) {
    if (!is_number(a) || !is_number(e)) return a "" != e ""
    size = e < 0 ? -e : e
    distance = a < e ? e - a : a - e
    return distance > 2e-4 * (size > 1 ? size : 1)
  }
  function fail(message) {
    print "line " NR ": " message
    print "  got:      " $0
    print "  expected: " line
    failed = 1
  }
  {
    if ((getline line < expected) <= 0) { line = ""; fail("more output than expected"); next }
    count = split(line, word, " ")
    if (NF != count) { fail("another number of words"); next }
    for (i = 1; i <= NF; ++i) if (differ($i, word[i])) { fail("word " i); break }
  }
  END {
    if ((getline line < expected) > 0) { print "output ends before: " line; failed = 1 }
    exit failed
  }' "$actual"
