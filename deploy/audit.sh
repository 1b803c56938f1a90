#!/bin/sh
# Audit every broker: audit DATA_DIR...; the last directory's name is the broker's.
# Snapshots and tables stay in the working directory, one folder per broker, and each audit goes on
# from the one before; what the broker has deleted is forgotten. Never two at once.
# Exit code: 0 when all PASS, 1 when one is FAIL, else that of the last which could not be judged.
set -u
test $# -gt 0 || { echo 'audit: say which data directories' >&2; exit 2; }
exec 9>audit.lock
flock -n 9 || { echo 'audit: another one is under way here' >&2; exit 75; }
rm -rf "${SPARK_LOCAL_DIRS:?}"
result=0
for data_dir in "$@"; do
    broker=$(basename "$data_dir")
    snapshot=$broker/snapshots/$broker-$(date -u +%Y%m%dT%H%M%SZ)
    mkdir -p "$broker/snapshots" &&
        popmq-pipelines export --data-dir "$data_dir" --out "$snapshot" &&
        popmq-pipelines backfill --snapshots "$broker/snapshots" --out "$broker/report" \
            --html "$broker/report.html" --markdown "$broker/report.md" \
            --prometheus "$broker.prom"
    verdict=$?
    test $verdict -eq 0 || test $result -eq 1 || result=$verdict
    test -e "$snapshot/manifest.json" || continue
    popmq-pipelines compact --out "$broker/report" --snapshot "$snapshot"
    # The tables have links to what they still need of the older snapshots.
    find "$broker/snapshots" -mindepth 1 -maxdepth 1 ! -name "$(basename "$snapshot")" -exec rm -rf {} +
done
exit $result
