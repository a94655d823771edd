# Stages, what they count, and what they install, for the scripts beside this file. To be sourced from the
# workspace's root.

set -uo pipefail
exec </dev/null
export CI=true

scratch="$(mktemp -d)"
watcher=
cleanup() {
  if [[ -n "$watcher" ]]; then kill "$watcher" 2>/dev/null; fi
  rm -rf "$scratch"
}
trap cleanup EXIT

passed=0
failed=0
stages=0
summary=()

# stage NAME: begins a stage, whose output is kept in $log.
stage() {
  stages=$((stages + 1))
  current="$1"
  log="$scratch/stage_$stages.log"
  printf '\n=== %s (after %d s)\n' "$current" "$SECONDS"
}

# check NAME COMMAND...: a stage that counts as one check.
check() {
  stage "$1"
  shift
  "$@" 2>&1 | tee "$log"
  if ((PIPESTATUS[0] == 0)); then
    passed=$((passed + 1))
    summary+=("passed  $current")
  else
    failed=$((failed + 1))
    summary+=("FAILED  $current")
    echo "*** $current: FAILED"
  fi
}

# bazel_tests NAME ARGUMENT...: a stage that runs ./bazelw with the arguments, counts each test, and counts
# a build that broke as a failure too.
bazel_tests() {
  local status good bad
  stage "$1"
  shift
  ./bazelw "$@" 2>&1 | tee "$log"
  status="${PIPESTATUS[0]}"
  good="$(grep -cE '^//[^ ]+ +(\(cached\) )?(PASSED|FLAKY)' "$log")"
  bad="$(grep -cE '^//[^ ]+ +(\(cached\) )?(FAILED|TIMEOUT|INCOMPLETE|NO STATUS)' "$log")"
  if ((status != 0 && bad == 0)); then bad=1; fi
  if ((status == 0 && good == 0)); then
    echo "$current: no test ran"
    bad=1
  fi
  passed=$((passed + good))
  failed=$((failed + bad))
  if ((bad)); then
    summary+=("FAILED  $current: $good passed, $bad failed")
  else
    summary+=("passed  $current: $good tests")
  fi
}

# install_package PACKAGE WHAT: installs it for what it provides.
install_package() {
  echo "installing $1, which provides $2"
  local as_root=()
  ((EUID == 0)) || as_root=(sudo -n)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1" >/dev/null 2>&1 ||
    { "${as_root[@]}" apt-get update >/dev/null 2>&1 &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1" >/dev/null; }
}

# need_command COMMAND PACKAGE: installs the package where the command is missing.
need_command() {
  type -P "$1" >/dev/null || install_package "$2" "$1"
}

# Warnings of compilers and linkers in any stage until now, those about the system's headers too. An object that
# came from the disk cache is not compiled again, and says nothing again.
check_warnings() {
  local found
  found="$(grep -hE ': warning(:| #)' "$scratch"/stage_*.log | sort -u)"
  if [[ -n "$found" ]]; then
    echo "$found"
    return 1
  fi
  echo "no warning"
}

watch_compilations() {
  .ci/compile_budget watch "$scratch/compilations" &
  watcher=$!
}

check_compilations() {
  .ci/compile_budget check "$scratch/compilations"
}

# summarize: prints what the stages came to, and returns 1 if anything failed.
summarize() {
  printf '\n=== summary (%d s)\n' "$SECONDS"
  printf '%s\n' "${summary[@]}"
  echo "$passed passed, $failed failed"
  ((failed == 0))
}
