#!/usr/bin/env bash
# Measures a cluster as report 004 did: real nodes, HAProxy, PostgreSQL and SeaweedFS, each on a host of its own, which is a network
# namespace of this machine with its share of the processor. What `make bench-cluster` runs; needs root.
#
#   scripts/bench-cluster.sh [--quick] [--strict] [--json FILE]
#
#   --quick   little of everything, in a minute or two: whether it works, not how fast it is
#   --strict  a target that is missed is a failure, too
#   --json    all figures in one file
#
# Failures are: any wrong answer, any process of the cluster that died. Everything is removed at the end: namespaces, control
# groups, processes (by their ids), files. No packet leaves the namespaces. docs/BENCH.md says how to read the figures.
#
# Settings, from the environment:
#   HOLDFAST_BIN   the program (default: target/release/holdfast)
#   THREADS LOOPS  users and requests of each in configurations A, B and C (10, 1000; they begin over one second)
#   HOST1_CPU HOST2_CPU  cores that the two hosts have (0.1, 0.05: the second adds 50 %)
#   LINK_DELAY_MS LINK_MBIT  the slow link to the store: delay each way, rate (5, 100)
#   NODES NODE_CPU SCALE_THREADS  numbers of nodes, cores that each has, users (1 2 4 8, 0.04, 64)
#   DURATION RUNS  of each measurement of scale, after as long a time that is not counted (5s, 3)
#   COLD_ROUNDS    how often a node is started cold (5)
#   PARTS          what is measured: configurations A, B and C, a cold node, scale (abc cold scale)
#   RESULTS_DIR    where the reports of every measurement go (bench-results)

set -euo pipefail
# Job control: each server gets a process group of its own, so that Ctrl-C reaches this script alone.
set -m
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'bench-cluster: %s\n' "$*" >&2; }
fail() { say "$@" && exit 70; }

strict='' json=''
while (($#)); do
    case $1 in
    --quick) LOOPS=${LOOPS:-300} DURATION=${DURATION:-1s} RUNS=${RUNS:-1} COLD_ROUNDS=${COLD_ROUNDS:-2} ;;
    --strict) strict=1 ;;
    --json) json=${2:?--json FILE} && shift ;;
    -h | --help) sed -n '2,/^$/s/^# \?//p' scripts/bench-cluster.sh && exit 0 ;;
    *) say "there is no option $1" && exit 64 ;;
    esac
    shift
done
PROGRAM=$(realpath "${HOLDFAST_BIN:-target/release/holdfast}")
THREADS=${THREADS:-10} LOOPS=${LOOPS:-1000} HOST1_CPU=${HOST1_CPU:-0.1} HOST2_CPU=${HOST2_CPU:-0.05}
LINK_DELAY_MS=${LINK_DELAY_MS:-5} LINK_MBIT=${LINK_MBIT:-100}
NODES=${NODES:-1 2 4 8} NODE_CPU=${NODE_CPU:-0.04} SCALE_THREADS=${SCALE_THREADS:-64} DURATION=${DURATION:-5s} RUNS=${RUNS:-3}
COLD_ROUNDS=${COLD_ROUNDS:-5} PARTS=${PARTS:-abc cold scale} RESULTS_DIR=${RESULTS_DIR:-bench-results}
PERIOD_US=40000 # of a share of the processor: who has used its own waits for the rest of it. The kernel gives no less than 1000
READY_TRIES=600 # of 0.1 s each
COLD_PAGES=50   # asked for twice are the hundred requests of the report's question

id=hf$$ # every name begins with it
work='' pids=() nodes=() bench=''

# --- the machine: control groups and network namespaces ------------------------------------------------------------

if grep -qw cpu /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
    cpu_root=/sys/fs/cgroup use_root=/sys/fs/cgroup
    echo +cpu >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
else
    cpu_root=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ { print $2; exit }' /proc/mounts)
    use_root=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpuacct(,|$)/ { print $2; exit }' /proc/mounts)
fi
if ((EUID != 0)) || [[ -z $cpu_root || -z $use_root ]] || ! mkdir "$cpu_root/$id-probe" 2>/dev/null; then
    say "needs root: network namespaces and CPU quotas"
    exit 77
