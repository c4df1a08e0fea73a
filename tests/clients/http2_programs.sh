#!/bin/sh
# nghttp, h2load or curl, unchanged, against a server: what each is for.
#
#   http2_programs.sh PROGRAM URL [OPERATION]
#
# As kubectl.sh: without an operation all of the program are run, each in a process and a time limit of its own, and each prints a
# line. SERVER_CA and SERVER_TOKEN are as in cells.py, SERVER_PID is the process to end at last. An operation is a label of a function
# below, on a line of its own.
set -eu

program=$1 url=$2 limit=60
own=${SERVER_TOKEN:+authorization: Bearer $SERVER_TOKEN}
own=${own:-x-nobody: 1}
json='content-type: application/json'

fail() { echo "$*" >&2; exit 1; }
is() { [ "$1" = "$2" ] || fail "got: $1; expected: $2"; }
has() { case $1 in *"$2"*) ;; *) fail "got: $(printf %s "$1" | tail -c 200); expected in it: $2" ;; esac; }
# Waits until a file has so many lines with something.
lines() {
  tries=0
  until [ "$(grep -c -e "$2" "$1")" -ge "$3" ]; do
    tries=$((tries + 1))
    [ $tries -le 200 ] || fail "waited in vain for $3 times $2, got $(grep -c -e "$2" "$1"): $(tail -c 200 "$1")"
    sleep 0.1
  done
}
maps() { echo "$url/api/v1/namespaces/$ns/configmaps"; }
# Text of so many bytes that gzip cannot shorten much.
digits() { od -An -v -tx1 -N $(($1 / 2)) /dev/urandom | tr -d ' \n'; }
# An object whose name the server makes, with so many bytes, in a file.
object() { printf '{"metadata":{"generateName":"g-"},"data":{"k":"%s"}}' "$(digits "$2")" >"$work/$1"; }

nghttp() { command nghttp -H "$own" "$@"; }
# What came, one frame or field a line; nghttp colours it on a terminal only.
spoken() { nghttp -v "$@" >"$work/spoken" 2>&1 || fail "nghttp ended with $?: $(tail -c 200 "$work/spoken")"; }
answers() { is "$(grep -c "recv (stream_id=[0-9]*) :status: $1" "$work/spoken")" "$2"; }
in_order() {
  ! grep -q -e 'recv RST_STREAM' -e 'recv GOAWAY' "$work/spoken" || fail "an error: $(grep -e 'RST_STREAM\|GOAWAY' "$work/spoken" | head -n 2)"
}
run_nghttp() {
case $1 in
'get, list, create')
  object one 100; spoken -d "$work/one" -H "$json" "$(maps)"; answers 201 1; in_order
  spoken "$(maps)" "$url/version" "$url/readyz"; answers 200 3; in_order; has "$(nghttp "$(maps)")" '"g-' ;;
'12 MB with windows of each size')
  object one 1000000; spoken -m 12 -d "$work/one" -H "$json" "$(maps)"; answers 201 12
  nghttp "$(maps)" >"$work/whole"; [ "$(wc -c <"$work/whole")" -gt 12000000 ] || fail "$(wc -c <"$work/whole") bytes"
  for windows in '-w 30 -W 30' '-w 14 -W 14' '-w 30 -W 16' '-w 10 -W 30'; do
    # shellcheck disable=SC2086
    nghttp $windows "$(maps)" | cmp - "$work/whole" || fail "another list with $windows"
  done ;;
'windows of one byte')
  object one 20000; spoken -d "$work/one" -H "$json" "$(maps)"
  nghttp "$(maps)" >"$work/whole";
  nghttp -w 1 -W 1 "$(maps)" | cmp - "$work/whole" ;;
'100 lists at once')
  object one 10000; spoken -m 10 -d "$work/one" -H "$json" "$(maps)"; spoken -m 100 -n "$(maps)"; answers 200 100; in_order ;;
'1 MB up, padded')
  object one 1000000
  for padding in 0 1 255; do spoken -b $padding -d "$work/one" -H "$json" "$(maps)"; answers 201 1; in_order; done ;;
'20 bodies of 1 MB at once')
  object one 1000000; spoken -n -m 20 -d "$work/one" -H "$json" "$(maps)"; answers 201 20; in_order ;;
'trailers, no length')
  object one 5000; spoken --trailer 'x-sum: 1' --no-content-length -b 7 -d "$work/one" -H "$json" "$(maps)"; answers 201 1; in_order ;;
'100-continue')
  object one 200000; spoken --expect-continue -d "$work/one" -H "$json" "$(maps)"; answers 100 1; answers 201 1; in_order ;;
