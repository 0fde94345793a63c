#!/usr/bin/env bash
# Measures what it costs to run a program confined, as report 002 did: a file server, sources that are packed, unpacked and built, and what is left of
# memory and disk; and the start of a program. `holdfast run` with policies of several sizes stands beside native, bubblewrap, sandlock and bindfs.
#
#   scripts/bench-run.sh [fileserver|source|start|leak]...
#
# Default: all four, which takes long; with SHORT=1 a minute or two, with figures that mean little. Reports go to OUTPUT, each as table, JSON and page.
#
# Settings, from the environment:
#   SHORT         1: small, to see that all of it works
#   ROUNDS        rounds of each (default: 10; of sources 4)
#   TIME          how long a file server works each time (default: 5s)
#   RULES         sizes of the policies: so many files of which each has a rule of its own (default: 0 32 128 1024 where starts are measured, else 128)
#   RIVALS        what else is measured (default: sockets broker gate bwrap sandlock bindfs). The first three are holdfast with UNIX sockets, and with
#                 a rule that takes a broker, and one that takes a gate; with sandlock goes sandlock with a path that is denied, and holdfast with that
#   SOURCE        a folder with sources (default: what `make tinyconfig` and a small build need of Debian's package linux-source-6.1)
#   ARCHIVE       a packed copy of SOURCE (.tar.gz): of sources, unpacking this is measured alone
#   WORK_DIR      where it all takes place (default: target/); put it on the file system to be measured
#   OUTPUT        where reports go (default: bench-results/run)
#   HOLDFAST_BIN  the program (default: target/release/holdfast)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=$(realpath "${HOLDFAST_BIN:-target/release/holdfast}")
read -ra rivals <<<"${RIVALS-sockets broker gate bwrap sandlock bindfs}"
read -ra sizes <<<"${RULES:-0 32 128 1024}"
output=${OUTPUT:-bench-results/run}
measurements=("$@")
((${#measurements[@]})) || measurements=(start fileserver source leak)
needed=(python3)
for rival in "${rivals[@]}"; do
    case $rival in
        sockets | broker) ;;
        gate) needed+=(fuse3) ;;
        bwrap) needed+=(bwrap) ;;
        # Its package has this program and no other; what is wanted is the module.
        sandlock) needed+=(sandlock-mcp) ;;
        bindfs) needed+=(bindfs fuse3) ;;
        *)
            echo "there is no rival $rival: sockets, broker, gate, bwrap, sandlock, bindfs" >&2
            exit 64
            ;;
    esac
done
for tool in "${needed[@]}"; do
    scripts/need.sh "$tool" || echo "bench-run: there is no $tool here" >&2
done
tools=$PWD/target/bench-tools

mkdir -p target "${WORK_DIR:-target}" "$output"
[[ -e bench-results/.gitignore || ! -d bench-results ]] || echo '*' >bench-results/.gitignore
work=$(realpath "$(mktemp -d "${WORK_DIR:-target}/bench-run.XXXXXX")")
trap 'rm -rf "$work"' EXIT
# The measurement ends first, by itself, and reports what it has.
trap 'exit 130' INT TERM
mkdir "$work"/{rules,place,policies,rivals}
unset HOLDFAST_BIN

# --- ways to run a program -------------------------------------------------------------------------------------------

# What each of them may read and execute; the place alone may be written.
readable=(/usr /etc /proc "$(dirname "$program")" "$work/rules" "$work/rivals" "$tools")
for folder in /bin /sbin /lib /lib32 /lib64; do
    [[ ! -e $folder ]] || readable+=("$folder")
done
if [[ -n ${SOURCE:-} ]]; then readable+=("$(realpath "$SOURCE")"); fi
if [[ -n ${ARCHIVE:-} ]]; then readable+=("$(realpath "$ARCHIVE")"); fi
# Each policy may read a file of its own for each rule, and write no other in that folder.
largest=0
for size in "${sizes[@]}"; do largest=$((size > largest ? size : largest)); done
for ((file = 0; file < largest; file++)); do : >"$work/rules/$file"; done

# policy SIZE [SOCKETS]: a policy that is a view, in TOML, with so many rules beside those that every program needs.
policy() {
    printf 'default = "deny"\nunix-sockets = "%s"\n' "${2:-none}"
    printf 'devices = ["null", "zero", "full", "random", "urandom"]\n\n[environment]\nkeep = ["PATH", "HOME"]\n\n[files]\n'
    for folder in "${readable[@]}"; do [[ $folder == /proc ]] || printf '"%s" = "read+exec"\n' "$folder"; done
    printf '"%s" = "all"\n"/tmp" = "all"\n' "$work/place"
    for ((file = 0; file < $1; file++)); do printf '"%s" = "read"\n' "$work/rules/$file"; done
}

