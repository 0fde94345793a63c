#!/usr/bin/env bash
# Runs all tests, in the profile `ci`. The program that they start is built with them, from the same dependencies, so that nothing is
# compiled twice; HOLDFAST_BIN names another.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export HOLDFAST_BIN=${HOLDFAST_BIN:-$PWD/target/ci/holdfast}
status=0
cargo test --profile ci --locked --workspace --no-fail-fast || status=$?
scripts/test-engines.sh short || status=$?
npm test --prefix web || status=$?
scripts/test-web.sh || status=$?
exit "$status"