'weights and dependencies')
  spoken -p 256 "$url/version" -p 1 "$(maps)" "$url/readyz"; answers 200 3; in_order
  spoken --no-dep "$url/version"; answers 200 1; in_order ;;
'tables of fields')
  for size in 0 100 65536; do spoken -c $size --encoder-header-table-size=$size -m 20 "$url/version"; answers 200 20; in_order; done ;;
'many fields in CONTINUATION')
  spoken --continuation "$url/version"; answers 200 1; in_order ;;
'gzip')
  object one 500000; spoken -d "$work/one" -H "$json" "$(maps)"; nghttp -H 'accept-encoding: identity' "$(maps)" >"$work/whole"
  nghttp "$(maps)" | cmp - "$work/whole"; spoken "$(maps)"; has "$(cat "$work/spoken")" 'content-encoding: gzip'; in_order ;;
'a watch of 300 events')
  nghttp "$(maps)?watch=1&timeoutSeconds=8" >"$work/watched" & watching=$!
  object one 1000; i=0; while [ $i -lt 3 ]; do spoken -n -m 100 -d "$work/one" -H "$json" "$(maps)"; answers 201 100; i=$((i + 1)); done
  lines "$work/watched" '"ADDED"' 300; wait $watching; is "$(grep -c '"ADDED"' "$work/watched")" 300 ;;
'SIGTERM with 50 watches')
  nghttp -v -m 50 "$(maps)?watch=1&allowWatchBookmarks=1" >"$work/spoken" 2>&1 & watching=$!
  lines "$work/spoken" ':status: 200' 50; kill -TERM "$SERVER_PID"; wait $watching || fail "nghttp ended with $?"
  is "$(grep -c 'recv RST_STREAM' "$work/spoken")" 0; has "$(grep -A 1 'recv GOAWAY' "$work/spoken")" 'error_code=NO_ERROR(0x00)' ;;
*) fail "no such operation: $1" ;;
esac
}

# Every request is answered, in 2xx.
load() {
  count=$1; shift
  command h2load -H "$own" -n "$count" "$@" >"$work/load" 2>&1 || fail "h2load ended with $?: $(tail -c 200 "$work/load")"
  has "$(cat "$work/load")" "$count done, $count succeeded, 0 failed, 0 errored, 0 timeout"
  has "$(cat "$work/load")" "status codes: $count 2xx, 0 3xx, 0 4xx, 0 5xx"
  has "$(cat "$work/load")" 'Application protocol: h2'
}
run_h2load() {
case $1 in
'20,000 requests, 10 connections of 100 streams')
  load 20000 -c 10 -m 100 "$url/version" ;;
'more streams than may be')
  load 5000 -c 5 -m 500 "$url/version" ;;
'200 connections')
  load 2000 -c 200 -m 5 "$url/readyz" ;;
'windows of 16 KiB')
  object one 1000000; load 12 -c 2 -m 3 -d "$work/one" -H "$json" "$(maps)"; load 30 -c 2 -m 5 -w 14 -W 14 "$(maps)" ;;
'windows of 1 KiB')
  object one 300000; load 3 -d "$work/one" -H "$json" "$(maps)"; load 50 -c 2 -m 25 -w 10 -W 10 "$(maps)" ;;
'large lists, windows of a connection alone')
  object one 1000000; load 4 -d "$work/one" -H "$json" "$(maps)"; load 60 -c 3 -m 20 -w 30 -W 14 "$(maps)"; load 60 -c 3 -m 20 -w 14 -W 30 "$(maps)" ;;
'1,000 objects created')
  object one 1000; load 1000 -c 10 -m 20 -d "$work/one" -H "$json" "$(maps)" ;;
'100 bodies of 1 MB')
  object one 1000000; load 100 -c 4 -m 10 -d "$work/one" -H "$json" "$(maps)" ;;
'tables of fields')
  load 1000 -c 2 -m 50 --header-table-size=0 --encoder-header-table-size=0 "$url/version"
  load 1000 -c 2 -m 50 --header-table-size=64k --encoder-header-table-size=64k "$url/version" ;;
'watches that end')
  load 200 -c 4 -m 50 "$(maps)?watch=1&timeoutSeconds=1" ;;
*) fail "no such operation: $1" ;;
esac
}

case $url in https:*) how=--http2 ;; *) how=--http2-prior-knowledge ;; esac
curl() { command curl -sS -f $how ${SERVER_CA:+--cacert "$SERVER_CA"} -H "$own" "$@"; }
run_curl() {
case $1 in
'get, create, patch, delete')
  is "$(curl -o /dev/null -w '%{http_version} %{http_code}' "$url/version")" '2 200'
  has "$(curl -H "$json" -d '{"metadata":{"name":"a"},"data":{"k":"0"}}' "$(maps)")" '"name"'
  has "$(curl -X PATCH -H 'content-type: application/merge-patch+json' -d '{"data":{"k":"changed"}}' "$(maps)/a")" changed
  has "$(curl "$(maps)/a")" changed; curl -X DELETE "$(maps)/a" >/dev/null
  is "$(command curl -s $how ${SERVER_CA:+--cacert "$SERVER_CA"} -H "$own" -o /dev/null -w '%{http_code}' "$(maps)/a")" 404 ;;
