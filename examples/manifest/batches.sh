#!/bin/sh
# Hashes the files below $1 in batches of 100 leases, until there is nothing left to claim.
set -eu

here=$(dirname "$0")
owner=$(redislease register manifest)
while :; do
    leases=$(redislease claim --owner "$owner" --limit 100 --jsonl) || {
        code=$?
        [ "$code" -eq 4 ] && exit 0 # nothing is ready
        exit "$code"
    }
    printf '%s\n' "$leases" | python3 "$here/hash_lines.py" "$1" | redislease complete --jsonl - >/dev/null || {
        code=$?
        [ "$code" -eq 3 ] || exit "$code" # a lost lease: its task comes again
    }
done
