#!/usr/bin/env bash
# Serves a drive on this machine: what `make run` does after building.
#
#   HOLDFAST_DATA   the drive's folder (default: .holdfast/data in this tree)
#   HOLDFAST_PORT   the first port to try (default: 8642); the next free one is taken
#   HOLDFAST_ADMIN  name of the first administrator (default: admin)
#
# The first start makes the drive and its administrator and shows the password and recovery code once. Starting again opens
# the same drive. Ctrl-C stops it in good order.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data=${HOLDFAST_DATA:-$PWD/.holdfast/data}
port=${HOLDFAST_PORT:-8642}
admin=${HOLDFAST_ADMIN:-admin}
# They are read here and are no settings of the program.
unset HOLDFAST_PORT HOLDFAST_ADMIN

# Somebody listens if a connection succeeds.
taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
first=$port
while taken "$port"; do
    port=$((port + 1))
    if ((port > first + 100)); then
        echo "run: no free port from $first to $port" >&2
        exit 69
    fi
done

mkdir -p "$data"
exec target/release/holdfast serve --data "$data" --listen "127.0.0.1:$port" --init-admin "$admin" "$@"
