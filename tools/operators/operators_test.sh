#!/bin/bash
# operators_test.sh PROGRAM DOCUMENT README: what it prints agrees with itself, with MXNet's names, with
# the document's table of operators that are not here, and with the numbers in both files.

set -euo pipefail
operators="$1"

fail() {
  echo "operators_test: $*" >&2
  exit 1
}
list="$("$operators" --list)"
missing="$("$operators" --missing)"
grep -q '^FullyConnected	' <<<"$list" || fail "--list has no FullyConnected"
grep -qx '_contrib_calibrate_entropy' <<<"$missing" || fail "--missing has no _contrib_calibrate_entropy"
both="$(comm -12 <(cut -f1 <<<"$list" | sort) <(sort <<<"$missing"))"
[[ -z "$both" ]] || fail "registered and missing: $both"
[[ "$("$operators" --describe=_Plus)" == "elemwise_add: "* ]] || fail "--describe takes no alias"
[[ "$("$operators" --describe=Pooling)" == *"kernel: shape"* ]] || fail "--describe has no parameters"
grep -qxE '  native for cpu, rank 0, .*ops/nn/convolution\.cc:[0-9]+' <<<"$("$operators" --describe=Convolution)" ||
  fail "--describe has no implementations"
if message="$("$operators" --describe=FulyConnected 2>&1)"; then fail "an unknown name was described"; fi
[[ "$message" == *"did you mean \"FullyConnected\""* ]] || fail "the answer is: $message"

# names_of HEADING: the names between backticks in the second column of the document's table with that
# heading; a * stands for the rest of several names.
names_of() {
  sed -n "/^| [a-z]* | $1 |$/,/^$/s/^| [^|]* | \\(.*\\) |$/\\1/p" "$document" | grep -o '`[^`]*`' | tr -d '`'
}
document="$2"
here="$(names_of "operators that are here")" || fail "$document has no table of operators that are here"
names="$(cut -f1 <<<"$list")"
while read -r pattern; do
  grep -qxE "${pattern//\*/.*}" <<<"$names" || fail "$document says that $pattern is here"
done <<<"$here"
not_here="$(names_of "operators that are not here")" || fail "$document has no table of missing operators"
while read -r pattern; do
  grep -qxE "${pattern//\*/.*}" <<<"$missing" || fail "$document says that $pattern is missing"
done <<<"$not_here"
unnamed="$(grep -vxE "$(sed 's/\*/.*/g' <<<"$not_here" | paste -sd '|')" <<<"$missing" || true)"
[[ -z "$unnamed" ]] || fail "$document does not say that these are missing: $unnamed"

# Gradients belong to their operators, so they are no operators that are missing.
gradients="$(grep -c backward <<<"$missing")"
others="$(grep -cv backward <<<"$missing")"
grep -q " $gradients are gradients, .* $others others are not here" "$document" ||
  fail "$document does not say that $gradients gradients and $others others are missing"
grep -q " $others more operators" "$3" || fail "$3 does not say that MXNet has $others more operators"