fi
quotas=1 && [[ -e $cpu_root/$id-probe/cpu.max || -e $cpu_root/$id-probe/cpu.cfs_quota_us ]] || quotas=
rmdir "$cpu_root/$id-probe"
[[ -n $quotas ]] || fail "needs root: network namespaces and CPU quotas, and this kernel has no quotas"

# group NAME CORES: a control group with so many cores, or "all".
group() {
    local quota=-1
    mkdir -p "$cpu_root/$id-$1" "$use_root/$id-$1"
    [[ $2 == all ]] || quota=$(awk -v cores="$2" -v period=$PERIOD_US 'BEGIN { printf "%d", cores * period + 0.5 }')
    if [[ -e $cpu_root/$id-$1/cpu.max ]]; then
        echo "${quota/#-1/max} $PERIOD_US" >"$cpu_root/$id-$1/cpu.max"
    else
        echo $PERIOD_US >"$cpu_root/$id-$1/cpu.cfs_period_us"
        echo "$quota" >"$cpu_root/$id-$1/cpu.cfs_quota_us"
    fi
}
# used NAME...: microseconds of the processor that these groups have used.
used() {
    local name
    for name in "$@"; do
        if [[ -e $use_root/$id-$name/cpuacct.usage ]]; then
            awk '{ print $1 / 1000 }' "$use_root/$id-$name/cpuacct.usage"
        else
            awk '/^usage_usec/ { print $2 }' "$use_root/$id-$name/cpu.stat"
        fi
    done | awk '{ sum += $1 } END { printf "%d", sum }'
}
# on HOST GROUP COMMAND...: takes the place of this shell. Call it in a subshell.
on() {
    local host=$1 group=$2
    shift 2
    echo "$BASHPID" >"$cpu_root/$id-$group/cgroup.procs"
    [[ $use_root == "$cpu_root" ]] || echo "$BASHPID" >"$use_root/$id-$group/cgroup.procs"
    exec ip netns exec "$id-$host" "$@"
}

# end SECONDS PID...: asks processes to end, and makes them end after so many seconds.
end() {
    local pid tries=$(($1 * 20))
    shift
    for pid in "$@"; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in "$@"; do
        while ((tries-- > 0)) && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
        kill -KILL "$pid" 2>/dev/null || true
    done
}
remove_all() {
    local status=$? host folder
    trap '' INT TERM
    [[ -z $bench ]] || end 10 "$bench"
    end 20 "${nodes[@]}"
    [[ -z ${haproxy:-} ]] || end 1 "$haproxy"
    # The store takes its time to say goodbye, and nothing is to be kept.
    end 2 "${pids[@]}"
    for host in switch "${hosts[@]}"; do ip netns del "$id-$host" 2>/dev/null || true; done
    for folder in "$cpu_root/$id"-* "$use_root/$id"-*; do
        # Whoever was killed is in it for a moment still.
        for _ in {1..50}; do [[ -d $folder ]] && ! rmdir "$folder" 2>/dev/null || break && sleep 0.1; done
        [[ ! -d $folder ]] || say "$folder is left"
    done
    if [[ -n $work ]]; then
        rm -f "${sockets[@]}"
        rm -rf "$work"
    fi
    exit "$status"
}
hosts=(balancer load database store node1 node2) sockets=()
declare -A address=([balancer]=10.77.0.2 [load]=10.77.0.3 [database]=10.77.0.4 [store]=10.77.0.5 [node1]=10.77.0.11 [node2]=10.77.0.12)
trap remove_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[[ -x $PROGRAM ]] || fail "there is no $PROGRAM: make build"
scripts/need.sh curl jq ip postgresql haproxy weed
PATH=$PATH:/usr/sbin:/sbin
weed=$(command -v weed || realpath target/bench-tools/bin/weed)
postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
work=$(mktemp -d) && chmod 711 "$work"
mkdir -p "$RESULTS_DIR"
[[ -e $RESULTS_DIR/.gitignore ]] || echo '*' >"$RESULTS_DIR/.gitignore"

