#!/bin/bash
# Asks Bazel itself whether the house rules hold: first for every dependency of every target, tests
# and examples included, then by trying to build dependencies that must be refused.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

./bazelw query --noimplicit_deps --output=graph --nograph:factored 'deps(//..., 1)' \
  >"$scratch/graph" 2>"$scratch/log" || { cat "$scratch/log"; exit 1; }
tests/visibility/check_edges.sh tests/visibility/allowed_dependencies.txt "$scratch/graph"
echo "$(grep -c -- '->' "$scratch/graph") dependencies respect the table"

# Packages that exist only in this overlay, one inside each component that tries to overreach.
forbidden() { # FOLDER LABEL
  local package="$scratch/overlay/$1/overreaching"
  mkdir -p "$package"
  cat >"$package/BUILD" <<EOF
load("@rules_cc//cc:defs.bzl", "cc_library")
cc_library(name = "overreaching", deps = ["$2"])
EOF
  targets+=("//$1/overreaching")
}
targets=()
forbidden base //tensor
forbidden tensor //engine
forbidden engine //tensor
forbidden storage //engine
forbidden ops //graph
forbidden graph //ndarray
forbidden io //symbol
forbidden kvstore //symbol
forbidden examples //engine

: >"$scratch/overlay/WORKSPACE"
./bazelw build --nobuild --keep_going --package_path="$PWD:$scratch/overlay" "${targets[@]}" \
  >"$scratch/log" 2>&1 && { echo "Bazel built forbidden dependencies"; exit 1; }
failed=0
for target in "${targets[@]}"; do
  if ! grep -q "is not visible from target '$target:overreaching'" "$scratch/log"; then
    echo "Bazel did not refuse $target:"
    cat "$scratch/overlay/${target#//}/BUILD"
    failed=1
  fi
done
if ((failed)); then
  cat "$scratch/log"
  exit 1
fi
echo "Bazel refused all ${#targets[@]} forbidden dependencies"
