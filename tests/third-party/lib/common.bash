# Shared by the suites and scripts/demo.sh: getting tools, a drive of one's own, and saying what failed.
# To be sourced, from anywhere; the caller has set -euo pipefail.

third_party_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# The folder of tools that come as Python packages (scripts/need.sh); the bench keeps its own there too.
tools_dir=$third_party_root/target/bench-tools

say() { printf '%s\n' "$*" >&2; }

# fail MESSAGE...: notes a failure of the running suite and goes on, so that one run shows all of them.
failures=0
fail() {
    failures=$((failures + 1))
    say "  FAILED  $*"
}

# pass NAME: notes what was proved.
passes=0
pass() {
    passes=$((passes + 1))
    say "  ok      $*"
}

# expect NAME WANTED GOT: one comparison.
expect() {
    if [[ $2 == "$3" ]]; then pass "$1"; else fail "$1: wanted «$2», got «$3»"; fi
}

# same NAME FILE FILE: two files with equal bytes.
same() {
    if cmp -s "$2" "$3"; then pass "$1"; else fail "$1: $2 and $3 differ"; fi
}

# run NAME COMMAND...: a command that must succeed; what it said is shown only if it does not.
run() {
    local name=$1 log=$WORK/command.log
    shift
    if "$@" >"$log" 2>&1 </dev/null; then
        pass "$name"
    else
        fail "$name (status $?)"
        tail -n 15 "$log" | sed 's/^/          /' >&2
    fi
}

# finish: a suite's last line.
finish() {
    say "  $passes passed, $failures failed"
    ((failures == 0))
}

# rclone_program: prints the path of rclone, which is installed if it is nowhere.
rclone_program() {
    "$third_party_root/scripts/need.sh" rclone >&2
    command -v rclone || printf '%s\n' "$tools_dir/bin/rclone"
}

# python_with PACKAGE...: prints the path of a Python that has these packages, which are installed once.
python_with() {
    [[ -x $tools_dir/bin/pip ]] || python3 -m venv "$tools_dir" >&2 || {
        "$third_party_root/scripts/need.sh" python3-venv >&2 && python3 -m venv "$tools_dir" >&2
    }
    "$tools_dir/bin/python" -m pip install -q "$@" >&2
    printf '%s\n' "$tools_dir/bin/python"
}

# node_with PACKAGE: prints the folder where this package of Node's is installed, which happens once.
node_with() {
    "$third_party_root/scripts/need.sh" node >&2
    local folder=$tools_dir/node
    if [[ ! -d $folder/node_modules/$1 ]]; then
        mkdir -p "$folder"
        npm install --prefix "$folder" --no-audit --no-fund --silent "$1" >&2
    fi
    printf '%s\n' "$folder"
}

# The program under test as a command, without the variables of whoever runs us: it takes each HOLDFAST_… for one of its
# settings. env(1) becomes the program, so the process id of the command is the program's.
program=${HOLDFAST_BIN:-$third_party_root/target/release/holdfast}
holdfast=(env)
for name in "${!HOLDFAST_@}"; do holdfast+=(-u "$name"); done
holdfast+=("$program")

# start_drive FOLDER NAME...: starts a drive on a free port with data below FOLDER and accounts with one password.
# Sets drive_pid, drive_url, drive_data and password.
start_drive() {
    local folder=$1 name
    shift
    [[ -x $program ]] || { say "$program is missing: run «make build», or set HOLDFAST_BIN"; exit 69; }
    drive_data=$folder/data
    # No blanks in it: .netrc has no quotes.
    password=$(head -c 24 /dev/urandom | base64 | tr '+/' 'ab')
    printf '%s\n' "$password" >"$folder/password"
    for name in "$@"; do
        "${holdfast[@]}" account add "$name" --data "$drive_data" --password-file "$folder/password" >/dev/null
    done
    serve_drive "$folder" 127.0.0.1:0
}

# serve_drive FOLDER LISTEN: starts the program on the drive below FOLDER. Sets drive_pid and drive_url.
serve_drive() {
    local folder=$1
    rm -f "$folder/address"
    "${holdfast[@]}" serve --data "$folder/data" --listen "$2" --address-file "$folder/address" >>"$folder/drive.log" 2>&1 </dev/null &
    drive_pid=$!
    # It writes the file when it is ready; if it ends before, waiting has no end to wait for.
    until [[ -s $folder/address ]]; do
        kill -0 "$drive_pid" 2>/dev/null || { say "the drive did not start:"; cat "$folder/drive.log" >&2; exit 70; }
        sleep 0.05
    done
    drive_url=$(head -n 1 "$folder/address")
}

# stop_drive: asks it to stop and waits until it has.
stop_drive() {
    [[ -n ${drive_pid:-} ]] || return 0
    kill -TERM "$drive_pid" 2>/dev/null || true
    wait "$drive_pid" 2>/dev/null || true
    drive_pid=
}