ip netns add "$id-switch" || fail "needs root: network namespaces and CPU quotas"
ip -n "$id-switch" link add switch type bridge
ip -n "$id-switch" link set switch up
for host in "${hosts[@]}"; do
    ip netns add "$id-$host"
    ip -n "$id-$host" link set lo up
    ip -n "$id-$host" link add eth0 type veth peer name "$host" netns "$id-switch"
    ip -n "$id-$host" address add "${address[$host]}/24" dev eth0
    ip -n "$id-$host" link set eth0 up
    ip -n "$id-switch" link set "$host" master switch up
done
for name in load balancer database store; do group "$name" all; done
group host1 "$HOST1_CPU" && group host2 "$HOST2_CPU"

# --- the database, the store, and the slow link to it --------------------------------------------------------------

# start NAME HOST GROUP COMMAND...: a server whose output is NAME.log; its process is $!.
start() {
    local name=$1
    shift
    (on "$@") >>"$work/$name.log" 2>&1 </dev/null &
    names[$!]=$name
    # Its end is looked for, not told of.
    disown
}
declare -A names=()
# died PID WHAT: the end of the log of a server, and of this script.
died() {
    tail -n 20 "$work/${names[$1]}.log" >&2
    fail "${names[$1]} $2"
}
# await PID COMMAND...: waits until the command succeeds.
await() {
    local pid=$1
    shift
    for _ in $(seq "$READY_TRIES"); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        kill -0 "$pid" 2>/dev/null || died "$pid" "ended at its start"
        sleep 0.1
    done
    died "$pid" "is not ready"
}
answers() { ip netns exec "$id-load" curl -sf --max-time 5 -o /dev/null "$@"; }

account=postgres && id -u postgres >/dev/null 2>&1 || account=nobody
as_account=(setpriv "--reuid=$account" "--regid=$(id -gn "$account")" --clear-groups --)
install -d -m 700 -o "$account" "$work/database"
(cd / && "${as_account[@]}" "$postgres/initdb" --auth=trust --encoding=UTF8 --locale=C.UTF-8 --username=holdfast --data-checksums \
    -D "$work/database") >"$work/initdb.log" 2>&1 || fail "initdb failed"
# Nobody else is in these namespaces.
echo 'host all all 10.77.0.0/24 trust' >>"$work/database/pg_hba.conf"
start database database database "${as_account[@]}" "$postgres/postgres" -D "$work/database" \
    -c listen_addresses="${address[database]}" -c unix_socket_directories="$work/database" -c max_connections=500
pids+=($!)
sql() { ip netns exec "$id-load" "$postgres/psql" -qtA "postgres://holdfast@${address[database]}/postgres" -c "$1"; }
await "${pids[-1]}" sql 'SELECT 1'
sql 'CREATE DATABASE holdfast'

# It makes sockets in /tmp whatever it is told, named by its ports, and leaves them there.
for ((port = 10200 + $$ % 9000; ; port += 10)); do
    sockets=()
    for part in master:0 volume:1 filer:2 s3:3; do sockets+=("/tmp/seaweedfs-${part%:*}-grpc-$((port + 10000 + ${part#*:})).sock"); done
    [[ -e ${sockets[0]} || -e ${sockets[1]} || -e ${sockets[2]} || -e ${sockets[3]} ]] || break
done
mkdir "$work/store"
export AWS_ACCESS_KEY_ID=bench AWS_SECRET_ACCESS_KEY=only-in-these-namespaces
printf '{"identities": [{"name": "bench", "actions": ["Admin"], "credentials": [{"accessKey": "%s", "secretKey": "%s"}]}]}\n' \
    "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" >"$work/s3.json"
start store store store env "HOME=$work/store" "$weed" server -dir="$work/store" -ip="${address[store]}" -ip.bind=0.0.0.0 \
    -master.port="$port" -master.volumeSizeLimitMB=256 -volume.port=$((port + 1)) -volume.max=64 -filer -filer.port=$((port + 2)) \
    -s3 -s3.port=$((port + 3)) -s3.config="$work/s3.json" -s3.port.iceberg=0 -s3.port.lance=0 \
    -s3.localSocket="$work/store/s3.sock" -filer.localSocket="$work/store/filer.sock"
