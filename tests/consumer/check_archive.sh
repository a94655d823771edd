#!/bin/bash
# What git would hand out is complete: in a copy made by `git archive`, a workspace that depends on every
# public name is built from outside, and its program prints what it does here.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scratch="$(mktemp -d)"
# Bazel write-protects what it makes.
trap 'chmod -R u+w "$scratch" && rm -rf "$scratch"' EXIT

git -c safe.directory="$PWD" archive HEAD | tar x -C "$scratch" --one-top-level=copy
cd "$scratch/copy/tests/consumer/everything"
# With check.sh's flags: what it has compiled, the disk cache has, as long as the sources are the same.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tessera/bazelrc"
bazel=("$(type -P bazel || type -P bazelisk)" "--output_base=$scratch/base")
if [[ -e "$cache" ]]; then bazel+=("--bazelrc=$cache"); fi
options=("--symlink_prefix=/" --noshow_progress --compilation_mode=fastbuild --spawn_strategy=local)
status=0
printed="$("${bazel[@]}" run "${options[@]}" //:exclusive_or 2>"$scratch/log")" || status=$?
"${bazel[@]}" shutdown >/dev/null 2>&1
if ((status)); then
  cat "$scratch/log"
  exit 1
fi
echo "$printed"
[[ "$printed" == "$(<exclusive_or.expected)" ]] || { echo "this is not what exclusive_or.expected says"; exit 1; }
echo "$(find "$scratch/copy" -type f | wc -l) files, and every public target is there"
