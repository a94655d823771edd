#!/bin/bash
# ./bazelw, with programs in the place of Bazel and apt-get that only write down how they were
# called: what it hands over, and what it says where it may not install what is missing.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# A machine: commands that every one has, then those that are named.
machine() { # NAME COMMAND...
  local name="$scratch/$1" command
  shift
  mkdir -p "$name"
  for command in bash cat chmod cp dirname env grep id mkdir mktemp readlink rm tail g++; do
    ln -sf "$(type -P "$command")" "$name/$command"
  done
  for command in "$@"; do cp "$scratch/stand_in_$command" "$name/$command"; done
  echo "$name"
}

cat >"$scratch/stand_in_bazel" <<'EOF'
#!/bin/bash
printf 'bazel'
printf ' <%s>' "$@"
echo
EOF
cat >"$scratch/stand_in_failing" <<'EOF'
#!/bin/bash
echo "E: Unable to locate package $6" >&2
exit 100
EOF
cat >"$scratch/stand_in_apt-get" <<'EOF'
#!/bin/bash
echo "apt-get $*" >>"$APT_LOG"
[[ "$1" == update ]] || cp "$STAND_IN_BAZEL" "${0%/*}/bazel"
EOF
chmod 755 "$scratch"/stand_in_*
# Asked whether it works without a password it refuses, as it does where there is a terminal for one.
cat >"$scratch/stand_in_sudo" <<'EOF'
#!/bin/bash
echo "sudo $*" >>"$APT_LOG"
[[ "$1" != -n ]] || exit "${SUDO_REFUSES:-0}"
exec "$@"
EOF
chmod 755 "$scratch/stand_in_sudo"
export APT_LOG="$scratch/apt.log" STAND_IN_BAZEL="$scratch/stand_in_bazel"
export XDG_CACHE_HOME="$scratch/cache"
unset CUDA_HOME TESSERA_THIRD_PARTY

# runs MACHINE ARGUMENT...: leaves what ./bazelw says in $out, $err and $status.
runs() {
  local path="$1"
  shift
  status=0
  out="$(PATH="$path" ./bazelw "$@" 2>"$scratch/err" </dev/null)" || status=$?
  err="$(<"$scratch/err")"
}

# dies WORDS: one line on stderr with all the words (separated by |), and exit code 1.
dies() {
  local word
  ((status == 1)) || fail "ended with $status, expected 1: $out $err"
  (($(wc -l <"$scratch/err") == ${lines:-1})) || fail "expected one sentence: $err"
  IFS='|' read -ra list <<<"$1"
  for word in "${list[@]}"; do [[ "$err" == *"$word"* ]] || fail "expected '$word' in: $err"; done
  echo "refused: $err"
}

whole="$(machine whole bazel)"
runs "$whole" test //... '--test_arg=two words'
[[ "$out" == "bazel <--bazelrc=$XDG_CACHE_HOME/tessera/bazelrc> <test> <//...> <--test_arg=two words>" ]] ||
  fail "handed over: $out $err"
[[ "$(<"$XDG_CACHE_HOME/tessera/bazelrc")" == "build --disk_cache=\"$XDG_CACHE_HOME/tessera/disk\"" ]] ||
  fail "the disk cache is not below the user's cache folder"
runs "$whole" --version
[[ "$out" == "bazel <--version>" ]] || fail "--version: $out"

XDG_CACHE_HOME=/proc/absent runs "$whole" build //:base
[[ "$out" == "bazel <build> <//:base>" && "$err" == *"cannot be written; building without"* ]] ||
  fail "without a cache: $out $err"

runs "$(machine bare)" test //...
dies "lacks|Bazel|no apt-get"

