# schemathesis: requests made up from the API's own description, right and wrong ones, as a member and as an administrator. No answer
# may be an error of the server's, or have a status, a type or a shape that the description does not name. It has a drive of its own.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.bash"

# One release: another makes up other requests.
PYTHON=$(python_with schemathesis==4.32.5)
SCHEMATHESIS_HOOKS=$(cd "$(dirname "${BASH_SOURCE[0]}")/../lib" && pwd)/schemathesis_hooks.py
export SCHEMATHESIS_HOOKS
cd "$WORK"
checks=not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance,unsupported_method,allow_header_conformance
seconds=${SCHEMATHESIS_SECONDS:-50}

start_drive "$WORK" mia ada
trap stop_drive EXIT
"${holdfast[@]}" account admin ada true --data "$drive_data" >/dev/null

# What the requests can be about, so that not all of them end with «there is no such thing».
for name in mia ada; do
    for content in one two; do
        curl -sf -u "$name:$password" -T - "$drive_url/dav/$name/a.txt" <<<"$content" >/dev/null
        curl -sf -u "$name:$password" -T - "$drive_url/dav/$name/gone.txt" <<<"$content" >/dev/null
    done
    curl -sf -u "$name:$password" -X DELETE "$drive_url/dav/$name/gone.txt"
    curl -sf -u "$name:$password" -X MKCOL "$drive_url/dav/$name/folder"
    curl -sf -u "$name:$password" -T - "$drive_url/dav/$name/folder/index.html" <<<"<p>hello</p>" >/dev/null
    curl -sf -u "$name:$password" -H 'Content-Type: application/json' "$drive_url/api/v1/sites/site-$name/publish" \
        -d "{\"space\": \"$name\", \"path\": \"folder\"}" >/dev/null
done

# tested NAME: one run with that account's password.
tested() {
    local name=$1 log=$WORK/schemathesis-$1.log
    cat >schemathesis.toml <<END
[parameters]
"path.space" = ["$name", "$name", "none"]
"path.path" = ["a.txt", "folder", "gone.txt", "a.txt"]
"path.site" = ["site-$name", "none"]
"path.name" = ["mia", "none"]
"query.path" = ["a.txt", "folder", "/"]
END
    if "$PYTHON" -m schemathesis.cli run "$drive_url/api/v1/openapi.json" --auth "$name:$password" --checks "$checks" --max-examples 25 \
        --phases examples,coverage,fuzzing --no-shrink --continue-on-failure --request-timeout 20 --max-time "$seconds" --seed 7 \
        --warnings off >"$log" 2>&1; then
        pass "as $name: $(grep -o '[0-9]* generated' "$log" | tail -n 1 || true)"
    else
        fail "as $name"
        tail -n 80 "$log" | sed 's/^/          /' >&2
    fi
}

# The member first: the administrator may take the account away.
tested mia
tested ada

stop_drive
run "the drive is sound" "${holdfast[@]}" check --read-data --data "$drive_data"
finish