pids+=($!)
fast=${address[store]}:$((port + 3))
await "${pids[-1]}" answers -X POST "http://${address[store]}:$((port + 2))/buckets/packs/"
await "${pids[-1]}" ip netns exec "$id-load" curl -s --max-time 5 "http://$fast/"

if tc -n "$id-store" qdisc add dev lo root netem delay 1ms 2>/dev/null; then
    tc -n "$id-store" qdisc del dev lo root
    slow=$fast how="netem of the kernel"
else
    slow=${address[store]}:9000 how="a relay, since this kernel has no netem"
    relay=${SLOW_LINK:-target/release/examples/slow_link}
    [[ -n ${SLOW_LINK:-} ]] || cargo build --quiet --release --locked -p holdfast-testkit --example slow_link
    start link store store "$(realpath "$relay")" "$slow" "$fast" "$LINK_DELAY_MS" "$LINK_MBIT"
    pids+=($!)
fi
# link slow|fast: which way to the store nodes have that are started from now on.
link() {
    endpoint=${!1}
    [[ $how == netem* ]] || return 0
    local at
    for at in "store eth0" "switch store"; do
        # shellcheck disable=SC2086 # a namespace and its device
        set -- "$1" $at
        tc -n "$id-$2" qdisc del dev "$3" root 2>/dev/null || true
        [[ $1 == fast ]] || tc -n "$id-$2" qdisc add dev "$3" root netem delay "${LINK_DELAY_MS}ms" rate "${LINK_MBIT}mbit" limit 20000
    done
}

# --- nodes and the balancer ----------------------------------------------------------------------------------------

export HOLDFAST_CATALOGUE__URL="postgres://holdfast@${address[database]}/holdfast?sslmode=disable"
export HOLDFAST_TRUSTED_PROXIES=${address[balancer]} HOLDFAST_ALLOW_PLAIN_HTTP=true
count=0 drives=() sites=()
# node HOST GROUP: starts a node with an empty data directory and an empty cache.
node() {
    count=$((count + 1))
    local drive=${address[$1]}:$((20000 + 2 * count)) site=${address[$1]}:$((20001 + 2 * count))
    local store="s3://packs/drive?endpoint=http://$endpoint&path_style=true&plain_http=true&cache=$work/cache$count&cache_mib=256"
    HOLDFAST_NODE_NAME=node$count HOLDFAST_STORE__URL=$store start "node$count" "$1" "$2" \
        "$PROGRAM" serve --data "$work/node$count" --listen "$drive" --sites-listen "$site"
    nodes+=($!) drives+=("node$count $drive") sites+=("node$count $site")
}
# face NAME PORT PROBE: the listener and the nodes of the deployed file, without TLS and without a node.
face() {
    sed "1,/^frontend/{/^frontend/!d}; / server node/d; s/^frontend .*/frontend $1/; s/^backend .*/backend of-$1/; s/default_backend .*/default_backend of-$1/
        s,bind :443 .*,bind ${address[balancer]}:$2,; s,/readyz,$3," deploy/balancer/haproxy.cfg
}
# cluster "HOST GROUP"...: new nodes, all of them ready, behind a new balancer.
cluster() {
    local each number
    end 20 "${nodes[@]}"
    [[ -z ${haproxy:-} ]] || end 5 "$haproxy"
    rm -rf "$work"/node*[0-9] "$work"/cache*
    nodes=() drives=() sites=()
    # shellcheck disable=SC2086 # two words
    for each in "$@"; do node $each; done
    {
        sed '/^frontend/,$d; s/maxconn 20000/maxconn 2000/' deploy/balancer/haproxy.cfg
        face drive 8642 /readyz && printf '    server %s\n' "${drives[@]}"
        face sites 8643 /.holdfast/readyz && printf '    server %s\n' "${sites[@]}"
    } >"$work/haproxy.cfg"
    for number in "${!nodes[@]}"; do
        await "${nodes[$number]}" answers "http://${sites[$number]#* }/.holdfast/readyz"
    done
    start haproxy balancer balancer haproxy -db -f "$work/haproxy.cfg"
    haproxy=$!
    await "$haproxy" answers "http://${address[balancer]}:8643/.holdfast/healthz"
}
alive() {
    local pid
    for pid in "${pids[@]}" "${nodes[@]}" ${haproxy:+"$haproxy"}; do kill -0 "$pid" 2>/dev/null || died "$pid" "died"; done
}

