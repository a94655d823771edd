#!/bin/bash
# Checks which of each other's files the sources below ops/ include.
#
#   check_family_includes.sh ROOT
#
# ROOT holds ops/. Families of operators lie side by side: none includes another. All may include what
# lies below them: loops/ and windows/ (windows/ may include loops/), the headers of ops/ itself, and
# mxnet/. simple_op lies beside windows/. Only tests, benchmarks and what rows share include testing/.
# Prints one line for each forbidden include, then the folders that include each other in a circle.
# Exits 1 if there are any, or 2 if there is no include at all.

set -euo pipefail
cd "$1"

# One line for each include: the paths of both files below ops/.
includes="$(grep -RE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]tessera/ops/' \
    --include='*.h' --include='*.cc' ops |
  sed -E 's|^ops/([^:]*):.*["<]tessera/ops/([^">]*)[">].*|\1 \2|')" ||
  { echo "no include in $1/ops: nothing was checked"; exit 2; }

status=0
awk '
  BEGIN { ranks["mxnet"] = 0; ranks["interface"] = 1; ranks["loops"] = ranks["testing"] = 2
          ranks["windows"] = ranks["simple_op"] = 3 }
  # "nn/pooling.cc" -> "nn", "vision/boxes/anchors.h" -> "vision", "operator.h" -> "interface"
  function floor(path) {
    if (path !~ /\//) return path ~ /^simple_op[._]/ ? "simple_op" : "interface"
    sub(/\/.*/, "", path)
    return path
  }
  function rank(floor_name) { return floor_name in ranks ? ranks[floor_name] : 4 }
  function forbid(reason) { printf "ops/%s includes ops/%s: %s\n", $1, $2, reason; forbidden++ }
  {
    from = floor($1); to = floor($2)
    if (from == to) next
    if (to == "testing") {
      if (from != "benchmark" && $1 !~ /_(test\.cc|row\.cc|row\.h|reference\.h)$/)
        forbid("testing is for tests, benchmarks and what rows share")
    } else if (rank(from) == 4 && rank(to) == 4) {
      forbid("families lie side by side; loops and windows hold what they share")
    } else if (rank(to) >= rank(from)) {
      forbid(to " does not lie below " from)
    }
  }
  END { exit forbidden > 0 }
' <<<"$includes" || status=1

# Folders, without testing, which the tests of every floor include. tsort names the members of circles.
if ! circles="$(awk '
    function folder(path) {
      if (path !~ /\//) return path ~ /^simple_op[._]/ ? "simple_op" : "interface"
      sub(/\/[^\/]*$/, "", path)
      return path
    }
    { from = folder($1); to = folder($2) }
    from != to && to != "testing" { print from, to }
  ' <<<"$includes" | sort -u | LC_ALL=C tsort 2>&1 >/dev/null)"; then
  sed -e 's/.*contains a loop:$/folders include each other in a circle:/' -e 's/^tsort: /  /' \
    <<<"$circles"
  status=1
fi
exit "$status"
