#!/usr/bin/env bash
# Runs the workspace's tests in the release profile. The program that they start is built with them, from the same
# dependencies, so that nothing is compiled twice; HOLDFAST_BIN names another.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export HOLDFAST_BIN=${HOLDFAST_BIN:-$PWD/target/release/holdfast}
status=0
cargo test --release --locked --workspace --no-fail-fast || status=$?
# The whole program once more on the other databases and stores; tests of one folder's own bytes do not apply to them.
for engines in postgres,fs postgres,s3 postgres,swift; do
    tests=(--test model --test kill)
    # What it tries has nothing to do with the store.
    [[ $engines != postgres,fs ]] || tests+=(--test bad_input)
    echo "== on $engines"
    HOLDFAST_ENGINES=$engines HOLDFAST_MODEL_SEEDS=1 HOLDFAST_KILLS=10 \
        cargo test --release --locked --workspace --no-fail-fast "${tests[@]}" || status=$?
done
exit "$status"
