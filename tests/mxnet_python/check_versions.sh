#!/bin/bash
# Runs check.sh on several versions of Python, which have to be there: check_versions.sh [VERSION...]
# Looks on the PATH, and among those that pyenv and uv have installed.

set -uo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"

# find_python VERSION: prints the path of an interpreter.
find_python() {
  local candidate
  for candidate in "$(type -P "python$1")" "$(pyenv root 2>/dev/null)/versions/$1".*/bin/python3 \
    "$(type -P uv >/dev/null && uv python find "$1" 2>/dev/null)"; do
    # pyenv's stand-in on the PATH answers only where a version is chosen.
    if [[ -n "$candidate" ]] && "$candidate" -c "import sys; assert '%d.%d' % sys.version_info[:2] == '$1'" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

(($#)) || set -- 3.8 3.12 3.13
failed=0
for version in "$@"; do
  if ! python="$(find_python "$version")"; then
    echo "there is no Python $version"
    failed=$((failed + 1))
    continue
  fi
  echo "=== Python $version"
  "$here/check.sh" "$python" || failed=$((failed + 1))
done
echo "$(($# - failed)) versions passed, $failed failed"
((failed == 0))
