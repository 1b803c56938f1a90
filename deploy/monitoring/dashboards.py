"""Grafana's dashboards, written from the tables below.

python deploy/monitoring/dashboards.py        # writes grafana/dashboards/*.json
python deploy/monitoring/dashboards.py check  # exit 1 when they are not what it would write
"""

import json
import sys
from pathlib import Path

from grafana_json import Dashboard, Panel, document
from replica_board import REPLICAS

FOLDER = Path(__file__).parent / "grafana/dashboards"
GROUP = 'consumer_group=~"$group",topic=~"$topic"'
_GROUPS = (
    ("group", "label_values(popmq_consumer_stored_messages, consumer_group)"),
    ("topic", "label_values(popmq_consumer_stored_messages, topic)"),
)


def _quantiles(metric: str, labels: str = "", by: str = "") -> dict[str, str]:
    """p50 and p99 of a histogram."""
    legend = f"{{{{{by}}}}} " if by else ""
    keys = f"{by}, le" if by else "le"
    buckets = _rate(f"{metric}_bucket", labels, keys)
    return {
        f"{legend}p{quantile * 100:g}": f"histogram_quantile({quantile}, {buckets})"
        for quantile in (0.5, 0.99)
    }


def _rate(counter: str, labels: str = "", by: str = "") -> str:
    """A second, over the last minute, of all brokers and proxies together."""
    sum_by = f"sum by ({by}) " if by else "sum"
    return f"{sum_by}(rate({counter}{{{labels}}}[1m]))"


def _audit_panel() -> Panel:
    """What the last audit of each broker said, from the file that it leaves for a collector."""
    return Panel(
        "Audit: the verdict that holds, and findings",
        "short",
        {
            "{{broker}} {{verdict}}": "popmq_audit_verdict == 1",
            "{{broker}} {{kind}}": "sum by (broker, kind) (popmq_audit_findings)",
        },
        "1 beside a verdict: it is the one that holds. docs/audit.md tells what the kinds mean.",
        kind="stat",
    )


OVERVIEW = Dashboard(
    "overview",
    "PopMQ: overview",
    (
        Panel(
            "Services that answer",
            "short",
            {"{{service}}": 'sum by (service) (up{job="popmq"})'},
            kind="stat",
        ),
        Panel(
            "Messages in no state",
            "short",
            {"unaccounted": "sum(abs(group:popmq_consumer_unaccounted_messages:sum))"},
            "Neither settled, ready, leased, blocked nor expired. Anything but 0 is a bug.",
            kind="stat",
        ),
        Panel(
            "Stored and handed out",
            "cps",
            {
                "stored": _rate("popmq_messages_in_total"),
                "handed out": _rate("popmq_messages_out_total"),
                "acked": _rate("popmq_acks_total", 'outcome="done"'),
            },
        ),
        Panel(
            "Where messages are",
            "short",
            {
                "ready": "sum(popmq_consumer_ready_messages)",
                "leased": "sum(popmq_consumer_inflight_messages)",
                "given back": "sum(popmq_consumer_delayed_messages)",
                "blocked": "sum(popmq_consumer_blocked_messages)",
                "delayed": "sum(popmq_timer_messages)",
                "half": "sum(popmq_half_messages)",
                "dead": "sum(popmq_dead_letter_messages)",
            },
        ),
        Panel(
            "Longest lags",
            "short",
            {
                "{{consumer_group}} {{topic}}": "topk(10, group:popmq_consumer_lag_messages:sum)",
            },
        ),
        Panel(
            "Sends, time of an answer", "s", _quantiles("popmq_rpc_seconds", 'method="SendMessage"')
        ),
        Panel(
            "Calls that fail",
            "percentunit",
            {"{{instance}}": "proxy:popmq_rpc_failed:ratio5m"},
            "Codes from 50000 on, without NOT_IMPLEMENTED.",
        ),
        Panel(
            "Processor",
            "cores",
            {
                "{{service}} {{instance}}": 'rate(process_cpu_seconds_total{job="popmq"}[1m])',
            },
        ),
        Panel(
            "Memory",
            "bytes",
            {
                "{{service}} {{instance}}": 'process_resident_memory_bytes{job="popmq"}',
            },
        ),
        Panel("Disk in use", "percentunit", {"{{instance}}": "popmq_disk_used_ratio"}),
        _audit_panel(),
        Panel(
            "Alerts that fire",
            "short",
            {"{{alertname}}": 'sum by (alertname) (ALERTS{alertstate="firing"})'},
            "docs/operations.md has for each what it means and what to do.",
        ),
    ),
)


