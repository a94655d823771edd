#!/bin/bash
# What git would hand out is complete: in a copy made by `git archive`, a workspace that depends on every
# public name is analyzed from outside, and every source that this reaches is there.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scratch="$(mktemp -d)"
# Bazel write-protects what it makes.
trap 'chmod -R u+w "$scratch" && rm -rf "$scratch"' EXIT

git -c safe.directory="$PWD" archive HEAD | tar x -C "$scratch" --one-top-level=copy
cd "$scratch/copy/tests/consumer/everything"
bazel=("$(type -P bazel || type -P bazelisk)" "--output_base=$scratch/base")
quietly() { "${bazel[@]}" "$@" 2>"$scratch/log" || { cat "$scratch/log"; return 1; }; }
status=0
{
  quietly build --symlink_prefix=/ --noshow_progress --nobuild //:all &&
    quietly query 'kind("source file", deps(//:all))' >"$scratch/sources"
} || status=$?
"${bazel[@]}" shutdown >/dev/null 2>&1
((status == 0)) || exit "$status"

found=0
missing=0
while read -r source; do
  found=$((found + 1))
  if [[ ! -e "$scratch/copy/$source" ]]; then
    echo "git archive leaves out $source"
    missing=$((missing + 1))
  fi
done < <(sed -n -E 's|^@+runtime//:?||; T; s|:|/|; p' "$scratch/sources")
((found)) || { echo "no source of Tessera's was found"; exit 1; }
((missing == 0)) || exit 1
echo "$(find "$scratch/copy" -type f | wc -l) files; all $found that every public target needs are there"
