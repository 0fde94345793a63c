# tuspy and tus-js-client: resumable uploads by tus 1.0, of many sizes, with checksums, resumed after client, connection and server ended.
# It has a drive of its own besides, since it kills the server.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.bash"

lib=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)
PYTHON=$(python_with tuspy)
NODE_PACKAGES=$(node_with tus-js-client)
export NODE_PACKAGES
cd "$WORK"
mebibyte=1048576
# A peak of the server while 1 GiB comes in: its budget for uploads and downloads, and what the program itself takes.
peak_kib_max=$((256 * 1024))

# up FILE PATH OPTION=VALUE...: uploads a file to the space of the account.
up() { "$PYTHON" "$lib/tus_client.py" "$drive_url/api/v1/uploads" "$ACCOUNT" "$password" "$1" "$ACCOUNT" "${@:2}"; }
# js FILE PATH OPTION=VALUE...: the same with the other client.
js() { node "$lib/tus_client.mjs" "$drive_url/api/v1/uploads" "$ACCOUNT" "$password" "$1" "$ACCOUNT" "${@:2}"; }
# got PATH FILE: what is there now.
got() { curl -sf -u "$ACCOUNT:$password" -o "$2" "$drive_url/dav/$ACCOUNT/$1"; }
# whole NAME FILE PATH: what is there is what was sent.
whole() { if got "$3" back; then same "$1" "$2" back; else fail "$1: nothing is there"; fi; }
# begun: whether an upload is under way.
begun() { [[ $(curl -sf -u "$ACCOUNT:$password" "$drive_url/api/v1/uploads") == *length_bytes* ]]; }

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

for size in 0 1 $((3 * mebibyte + 5)); do
    head -c "$size" /dev/urandom >file
    run "tus-js-client: $size bytes" js file "js-$size"
    whole "they come back" file "js-$size"
done
head -c $((60 * mebibyte)) /dev/urandom >file
status=0
js file js-stopped store=js-stored stop=$((20 * mebibyte)) >js.log 2>&1 || status=$?
expect "tus-js-client: a page that is closed in the middle of a request" 3 "$status"
run "goes on when it is opened again" js file js-stopped store=js-stored
whole "and the file is whole" file js-stopped

# kill -9 while a part comes in, again and again; the client asks where it stands and goes on.
head -c $((200 * mebibyte)) /dev/urandom >large
listen=${drive_url#http://}
for client in "up retries=200" js; do
    read -ra how <<<"$client"
    "${how[0]}" large "large-${how[0]}" chunk=$((16 * mebibyte)) "${how[@]:1}" >large.log 2>&1 &
    uploading=$!
    # Neither client tries again to begin one.
    until begun || ! kill -0 "$uploading" 2>/dev/null; do sleep 0.05; done
    kills=0
    while kill -0 "$uploading" 2>/dev/null && ((kills < 4)); do
        sleep 0.7
        kill -9 "$drive_pid"
        wait "$drive_pid" 2>/dev/null || true
        kills=$((kills + 1))
        serve_drive "$WORK" "$listen"
    done
    if wait "$uploading"; then
        pass "200 MiB while the server was killed $kills times"
    else
        fail "200 MiB while the server was killed $kills times"
        tail -n 5 large.log >&2
    fi
    whole "they come back" large "large-${how[0]}"
done

head -c $((1024 * mebibyte)) /dev/urandom >random
run "1 GiB of noise" up random random chunk=$((200 * mebibyte + 1))
peak_kib=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$drive_pid/status")
if ((peak_kib <= peak_kib_max)); then pass "the server took $((peak_kib / 1024)) MiB at most"; else fail "the server took $((peak_kib / 1024)) MiB"; fi
cmp -s random <(curl -sf -u "$ACCOUNT:$password" "$drive_url/dav/$ACCOUNT/random") && pass "it comes back" || fail "1 GiB differs"
rm random back large

stop_drive
run "the drive is sound" "${holdfast[@]}" check --read-data --data "$drive_data"
finish
