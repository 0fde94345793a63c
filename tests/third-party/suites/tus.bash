# tuspy: resumable uploads by tus 1.0, of many sizes, with checksums, resumed after the client, the connection and the server ended.
# It has a drive of its own besides, since it kills the server.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.bash"

cd "$WORK"
PYTHON=$(python_with tuspy)
client=$(dirname "${BASH_SOURCE[0]}")/../lib/tus_client.py
mebibyte=1048576
# A peak of the server while 1 GiB comes in: its budget for uploads and downloads, and what the program itself takes.
peak_kib_max=$((256 * 1024))

# up FILE PATH OPTION=VALUE...: uploads a file to the space of the account.
up() { "$PYTHON" "$client" "$drive_url/api/v1/uploads" "$ACCOUNT" "$password" "$1" "$ACCOUNT" "${@:2}"; }
# got PATH FILE: what is there now.
got() { curl -sf -u "$ACCOUNT:$password" -o "$2" "$drive_url/dav/$ACCOUNT/$1"; }
# whole NAME FILE PATH: what is there is what was sent.
whole() { got "$3" back && same "$1" "$2" back; }

start_drive "$WORK" "$ACCOUNT"
trap stop_drive EXIT

for size in 0 1 4097 $mebibyte $((3 * mebibyte + 5)) $((40 * mebibyte + 77)); do
    head -c "$size" /dev/urandom >file
    run "$size bytes at once" up file "once-$size"
    whole "they come back" file "once-$size"
    ((size)) || continue
    run "$size bytes in parts" up file "parts-$size" chunk=$((size / 3 + 1)) checksum=sha1
    whole "they come back" file "parts-$size"
done

head -c $((30 * mebibyte)) /dev/urandom >file
run "a client that stops in the middle" up file stopped chunk=700001 store=stored stop=$((12 * mebibyte))
expect "nothing is there yet" 1 "$(got stopped back && echo 0 || echo 1)"
run "goes on with another run" up file stopped store=stored
whole "and the file is whole" file stopped
if up file stopped >refused.log 2>&1; then fail "a name that is taken"; else pass "a name that is taken is refused"; fi
run "unless both are to be kept" up file stopped conflict=keep-both
whole "which has a name beside" file "stopped%20(2)"

# kill -9 while a part comes in, again and again; the client asks where it stands and goes on.
head -c $((200 * mebibyte)) /dev/urandom >large
listen=${drive_url#http://}
up large large chunk=$((16 * mebibyte)) retries=200 >large.log 2>&1 &
uploading=$!
kills=0
while kill -0 "$uploading" 2>/dev/null && ((kills < 5)); do
    sleep 0.7
    kill -9 "$drive_pid"
    wait "$drive_pid" 2>/dev/null || true
    kills=$((kills + 1))
    serve_drive "$WORK" "$listen"
done
if wait "$uploading"; then pass "200 MiB while the server was killed $kills times"; else fail "200 MiB while the server was killed"; tail -n 5 large.log >&2; fi
whole "they come back" large large

head -c $((1024 * mebibyte)) /dev/urandom >random
run "1 GiB of noise" up random random chunk=$((200 * mebibyte + 1))
peak_kib=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$drive_pid/status")
if ((peak_kib <= peak_kib_max)); then pass "the server took $((peak_kib / 1024)) MiB at most"; else fail "the server took $((peak_kib / 1024)) MiB"; fi
cmp -s random <(curl -sf -u "$ACCOUNT:$password" "$drive_url/dav/$ACCOUNT/random") && pass "it comes back" || fail "1 GiB differs"
rm random back large

stop_drive
run "the drive is sound" "${holdfast[@]}" check --read-data --data "$drive_data"
finish
