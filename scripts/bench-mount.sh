#!/usr/bin/env bash
# Measures how fast files are made on a mounted space (answering first, as is the default there, and not), on spaces mounted from a server on this
# machine (the same), on gocryptfs (and, if wished, other rivals), and on the disk beneath all of them: `holdfast bench create`, which interleaves them.
#
#   scripts/bench-mount.sh [LOAD]...
#
# Loads: one (a writer of 2,000 files of 4 KiB), eight (eight writers of 500), medium (a writer of 1,000 files of 64 KiB), large (a file of 1 GiB, synced), names (5,000 files asked for by name, with
# nothing in the kernel's cache and with everything; root), tar (10,000 files, and an archive of them unpacked), t1 and t2 (report 003's two tests), shared (2,000 files of 4 KiB on a mount from a server, while another
# mount does nothing, lists another folder all the time, and lists the one in which they are made; without rivals). Default: all but shared.
#
# WORK_DIR is where (default: target; /dev/shm leaves the disk out of it), MORE are further options of "bench create" for every load.
# RUNS is how often each (default: 3); OUTPUT a folder for reports as JSON and HTML; HOLDFAST_BIN names the program (default:
# target/release/holdfast). RIVALS names some of "bindfs juicefs juicefs-redis rclone seaweedfs", to be mounted as well: bindfs over a folder,
# JuiceFS with encryption and its metadata in SQLite or in Redis, rclone with encryption over a folder, SeaweedFS with encrypted volumes.
# ALSO are folders of rivals that somebody mounted, each NAME=FOLDER.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/need.sh fuse3 gocryptfs curl
read -ra rivals <<<"${RIVALS:-}"
read -ra also <<<"${ALSO:-}"
targets=("${also[@]}")
for rival in "${rivals[@]}"; do
    case $rival in
        bindfs | juicefs | rclone) scripts/need.sh "$rival" openssl ;;
        juicefs-redis) scripts/need.sh juicefs redis-server openssl ;;
        seaweedfs) scripts/need.sh weed ;;
        *)
            echo "there is no rival $rival: bindfs, juicefs, juicefs-redis, rclone, seaweedfs" >&2
            exit 64
            ;;
    esac
done
PATH=$PWD/target/bench-tools/bin:$PATH

