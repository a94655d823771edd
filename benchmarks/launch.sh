#!/bin/bash
# Starts a Python program that lies in the same runfiles: launch.sh MODULE ARGUMENT...
set -euo pipefail

# Nothing is written beside the sources.
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$@"
