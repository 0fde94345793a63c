# rclone: copy and check, sync with deletes, bisync both ways; once as a plain WebDAV server (vendor `other`: no times, no
# sums) and once as an ownCloud (times by X-OC-Mtime, sums by oc:checksums).

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.bash"

cd "$WORK"
RCLONE=$(rclone_program)
export RCLONE
secret=$("$RCLONE" obscure "$PASSWORD")
for vendor in other owncloud; do
    printf '[%s]\ntype = webdav\nurl = %s\nvendor = %s\nuser = %s\npass = %s\n' "$vendor" "$DAV" "$vendor" "$ACCOUNT" "$secret"
done >rclone.conf
# rc ARGUMENTS...: quiet, without retries that would hide a failure, and without the rest of 10 ms that it takes between calls.
rc() { "$RCLONE" --config rclone.conf --retries 1 --low-level-retries 1 --transfers 8 --checkers 8 --webdav-pacer-min-sleep 0 "$@"; }

# tree FOLDER: 300 files of many sizes in folders, with names that break careless code and with old times.
tree() {
    local folder=$1 number
    mkdir -p "$folder"/{a,b/c/d,'with blank',empty}
    for number in $(seq 280); do
        head -c $((number * number)) /dev/urandom >"$folder/a/file$number"
    done
    head -c 9000000 /dev/urandom >"$folder/b/c/d/large"
    local name
    for name in 'a b' '100%' 'a&b' '<tag>' "it's" 'hash#tag' 'q?x=1' 'plus+plus' 'semi;colon' '%41' 'héé' '日本語' '😀' '[x]' '...' '.hidden'; do
        printf '%s' "$name" >"$folder/with blank/$name"
    done
    : >"$folder/empty file"
    find "$folder" -type f -exec touch -d '2001-02-03 04:05:06 UTC' {} +
}

# count VERB LOG: how many files rclone said it did this to.
count() { grep -c ": $1" "$2" || true; }

for vendor in other owncloud; do
    remote=$vendor:tree-$vendor
    rm -rf tree back
    tree tree
    run "$vendor: copy in" rc copy tree "$remote"
    run "$vendor: check --download" rc check --download tree "$remote"
    run "$vendor: copy out" rc copy "$remote" back
    run "$vendor: what comes back is the same" diff -r --exclude empty tree back

    rc sync -v tree "$remote" >again.log 2>&1 || fail "$vendor: sync of an unchanged tree"
    expect "$vendor: an unchanged tree is not sent again" 0 "$(count Copied again.log)"

    rm -r tree/a/file1*
    printf changed >"tree/with blank/100%"
    mkdir -p tree/new/folder && echo new >tree/new/folder/file
    mv tree/b tree/moved
    run "$vendor: sync with deletes" rc sync tree "$remote"
    run "$vendor: check after it" rc check --download tree "$remote"
    expect "$vendor: what was deleted is gone" 0 "$(rc lsf "$remote/a" | grep -c '^file1' || true)"
done
run "owncloud: check by sums" rc check tree owncloud:tree-owncloud
expect "owncloud: times are kept" "2001-02-03" "$(TZ=UTC rc lsl owncloud:tree-owncloud/moved/c/d | awk '{print $2}')"

for vendor in other owncloud; do
    rm -rf here state
    mkdir here
    for number in $(seq 20); do printf 'file %s of %s' "$number" "$vendor" >"here/file$number"; done
    # Without times a change is known by size and, where there are any, sums.
    compare=(--compare size,modtime)
    [[ $vendor == other ]] && compare=(--compare size)
    remote=$vendor:both-$vendor
    rc mkdir "$remote"
    bisync() { rc bisync here "$remote" --workdir state "${compare[@]}" "$@"; }
    run "$vendor: bisync begins" bisync --resync
    echo "changed here" >here/file1
    rm here/file2
    echo "made here" >here/made-here
    printf 'changed there and longer' | rc rcat "$remote/file3"
    rc deletefile "$remote/file4"
    printf 'made there' | rc rcat "$remote/made-there"
    run "$vendor: bisync of changes on both sides" bisync
    run "$vendor: both sides are equal" rc check --download here "$remote"
    expect "$vendor: a change there came here" "changed there and longer" "$(cat here/file3)"
    expect "$vendor: what was made there came here" "made there" "$(cat here/made-there)"
    expect "$vendor: deletions went both ways" "" "$(ls here | grep -xE 'file2|file4' || true)"
    expect "$vendor: a change here went there" "changed here" "$(rc cat "$remote/file1")"
done
run "purge" rc purge other:tree-other
run "a large file in many streams" bash -c '
    head -c 70000000 /dev/urandom >large
    "$RCLONE" --config rclone.conf copy large other:big && "$RCLONE" --config rclone.conf check --download --include large . other:big
    "$RCLONE" --config rclone.conf copyto --multi-thread-streams 4 --multi-thread-cutoff 10M other:big/large back-large && cmp large back-large'
run "about shows used and free" rc about other:
finish
