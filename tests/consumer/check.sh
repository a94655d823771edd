#!/bin/bash
# Looks at the workspaces beside this file as outsiders would: each depends on one component and says in
# `brings` what may come along, folders of Tessera's and then @libraries; PROGRAM.brings says it of one
# program where that is less. Programs of components that are small are built whole, and print what their
# .expected file says. Of the others Bazel is asked whether they could be built; cmake/check.sh compiles and
# links them with an installed library, which they share.
#
#   check.sh [--whole] [WORKSPACE...]     by default all workspaces; --whole builds the large ones whole, too

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

whole=" base engine storage tensor "
if [[ "${1:-}" == --whole ]]; then
  whole+="everything ops "
  shift
fi

# ./bazelw writes where the disk cache is; any Bazel will do.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tessera/bazelrc"
bazel=("$(type -P bazel || type -P bazelisk)")
if [[ -e "$cache" ]]; then bazel+=("--bazelrc=$cache"); fi
# No links from there to Bazel's output, which the outer workspace would take for its own. What is
# asked here is whether it builds and what comes along, for which it need neither be optimized nor
# built in a sandbox: that sources declare what they include, the ordinary build shows.
options=("--symlink_prefix=/" --noshow_progress --compilation_mode=fastbuild --spawn_strategy=local)
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

failed=0
fail() {
  echo "$workspace: $*"
  failed=1
}

# Runs Bazel and prints only compilers' warnings of what it says; a caller may read what is printed.
quietly() {
  "${bazel[@]}" "$@" 2>"$scratch/log" || { cat "$scratch/log"; return 1; }
  grep ': warning: ' "$scratch/log" >&2 || true
}

check_programs() {
  local program printed
  if [[ "$whole" != *" $workspace "* ]]; then
    # Everything would bring the typed functions, whose headers are written by a program with all operators.
    local how=(--output_groups=compilation_outputs)
    if [[ "$workspace" == everything ]]; then how=(--nobuild); fi
    quietly build "${options[@]}" "${how[@]}" //:all || fail "it does not build"
    return 0
  fi
  for program in $(quietly query 'kind(cc_binary, //:all)'); do
    program="${program#//:}"
    printed="$(quietly run "${options[@]}" "//:$program")" || { fail "$program fails: $printed"; continue; }
    echo "$workspace/$program: ${printed//$'\n'/; }"
    [[ "$printed" == "$(<"$program.expected")" ]] || fail "$program prints something else than $program.expected"
  done
}

# Both the folders of Tessera's repository, whatever it is called there, and other repositories.
check_what_comes_along() { # TARGET LIST
  local target="$1" repository reached folder allowed library
  repository="$(awk -v RS= '/path = "\.\.\/\.\.\/\.\."/' WORKSPACE | sed -n 's/.*name = "\([a-z_]*\)".*/\1/p')"
  quietly query "deps($target)" >"$scratch/deps"
  reached="$(sed -n "s|^@*$repository//\([a-z_]*\).*|\1|p" "$scratch/deps" | sort -u)"
  allowed=" third_party tools $(tr '\n' ' ' <"$2") "
  for folder in $reached; do
    [[ "$allowed" == *" $folder "* ]] || fail "$target brings @$repository//$folder along"
  done
  [[ -n "$reached" ]] || fail "$target depends on nothing of @$repository"
  [[ " ${libraries[*]} " == *" com_google_googletest "* ]] || fail "the libraries in repositories.bzl were not found"
  for library in "${libraries[@]}"; do
    [[ "$allowed" == *" @$library "* ]] || ! grep -qE "^@+$library(//|$)" "$scratch/deps" ||
      fail "$target brings @$library along"
  done
  # A plain query follows every branch of a select(); whether CUDA comes along depends on the flags.
  quietly cquery "${options[@]}" "deps($target)" >"$scratch/deps"
  if grep -E '^@+tessera_cuda//' "$scratch/deps"; then fail "CUDA comes along"; fi
  if [[ "$workspace" == everything ]]; then
    quietly cquery "${options[@]}" "--@$repository//tools/cuda:enabled" "deps($target)" >"$scratch/deps"
    grep -qE '^@+tessera_cuda//' "$scratch/deps" || fail "CUDA does not come along with --@$repository//tools/cuda:enabled"
  fi
  echo "$workspace$target depends on:" $reached
}

# Modules of users', for Bazels that have modules; those of others come from a registry.
check_module() {
  if ((!has_modules)); then
    echo "$workspace: not asked, since this Bazel has no modules"
  elif quietly test "${options[@]}" //:all >"$scratch/said"; then
    echo "$workspace: its tests pass"
    check_tbb_can_be_shared
  elif grep -qi 'accessing registry' "$scratch/said"; then
    echo "$workspace: not asked, since no registry of modules can be reached"
  else
    cat "$scratch/said"
    fail "its tests fail"
  fi
}

# The registry's TBB, which a program otherwise takes into itself.
check_tbb_can_be_shared() {
  [[ -e shared_tbb.cc ]] || return 0
  quietly run "${options[@]}" --dynamic_mode=fully //:shared_tbb || fail "TBB is not shared with --dynamic_mode=fully"
}

# Prints the headers that a workspace takes from the system and this machine lacks: it is then not built.
# `needs` lists files below /usr/include.
lacks() {
  local header missing=()
  [[ -e needs ]] || return 1
  while read -r header; do
    [[ -e "/usr/include/$header" ]] || missing+=("$header")
  done <needs
  ((${#missing[@]})) || return 1
  echo "$workspace: SKIPPED, not built: this machine's /usr/include has no ${missing[*]}"
}

# The names of all libraries that could come along.
mapfile -t libraries < <(sed -n 's/^    "\([a-z0-9_]*\)": dict($/\1/p' ../../third_party/repositories.bzl)
has_modules=0
skipped=0
workspaces=("$@")
if ((!$#)); then workspaces=(*/brings); fi
for workspace in "${workspaces[@]%/brings}"; do
  pushd "$workspace" >/dev/null
  if lacks; then
    skipped=$((skipped + 1))
    popd >/dev/null
    continue
  fi
  check_programs
  check_what_comes_along //:all brings
  for list in *.brings; do
    [[ ! -e "$list" ]] || check_what_comes_along "//:${list%.brings}" "$list"
  done
  # Asked here: where Bazel has no modules, the module's folder is none of its workspaces.
  if "${bazel[@]}" help 2>/dev/null | grep -E '^ +mod ' >/dev/null; then has_modules=1; fi
  # Its memory is wanted by the next one.
  "${bazel[@]}" shutdown >/dev/null 2>&1
  popd >/dev/null
done
if ((!$#)); then
  for workspace in module*; do
    pushd "$workspace" >/dev/null
    lacks || check_module
    if ((has_modules)); then "${bazel[@]}" shutdown >/dev/null 2>&1; fi
    popd >/dev/null
  done
fi
if ((skipped)); then
  echo "$skipped of ${#workspaces[@]} workspaces skipped"
  if ((skipped == ${#workspaces[@]})); then
    echo "nothing was checked"
    failed=1
  fi
fi
exit "$failed"
