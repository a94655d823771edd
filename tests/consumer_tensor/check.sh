#!/bin/bash
# Builds the programs of this workspace as an outsider would, compares what they print, and holds
# that neither they nor what they depend on touch a component besides base, tensor and compat.
# docs/tensor.md must show the workspace and the program to the letter.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

failed=0
for file in WORKSPACE .bazelrc clusters.cc; do
  if [[ "$(<../../docs/tensor.md)" != *"$(<"$file")"* ]]; then
    echo "docs/tensor.md does not show $file as it is"
    failed=1
  fi
done

# ./bazelw writes where the disk cache is; any Bazel will do.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tessera/bazelrc"
bazel=("$(type -P bazel || type -P bazelisk)")
if [[ -e "$cache" ]]; then bazel+=("--bazelrc=$cache"); fi

for program in clusters clusters_mshadow; do
  # No links from here to Bazel's output, which the outer workspace would take for its own.
  build=("--symlink_prefix=/" "//:$program")
  printed="$("${bazel[@]}" run "${build[@]}" 2>/dev/null)" || {
    "${bazel[@]}" build "${build[@]}"
    exit 1
  }
  echo "$program: $printed"
  if [[ "$printed" != "300 of 300 points are right" ]]; then failed=1; fi
done

reached="$("${bazel[@]}" query 'deps(//:clusters)' 2>/dev/null | sed -n 's|^@*tessera//\([a-z_]*\).*|\1|p' | sort -u)"
for folder in $reached; do
  case "$folder" in
    base | tensor | third_party | tools) ;;
    *)
      echo "@tessera//:tensor brings $folder along"
      failed=1
      ;;
  esac
done
echo "the program depends on:" $reached
exit "$failed"