rows=$work/rows.json status=0
stamp=$(date -u +%Y%m%dT%H%M%SZ)
# measure NAME KEYS OPTIONS...: one command of the bench. Its runs become rows, each with KEYS (a JSON object) and the cores in use.
measure() {
    local name=$1 keys=$2 before=() after=() began roles=("$3" balancer database store load) role
    shift 3
    local report=$RESULTS_DIR/cluster-$stamp-$name
    # shellcheck disable=SC2086 # groups of nodes, apart by spaces
    for role in "${roles[@]}"; do before+=("$(used $role)"); done
    began=${EPOCHREALTIME/./}
    (on load load "$PROGRAM" bench http --no-settle --no-warm --no-progress --output "$report" "$@") >"$work/$name.out" 2>&1 </dev/null &
    bench=$!
    wait "$bench" || { status=1 && say "$name failed:" && tail -n 20 "$work/$name.out" >&2; }
    bench=
    # shellcheck disable=SC2086
    for role in "${roles[@]}"; do after+=("$(used $role)"); done
    jq -c --argjson keys "$keys" --argjson before "[$(IFS=, && echo "${before[*]}")]" --argjson after "[$(IFS=, && echo "${after[*]}")]" \
        --argjson took "$((${EPOCHREALTIME/./} - began))" '.load.runs[] | $keys + {run, rate, failed, requests, seconds} + .spread
        + {p99_ms: .latency.p99_ms, cores: ([["nodes", "balancer", "database", "store", "load"], [$before, $after]] | [.[0], (.[1] | transpose)]
        | transpose | map({(.[0]): ((.[1][1] - .[1][0]) / $took)}) | add)}' "$report.json" >>"$rows"
    jq -e '.load.runs | length > 0 and all(.failed == 0 and .requests > 0)' "$report.json" >/dev/null || status=1
    alive
}

# --- what is served ------------------------------------------------------------------------------------------------

# Text that does not shrink to nothing, or it would not be in the store at all.
words() { head -c "$(($1 * 3 / 4))" /dev/urandom | base64 -w 0; }
link fast
say "making a drive: sites of 2 and of $COLD_PAGES pages of 20 KiB, files of 4 KiB and 64 KiB"
group setup all
password='a bench of wet granite'
(umask 077 && echo "$password" >"$work/password")
in_drive() { ip netns exec "$id-node1" "$PROGRAM" "$@" --data "$work/first" --user ana --password-file "$work/password"; }
first_store="s3://packs/drive?endpoint=http://$fast&path_style=true&plain_http=true"
export HOLDFAST_STORE__URL=$first_store
ip netns exec "$id-node1" "$PROGRAM" account add ana --data "$work/first" --password-file "$work/password" >/dev/null
start first node1 setup "$PROGRAM" serve --data "$work/first" --listen "${address[node1]}:8642" --sites-listen "${address[node1]}:8643"
nodes+=($!)
await "${nodes[0]}" answers "http://${address[node1]}:8642/readyz"
put() { ip netns exec "$id-load" curl -sSf -u "ana:$password" "$@" >/dev/null; }
from=$work/from && mkdir -p "$from/web/_fragments" "$from/pages" "$from/files"
page() { echo "<!doctype html><html lang=\"en\"><head><title>$1</title></head><body><pre>" && words 20352 && echo '</pre></body></html>'; }
page Home >"$from/web/index.html"
for name in menu translations; do { echo '<nav>' && words 1000 && echo '</nav>'; } >"$from/web/_fragments/$name.html"; done
{
    printf -- '---\ntitle: About\n---\n<!doctype html><html lang="en"><head><title>{{ page.title }}</title></head><body>{%% include "menu.html" %%}<pre>'
    words 18352
    printf '</pre>{%% include "translations.html" %%}</body></html>\n'
} >"$from/web/about.html"
for number in $(seq "$COLD_PAGES"); do
    page "$number" >"$from/pages/page$number.html"
    words 4096 >"$from/files/small$number"
    words 65536 >"$from/files/large$number"
