# unzip and Python: archives past the bounds of the old format. More than 65,535 entries and, with ARCHIVE_LARGE=1, a file above 4 GiB with another behind it.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.bash"

cd "$WORK"
api=${DAV%/dav/*}/api/v1
sign_in=(-sf -u "$ACCOUNT:$PASSWORD")
files=1000
folders=66
# Above 4 GiB; zeros, so that the drive keeps next to nothing of it.
large_bytes=$(((4 << 30) + 5000))

curl "${sign_in[@]}" -X MKCOL "$DAV/many" && curl "${sign_in[@]}" -X MKCOL "$DAV/many/0"
printf 'x' >one
for ((n = 0; n < files; n++)); do printf 'upload-file = "one"\nurl = "%s/many/0/file-%d.txt"\n' "$DAV" "$n"; done >uploads
run "$files files" curl "${sign_in[@]}" --parallel --parallel-max 16 -K uploads
copy() { for ((n = 1; n < folders; n++)); do curl "${sign_in[@]}" -o /dev/null -X COPY -H "Destination: $DAV/many/$n" "$DAV/many/0" || return 1; done; }
run "$((folders - 1)) copies of their folder" copy
run "an archive of all" curl "${sign_in[@]}" -o many.zip "$api/archive/$ACCOUNT/many"
run "unzip finds no fault in it" unzip -tqq many.zip
entries=$(unzip -Z1 many.zip | grep -c '\.txt$' || true)
expect "unzip counts its files" $((folders * files)) "$entries"
if python3 - many.zip $((folders * files)) <<'PY'; then pass "Python finds all of them whole"; else fail "Python reads it otherwise"; fi
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    files = [entry for entry in archive.infolist() if not entry.is_dir()]
    assert len(files) == int(sys.argv[2]) and len({entry.filename for entry in files}) == len(files)
    assert archive.testzip() is None
PY
rm many.zip
# Eight gibibytes go to and fro below.
[[ ${ARCHIVE_LARGE:-} == 1 ]] || { finish; exit; }

curl "${sign_in[@]}" -X MKCOL "$DAV/large"
truncate -s "$large_bytes" zeros
# By its name not worth compressing, so that what comes behind it lies beyond 32 bits.
run "a file above 4 GiB" curl "${sign_in[@]}" -T zeros "$DAV/large/a.jpg"
rm zeros
printf 'behind' >behind
run "and one behind it" curl "${sign_in[@]}" -T behind "$DAV/large/b.txt"
run "their archive" curl "${sign_in[@]}" -o large.zip "$api/archive/$ACCOUNT/large"
run "unzip finds no fault in it" unzip -tqq large.zip
expect "and the second file behind the first" behind "$(unzip -p large.zip '*b.txt')"
if python3 - large.zip "$large_bytes" <<'PY'; then pass "Python finds both, with their sizes"; else fail "Python reads it otherwise"; fi
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    large, behind = sorted((entry for entry in archive.infolist() if not entry.is_dir()), key=lambda entry: entry.filename)
    assert large.file_size == int(sys.argv[2]) and behind.header_offset > 1 << 32
    assert archive.read(behind) == b"behind"
PY
finish
