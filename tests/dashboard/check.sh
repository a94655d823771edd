#!/bin/bash
# The benchmark dashboard in a real browser: needs Python 3 and Debian's chromium, nothing of Bazel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for program in python3 chromium; do
  type -P "$program" >/dev/null || { echo "$program is not installed"; exit 1; }
done
# Debian's Python, not one that a version manager put before it.
python=/usr/bin/python3
[[ -x "$python" ]] || python=python3
PYTHONDONTWRITEBYTECODE=1 exec timeout 600 "$python" page_test.py
