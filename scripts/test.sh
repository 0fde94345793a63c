#!/usr/bin/env bash
# Runs the workspace's tests in the release profile. The program that they start is built with them, from the same
# dependencies, so that nothing is compiled twice; HOLDFAST_BIN names another.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export HOLDFAST_BIN=${HOLDFAST_BIN:-$PWD/target/release/holdfast}
status=0
cargo test --release --locked --workspace --no-fail-fast || status=$?
scripts/test-engines.sh short || status=$?
exit "$status"
