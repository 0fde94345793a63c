#!/usr/bin/env bash
# Measures what operations of the catalogue cost as a drive grows, on SQLite and on a PostgreSQL server of its own that syncs its
# commits, on the disk of target/.
#
#   scripts/bench-catalogue.sh [option of `holdfast bench catalogue`]...
#
# ENGINES says which of "sqlite postgres" (default: both); HOLDFAST_BIN names the program (default: target/release/holdfast). At the default sizes, up to ten million files: about half an
# hour, and 10 GB of disk.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/need.sh postgresql

program=${HOLDFAST_BIN:-$PWD/target/release/holdfast}
programs=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -1)
mkdir -p target
work=$(mktemp -d "$PWD/target/bench-catalogue.XXXXXX") server= mounted=
finish() {
    [[ -z $server ]] || { kill -INT "$server" && wait "$server" || true; } 2>/dev/null
    [[ -z $mounted ]] || { umount "$mounted" && rmdir "$mounted"; }
    rm -rf "$work"
}
trap finish EXIT

echo "machine: $(nproc) cores; $("$programs/postgres" --version); settings of the server as it comes, shared_buffers and max_wal_size apart (1 GB, 4 GB)"
engines=" ${ENGINES:-sqlite postgres} "
if [[ $engines == *" sqlite "* ]]; then
    "$program" bench catalogue "$work/sqlite" "$@"
    rm -rf "$work/sqlite"
fi
[[ $engines == *" postgres "* ]] || exit 0

# The server refuses to run as root.
as=()
if [[ $(id -u) == 0 ]]; then
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    # Folders above may be closed to the server's account: it gets to its own by a path that is not.
    folder=$(mktemp -d)
    mkdir "$work/postgres" && chown postgres "$work/postgres" "$folder"
    mount --bind "$work/postgres" "$folder" && mounted=$folder
else
    folder=$work/postgres
fi
"${as[@]}" "$programs/initdb" --auth=trust --encoding=UTF8 --locale=C.UTF-8 --username=holdfast --pgdata="$folder/data" >/dev/null
read -r port < <(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${as[@]}" "$programs/postgres" -D "$folder/data" -c port="$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
    -c shared_buffers=1GB -c max_wal_size=4GB </dev/null >"$work/log" 2>&1 &
server=$!
until "$programs/pg_isready" -q -h 127.0.0.1 -p "$port"; do
    kill -0 "$server" || { cat "$work/log" >&2; exit 70; }
    sleep 0.1
done
"$programs/createdb" -h 127.0.0.1 -p "$port" -U holdfast drive
"$program" bench catalogue "postgres://holdfast@127.0.0.1:$port/drive" "$@"
