#!/bin/bash
# Checks a dependency graph against the table of who may depend on whom.
#
#   check_edges.sh ALLOWED_DEPENDENCIES GRAPH
#
# GRAPH is what `bazel query --output=graph --nograph:factored` prints: lines "FROM" -> "TO".
# Prints one line for each forbidden edge and exits 1 if there is any, or 2 if the graph is empty.

set -euo pipefail

exec awk '
  # "//ops/nn:pool" -> "ops", "//:tensor" -> "", "@zlib//:zlib" -> "@zlib"
  function folder(label) {
    if (label ~ /^@/) { sub(/\/\/.*/, "", label); return label }
    sub(/^\/\//, "", label)
    sub(/[\/:].*/, "", label)
    return label
  }
  function target(label) { sub(/.*:/, "", label); return label }
  # "//ndarray:array_test", "//graph/testing:evaluate"
  function is_test(label) { return target(label) ~ /_(test|benchmark|variants)(_|$)/ || label ~ /\/(testing|benchmark):/ }
  # "//symbol:op", which has a function for each operator
  function is_op(label) { return label ~ /^\/\/(ndarray|symbol):op(_private_headers)?$/ }
  # The core of ops is for all, families are for tests and for train, whose optimizers and layers are operators.
  function forbid_operators() {
    if (to == "//ops:core" || is_test(from) || from_folder == "compat") return
    if (to == "//ops:ops" && is_op(from)) return
    if (to == "//ops/optimizer:optimizer" && from_folder == "train") return
    if (to != "//ops:ops" && from ~ /^\/\/train\/nn:/) return
    forbid("libraries stand on //ops:core; only tests and programs name families of operators")
  }
  # "//ops:core", "//ops:ops", "//ops/nn:nn"
  function is_operators(label) {
    return label == "//ops:core" || label == "//ops:ops" ||
      (label ~ /^\/\/ops\/[a-z]+:[a-z]+$/ && target(label) == substr(label, 7, index(label, ":") - 7))
  }
  function forbid(reason) { printf "%s -> %s: %s\n", from, to, reason; forbidden++ }

  # The table.
  FNR == NR {
    sub(/#.*/, "")
    if (NF == 0) next
    component = $1
    sub(/:$/, "", component)
    components[component] = 1
    for (i = 2; i <= NF; ++i) allowed[component, $i] = 1
    next
  }

  # An edge.
  / -> / {
    line = $0
    gsub(/"/, "", line)
    split(line, ends, / -> /)
    from = ends[1]; to = ends[2]
    sub(/^ +/, "", from); sub(/ +$/, "", to)
    from_folder = folder(from); to_folder = folder(to)
    edges++
    if (from_folder == to_folder || from_folder ~ /^@/ || from_folder == "third_party") next
    if (to_folder ~ /^@+(bazel_tools|rules_|platforms|local_config)/) next
    if (to_folder ~ /^@/) {
      if (from_folder != "tools") forbid("third-party code is named through //third_party alone")
      next
    }
    if (from_folder == "" || from_folder == "tests") next

    if (to_folder == "third_party") {
      split(to, parts, "/")
      name = parts[4]
      sub(/:.*/, "", name)
      guarded = name ~ /^(eigen|tbb|cuda|libjpeg_turbo|libpng)$/
      if ((from_folder in components) && guarded && !is_test(from) && !((from_folder, name) in allowed))
        forbid(from_folder " may not use " name)
      next
    }
    if (to_folder == "") {
      # Files of the root package, such as //:README.md, have a dot.
      if ((from_folder in components) && target(to) !~ /[.]|^LICENSE$/)
        forbid("the root aliases are for the world; components name each other")
      next
    }
    if (!(to_folder in components)) next
    if (!(from_folder in components)) {
      forbid("outside the components, use the public alias //:" to_folder)
    } else if (!((from_folder, to_folder) in allowed)) {
      if (!(from_folder == "ops" && to == "//resource:handle"))
        forbid(from_folder " may not depend on " to_folder)
    } else if (is_operators(to)) {
      forbid_operators()
    } else if (is_op(to)) {
      if (!is_op(from) && from_folder != "compat" && !is_test(from))
        forbid("a function for each operator links all of them; libraries call operators by name")
    } else if (target(to) != to_folder || to != "//" to_folder ":" to_folder) {
      helps_tests = is_test(from) && (to ~ /^\/\/[a-z]+\/testing:/ || to == "//kvstore/mpi:libtessera_mpi.so")
      if (to != "//resource:handle" && !helps_tests)
        forbid("only //" to_folder " is for other folders")
    }
  }

  END {
    if (!edges) { print "no edge in the graph: nothing was checked"; exit 2 }
    if (forbidden) { printf "%d forbidden dependencies\n", forbidden; exit 1 }
  }
' "$1" "$2"
