#!/usr/bin/env bash
# Measures published sites beside nginx on this machine: the same pages, the same load generator, interleaved, several rounds.
#
#   scripts/bench-sites.sh [ROUNDS] [SECONDS]
#
# A page of 20 KiB and a composed page of the same size, ten connections, kept alive and closed after each request; then the first
# hundred requests and the next hundred of a server that has just started. Prints every figure, the medians and their ratios.
# HOLDFAST_BIN names the program (default: target/release/holdfast).

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/need.sh nginx wrk curl

rounds=${1:-5} seconds=${2:-4}
program=${HOLDFAST_BIN:-$PWD/target/release/holdfast}
work=$(mktemp -d) pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

# Two pages of 20 KiB: one as it is, one with two fragments.
mkdir -p "$work/site/_fragments" "$work/www"
words() { head -c "$1" < <(yes 'A page is read far more often than it is written, so all work is done when it is written.'); }
{ echo '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Home</title></head><body><p>'; words 20350; echo '</p></body></html>'; } >"$work/site/index.html"
{ echo '<nav>'; words 1000; echo '</nav>'; } >"$work/site/_fragments/menu.html"
{ echo '<p>'; words 1000; echo '</p>'; } >"$work/site/_fragments/translations.html"
{
    printf -- '---\ntitle: About\n---\n<!doctype html><html lang="en"><head><title>{{ page.title }}</title></head><body>{%% include "menu.html" %%}<p>'
    words 18350
    printf '</p>{%% include "translations.html" %%}</body></html>\n'
} >"$work/site/about.html"

password="a bench of wet granite"
data=$work/data
umask 077
printf '%s\n' "$password" >"$work/password"
"$program" account add ana --data "$data" --password-file "$work/password" >/dev/null
start() {
    rm -f "$work/address"
    "$program" serve --data "$data" --listen 127.0.0.1:0 --sites-listen 127.0.0.1:0 --address-file "$work/address" >"$work/log" 2>&1 &
    server=$!
    pids+=("$server")
    until [[ -s $work/address ]]; do
        kill -0 "$server" || { cat "$work/log" >&2; exit 70; }
        sleep 0.05
    done
    drive=$(sed -n 1p "$work/address") sites=$(sed -n 2p "$work/address")
}
start
for folder in web web/_fragments; do curl -sS -o /dev/null -u "ana:$password" -X MKCOL "$drive/dav/ana/$folder"; done
for file in index.html about.html _fragments/menu.html _fragments/translations.html; do
    curl -sS -o /dev/null -u "ana:$password" -T "$work/site/$file" "$drive/dav/ana/web/$file"
done
"$program" publish ana/web --as bench --data "$data" --user ana --password-file "$work/password"

# nginx serves the very bytes that are published.
curl -sS "$sites/bench/" >"$work/www/index.html"
curl -sS "$sites/bench/about" >"$work/www/about.html"
chmod -R a+rX "$work/www" && chmod a+x "$work"
read -r port < <(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/nginx.conf" <<EOF
worker_processes auto;
pid $work/nginx.pid;
error_log $work/nginx.log;
daemon off;
events { worker_connections 1024; }
http {
    include /etc/nginx/mime.types;
    access_log off;
    sendfile on; tcp_nopush on; tcp_nodelay on;
    keepalive_requests 100000000;
    open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;
    client_body_temp_path $work; proxy_temp_path $work; fastcgi_temp_path $work; uwsgi_temp_path $work; scgi_temp_path $work;
    server { listen 127.0.0.1:$port; root $work/www; index index.html; }
}
EOF
nginx=$(PATH=$PATH:/usr/sbin:/sbin command -v nginx)
"$nginx" -c "$work/nginx.conf" &
pids+=($!)
until curl -sS -o /dev/null "http://127.0.0.1:$port/" 2>/dev/null; do sleep 0.05; done

rate() { # url, header...
    local url=$1
    shift
    wrk -t1 -c10 -d"${seconds}s" "$@" "$url" | tee -a "$work/wrk" | awk '/Non-2xx|Socket errors/ { print > "/dev/stderr" } /Requests\/sec/ { print $2 }'
}
median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }

echo "machine: $(nproc) cores; $("$nginx" -v 2>&1); wrk -t1 -c10 -d${seconds}s; $rounds rounds, interleaved; pages of $(stat -c %s "$work/www/index.html") and $(stat -c %s "$work/www/about.html") bytes"
for mode in kept closed; do
    header=()
    [[ $mode == closed ]] && header=(-H 'Connection: close')
    : >"$work/plain" && : >"$work/composed" && : >"$work/nginx"
    rate "$sites/bench/" "${header[@]}" >/dev/null
    rate "http://127.0.0.1:$port/" "${header[@]}" >/dev/null
    for ((round = 1; round <= rounds; round++)); do
        rate "$sites/bench/" "${header[@]}" >>"$work/plain"
        rate "http://127.0.0.1:$port/" "${header[@]}" >>"$work/nginx"
        rate "$sites/bench/about" "${header[@]}" >>"$work/composed"
    done
    plain=$(median <"$work/plain") composed=$(median <"$work/composed") nginx_rate=$(median <"$work/nginx")
    echo "$mode: plain $(tr '\n' ' ' <"$work/plain")/s, composed $(tr '\n' ' ' <"$work/composed")/s, nginx $(tr '\n' ' ' <"$work/nginx")/s"
    echo "$mode: medians: plain $plain, composed $composed, nginx $nginx_rate; plain to nginx $(ratio "$plain" "$nginx_rate"), composed to plain $(ratio "$composed" "$plain")"
done

kill "$server" && wait "$server" || true
start
until [[ $(curl -sS -o /dev/null -w '%{http_code}' "$sites/bench/") == 200 ]]; do sleep 0.02; done
hundred() { curl -sS -o /dev/null -w '%{time_total}\n' "$sites/bench/?[1-50]" "$sites/bench/about?[1-50]" | awk '{ s += $1 } END { printf "%.1f ms\n", s * 1000 }'; }
echo "a server that has just started: first hundred requests $(hundred), second hundred $(hundred)"