if ((EUID == 0)); then
  status=0
  out="$(env PATH="$(machine locked apt-get)" "$(type -P setpriv)" --reuid=65534 --regid=65534 \
    --clear-groups ./bazelw test //... 2>"$scratch/err" </dev/null)" || status=$?
  err="$(<"$scratch/err")"
  dies "lacks|Bazel|only root|sudo apt-get install|bazel-bootstrap"

  # Another user, who may use sudo: what installs is run by it, and nothing else; the second run calls neither.
  as_user() {
    status=0
    out="$(env PATH="$user" "$(type -P setpriv)" --reuid=65534 --regid=65534 --clear-groups \
      ./bazelw "$@" 2>"$scratch/err" </dev/null)" || status=$?
    err="$(<"$scratch/err")"
  }
  user="$(machine user apt-get sudo)"
  chmod 777 "$user"
  : >"$APT_LOG"
  chmod 666 "$APT_LOG"
  SUDO_REFUSES=1 as_user test //...
  dies "lacks|Bazel|only root|sudo apt-get install"
  [[ "$(<"$APT_LOG")" == "sudo -n true" ]] || fail "sudo was asked for more than whether it works: $(<"$APT_LOG")"
  : >"$APT_LOG"
  as_user test //...
  [[ "$out" == *"<test> <//...>" && "$err" == *"installing with apt-get"*"Bazel"* ]] ||
    fail "after installing by sudo: $out $err"
  mapfile -t calls <"$APT_LOG"
  [[ "${#calls[@]}" == 3 && "${calls[0]}" == "sudo -n true" &&
    "${calls[1]}" == "sudo env DEBIAN_FRONTEND=noninteractive apt-get install "*bazel-bootstrap* &&
    "${calls[2]}" == "apt-get install "*bazel-bootstrap* ]] || fail "sudo: $(<"$APT_LOG")"
  : >"$APT_LOG"
  as_user test //...
  [[ "$out" == *"<test> <//...>" && "$err" != *install* && ! -s "$APT_LOG" ]] ||
    fail "the second run by sudo does set-up work: $err $(<"$APT_LOG")"
  rm "$APT_LOG"

  failing="$(machine failing)"
  cp "$scratch/stand_in_failing" "$failing/apt-get"
  runs "$failing" test //...
  # The first line says what it was about to do.
  lines=2 dies "installing with apt-get|Bazel|could not install|E: Unable to locate package"

  fresh="$(machine fresh apt-get)"
  runs "$fresh" run //examples/digits
  [[ "$out" == *"<run> <//examples/digits>" && "$err" == *"installing with apt-get"*"Bazel"* ]] ||
    fail "after installing: $out $err"
  grep -q 'install .*bazel-bootstrap' "$APT_LOG" || fail "apt-get was not asked for Bazel: $(<"$APT_LOG")"
  rm "$APT_LOG"
  runs "$fresh" run //examples/digits
  [[ "$out" == *"<run> <//examples/digits>" && -z "$err" && ! -e "$APT_LOG" ]] ||
    fail "the second run does set-up work: $err"

  # Set-up is all that could take long: what a complete machine runs before Bazel is counted.
  for command in cat dirname; do
    rm "$fresh/$command"
    printf '#!/bin/bash\necho %s >>"$RUN_LOG"\nexec %s "$@"\n' "$command" "$(type -P "$command")" >"$fresh/$command"
    chmod 755 "$fresh/$command"
  done
  # The others it has no use for.
  for command in chmod cp env grep id mkdir mktemp readlink rm tail g++ apt-get; do
    printf '#!/bin/bash\necho %s >>"$RUN_LOG"\n' "$command" >"$scratch/unused"
    chmod 755 "$scratch/unused"
    rm "$fresh/$command" && mv "$scratch/unused" "$fresh/$command"
  done
  RUN_LOG="$scratch/run.log" runs "$fresh" run //examples/digits
  [[ "$out" == *"<run> <//examples/digits>" && -z "$err" ]] || fail "the counted run: $out $err"
  [[ "$(sort "$scratch/run.log" | tr '\n' ' ')" == "cat dirname " ]] ||
    fail "a complete machine runs more than cat and dirname before Bazel: $(<"$scratch/run.log")"
fi

if [[ ! -e /usr/local/cuda/bin/nvcc ]]; then
  for flag in "--config=cuda" "--config=gpu" "--config cuda"; do
    # shellcheck disable=SC2086  # one of them is two words
    runs "$whole" build $flag //...
    dies "${flag/ /=}|CUDA toolkit"
  done
  runs "$whole" run //examples/digits -- --config=cuda
  ((status == 0)) || fail "a program's own argument was taken for Bazel's: $err"
fi

if ((failures)); then
  echo "$failures failures"
  exit 1
fi
echo "bazelw does what it should"
