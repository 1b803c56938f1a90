"""The dashboard of brokers that have replicas; of others it is empty."""

from grafana_json import Dashboard, Panel

REPLICAS = Dashboard(
    "replicas",
    "PopMQ: replicas of brokers",
    (
        Panel(
            "Primary",
            "short",
            {"{{broker}} {{replica}}": "popmq_replica_primary == 1"},
            kind="stat",
        ),
        Panel(
            "In sync, and needed",
            "short",
            {
                "{{broker}} in sync": "max by (broker) (popmq_replicas_in_sync)",
                "{{broker}} needed": "max by (broker) (popmq_replicas_needed)",
            },
            "With fewer in sync than needed nothing is sent, received or acked.",
            kind="stat",
        ),
        Panel(
            "Followers behind",
            "bytes",
            {
                "{{broker}} {{replica}}": "max by (broker, replica) (popmq_replica_behind_bytes)",
            },
        ),
        Panel(
            "On disk and not committed",
            "bytes",
            {
                "{{broker}}": "max by (broker) (popmq_replica_log_end) "
                "- max by (broker) (popmq_replica_commit_point)",
            },
            "Answers wait until other replicas have it too.",
        ),
        Panel("The log's end", "bytes", {"{{instance}}": "popmq_replica_log_end"}),
        Panel(
            "Primaries begun",
            "short",
            {"{{broker}}": "max by (broker) (popmq_replica_epoch)"},
            "The epoch: it rises when a replica takes over, by two when one hands over.",
        ),
    ),
)
