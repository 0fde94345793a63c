# cadaver, driven by a script as a person drives it: every command's outcome is read from what it prints.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.bash"

cd "$WORK"
host=$(sed -E 's|^http://([^:/]+).*|\1|' <<<"$DAV")
printf 'machine %s login %s password %s\n' "$host" "$ACCOUNT" "$PASSWORD" >"$HOME/.netrc"
head -c 3000000 /dev/urandom >file
echo "a small one" >"small file"

# cadaver_says NAME PATTERN COMMANDS: runs commands; what is printed must match and nothing may have failed.
cadaver_says() {
    printf '%s\nquit\n' "$3" | cadaver "$DAV/" >out 2>&1 || { fail "$1: cadaver ended with $?"; return; }
    if grep -qiE 'failed|error|could not' out || ! grep -qE "$2" out; then
        fail "$1"
        sed 's/^/          /' out >&2
    else
        pass "$1"
    fi
}

cadaver_says "mkcol" "Creating .folder.: succeeded" "mkcol folder"
cadaver_says "put" "Uploading file to .*succeeded" "put file folder/file"
cadaver_says "put of a name with a blank" "succeeded" 'put "small file" "folder/small file"'
cadaver_says "ls" "file +3000000" "ls folder"
cadaver_says "get" "Downloading .*succeeded" "get folder/file got"
same "what was put is what is got" file got
cadaver_says "copy" "Copying .*succeeded" "copy folder/file copy"
cadaver_says "copy of a folder" "Copying .*succeeded" "copy folder folder2"
cadaver_says "move" "Moving .*succeeded" "move copy folder2/moved"
cadaver_says "cd and ls of the moved" "moved +3000000" $'cd folder2\nls'
cadaver_says "set and get a property" "note.*yellow" $'propset folder/file note yellow\npropget folder/file note'
cadaver_says "lock, change under the lock, unlock" "Unlocking .*succeeded" \
    $'lock folder/file\nput file folder/file\nunlock folder/file'
cadaver_says "lock and discover" "Owner|owner|opaquelocktoken|urn:uuid" $'lock folder/file\ndiscover folder/file\nunlock folder/file'
cadaver_says "delete" "Deleting .*succeeded" "delete folder2/moved"
cadaver_says "rmcol" "Deleting collection .*succeeded" "rmcol folder2"
cadaver_says "ls of the root" "Coll: +folder" "ls"
finish
