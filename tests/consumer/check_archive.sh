#!/bin/bash
# What git would hand out is complete: a copy made by `git archive` is analysed as it would be built,
# from outside, with every public name. Nothing is compiled.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scratch="$(mktemp -d)"
# Bazel write-protects what it makes.
trap 'chmod -R u+w "$scratch" && rm -rf "$scratch"' EXIT

git -c safe.directory="$PWD" archive HEAD | tar x -C "$scratch" --one-top-level=copy
cd "$scratch/copy/tests/consumer/everything"
bazel=("$(type -P bazel || type -P bazelisk)" "--output_base=$scratch/base")
status=0
"${bazel[@]}" build --nobuild --symlink_prefix=/ --noshow_progress //:everything 2>"$scratch/log" || status=$?
"${bazel[@]}" shutdown >/dev/null 2>&1
if ((status)); then
  cat "$scratch/log"
  exit 1
fi
echo "$(find "$scratch/copy" -type f | wc -l) files, and every public target is there"