done
for folder in web web/_fragments pages files; do
    put -X MKCOL "http://${address[node1]}:8642/dav/ana/$folder"
    (cd "$from/$folder" && put -T "{$(find . -maxdepth 1 -type f -printf '%P\n' | paste -sd,)}" "http://${address[node1]}:8642/dav/ana/$folder/")
done
in_drive publish ana/web --as bench >/dev/null
# A token is signed in without the work that a password needs on each node.
in_drive token create bench --read-only --json >"$work/token.json"
(umask 077 && jq -r .token "$work/token.json" >"$work/token")
cp "$work/first/sites.key" "$work/sites.key"
export HOLDFAST_SITES__KEY_FILE=$work/sites.key
unset HOLDFAST_STORE__URL

# plan ADDRESS PATH...: a plan that asks for each.
plan() {
    local at=$1 path
    shift
    echo '<jmeterTestPlan><hashTree><TestPlan testname="bench"/><hashTree><ThreadGroup testname="users"><elementProp
        name="ThreadGroup.main_controller" elementType="LoopController"><stringProp name="LoopController.loops">1</stringProp></elementProp>
        <stringProp name="ThreadGroup.num_threads">1</stringProp></ThreadGroup><hashTree>'
    for path in "$@"; do
        printf '<HTTPSamplerProxy testname="%s"><stringProp name="HTTPSampler.protocol">http</stringProp><stringProp name="HTTPSampler.domain">%s</stringProp><stringProp name="HTTPSampler.port">%s</stringProp><stringProp name="HTTPSampler.path">%s</stringProp><stringProp name="HTTPSampler.method">GET</stringProp><boolProp name="HTTPSampler.use_keepalive">true</boolProp></HTTPSamplerProxy><hashTree/>\n' \
            "$path" "${at%:*}" "${at#*:}" "$path"
    done
    echo '</hashTree></hashTree></hashTree></jmeterTestPlan>'
}

# --- configurations A, B and C -------------------------------------------------------------------------------------

report_004='{"home A 1": "73.3 18/133/2514/103 0.01", "home A 2": "79.4 17/122/735/93 0.00", "home B 1": "53.5 44/183/4017/243 0.00",
    "home B 2": "68.9 41/142/535/52 0.00", "home C 1": "58.6 17/167/2151/110 0.00", "about B 1": "15.1 6/646/2326/605 0.00",
    "about B 2": "15.4 91/637/13059/654 0.02"}'
measures() { [[ " $PARTS " == *" $1 "* ]]; }
configurations=(A B C) && measures abc || configurations=()
for configuration in "${configurations[@]}"; do
    case $configuration in
    A) link fast && members=("node1 host1" "node1 host1" "node2 host2" "node2 host2") ;;
    B) link slow && members=("node1 host1" "node1 host1" "node2 host2" "node2 host2") ;;
    C) link fast && members=("node1 host1" "node1 host1") ;;
    esac
    for page in home about; do
        say "configuration $configuration, $page page"
        path=/bench/ && [[ $page == home ]] || path=/bench/about
        cluster "${members[@]}"
        measure "$configuration-$page" "{\"part\": \"004\", \"page\": \"$page\", \"configuration\": \"$configuration\"}" "host1 host2" \
            --threads "$THREADS" --ramp-up 1s --loops "$LOOPS" --runs 2 "$page=http://${address[balancer]}:8643$path"
    done
done

# --- a cold node on the slow link ----------------------------------------------------------------------------------

