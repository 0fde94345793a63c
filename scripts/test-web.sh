#!/usr/bin/env bash
# Runs the pages' tests against the built program in real browsers.
#
#   scripts/test-web.sh [chromium] [firefox]
#
#   HOLDFAST_BIN  the program (default: target/release/holdfast)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export HOLDFAST_BIN=${HOLDFAST_BIN:-$PWD/target/release/holdfast}
# One browser's failures must not hide the other's.
status=0
browsers=("$@")
((${#browsers[@]})) || browsers=(chromium firefox)
scripts/need.sh node "${browsers[@]}"
for browser in "${browsers[@]}"; do
    echo "== in $browser"
    BROWSER=$browser npm run --prefix web e2e || status=$?
done
exit "$status"