GROUP_BOARD = Dashboard(
    "group",
    "PopMQ: a group",
    (
        Panel(
            "What it is not done with",
            "short",
            {
                name: f"sum(popmq_consumer_{metric}_messages{{{GROUP}}})"
                for name, metric in (
                    ("ready", "ready"),
                    ("leased", "inflight"),
                    ("given back", "delayed"),
                    ("blocked", "blocked"),
                )
            },
        ),
        Panel(
            "Time to catch up",
            "s",
            {
                "{{consumer_group}} {{topic}}": "group:popmq_consumer_lag_seconds:estimate{"
                + GROUP
                + "}"
            },
            "Lag divided by the acks of the last five minutes.",
        ),
        Panel(
            "Handed out and acked",
            "cps",
            {
                "handed out": f"sum(group:popmq_messages_out:rate1m{{{GROUP}}})",
                "acked": f"sum(group:popmq_messages_acked:rate1m{{{GROUP}}})",
            },
        ),
        Panel(
            "Acks that found no lease",
            "cps",
            {"{{outcome}}": _rate("popmq_acks_total", f'{GROUP},outcome!="done"', "outcome")},
            "expired: the handler took longer than the invisible time.",
        ),
        Panel(
            "Given back or up",
            "cps",
            {
                "{{kind}}": _rate("popmq_nacks_total", GROUP, "kind"),
                "revived": _rate("popmq_revived_messages_total", GROUP),
            },
        ),
        Panel(
            "Dead letters",
            "short",
            {
                "{{consumer_group}}": "sum by (consumer_group) "
                '(popmq_dead_letter_messages{consumer_group=~"$group"})',
            },
        ),
        Panel(
            "Leases renewed",
            "cps",
            {
                "{{consumer_group}}": _rate("popmq_renewed_leases_total", GROUP, "consumer_group"),
            },
        ),
        Panel(
            "Expired before they were seen",
            "short",
            {
                "{{consumer_group}} {{topic}}": "sum by (consumer_group, topic) "
                f"(popmq_consumer_expired_messages{{{GROUP}}})",
            },
        ),
    ),
    _GROUPS,
)

