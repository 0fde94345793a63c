#!/usr/bin/env bash
# Tests of limits with control groups of version 2 alone, on Debian's stock kernel in a virtual machine (scripts/guest.sh): as root, and as an ordinary account in a group
# that was handed over to it as systemd does it (Delegate=yes). Must be told the tests that are to run there, which are compiled already:
#
#   scripts/test-guest.sh TESTS-OF-THE-SANDBOX [RUN-LIMITS]

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sandbox=$(realpath "$1")
run=${2:+$(realpath "$2")}

# In the guest. Tests that find no group there fail.
exec scripts/guest.sh bash -euo pipefail -c '
    sandbox=$1 run=$2
    export HOLDFAST_TEST_GROUPS=1
    echo "--- root, in the root group"
    "$sandbox" limits:: --test-threads 2
    [[ -z $run ]] || "$run" --test-threads 2
    groups=/sys/fs/cgroup
    echo "+memory +cpu +pids" >$groups/cgroup.subtree_control
    mkdir $groups/session
    (
        echo "--- root, in a group with processes below the root"
        echo $BASHPID >$groups/session/cgroup.procs
        "$sandbox" limits:: --test-threads 2
    )
    mkdir $groups/handed
    chown 65534:65534 $groups/handed $groups/handed/cgroup.{procs,subtree_control,threads}
    python3 -c "import os; os.setxattr(\"$groups/handed\", \"user.delegate\", b\"1\")"
    mkdir -m 777 /tmp/ordinary
    cp "$sandbox" /tmp/ordinary/sandbox
    (
        echo "--- an ordinary account, in a group that was handed over"
        echo $BASHPID >$groups/handed/cgroup.procs
        cd /
        setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs /tmp/ordinary/sandbox limits:: --test-threads 2
    )
    left=$(find $groups -name "holdfast-*" -type d | grep -cv "^$groups/handed/" || true)
    echo "--- $left groups are left"
    [[ $left == 0 ]]
' guest "$sandbox" "$run"
