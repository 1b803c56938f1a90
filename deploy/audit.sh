#!/bin/sh
# Audit every broker: audit DATA_DIR...; the last directory's name is the broker's.
# Each one's snapshot and findings replace those of its audit before, in the working directory.
# Exit code: 0 when all PASS, 1 when one is FAIL, else that of the last which could not be judged.
set -u
test $# -gt 0 || { echo 'audit: say which data directories' >&2; exit 2; }
rm -rf "${SPARK_LOCAL_DIRS:?}"
result=0
for data_dir in "$@"; do
    broker=$(basename "$data_dir")
    snapshot=$broker/$broker-$(date -u +%Y%m%dT%H%M%SZ)
    rm -rf "$broker"
    mkdir "$broker" &&
        python -m popmq_pipelines export --data-dir "$data_dir" --out "$snapshot" &&
        python -m popmq_pipelines reconcile --snapshot "$snapshot" --out "$broker/report" \
            --html "$broker/report.html" --markdown "$broker/report.md"
    verdict=$?
    test $verdict -eq 0 || test $result -eq 1 || result=$verdict
done
exit $result
