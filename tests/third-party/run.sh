#!/usr/bin/env bash
# Runs the suites of other people's WebDAV and tus clients against the built program: every file of suites/, or those named.
#
#   tests/third-party/run.sh [litmus|rclone|cadaver|curl|tus]...
#
# Missing tools are installed when run as root on a Debian-like system. Each suite has an account of its own on one drive
# with temporary data. Ends with a summary; the status is 0 only if everything passed and the drive is clean afterwards.
#
#   HOLDFAST_BIN  the program (default: target/release/holdfast)

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/lib/common.bash"

suites=("$@")
if ((${#suites[@]} == 0)); then
    for file in "$here"/suites/*.bash; do suites+=("$(basename "$file" .bash)"); done
fi
"$third_party_root/scripts/need.sh" litmus cadaver curl
RCLONE=$(rclone_program)

work=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-third-party.XXXXXX")
drive_pid=
clean_up() {
    stop_drive
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

umask 077
start_drive "$work" "${suites[@]}"
summary=()
failed=0
for suite in "${suites[@]}"; do
    say "== $suite"
    mkdir "$work/$suite"
    if env HOLDFAST_URL="$drive_url" DAV="$drive_url/dav/$suite" ACCOUNT="$suite" PASSWORD="$password" RCLONE="$RCLONE" \
        WORK="$work/$suite" HOME="$work/$suite" bash "$here/suites/$suite.bash"; then
        summary+=("passed  $suite")
    else
        summary+=("FAILED  $suite")
        failed=$((failed + 1))
    fi
done

say "== check"
stop_drive
if "${holdfast[@]}" check --read-data --data "$drive_data" >"$work/check.log" 2>&1; then
    summary+=("passed  check --read-data of the drive afterwards")
else
    cat "$work/check.log" >&2
    summary+=("FAILED  check --read-data of the drive afterwards")
    failed=$((failed + 1))
fi
if ((failed)); then
    say "the end of the drive's log:"
    tail -n 30 "$work/drive.log" >&2
fi
printf '\nThird-party suites:\n'
printf '  %s\n' "${summary[@]}"
printf '%d passed, %d failed\n' $((${#summary[@]} - failed)) "$failed"
((failed == 0))
