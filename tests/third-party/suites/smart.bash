# Smart folders in other people's clients: cadaver and rclone see them, copy out of them and into them, and lose nothing through them.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.bash"

cd "$WORK"
RCLONE=$(rclone_program)
origin=${DAV%%/dav/*}
smart=$origin/dav/Saved%20searches
call() { curl -sSf -u "$ACCOUNT:$PASSWORD" "$@"; }
printf 'machine %s login %s password %s\n' "$(sed -E 's|^http://([^:/]+).*|\1|' <<<"$DAV")" "$ACCOUNT" "$PASSWORD" >"$HOME/.netrc"
printf '[top]\ntype = webdav\nurl = %s\nvendor = owncloud\nuser = %s\npass = %s\n' "$origin/dav" "$ACCOUNT" "$("$RCLONE" obscure "$PASSWORD")" >rclone.conf
rc() { "$RCLONE" --config rclone.conf --retries 1 --low-level-retries 1 "$@"; }

for folder in smart-a smart-b smart-in; do call -X MKCOL "$DAV/$folder"; done
for folder in smart-a smart-b; do
    for number in $(seq 20); do printf 'ledger %s of %s' "$number" "$folder" | call -T - "$DAV/$folder/ledger-$number.txt"; done
done
head -c 3000000 /dev/urandom >ledger-large.bin
call -T ledger-large.bin "$DAV/smart-a/ledger-large.bin"
# Every file is tagged; the two folders of one name each are told apart.
items=$(for folder in smart-a smart-b; do for number in $(seq 20); do printf '{"space":"%s","path":"/%s/ledger-%s.txt"},' "${DAV##*/}" "$folder" "$number"; done; done)
items="[$items{\"space\":\"${DAV##*/}\",\"path\":\"/smart-a/ledger-large.bin\"}]"
call -H 'content-type: application/json' -d "{\"items\":$items,\"add\":[\"Kept\"]}" "$origin/api/v1/tags" >/dev/null
call -H 'content-type: application/json' "$origin/api/v1/searches" \
    -d "{\"name\":\"Ledgers\",\"query\":{\"q\":\"ledger\",\"tags\":[\"kept\"]},\"folder\":{\"space\":\"${DAV##*/}\",\"path\":\"/smart-in\"}}" >/dev/null

cadaver_says() {
    printf '%s\nquit\n' "$3" | cadaver "$smart/Ledgers/" >out 2>&1 || { fail "$1: cadaver ended with $?"; return; }
    if grep -qE "$2" out; then pass "$1"; else fail "$1"; sed 's/^/          /' out >&2; fi
}
cadaver_says "cadaver: ls" "ledger-large.bin +3000000" "ls"
cadaver_says "cadaver: get" "Downloading .*succeeded" "get ledger-large.bin got"
same "cadaver: what is got is the file" ledger-large.bin got
cadaver_says "cadaver: put" "Uploading .*succeeded" "put ledger-large.bin ledger-new.bin"
cadaver_says "cadaver: what was put is shown" "ledger-new.bin +3000000" "ls"
cadaver_says "cadaver: delete is refused" "403" "delete ledger-1.txt"
cadaver_says "cadaver: lock, change, unlock" "Unlocking .*succeeded" $'lock ledger-new.bin\nput ledger-large.bin ledger-new.bin\nunlock ledger-new.bin'

expect "rclone: lists the smart folders" "Ledgers/" "$(rc lsf 'top:Saved searches')"
expect "rclone: lists what is found" 42 "$(rc lsf 'top:Saved searches/Ledgers' | wc -l)"
run "rclone: copy out" rc copy 'top:Saved searches/Ledgers' back
expect "rclone: everything came" 42 "$(find back -type f | wc -l)"
expect "rclone: of both folders" 20 "$(grep -rl 'of smart-b' back | wc -l)"
run "rclone: check" rc check --download 'top:Saved searches/Ledgers' back
rc sync -v 'top:Saved searches/Ledgers' back >again.log 2>&1 || fail "rclone: sync of what is there"
expect "rclone: nothing is fetched again" 0 "$(grep -c ': Copied' again.log || true)"
mkdir in && for number in 1 2 3; do printf 'in %s' "$number" >"in/ledger-in-$number.txt"; done && echo other >"in/does not fit.txt"
run "rclone: copy in" rc copy in 'top:Saved searches/Ledgers'
expect "rclone: it lies in the folder" "in 2" "$(call "$DAV/smart-in/ledger-in-2.txt")"
expect "rclone: and is shown" 45 "$(rc lsf 'top:Saved searches/Ledgers' | wc -l)"
mkdir nothing
rc sync nothing 'top:Saved searches/Ledgers' >sync.log 2>&1 && fail "rclone: sync of nothing into it succeeds"
expect "rclone: sync of nothing into it removes nothing" 45 "$(rc lsf 'top:Saved searches/Ledgers' | wc -l)"
call -X DELETE "$smart/Ledgers/"
expect "what was found stays when the smart folder goes" 21 "$(rc lsf "top:${DAV##*/}/smart-a" | wc -l)"
finish
