#!/bin/bash
# operators_test.sh PROGRAM: what it prints agrees with itself and with MXNet's names.

set -euo pipefail
operators="$1"

fail() {
  echo "operators_test: $*" >&2
  exit 1
}
list="$("$operators" --list)"
missing="$("$operators" --missing)"
grep -q '^FullyConnected	' <<<"$list" || fail "--list has no FullyConnected"
grep -qx '_contrib_box_nms' <<<"$missing" || fail "--missing has no _contrib_box_nms"
both="$(comm -12 <(cut -f1 <<<"$list" | sort) <(sort <<<"$missing"))"
[[ -z "$both" ]] || fail "registered and missing: $both"
[[ "$("$operators" --describe=_Plus)" == "elemwise_add: "* ]] || fail "--describe takes no alias"
[[ "$("$operators" --describe=Pooling)" == *"kernel: shape"* ]] || fail "--describe has no parameters"
if message="$("$operators" --describe=FulyConnected 2>&1)"; then fail "an unknown name was described"; fi
[[ "$message" == *"did you mean \"FullyConnected\""* ]] || fail "the answer is: $message"
