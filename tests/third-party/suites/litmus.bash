# litmus 0.13: basic, copymove, props, locks, http. Every test must pass unless it is listed in
# litmus-expected-failures (none is). Warnings are shown: litmus warns of what RFC 4918 allows and it finds unwise.

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../lib/common.bash"

cd "$WORK"
for suite in basic copymove props locks http; do
    # -k goes on after a failed test, so that one run shows all.
    TESTS=$suite litmus -k "$DAV/" "$ACCOUNT" "$PASSWORD" >"$suite.log" 2>&1 </dev/null || true
    # litmus rewrites its lines on a terminal; here each is one.
    sed -i 's/\r//g' "$suite.log"
    grep -E 'WARNING' "$suite.log" | sed 's/^/          /' >&2 || true
    mapfile -t failed < <(grep -E '^ *[0-9]+\. .*\bFAIL' "$suite.log" || true)
    unexpected=0
    for line in "${failed[@]}"; do
        name=$(sed -E 's/^ *[0-9]+\. ([a-z0-9_]+)\.*.*/\1/' <<<"$line")
        if ! grep -qxF "$suite $name" "$here/litmus-expected-failures"; then
            fail "litmus $suite: $line"
            unexpected=1
        fi
    done
    total=$(grep -oE 'of [0-9]+ tests run: [0-9]+ passed, [0-9]+ failed' "$suite.log" || true)
    [[ -n $total ]] || { fail "litmus $suite did not come to its end"; tail -n 5 "$suite.log" >&2; continue; }
    ((unexpected)) || pass "litmus $suite: $total"
done
finish
