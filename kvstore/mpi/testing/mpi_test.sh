#!/bin/bash
# Workers over MPI: mpi_test.sh PROGRAM LIBRARY

set -uo pipefail

program="$PWD/$1"
export TESSERA_MPI_LIBRARY="$PWD/$2"
scratch="$(mktemp -d /tmp/tessera-mpi.XXXXXX)"
trap 'rm -rf "$scratch"' EXIT
# Names of sockets must be short.
export TMPDIR="$scratch" HOME="${HOME:-$scratch}" TESSERA_NUM_THREADS=2
# Open MPI refuses root and more workers than cores unless it is told, and binds each worker's threads to
# one core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
RANDOM="${TESSERA_TEST_SEED:-1}"
failures=0

fail() {
  echo "FAILED: $*"
  cat "$scratch/out" "$scratch/err"
  failures=$((failures + 1))
}

# job WORKERS ARGUMENT...: its output is in $scratch/out and $scratch/err.
job() {
  local workers="$1"
  shift
  timeout 60 mpirun -n "$workers" "$program" "$@" >"$scratch/out" 2>"$scratch/err"
}

succeeds() {
  job "$@" || fail "$* ended with $?"
  (($(grep -c '^rank [0-9]* of '"$1"': ok$' "$scratch/out") == $1)) || fail "$*: not every worker has come to its end"
}

# fails_with TEXT WORKERS ARGUMENT...: the job ends with an error, and one message has the text.
fails_with() {
  local text="$1" status=0
  shift
  job "$@" || status=$?
  ((status != 0 && status != 124)) || fail "$* ended with $status"
  (($(grep -c '^tessera: ' "$scratch/err") == 1)) || fail "$*: expected one message"
  grep -q "^tessera: .*$text" "$scratch/err" || fail "$*: no message with '$text'"
}

# killed WORKERS: kills a worker at a random moment; the others and mpirun end within 10 s.
killed() {
  local workers="$1" folder="$scratch/pids" victim launcher begin pid
  rm -rf "$folder"
  mkdir "$folder"
  mpirun -n "$workers" "$program" ever "$folder" >"$scratch/out" 2>"$scratch/err" &
  launcher=$!
  for ((i = 0; i < 400; ++i)); do
    (($(cat "$folder"/* 2>/dev/null | wc -l) == workers)) && break
    sleep 0.05
  done
  if (($(cat "$folder"/* 2>/dev/null | wc -l) != workers)); then
    fail "$workers workers do not begin"
    kill "$launcher"
    return
  fi
  sleep "0.$((RANDOM % 300 + 100))"
  victim="$(cat "$folder/$((RANDOM % workers))")"
  begin="$SECONDS"
  kill -9 "$victim"
  timeout 20 tail --pid="$launcher" -f /dev/null || kill "$launcher"
  wait "$launcher" && fail "the job of $workers ended well without one of them"
  ((SECONDS - begin <= 10)) || fail "$workers workers took $((SECONDS - begin)) s to end"
  for pid in $(cat "$folder"/*); do
    kill -0 "$pid" 2>/dev/null && fail "process $pid of $workers is left"
  done
}

for workers in 1 2 4; do
  succeeds "$workers" sums
  succeeds "$workers" train
done
succeeds 2 slow
succeeds 4 stores
succeeds 2 fork
for workers in 2 4; do
  fails_with 'rank 1 is at the end of the store' "$workers" uneven
  fails_with 'rank 1: the process ends while a KVStore' "$workers" exit
  fails_with 'rank 1 of '"$workers"': an exception has ended the use of the store' "$workers" exception
  fails_with 'rank 1 of '"$workers"': the disk is full' "$workers" fail
  fails_with 'rank 0 is at Init of key "w", (2,) of float32, and rank 1 is at Init of key "w", (3,)' "$workers" shapes
  fails_with 'rank 1 is at Init of key "v"' "$workers" keys
done
export TESSERA_ENGINE_TYPE=NaiveEngine
succeeds 2 train
unset TESSERA_ENGINE_TYPE
for ((moment = 0; moment < 20; ++moment)); do killed $((moment % 4 == 3 ? 4 : 2)); done

echo "$failures failures after $SECONDS s"
((failures == 0))
