#!/bin/sh
# The link's secret, for nameservers, brokers and proxies: POPMQ_LINK_SECRET, or what was made at the first start.
set -eu
umask 077
file=/secret/link
if [ -n "${POPMQ_LINK_SECRET:-}" ]; then
    printf '%s\n' "$POPMQ_LINK_SECRET" > "$file.new"
elif ! [ -s "$file" ]; then
    head -c 32 /dev/urandom | base64 > "$file.new"
else
    exit 0
fi
mv "$file.new" "$file"
