# curl: ranges in every form, chunked upload, Expect: 100-continue, resuming both ways, conditions.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.bash"

cd "$WORK"
printf 'user = "%s:%s"\nsilent\n' "$ACCOUNT" "$PASSWORD" >curl.conf
# web ARGUMENTS...: curl with the account.
web() { curl -K curl.conf "$@"; }
# status ARGUMENTS...: the status of a request alone.
status() { web -o /dev/null -w '%{http_code}' "$@"; }

# Four blocks and a bit, so that ranges and parts cross borders of blocks.
head -c 4300001 /dev/urandom >file
expect "PUT of a new file" 201 "$(status -T file "$DAV/file")"
expect "PUT over it" 204 "$(status -T file "$DAV/file")"
web -o whole "$DAV/file" && same "GET gives the same bytes" file whole

# range NAME CURL_RANGE OFFSET COUNT
range() {
    expect "range $1" 206 "$(web -o part -w '%{http_code}' -r "$2" "$DAV/file")"
    tail -c +$(($3 + 1)) file | head -c "$4" >wanted || true
    same "range $1 has the right bytes" wanted part
}
range "from the first byte" 0-99 0 100
range "across blocks" 1048570-3145740 1048570 2097171
range "to the end" 4300000- 4300000 1
range "of the last bytes" -1000 4299001 1000
expect "several ranges at once" 206 "$(web -o parts -w '%{http_code}' -r 0-0,2000000-2000003,-5 "$DAV/file")"
expect "they come as parts" 3 "$(grep -ac 'Content-Range: bytes ' parts || true)"
expect "a range outside the file" 416 "$(status -r 4300001- "$DAV/file")"

expect "chunked upload" 201 "$(web -o /dev/null -w '%{http_code}' -H 'Transfer-Encoding: chunked' -T - "$DAV/chunked" <file)"
web -o whole "$DAV/chunked" && same "a chunked upload is whole" file whole

expect "Expect: 100-continue" 201 "$(web -o /dev/null -D head -w '%{http_code}' -H 'Expect: 100-continue' -T file "$DAV/expected")"
expect "it is answered with 100 first" "HTTP/1.1 100 Continue" "$(head -n 1 head | tr -d '\r')"
# The refusal comes instead of the 100, so that the body is never sent.
expect "an upload that is refused" 409 "$(web -o /dev/null -D head -w '%{http_code}' -H 'Expect: 100-continue' -T file "$DAV/no/such/folder")"
expect "is refused before its body" 0 "$(grep -c '100 Continue' head || true)"

head -c 1500000 file >download
run "download, resumed" web -C - -o download "$DAV/file"
same "a resumed download is whole" file download
expect "upload of a first part" 201 "$(head -c 2000000 file | web -o /dev/null -w '%{http_code}' -T - "$DAV/resumed")"
expect "upload, resumed" 204 "$(status -C 2000000 -T file "$DAV/resumed")"
web -o whole "$DAV/resumed" && same "a resumed upload is whole" file whole

web -o /dev/null --etag-save etag "$DAV/file"
expect "not modified" 304 "$(status --etag-compare etag "$DAV/file")"
expect "create only" 412 "$(status -H 'If-None-Match: *' -T file "$DAV/file")"
expect "change what was seen only" 412 "$(status -H 'If-Match: "other"' -T file "$DAV/file")"
expect "HEAD has the length" 4300001 "$(web -I "$DAV/file" | tr -d '\r' | sed -n 's/^[Cc]ontent-[Ll]ength: //p')"
expect "a wrong password" 401 "$(curl -s -o /dev/null -w '%{http_code}' -u "$ACCOUNT:wrong" "$DAV/file")"
expect "HTTP/2 without TLS" 200 "$(status --http2-prior-knowledge "$DAV/file")"
expect "DELETE" 204 "$(status -X DELETE "$DAV/file")"
expect "and it is gone" 404 "$(status "$DAV/file")"
finish
