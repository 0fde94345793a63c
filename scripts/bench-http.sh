#!/usr/bin/env bash
# Measures web servers side by side with `holdfast bench http`, and that command beside wrk: what `make bench-http` runs.
#
# nginx and Apache are started from their packages on free loopback ports, with configurations of their own in a temporary
# folder, and serve the same file; they are stopped at the end by their process ids. Nothing of the system's own
# configuration is used or changed, and nothing beyond loopback is asked, but for the sites you name.
#
#   scripts/bench-http.sh [options of `holdfast bench http`]
#
# For example a quick look:   scripts/bench-http.sh --duration 1s --runs 2
#
# Settings, from the environment:
#   HOLDFAST_SITE_URLS  further sites that serve the same file, as LABEL=URL, apart by spaces; give --pid for theirs
#   HOLDFAST     the program to measure with (default: target/release/holdfast)
#   BENCH        the measuring command (default: "$HOLDFAST bench http")
#   THREADS      users at the same time (default: 10)
#   DURATION     of each run (default: 5s)
#   RUNS         of each server (default: 5)
#   PAGE_KIB     size of the file (default: 20, a page as large as those of report 004)
#   CEILING      0 leaves out the comparison with wrk
#   RESULTS_DIR  where the reports go (default: bench-results)

set -euo pipefail
# Job control: each server gets a process group of its own, so that Ctrl-C reaches this script and the measurement only.
set -m
cd "$(dirname "${BASH_SOURCE[0]}")/.."

HOLDFAST=${HOLDFAST:-target/release/holdfast}
BENCH=${BENCH:-$HOLDFAST bench http}
THREADS=${THREADS:-10}
DURATION=${DURATION:-5s}
RUNS=${RUNS:-5}
PAGE_KIB=${PAGE_KIB:-20}
CEILING=${CEILING:-1}
RESULTS_DIR=${RESULTS_DIR:-bench-results}
READY_TRIES=100 # of 0.1 s each

mkdir -p target "$RESULTS_DIR"
[[ -e $RESULTS_DIR/.gitignore ]] || echo '*' >"$RESULTS_DIR/.gitignore"
work=$(realpath "$(mktemp -d target/bench-http.XXXXXX)")
pids=()
bench=

say() { printf 'bench-http: %s\n' "$*" >&2; }

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
    [[ -n $bench ]] && end "$bench" 30
    local pid
    for pid in "${pids[@]}"; do end "$pid" 10; done
    rm -rf "$work"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

scripts/need.sh curl python3 nginx apache2
PATH=$PATH:/usr/sbin:/sbin

free_port() {
    # Below those that outgoing connections take.
    python3 - <<'PY'
import random, socket
while True:
    port = random.randrange(10200, 29900)
    try:
        with socket.socket() as s:
            s.bind(("127.0.0.1", port))
    except OSError:
        continue
    print(port)
    break
PY
}

targets=()

# add LABEL PORT: waits until a server that was just started ($!) serves the page, and hands it to the bench.
add() {
    local label=$1 url=http://127.0.0.1:$2/page.html pid=$!
    pids+=("$pid")
    for _ in $(seq "$READY_TRIES"); do
        if curl -sf --max-time 5 "$url" | cmp -s - "$work/site/page.html"; then
            targets+=("$label=$url" --pid "$label=$pid")
            return 0
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    say "$label did not start. The end of its log:"
    tail -n 5 "$work/$label.log" >&2
    exit 1
}

# --- the servers ---------------------------------------------------------------------------------------------------

mkdir -p "$work/site" "$work/nginx" "$work/apache"
# Text that a server could compress, if it did.
head -c "$((PAGE_KIB * 768))" /dev/urandom | base64 -w 0 | head -c "$((PAGE_KIB * 1024))" >"$work/site/page.html"

nginx_port=$(free_port)
{
    [[ $(id -u) == 0 ]] && echo 'user root;' # only it may enter the folder; it serves one file on loopback
    echo "daemon off; worker_processes auto; pid $work/nginx/pid; error_log stderr warn;"
    echo 'events { worker_connections 4096; }'
    echo 'http {'
    echo "  types { text/html html; } access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;"
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "  ${kind}_temp_path $work/nginx/$kind;"; done
    echo "  server { listen 127.0.0.1:$nginx_port backlog=4096; root $work/site; }"
    echo '}'
} >"$work/nginx.conf"
nginx -p "$work/nginx" -e stderr -c "$work/nginx.conf" >"$work/nginx.log" 2>&1 </dev/null &
add nginx "$nginx_port"