program=${HOLDFAST_BIN:-$PWD/target/release/holdfast}
unset HOLDFAST_BIN
loads=("$@")
((${#loads[@]})) || loads=(one eight medium large names tar t1 t2)
read -ra more <<<"${MORE:-}"
mkdir -p target
work=$(mktemp -d "${WORK_DIR:-$PWD/target}/bench-mount.XXXXXX")
started=() mounted=()
clear_away() {
    for at in "${mounted[@]}"; do
        if mountpoint -q "$work/$at"; then umount "$work/$at"; fi
    done
    # Those that came last first: what was written to a mount goes to its server before that ends.
    for ((last = ${#started[@]} - 1; last >= 0; last--)); do
        kill "${started[last]}" 2>/dev/null && wait "${started[last]}" || true
    done
    if mountpoint -q "$work"; then umount "$work" && rm -f "$work.ext4"; fi
    find "$work" -mindepth 1 -delete
    started=() mounted=() targets=("${also[@]}")
}
finish() {
    clear_away
    rmdir "$work"
}
trap finish EXIT

# Waits until something is so.
until_so() {
    for _ in $(seq 200); do
        if "$@" 2>/dev/null; then return; fi
        sleep 0.1
    done
    echo "within 20 s it is not so: $*" >&2
    return 1
}

mount_space() {
    local at=$1
    shift
    "$program" mount "$@" "$work/$at" --foreground >/dev/null &
    started+=("$!")
    mounted+=("$at")
    until_so mountpoint -q "$work/$at"
}

# Mounts everything on a file system of its own, if it may: on one from which files were removed a moment ago ext4 makes new ones slowly.
begin() {
    if ((EUID == 0)) && [[ $(stat -f -c %T "$work") != tmpfs ]]; then
        truncate -s 200G "$work.ext4"
        mkfs.ext4 -q -E nodiscard "$work.ext4"
        mount -o loop "$work.ext4" "$work"
        # Past the cache, where that can be done: otherwise the disk's file has everything a second time, copied by the processors that are measured.
        losetup --direct-io=on "$(findmnt -n -o SOURCE "$work")" || true
    fi
    mkdir "$work"/{first,usual,server,server-first,gocryptfs,sealed,ext4}
    # Of this run alone.
    head -c 24 /dev/urandom | base64 >"$work/password"
    for at in first usual server; do
        "$program" account add bench --data "$work/$at.data" --password-file "$work/password" >/dev/null
    done
    "$program" account add first --data "$work/server.data" --password-file "$work/password" >/dev/null
    mount_space first "$work/first.data" --user bench --password-file "$work/password"
    mount_space usual "$work/usual.data" --user bench --password-file "$work/password" --write-behind=no
    read -r port metrics < <(python3 -c 'import socket
both = [socket.socket() for _ in range(2)]
for one in both: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in both))')
    "$program" serve --data "$work/server.data" --tls-self-signed --listen "https://127.0.0.1:$port" --metrics-listen "127.0.0.1:$metrics" >/dev/null 2>&1 &
    server=$!
    started+=("$server")
    until_so curl --silent --fail --output /dev/null --cacert "$work/server.data/tls/self-signed.pem" "https://127.0.0.1:$port/readyz"
    for user in bench first; do
        "$program" token create bench --user "$user" --data "$work/server.data" --password-file "$work/password" --json |
            python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])' >"$work/$user.token"
    done
    from=("https://127.0.0.1:$port" --ca "$work/server.data/tls/self-signed.pem")
    mount_space server "${from[@]}" --token-file "$work/bench.token"
    mount_space server-first "${from[@]}" --token-file "$work/first.token" --write-behind --cache "$work/server-first.cache" --cache-size 0
    gocryptfs -init -quiet -passfile "$work/password" "$work/sealed"
    gocryptfs -quiet -fg -passfile "$work/password" "$work/sealed" "$work/gocryptfs" 2>/dev/null &
    started+=("$!")
    mounted+=(gocryptfs)
    until_so mountpoint -q "$work/gocryptfs"
    for rival in "${rivals[@]}"; do
        mkdir "$work/$rival" "$work/$rival.data"
        case $rival in
            bindfs)
                bindfs -f "$work/bindfs.data" "$work/bindfs" 2>/dev/null &
                ;;
            juicefs | juicefs-redis)
                local key=$work/$rival.pem meta=sqlite3://$work/$rival.db redis_port
                openssl genrsa -out "$key" 2048 2>/dev/null
                if [[ $rival == juicefs-redis ]]; then
                    redis_port=$(python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
                    mkdir "$work/redis.data"
                    redis-server --bind 127.0.0.1 --port "$redis_port" --dir "$work/redis.data" --appendonly yes --save '' >/dev/null &
                    started+=("$!")
                    until_so redis-cli -p "$redis_port" ping >/dev/null
                    meta=redis://127.0.0.1:$redis_port/1
                fi
                juicefs format --storage file --bucket "$work/$rival.data/" --encrypt-rsa-key "$key" --encrypt-algo aes256gcm-rsa --trash-days 0 \
                    --no-update "$meta" bench >/dev/null 2>&1
                juicefs mount "$meta" "$work/$rival" --cache-dir "$work/$rival.cache" --no-usage-report --no-syslog --log "$work/$rival.log" >/dev/null 2>&1 &
                ;;
            rclone)
                printf '[sealed]\ntype = crypt\nremote = %s\npassword = %s\n' "$work/rclone.data" "$(rclone obscure - <"$work/password")" >"$work/rclone.conf"
                rclone mount sealed: "$work/rclone" --config "$work/rclone.conf" --cache-dir "$work/rclone.cache" --vfs-cache-mode writes 2>/dev/null &
                ;;
            seaweedfs)
                read -ra ports < <(python3 -c 'import socket
# Each takes the port 10,000 above it as well.
found = []
for port in range(10200, 20000, 7):
    both = [socket.socket() for _ in range(2)]
    try:
        for one, number in zip(both, (port, port + 10000)): one.bind(("127.0.0.1", number))
        found.append(port)
    except OSError:
        pass
    for one in both: one.close()
    if len(found) == 3: break
print(*found)')
                weed server -dir="$work/seaweedfs.data" -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.port="${ports[0]}" -volume.port="${ports[1]}" \
                    -master.volumeSizeLimitMB=1024 -volume.max=64 -filer -filer.port="${ports[2]}" -filer.encryptVolumeData \
                    -filer.localSocket="$work/filer.sock" >/dev/null 2>&1 &
                started+=("$!")
                until_so curl --silent --fail --output /dev/null "http://127.0.0.1:${ports[2]}/"
                weed mount -filer="127.0.0.1:${ports[2]}" -dir="$work/seaweedfs" -cacheDir="$work/seaweedfs.cache" >/dev/null 2>&1 &
                ;;
        esac
        started+=("$!")
        mounted+=("$rival")
        until_so mountpoint -q "$work/$rival"
        targets+=("$rival=$work/$rival")
    done
}

# What a mount costs another that works in the same space.
measure_shared() {
    mkdir "$work/other"
    mount_space other "${from[@]}" --token-file "$work/bench.token"
    mkdir "$work/server/elsewhere"
    for number in $(seq 500); do echo "$number" >"$work/server/elsewhere/$number"; done
    for _ in $(seq "${RUNS:-3}"); do
        for listed in none elsewhere same; do
            case $listed in
                none) what=() ;;
                elsewhere) what=("$work/other/elsewhere") ;;
                same) what=("$work/other" -name elsewhere -prune -o) ;;
            esac
            : >"$work/listings"
            if ((${#what[@]})); then
                (while :; do
                    find "${what[@]}" -printf %s >/dev/null 2>&1 || true
                    echo >>"$work/listings"
                done) &
                lister=$!
            fi
            echo "other mount lists: $listed"
            "$program" bench create "server=$work/server" --runs 1 --clients 1 --streams 1 --depth 0 --width 1 --files 2000 --json "${more[@]}" |
                python3 -c 'import json, sys
row = json.load(sys.stdin)["series"][0]["rows"][0]
print("  {:.0f} files/s, 99 of 100 within {} ms".format(row["values"][0], row["latency"]["p99_ms"]))'
            if ((${#what[@]})); then
                kill "$lister" && wait "$lister" 2>/dev/null || true
                echo "  listings $(wc -l <"$work/listings")"
            fi
        done
    done
}

for load in "${loads[@]}"; do
    if [[ $load == shared ]]; then
        begin
        measure_shared
        clear_away
        continue
    fi
    case $load in
        one) shape=(--clients 1 --streams 1 --depth 1 --width 3 --files 500) ;;
        eight) shape=(--clients 8 --streams 1 --depth 0 --width 1 --files 500) ;;
        medium) shape=(--clients 1 --streams 1 --depth 1 --width 3 --files 250 --file-size 64KiB) ;;
        large) shape=(--clients 1 --streams 1 --depth 0 --width 1 --files 1 --file-size 1GiB --fsync) ;;
        names) shape=(--clients 1 --streams 1 --depth 1 --width 9 --files 500 --stat) ;;
        tar) shape=(--clients 1 --streams 1 --depth 1 --width 19 --files 500 --unpack) ;;
        t1 | t2) shape=(--preset "$load") ;;
        *)
            echo "there is no load $load: one, eight, medium, large, names, tar, t1, t2, shared" >&2
            exit 64
            ;;
    esac
    report=()
    begin
    # In the order they were started: first, usual, server, its mounts, gocryptfs.
    pids=(--pid "first=${started[0]}" --pid "usual=${started[1]}" --pid "server=$server" --pid "server=${started[3]}"
        --pid "server-first=$server" --pid "server-first=${started[4]}" --pid "gocryptfs=${started[5]}")
    if [[ -n ${OUTPUT:-} ]]; then
        mkdir -p "$OUTPUT"
        report=(--output "$OUTPUT/$load")
    fi
    # The rival comes first: ratios are to it.
    "$program" bench create gocryptfs="$work/gocryptfs" first="$work/first" usual="$work/usual" server="$work/server" server-first="$work/server-first" "${targets[@]}" disk="$work/ext4" \
        --runs "${RUNS:-3}" "${pids[@]}" --requests "server=http://127.0.0.1:$metrics/metrics" --requests "server-first=http://127.0.0.1:$metrics/metrics" "${shape[@]}" "${more[@]}" "${report[@]}"
    clear_away
done
