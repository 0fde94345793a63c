#!/usr/bin/env bash
# Puts real files into a drive and gets them back, with tools people have: what `make demo` runs.
#
# The Linux source tree of Debian's linux-source-6.1 package (about 78,000 files) goes in with rclone and comes back; files of
# 100 MiB and 1,048,576,000 bytes go in with cadaver, scripted as in the CESNET test of CloudDrive (7.2 MB/s), and with curl, and
# come back. Everything is compared byte for byte, then the drive proves itself with `check --read-data`. Rates are printed.
#
#   KEEP=1       keep the temporary folder
#   DEMO_DIR     where to make it (default: TMPDIR or /tmp); about 10 GB are needed
#   HOLDFAST_BIN the program (default: target/release/holdfast)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/third-party/lib/common.bash

NEEDED_KIB=10000000
parent=${DEMO_DIR:-${TMPDIR:-/tmp}}
if (($(df --output=avail -k "$parent" | tail -n 1) < NEEDED_KIB)); then
    say "demo: $parent has less than 10 GB free; name another folder with DEMO_DIR"
    exit 73
fi
scripts/need.sh cadaver curl xz
rclone=$(rclone_program)
work=$(mktemp -d "$parent/holdfast-demo.XXXXXX")
drive_pid=
clean_up() {
    stop_drive
    [[ -n ${KEEP:-} ]] || rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
umask 077
export HOME=$work

# The kernel's source, from the package's own archive; nothing of it is installed.
fetch_linux() {
    local cache=$third_party_root/target/demo
    mkdir -p "$cache"
    if ! compgen -G "$cache/linux-source-6.1_*.deb" >/dev/null; then
        say "demo: fetching linux-source-6.1 (about 140 MB, once)"
        (cd "$cache" && apt-get download linux-source-6.1 >/dev/null 2>&1) ||
            { scripts/need.sh; apt-get update >/dev/null && (cd "$cache" && apt-get download linux-source-6.1 >/dev/null); }
    fi
    say "demo: unpacking it"
    dpkg-deb --fsys-tarfile "$cache"/linux-source-6.1_*.deb | tar -x -C "$work" --wildcards '*/linux-source-6.1.tar.xz'
    mkdir "$work/linux"
    tar -xf "$work"/usr/src/linux-source-6.1.tar.xz -C "$work/linux" --strip-components=1
    rm -r "$work/usr"
    # WebDAV has no links; what they point to is in the tree anyway.
    find "$work/linux" -type l -delete
}

rows=()
# timed NAME BYTES FILES COMMAND...: runs a command and notes its rates.
timed() {
    local name=$1 bytes=$2 files=$3 start seconds
    shift 3
    start=$(date +%s.%N)
    "$@" >"$work/command.log" 2>&1 </dev/null || { tail -n 20 "$work/command.log" >&2; say "demo: $name failed"; exit 1; }
    seconds=$(date +%s.%N | awk -v start="$start" '{ printf "%.2f", $1 - start }')
    rows+=("$(awk -v n="$name" -v b="$bytes" -v f="$files" -v s="$seconds" \
        'BEGIN { printf "%-44s %9.2f s %9.1f MB/s %9.0f files/s", n, s, b / 1e6 / s, f / s }')")
    say "  ${rows[-1]}"
}

fetch_linux
files=$(find "$work/linux" -type f | wc -l)
bytes=$(find "$work/linux" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%.0f", sum }')
start_drive "$work" demo
say "demo: $files files, $bytes bytes; the drive is at $drive_url"
export RCLONE_CONFIG=$work/rclone.conf
"$rclone" config create drive webdav url="$drive_url/dav/demo" vendor=owncloud user=demo pass="$password" --obscure >/dev/null
# By default rclone makes a hundred calls a second at most.
rclone_options=(--transfers 8 --checkers 8 --no-update-dir-modtime --create-empty-src-dirs --webdav-pacer-min-sleep 0)
timed "rclone copy, the tree in" "$bytes" "$files" "$rclone" copy "$work/linux" drive:linux "${rclone_options[@]}"
timed "rclone copy, the tree out" "$bytes" "$files" "$rclone" copy drive:linux "$work/back" "${rclone_options[@]}"
diff -r "$work/linux" "$work/back" || { say "demo: the trees differ"; exit 1; }
say "demo: the tree came back byte for byte"

printf 'machine 127.0.0.1 login demo password %s\n' "$password" >"$HOME/.netrc"
for size in 104857600 1048576000; do
    for tool in cadaver curl; do
        openssl rand "$size" >"$work/file"
        if [[ $tool == cadaver ]]; then
            printf 'put %s cadaver-%s\nquit\n' "$work/file" "$size" >"$work/script"
            timed "cadaver put, $size bytes" "$size" 1 cadaver --rcfile="$work/script" "$drive_url/dav/demo/"
            rm -f "$work/got"
            printf 'get cadaver-%s %s\nquit\n' "$size" "$work/got" >"$work/script"
            timed "cadaver get, $size bytes" "$size" 1 cadaver --rcfile="$work/script" "$drive_url/dav/demo/"
        else
            timed "curl -T, $size bytes" "$size" 1 curl -fsS --netrc -T "$work/file" "$drive_url/dav/demo/curl-$size"
            timed "curl -o, $size bytes" "$size" 1 curl -fsS --netrc -o "$work/got" "$drive_url/dav/demo/curl-$size"
        fi
        cmp "$work/file" "$work/got" || { say "demo: $tool got other bytes than it put"; exit 1; }
    done
done
peak=$(awk '/VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$drive_pid/status")
stop_drive
"${holdfast[@]}" check --read-data --data "$drive_data" || { say "demo: the drive is not sound"; exit 1; }
stored=$(du -sm "$drive_data" | cut -f 1)

printf '\nHoldfast, sealed and durable, with the client on the same machine:\n\n'
printf '  %s\n' "${rows[@]}"
printf '\n  peak memory of the server %s MiB; the data folder takes %s MiB\n' "$peak" "$stored"
printf '  CloudDrive in the CESNET test: cadaver put of 100 MiB 13.86 s, of 1,048,576,000 bytes 138.5 s: 7.2 to 7.6 MB/s\n'
printf '\nEverything came back byte for byte.\n'
