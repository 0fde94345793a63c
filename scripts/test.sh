#!/usr/bin/env bash
# Runs the workspace's tests in the release profile, which the program is built in too, so nothing is compiled twice.
# HOLDFAST_BIN names the program that tests start.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export HOLDFAST_BIN=${HOLDFAST_BIN:-$PWD/target/release/holdfast}
cargo test --release --locked --workspace --no-fail-fast
