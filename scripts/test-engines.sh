#!/usr/bin/env bash
# Runs the tests of the whole program, which scripts/test.sh runs on SQLite and files, on the other databases and stores.
#
#   scripts/test-engines.sh [short]
#
# Each suite has its usual size; `short` makes them as small as a build machine has time for, and leaves out on one engine what it sees
# on another: what the store has no part in is tried on files, what the disk has none in on object stores.
#
# Not here: balancers, chaos, cluster, cluster_web and moving name their engines themselves; crash_disk, crash_web and io_faults are about the disk that packs
# lie on, and an object service has its disks to itself.
#
#   HOLDFAST_BIN  the program (default: target/ci/holdfast)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export HOLDFAST_BIN=${HOLDFAST_BIN:-$PWD/target/ci/holdfast}
status=0

# on ENGINES SUITE...: runs suites of crates/e2e there.
on() {
    local engines=$1 suites=()
    shift
    for suite in "$@"; do suites+=(--test "$suite"); done
    echo "== on $engines: $*"
    HOLDFAST_ENGINES=$engines cargo test --profile ci --locked --workspace --no-fail-fast "${suites[@]}" || status=$?
}

if [[ ${1:-} == short ]]; then
    export HOLDFAST_MODEL_SEEDS=1 HOLDFAST_KILLS=10 HOLDFAST_FAULT_STEP=3 HOLDFAST_UPLOAD_MIB=64 HOLDFAST_ENTRIES=10000
    on postgres,fs model kill bad_input io_faults
    on postgres,s3 model kill third_party secrecy memory
    on postgres,swift model kill bad_data
else
    suites=(model kill third_party bad_data bad_input secrecy flips memory slow_clients space meanwhile)
    on postgres,fs "${suites[@]}" crash_disk crash_web io_faults
    on postgres,s3 "${suites[@]}"
    on postgres,swift "${suites[@]}"
fi
exit "$status"