# What may not be said by mounts alone: one operation, on names that match a pattern.
broker_rule() {
    printf '\n[[rule]]\ndeny = ["unlink"]\npath = "%s/**/*.kept"\n' "$work/place"
}

# What no call by itself says: how much is read at a time.
gate_rule() {
    printf '\n[[rule]]\ndeny = ["read"]\npath = "%s/**"\narguments = { length = 65521 }\n' "$work/place"
}

# A file in the place that nobody may open. It takes mounts nothing, and sandlock a question at each file that is opened.
denied() {
    mkdir -p "$work/place/denied" && : >"$work/place/denied/file"
    printf '%s' "$work/place/denied/file"
}

# A start of bubblewrap with as many mounts.
bwrap_script() {
    {
        printf '%s\0' --unshare-all --die-with-parent --proc /proc --dev /dev
        for folder in "${readable[@]}"; do [[ $folder == /proc ]] || printf '%s\0' --ro-bind "$folder" "$folder"; done
        printf '%s\0' --bind "$work/place" "$work/place" --bind /tmp /tmp
        for ((file = 0; file < $1; file++)); do printf '%s\0' --ro-bind "$work/rules/$file" "$work/rules/$file"; done
    } >"$work/rivals/bwrap-$1.arguments"
    printf '#!/bin/sh\nexec bwrap --args 9 --chdir "$PWD" -- "$@" 9<"%s"\n' "$work/rivals/bwrap-$1.arguments" >"$work/rivals/bwrap-$1"
}

# The package has no command, only a module.
# sandlock_script NAME SIZE DENIED
sandlock_script() {
    python3 - "$2" "$work" "$3" "${readable[@]}" >"$work/rivals/$1" <<'PYTHON'
import sys

size, work, denied, readable = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(), sys.argv[4:]
print(f"""import sys
from sandlock import Sandbox
readable = {readable + ['/dev']!r} + [f"{work}/rules/{{file}}" for file in range({size})]
sandbox = Sandbox(fs_readable=readable, fs_writable=[{work + '/place'!r}, "/tmp", "/dev/null"], fs_denied={denied!r})
with sandbox.popen(sys.argv[1:]) as process:
    result = process.wait()
sys.exit(result.exit_code or 0)""")
PYTHON
}

# Every operation below the folder goes through a file system in user space.
bindfs_script() {
    cat >"$work/rivals/bindfs" <<'SCRIPT'
#!/bin/sh
# bindfs FOLDER COMMAND...
folder=$1
shift
bindfs -f --multithreaded "$folder" "$folder" </dev/null >/dev/null 2>&1 &
server=$!
tries=200
until mountpoint -q "$folder"; do
    tries=$((tries - 1))
    if [ $tries = 0 ] || ! kill -0 $server; then echo "bindfs could not mount $folder" >&2; exit 69; fi
    sleep 0.05
done
# Not the folder beneath.
cd "$PWD"
"$@"
status=$?
cd /
fusermount3 -u "$folder" || fusermount3 -u -z "$folder"
wait $server
exit $status
SCRIPT
}

