#!/bin/bash
# Runs many_workers_test's trainings as four processes of mpirun: many_workers_mpi_test.sh PROGRAM LIBRARY

set -uo pipefail

program="$PWD/$1"
export TESSERA_MPI_LIBRARY="$PWD/$2"
scratch="$(mktemp -d /tmp/tessera-mpi.XXXXXX)"
trap 'rm -rf "$scratch"' EXIT
# Names of sockets must be short.
export TMPDIR="$scratch" HOME="${HOME:-$scratch}" TESSERA_NUM_THREADS=1
# Open MPI refuses root and more workers than cores unless it is told, and binds each worker's threads to
# one core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
unset XML_OUTPUT_FILE

timeout 100 mpirun -n 4 "$program" --gtest_filter='ManyWorkersTest.FourWorkers*' >"$scratch/out" 2>&1
status=$?
passed="$(grep -c '\[  PASSED  \] 2 tests' "$scratch/out")"
if ((status != 0 || passed != 4)); then
  cat "$scratch/out"
  echo "status $status, $passed of 4 workers passed"
  exit 1
fi
echo "4 workers passed"
