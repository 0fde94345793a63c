#!/bin/sh
# Fuzzes every parser of outside input: scripts/fuzz.sh [seconds per target] [target ...]
#
# Installs cargo-fuzz if it is missing. Works with the stable compiler: RUSTC_BOOTSTRAP lets it take the flags for coverage
# counters and the address sanitizer. Corpora in fuzz/corpus are minimised afterwards; only they and reproducers are
# committed. Fails if a target crashes, hangs, leaks or takes too much memory; the input is then in fuzz/artifacts.
set -eu

seconds=${1:-60}
[ $# -gt 0 ] && shift
cd "$(dirname "$0")/.."

# Per input. Nothing honest takes a second; the sanitizer and a busy machine may make it several.
timeout_seconds=20
# The targets' own 16 MiB blocks and the engine's buffers, several times over for the sanitizer.
memory_mib=2048
# A committed corpus is a starting point and a regression test, not an archive.
corpus_files_max=48
corpus_bytes_max=12000

# Adds what found new ground to the committed corpus: the fewest inputs that cover it, and of those the smallest.
# Inputs with a name were written by hand and stay.
keep() {
    corpus=fuzz/corpus/$1
    cargo fuzz run "$1" "$corpus" "$2" -- -set_cover_merge=1 -max_len=2048 >>"fuzz/artifacts/$1.log" 2>&1
    found_names='[0-9a-f]{40}$'
    while [ "$(find "$corpus" -type f | wc -l)" -gt $corpus_files_max ] ||
        [ "$(find "$corpus" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')" -gt $corpus_bytes_max ]; do
        largest=$(find "$corpus" -type f -printf '%s %p\n' | grep -E "$found_names" | sort -n | tail -n 1 | cut -d ' ' -f 2)
        [ -n "$largest" ] || break
        rm "$largest"
    done
}

export RUSTC_BOOTSTRAP=1
# The catalogue of the request target is worth no disk.
[ -d /dev/shm ] && export TMPDIR=/dev/shm

cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
# The versions that the program is built with.
cp Cargo.lock fuzz/Cargo.lock
[ $# -gt 0 ] || cargo fuzz build

targets=${*:-$(cargo fuzz list)}
failed=""
for target in $targets; do
    # Requests and texts in pieces no longer than this find what there is; XML has limits that take more to reach.
    max_len=4096
    case $target in xml | jmx) max_len=16384 ;; esac
    dictionary=fuzz/dictionaries/$target.dict
    options="-max_total_time=$seconds -timeout=$timeout_seconds -rss_limit_mb=$memory_mib -max_len=$max_len -print_final_stats=1"
    [ -f "$dictionary" ] && options="$options -dict=$dictionary"
    # What is found goes to a folder of its own, so that a run leaves the committed corpus alone until it is merged.
    found=fuzz/artifacts/found/$target
    mkdir -p "$found"
    echo "== $target"
    # shellcheck disable=SC2086 # options are words
    if cargo fuzz run "$target" "$found" "fuzz/corpus/$target" -- $options 2>"fuzz/artifacts/$target.log" >/dev/null; then
        grep -E '^stat::(number_of_executed_units|average_exec_per_sec)|DONE' "fuzz/artifacts/$target.log"
        keep "$target" "$found"
    else
        grep -A 3 -E 'panicked at|SUMMARY:' "fuzz/artifacts/$target.log" | head -n 12
        grep -E 'Test unit written|^artifact' "fuzz/artifacts/$target.log" | tail -n 1
        failed="$failed $target"
    fi
done

if [ -n "$failed" ]; then
    echo "crashed:$failed" >&2
    exit 1
fi