STORE = Dashboard(
    "store",
    "PopMQ: a broker's store",
    (
        Panel("fdatasync", "s", _quantiles("popmq_fsync_seconds")),
        Panel("Records that share an fdatasync", "short", _quantiles("popmq_fsync_records")),
        Panel(
            "Calls of the broker",
            "s",
            _quantiles("popmq_call_seconds", 'call!="watch"', by="call"),
            "A watch waits for messages and nothing else. A pop waits too, where none is there.",
        ),
        Panel("Not yet on disk", "bytes", {"{{instance}}": "popmq_storage_flush_behind_bytes"}),
        Panel("CommitLog", "bytes", {"{{instance}}": "popmq_storage_size_bytes"}),
        Panel(
            "Written to the CommitLog",
            "Bps",
            {"{{instance}}": _rate("popmq_storage_appended_bytes_total", by="instance")},
            "Records of clients, the journal of leases, and copies.",
        ),
        Panel("Not yet in the index", "bytes", {"{{instance}}": "popmq_index_behind_bytes"}),
        Panel(
            "Age of the oldest message",
            "s",
            {
                "{{instance}}": "popmq_storage_oldest_message_age_seconds",
            },
        ),
        Panel(
            "Files deleted",
            "short",
            {
                "{{instance}} {{reason}}": "increase(popmq_storage_deleted_files_total[1h])",
            },
        ),
        Panel(
            "What keeps the oldest file",
            "short",
            {
                "{{instance}} {{needed_by}}": "popmq_storage_file_kept",
            },
        ),
        Panel(
            "Late by",
            "s",
            {
                "revival {{instance}}": "popmq_revive_latency_seconds",
                "delayed {{instance}}": "popmq_timer_lag_seconds",
            },
        ),
        Panel(
            "Waiting",
            "short",
            {
                "leases {{instance}}": "popmq_leases",
                "polls {{instance}}": "popmq_waiting_polls",
                "delayed {{instance}}": "popmq_timer_messages",
                "due leases {{instance}}": "popmq_revive_backlog_messages",
            },
        ),
        Panel(
            "Pop buffer, grants",
            "cps",
            {
                "merged": _rate("popmq_pop_buffer_merged_total"),
                "stored": _rate("popmq_pop_buffer_stored_total"),
                "bypassed": _rate("popmq_pop_buffer_bypassed_total"),
            },
        ),
        Panel(
            "Age of the oldest grant in the pop buffer",
            "s",
            {
                "{{instance}}": "popmq_pop_buffer_age_seconds",
            },
        ),
    ),
)

PROXY = Dashboard(
    "proxy",
    "PopMQ: proxies and nameservers",
    (
        Panel("Calls", "cps", {"{{method}}": _rate("popmq_rpc_seconds_count", by="method")}),
        Panel("Under way", "short", {"{{method}}": "sum by (method) (popmq_rpcs_in_progress)"}),
        Panel("Time of a call", "s", {"{{method}} p99": "method:popmq_rpc_seconds:p99"}),
        Panel(
            "Status codes other than OK",
            "cps",
            {
                "{{method}} {{code}}": _rate(
                    "popmq_rpc_status_total", 'code!="20000"', "method, code"
                ),
            },
        ),
        Panel(
            "Clients",
            "short",
            {
                "clients {{instance}}": "popmq_clients",
                "connections {{instance}}": "popmq_connections",
            },
        ),
        Panel(
            "Brokers that a proxy reaches",
            "short",
            {
                "{{instance}}": "sum by (instance) (popmq_link_up)",
                "{{instance}} without an answer": "sum by (instance) (popmq_link_silent)",
            },
        ),
        Panel(
            "Calls of proxies to brokers, under way",
            "short",
            {"{{instance}} {{broker}}": "popmq_link_out_calls"},
        ),
        Panel("Requests half received", "bytes", {"{{instance}}": "popmq_received_bytes"}),
        Panel("Routes remembered", "short", {"{{instance}}": "popmq_routes"}),
        Panel(
            "Open files and connections",
            "short",
            {
                "{{instance}}": 'process_open_fds{service="proxy"}',
            },
        ),
        Panel("Brokers a nameserver knows", "short", {"{{instance}}": "popmq_nameserver_brokers"}),
        Panel(
            "Calls of the nameservers",
            "cps",
            {
                "{{call}}": _rate("popmq_nameserver_calls_total", by="call"),
            },
        ),
    ),
)

DASHBOARDS = (OVERVIEW, GROUP_BOARD, STORE, PROXY, REPLICAS)


def written() -> dict[Path, str]:
    """What the files hold."""
    return {
        FOLDER / f"{board.name}.json": json.dumps(document(board), indent=1) + "\n"
        for board in DASHBOARDS
    }


def main(words: list[str]) -> int:
    for path, text in written().items():
        if words == ["check"]:
            if not path.is_file() or path.read_text() != text:
                print(f"{path} is stale: make dashboards", file=sys.stderr)
                return 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
