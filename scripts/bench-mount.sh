#!/usr/bin/env bash
# Measures how many files of 4 KiB are made a second (create, write, close) on a mounted space, on gocryptfs and on the disk beneath both, in
# turns. A first measurement of the mount; every process is one writer with a folder of its own.
#
#   scripts/bench-mount.sh [rounds]
#
# HOLDFAST_BIN names the program (default: target/release/holdfast), HOLDFAST_MOUNT_ARGUMENTS has more arguments for it (--write-behind).

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/need.sh fuse3 gocryptfs

program=${HOLDFAST_BIN:-$PWD/target/release/holdfast}
arguments=${HOLDFAST_MOUNT_ARGUMENTS:-}
# It is no setting of the program's.
unset HOLDFAST_MOUNT_ARGUMENTS
mkdir -p target
work=$(mktemp -d "$PWD/target/bench-mount.XXXXXX")
finish() {
    for at in holdfast gocryptfs; do
        if mountpoint -q "$work/$at"; then umount "$work/$at"; fi
    done
    rm -rf "$work"
}
trap finish EXIT
mkdir "$work"/{holdfast,gocryptfs,sealed,ext4}
# Of this run alone.
head -c 24 /dev/urandom | base64 >"$work/password"
"$program" account add bench --data "$work/data" --password-file "$work/password" >/dev/null
# shellcheck disable=SC2086 # Several arguments, or none.
"$program" mount "$work/data" "$work/holdfast" $arguments --user bench --password-file "$work/password" >/dev/null
gocryptfs -init -quiet -passfile "$work/password" "$work/sealed"
gocryptfs -quiet -passfile "$work/password" "$work/sealed" "$work/gocryptfs" 2>/dev/null

for round in $(seq "${1:-3}"); do
    for writers in 1 8; do
        for at in holdfast gocryptfs ext4; do
            python3 - "$work/$at/$round-$writers" "$writers" "$at" <<'PYTHON'
import multiprocessing, os, sys, time
folder, writers, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
files, content = (2000 if writers == 1 else 500), os.urandom(4096)
def write(number):
    os.makedirs(f"{folder}/{number}")
    for at in range(files):
        file = os.open(f"{folder}/{number}/{at}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        os.write(file, content)
        os.close(file)
begun = time.monotonic()
processes = [multiprocessing.Process(target=write, args=(number,)) for number in range(writers)]
for process in processes: process.start()
for process in processes: process.join()
assert all(process.exitcode == 0 for process in processes)
print(f"{name}, {writers} at a time: {writers * files / (time.monotonic() - begun):.0f} files/s", flush=True)
PYTHON
        done
    done
done