apache_port=$(free_port)
{
    echo "ServerName 127.0.0.1"
    echo "Listen 127.0.0.1:$apache_port"
    echo "PidFile $work/apache/pid"
    echo "DefaultRuntimeDir $work/apache"
    echo "ErrorLog $work/apache/error.log"
    for module in mpm_event authz_core mime; do echo "LoadModule ${module}_module /usr/lib/apache2/modules/mod_$module.so"; done
    printf 'TypesConfig /dev/null\nAddType text/html .html\n'
    [[ $(id -u) == 0 ]] && printf 'User www-data\nGroup www-data\n'
    printf 'MaxKeepAliveRequests 0\nKeepAliveTimeout 60\nEnableSendfile On\n'
    printf 'DocumentRoot %s/site\n<Directory %s/site>\nRequire all granted\nAllowOverride None\n</Directory>\n' "$work" "$work"
} >"$work/apache.conf"
chmod 711 "$work"
chmod -R go+rX "$work/site"
apache2 -f "$work/apache.conf" -DFOREGROUND >"$work/apache.log" 2>&1 </dev/null &
add apache "$apache_port"

# shellcheck disable=SC2206 # apart by spaces
targets+=(${HOLDFAST_SITE_URLS:-})

# --- the runs ------------------------------------------------------------------------------------------------------

stamp=$(date -u +%Y%m%dT%H%M%SZ)
status=0

# measure NAME OPTIONS...: one report; its prefix is $output.
measure() {
    output=$RESULTS_DIR/http-$stamp-$1
    shift
    # $BENCH is a command with its words. In the background, so that a signal to this script is not held up by it.
    # shellcheck disable=SC2086
    $BENCH --threads "$THREADS" --ramp-up 0 --duration "$DURATION" --runs "$RUNS" --expect-file "$work/site/page.html" \
        --output "$output" "$@" &
    bench=$!
    wait "$bench" || status=$?
    bench=
}

note="$(nginx -v 2>&1 | sed 's/.*: //'), $(apache2 -v | sed -n '1s/.*: //p') event MPM, one file of $PAGE_KIB KiB"
say "connections kept"
measure kept "${targets[@]}" --note "$note" "$@"
say "a connection for each request"
measure closed "${targets[@]}" --no-keep-alive --note "$note" "$@"

# --- how light the load generator is -------------------------------------------------------------------------------

if [[ $CEILING != 0 ]]; then
    scripts/need.sh wrk
    say "wrk beside it, one thread each, on the same nginx, in turns"
    url=http://127.0.0.1:$nginx_port/page.html
    TIMEFORMAT='%U %S'
    for round in $(seq "$RUNS"); do
        { time wrk -t1 -c"$THREADS" -d"$DURATION" "$url" >"$work/wrk.$round"; } 2>"$work/wrk.$round.cpu"
        # shellcheck disable=SC2086
        { time $BENCH --threads "$THREADS" --ramp-up 0 --duration "$DURATION" --runs 1 --generators 1 --no-progress \
            --no-settle --no-warm --output "$work/ours.$round" "nginx=$url" >/dev/null; } 2>"$work/ours.$round.cpu" || status=$?
    done
    python3 - "$work" "$RUNS" <<'PY'
import json, re, statistics, sys
work, rounds = sys.argv[1], range(1, int(sys.argv[2]) + 1)
read = lambda name: open(f"{work}/{name}").read()
cpu = lambda name: sum(map(float, read(name).split()[-2:]))
rates, costs = {"wrk": [], "holdfast bench http": []}, {"wrk": [], "holdfast bench http": []}
for round in rounds:
    text, run = read(f"wrk.{round}"), json.loads(read(f"ours.{round}.json"))["load"]["runs"][0]
    rates["wrk"].append(float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]))
    costs["wrk"].append(cpu(f"wrk.{round}.cpu") * 1e6 / int(re.search(r"(\d+) requests in", text)[1]))
    rates["holdfast bench http"].append(run["rate"])
    costs["holdfast bench http"].append(cpu(f"ours.{round}.cpu") * 1e6 / run["requests"])
print("\nCeiling of the load generator on the same nginx, one generator thread each: median (least–greatest)")
print(f"  {'':20} {'requests/s':>28}  {'CPU µs a request':>20}")
for name in rates:
    rate, cost = rates[name], costs[name]
    shown = f"{statistics.median(rate):,.0f} ({min(rate):,.0f}–{max(rate):,.0f})"
    print(f"  {name:20} {shown:>28}  {f'{statistics.median(cost):.2f} ({min(cost):.2f}–{max(cost):.2f})':>20}")
ratios = [ours / theirs for theirs, ours in zip(*rates.values())]
print(f"  {'ratio, run by run':20} {f'{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})':>28}")
PY
fi
say "reports: $RESULTS_DIR/http-$stamp-kept.html and -closed.html"
exit "$status"