link slow
kinds=(pages files) && measures cold || kinds=()
# Of the link is asked, so the node may use all cores. A site of its own, since a node reads ahead what sites it has.
group cold all
in_drive_alone() { HOLDFAST_STORE__URL=$first_store in_drive "$@" >/dev/null; }
((${#kinds[@]} == 0)) || in_drive_alone publish ana/pages --as pages
for what in "${kinds[@]}"; do for round in $(seq "$COLD_ROUNDS"); do
    say "a cold node: $what, round $round of $COLD_ROUNDS"
    began=${EPOCHREALTIME/./}
    cluster "node1 cold"
    started=$((${EPOCHREALTIME/./} - began))
    login=()
    if [[ $what == pages ]]; then
        mapfile -t paths < <(seq -f '/pages/page%g' "$COLD_PAGES") && at=${sites[0]#* }
    else
        mapfile -t paths < <(seq -f '/dav/ana/files/large%g' "$COLD_PAGES") && at=${drives[0]#* }
        login=(--user ana --password-file "$work/token")
    fi
    plan "$at" "${paths[@]}" >"$work/plan.jmx"
    # What comes after the second hundred is what warm means.
    measure "cold-$what-$round" "{\"part\": \"cold\", \"what\": \"$what\", \"start_ms\": $((started / 1000))}" cold --jmx "$what=$work/plan.jmx" \
        --threads 1 --ramp-up 0 --loops 2 --runs 7 "${login[@]}"
done; done

# --- scale ---------------------------------------------------------------------------------------------------------

link fast
numbers=$NODES && measures scale || numbers=
((${#kinds[@]} == 0)) || in_drive_alone site remove pages --yes
mapfile -t paths < <(seq -f '/dav/ana/files/small%g' "$COLD_PAGES")
plan "${address[balancer]}:8642" "${paths[@]}" >"$work/plan.jmx"
for cpu in "$NODE_CPU" all; do
    for number in $numbers; do
        say "scale: $number nodes, cores of each: $cpu"
        members=() groups=
        for each in $(seq "$number"); do
            group "slice$each" "$cpu"
            members+=("node$((each % 2 + 1)) slice$each") && groups+=" slice$each"
        done
        cluster "${members[@]}"
        keys="{\"part\": \"scale\", \"nodes\": $number, \"cpu\": \"$cpu\""
        load=(--threads "$SCALE_THREADS" --ramp-up 0 --duration "$DURATION" --runs "$RUNS" --warm-up "$DURATION")
        measure "scale-$cpu-$number-pages" "$keys, \"what\": \"pages\"}" "$groups" "${load[@]}" "pages=http://${address[balancer]}:8643/bench/"
        measure "scale-$cpu-$number-files" "$keys, \"what\": \"files\"}" "$groups" "${load[@]}" --jmx "files=$work/plan.jmx" --loops 1000000 \
            --user ana --password-file "$work/token"
    done
done

# --- the tables ----------------------------------------------------------------------------------------------------

{
    echo "holdfast bench cluster, $stamp: $(nproc) cores, Linux $(uname -r), $(haproxy -v | sed 's/ - .*//; q'), $("$postgres/postgres" --version), SeaweedFS $("$weed" version 2>/dev/null | sed -n 's/.* \([0-9]*\.[0-9]*\) .*/\1/p')"
    echo "The slow link is made by $how."
    echo
    jq -rs --argjson report "$report_004" --arg threads "$THREADS" --arg loops "$LOOPS" --argjson host1 "$HOST1_CPU" --argjson host2 "$HOST2_CPU" \
        --arg delay "$LINK_DELAY_MS" --arg mbit "$LINK_MBIT" --arg pages "$COLD_PAGES" --arg users "$SCALE_THREADS" --argjson cores "$(nproc)" \
        -f scripts/bench-cluster.jq "$rows"
} >"$work/tables"
cp "$work/tables" "$RESULTS_DIR/cluster-$stamp.txt"
cat "$work/tables"
[[ -z $json ]] || jq -s --arg started "$stamp" --argjson cores "$(nproc)" --arg link "$how" '{started: $started, cores: $cores, link: $link, rows: .}' "$rows" >"$json"
say "reports: $RESULTS_DIR/cluster-$stamp*"
((status == 0)) || say "there were wrong answers"
if [[ -n $strict ]] && grep -q '^  MISSED' "$work/tables"; then
    say "targets were missed" && status=1
fi
exit "$status"