# add NAME COMMAND: measures it, if it runs a program at all here; what does not is told, and left out. holdfast with a policy that is a view always has to.
under=()
add() {
    if [[ $1 != holdfast-[0-9]* ]] && ! (cd "$work/place" && ${2//"{dir}"/"$work/place"} /bin/true) >"$work/said" 2>&1; then
        echo "bench-run: $1 is left out: $(tail -n 3 "$work/said" | tr '\n' ' ')" >&2
        return
    fi
    under+=(--under "$1=$2")
}
# ways SIZE...: what is measured beside native, with policies of these sizes.
ways() {
    under=()
    for size in "$@"; do
        policy "$size" >"$work/policies/$size.toml"
        add "holdfast-$size" "$program run --policy $work/policies/$size.toml --"
    done
    for rival in "${rivals[@]}"; do
        case $rival in
            sockets)
                # Where programs outside can hand something over, Landlock lies behind the mounts.
                policy 0 all >"$work/policies/sockets.toml"
                add holdfast-sockets "$program run --policy $work/policies/sockets.toml --"
                ;;
            broker)
                { policy 0 && broker_rule; } >"$work/policies/broker.toml"
                add holdfast-broker "$program run --policy $work/policies/broker.toml --"
                ;;
            gate)
                { policy 0 && gate_rule; } >"$work/policies/gate.toml"
                add holdfast-gate "$program run --policy $work/policies/gate.toml --"
                ;;
            bwrap)
                for size in "$@"; do
                    bwrap_script "$size"
                    add "bwrap-$size" "sh $work/rivals/bwrap-$size"
                done
                ;;
            sandlock)
                for size in "$@"; do
                    sandlock_script "sandlock-$size" "$size" ""
                    add "sandlock-$size" "$tools/bin/python3 $work/rivals/sandlock-$size"
                done
                sandlock_script sandlock-denied 0 "$(denied)"
                add sandlock-denied "$tools/bin/python3 $work/rivals/sandlock-denied"
                { policy 0 && printf '"%s" = "none"\n' "$(denied)"; } >"$work/policies/denied.toml"
                add holdfast-denied "$program run --policy $work/policies/denied.toml --"
                ;;
        esac
    done
}
# Of a program that does nothing there is nothing for a file system to do.
with_bindfs() {
    [[ " ${rivals[*]} " == *" bindfs "* ]] || return 0
    bindfs_script
    add bindfs "sh $work/rivals/bindfs {dir}"
}

# --- measurements ----------------------------------------------------------------------------------------------------

short=${SHORT:-}
rounds=${ROUNDS:-$([[ $short == 1 ]] && echo 2 || echo 10)}
time=${TIME:-$([[ $short == 1 ]] && echo 0.5s || echo 5s)}
load=(--seconds "$time")
[[ $short != 1 ]] || load+=(--files 500 --threads 10)
# Where most of the time is spent in the work itself.
read -ra few <<<"${RULES:-128}"

# measure NAME OPTIONS...: a report whose command has failed stands all the same, and is a failure of the script.
failed=()
measure() {
    local name=$1
    shift
    "$program" bench "$name" "$@" "${under[@]}" --output "$output/$name" | tee "$output/$name.txt" || failed+=("$name")
}

# What is needed of Linux's sources, a tenth of all: no drivers, no other processors.
linux_sources() {
    scripts/need.sh linux-source cc make flex bison bc
    mkdir "$work/rules.source"
    local tree=linux-source-6.1 unneeded
    unneeded=("$tree"/{drivers,sound,fs,net}/'*.[chS]' "$tree/Documentation/*/*" "$tree/tools/testing/*" "$tree"/arch/'[!x]*/*'.{'[chS]','dts*'})
    # From the beginning of each name: include/net is needed.
    tar -xJf /usr/src/linux-source-6.1.tar.xz -C "$work/rules.source" --anchored "${unneeded[@]/#/--exclude=}"
    readable+=("$work/rules.source")
}

for measurement in "${measurements[@]}"; do
    case $measurement in
        start)
            # Few: with many rules, each a mount, a start takes long.
            ways "${sizes[@]}"
            measure start --folder "$work/place" --rounds "$rounds" --starts "$([[ $short == 1 ]] && echo 1 || echo 5)"
            ;;
        fileserver)
            ways "${few[@]}"
            with_bindfs
            measure fileserver "$work/place" --rounds "$rounds" "${load[@]}"
            ;;
        source)
            options=(${ARCHIVE:+--archive "$ARCHIVE"})
            if [[ -n ${SOURCE:-} ]]; then
                tree=$SOURCE
            elif [[ $short == 1 ]]; then
                # Small enough to be packed in a moment.
                mkdir "$work/rules/source"
                cp -r crates/policy/src "$work/rules/source/policy"
                tree=$work/rules/source options=(--build 'wc */*.rs >count')
            else
                linux_sources
                tree=$work/rules.source/linux-source-6.1
            fi
            ways "${few[@]}"
            with_bindfs
            measure source "$tree" --folder "$work/place" --rounds "${ROUNDS:-$([[ $short == 1 ]] && echo 2 || echo 4)}" "${options[@]}"
            ;;
        leak)
            ways "${few[@]}"
            with_bindfs
            measure leak "$work/place" --rounds "$rounds" "${load[@]}"
            ;;
        *)
            echo "there is no measurement $measurement: fileserver, source, start, leak" >&2
            exit 64
            ;;
    esac
done
if ((${#failed[@]})); then
    echo "not all went well: ${failed[*]}" >&2
    exit 69
fi
echo "reports are in $output"
