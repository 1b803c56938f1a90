#!/bin/sh
# The audit again and again: audit-every SECONDS DATA_DIR... One at a time, each SECONDS after the one before began.
set -u
every_s=$1
shift
while :; do
    next_s=$(($(date +%s) + every_s))
    audit "$@"
    echo "audit: exit code $?"
    pause_s=$((next_s - $(date +%s)))
    test $pause_s -le 0 || sleep $pause_s
done
