"""Apache Airflow 2 or 3 runs the audit of a broker: export, reconcile, compact, every ten minutes.

Put the file into Airflow's folder of DAGs; its workers need `pip install 'popmq[pipelines]'`, Java
17, the broker's data directory (read-only) and a directory for snapshots and tables. What was
missed needs no run of its own (`catchup=False`): a snapshot has everything since the last one.
"""

from datetime import UTC, datetime, timedelta

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # Airflow 2
    from airflow.operators.bash import BashOperator

DATA = "/var/lib/popmq/broker-a"
SNAPSHOTS = "/var/lib/popmq-audit/broker-a/snapshots"
OUT = "/var/lib/popmq-audit/broker-a/audit"

with DAG(
    dag_id="popmq_audit",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # two at once would write the same tables
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
) as dag:
    export = BashOperator(
        task_id="export",
        bash_command=(
            f"popmq-pipelines export --data-dir {DATA} --out {SNAPSHOTS}/{{{{ ts_nodash }}}}"
        ),
    )
    reconcile = BashOperator(
        task_id="reconcile",
        bash_command=(
            f"popmq-pipelines backfill --snapshots {SNAPSHOTS} --out {OUT} "
            f"--html {OUT}/report.html --prometheus {OUT}/popmq_audit.prom"
        ),
        retries=0,  # FAIL is an answer; asking again does not change it
    )
    compact = BashOperator(
        task_id="compact",
        bash_command=(
            f"popmq-pipelines compact --out {OUT} --snapshot {SNAPSHOTS}/{{{{ ts_nodash }}}}"
        ),
        trigger_rule="all_done",
    )
    export >> reconcile >> compact