'HTTP/1.1 that offers an upgrade')
  # Over TLS there is none; in clear the offer is ignored.
  is "$(curl --http1.1 -o /dev/null -w '%{http_version}' "$url/version")" 1.1
  case $url in http:*) is "$(command curl -sS -f --http2 -H "$own" -o /dev/null -w '%{http_version} %{http_code}' "$url/version")" '1.1 200' ;; esac ;;
'12 MB')
  object one 1000000; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do curl -H "$json" -d "@$work/one" -o /dev/null "$(maps)"; done
  curl "$(maps)" >"$work/whole"; [ "$(wc -c <"$work/whole")" -gt 12000000 ] || fail "$(wc -c <"$work/whole") bytes"
  curl --http1.1 "$(maps)" | cmp - "$work/whole"; curl --compressed "$(maps)" | cmp - "$work/whole"
  curl --limit-rate 6M "$(maps)" | cmp - "$work/whole" ;;
'1 MB up, with and without Expect')
  object one 1000000; for expect in 'expect:' 'expect: 100-continue'; do
    is "$(curl -H "$json" -H "$expect" --data-binary "@$work/one" -o /dev/null -w '%{http_code}' "$(maps)")" 201
  done
  is "$(curl -X POST -H "$json" -T - -o /dev/null -w '%{http_code}' "$(maps)" <"$work/one")" 201 ;;
'300 requests in parallel on a connection')
  curl -Z --parallel-max 50 -o /dev/null -w '%{http_version} %{http_code} %{num_connects}\n' "$url/version?[1-300]" >"$work/codes" 2>/dev/null
  is "$(grep -c '^2 200 ' "$work/codes")" 300; is "$(grep -c ' 1$' "$work/codes")" 1 ;;
'40 watches on a connection')
  # All of them in one file, by pieces: each event is counted once for each watch.
  curl -Z --parallel-max 50 -N -o "$work/watch_#1" "$(maps)?watch=1&timeoutSeconds=6&of=[1-40]" 2>/dev/null & watching=$!
  sleep 1; for i in 1 2 3 4 5 6 7 8 9 10; do curl -H "$json" -d '{"metadata":{"generateName":"g-"}}' -o /dev/null "$(maps)"; done
  wait $watching || fail "curl ended with $?"; is "$(cat "$work"/watch_* | grep -c '"ADDED"')" 400 ;;
'fields of 7 and 40 KB')
  is "$(curl -o /dev/null -w '%{http_code}' -H "x-long: $(digits 7000)" "$url/version")" 200
  long=$(command curl -sS $how ${SERVER_CA:+--cacert "$SERVER_CA"} -H "$own" -o /dev/null -w '%{http_code}' -H "x-a: $(digits 40000)" "$url/version")
  is "$long" 431 ;;
'SIGTERM with a watch')
  curl -N "$(maps)?watch=1&allowWatchBookmarks=1" >"$work/watched" & watching=$!
  sleep 1; curl -H "$json" -d '{"metadata":{"name":"last"}}' -o /dev/null "$(maps)"; lines "$work/watched" '"last"' 1
  kill -TERM "$SERVER_PID"; wait $watching || fail "curl ended with $?" ;;
*) fail "no such operation: $1" ;;
esac
}

if [ $# -ge 3 ]; then
  ns=$(echo "$program-$3" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' - | sed 's/-*$//')
  work=$(mktemp -d) watching=
  trap 'if [ -n "$watching" ]; then kill "$watching" 2>/dev/null || true; fi; rm -rf "$work"' EXIT
  "run_$program" "$3"
  exit
fi

sed -n "/^run_$program()/,/^}/s/^'\(.*\)')\$/\1/p" "$0" | while IFS= read -r operation; do
  # Without TLS the second stream of a connection fails within curl 7.88, whatever the server.
  case $program:$url:$operation in curl:http:*'on a connection') continue ;; esac
  if why=$(timeout $limit sh "$0" "$program" "$url" "$operation" 2>&1 >/dev/null </dev/null); then
    printf '%s\tok\n' "$operation"
  else
    [ $? -ne 124 ] || why="not done in $limit s"
    printf '%s\tFAIL\t%s\n' "$operation" "$(printf '%s' "$why" | tr '\n\t' '  ' | cut -c1-300)"
  fi
done
