"""For each alert what makes it fire, and what is close to it and leaves it silent. A second case of
one alert has a name behind a colon.

Series are written as promtool takes them: `0+2x5` is 0 2 4 … 10, a value a minute.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Series by selector; after `minutes` the alert stands, or does not."""

    fires: dict[str, str]
    silent: dict[str, str]
    minutes: int


_GROUP = 'consumer_group="g",topic="t",instance="b"'
_RPC = 'popmq_rpc_status_total{instance="p",method="SendMessage",code="%d"}'


def _standing(**counts: int) -> dict[str, str]:
    names = ("stored", "settled", "ready", "inflight", "delayed", "blocked", "expired")
    return {
        f"popmq_consumer_{name}_messages{{{_GROUP}}}": f"{counts.get(name, 0)}x10" for name in names
    }


def _buckets(name: str, labels: str, below: str, above_s: str) -> dict[str, str]:
    """A histogram whose every observation lies between two bounds, ten a minute."""
    return {
        f'{name}_bucket{{{labels},le="{below}"}}': "0x20",
        f'{name}_bucket{{{labels},le="{above_s}"}}': "0+10x20",
        f'{name}_bucket{{{labels},le="+Inf"}}': "0+10x20",
    }


_LINK = 'popmq_link_up{instance="p",broker="a"}'
_LOST = 'popmq_nameservers_lost{instance="p"}'
_BUILD = 'popmq_build_info{job="popmq",instance="%s",version="%s"}'
_SEND = 'instance="p",method="SendMessage"'
_READY = f"popmq_consumer_ready_messages{{{_GROUP}}}"
_LAG = f"popmq_consumer_lag_messages{{{_GROUP}}}"
_OUT = f"popmq_messages_out_total{{{_GROUP}}}"
_ACKED = f'popmq_acks_total{{{_GROUP},outcome="done"}}'
_OFTEN = 'popmq_handed_out_often_total{consumer_group="g",topic="t",instance="b"}'
_DEAD = 'popmq_send_to_dlq_messages_total{consumer_group="g",topic="t",instance="b"}'
_KEPT = 'popmq_dead_letter_messages{consumer_group="g",instance="b"}'
_EXPIRED = f"popmq_consumer_expired_messages{{{_GROUP}}}"
_GIVEN_UP = 'popmq_transactions_total{topic="t",outcome="given up",instance="b"}'
_COMMITTED = 'popmq_transactions_total{topic="t",outcome="committed",instance="b"}'
_FORCED = 'popmq_storage_deleted_files_total{reason="forced",instance="b"}'
_BY_AGE = 'popmq_storage_deleted_files_total{reason="age",instance="b"}'
_REPLACED = 'popmq_broker_replaced_peers{peer="%s",instance="a"}'
_DAMAGED = 'popmq_damaged_messages{topic="t",instance="b"}'
_UP = 'up{job="popmq",service="broker",instance="b"}'
_PROXY = 'up{job="popmq",service="proxy",instance="p-%d"}'

_PRIMARY = 'popmq_replica_primary{broker="b",replica="%s"}'
_IN_SYNC = 'popmq_replicas_in_sync{broker="b",instance="%s"}'
_NEEDED = 'popmq_replicas_needed{broker="b",instance="a1"}'
_BEHIND = 'popmq_replica_behind_bytes{broker="b",replica="a2",instance="a1"}'

_ACTIVE = 'haproxy_backend_active_servers{job="balancer",proxy="proxies",instance="h"}'
_SESSIONS = 'haproxy_frontend_%s_sessions{proxy="clients",instance="h"}'
_VERDICT = 'popmq_audit_verdict{broker="b",verdict="%s"}'
_RAN, _EVERY = 'popmq_audit_ran_seconds{broker="b"}', "popmq_audit_every_seconds"

CASES = {
    "ServiceDown": Case({_UP: "1 0x5"}, {_UP: "1x5"}, 3),
    "ServiceDown: the balancer": Case(
        {'up{job="balancer",service="balancer",instance="h"}': "1 0x5"},
        {'up{job="balancer",service="balancer",instance="h"}': "1x5"},
        3,
    ),
    "BalancerWithoutProxies": Case({_ACTIVE: "2 0x3"}, {_ACTIVE: "2 1x3"}, 2),
    "BalancerPassesOverProxies": Case(
        {_ACTIVE: "1x6", _PROXY % 1: "1x6", _PROXY % 2: "1x6"},
        {_ACTIVE: "1x6", _PROXY % 1: "1x6", _PROXY % 2: "0x6"},
        5,
    ),
    "BalancerFull": Case(
        {_SESSIONS % "current": "9x4", _SESSIONS % "limit": "10x4"},
        {_SESSIONS % "current": "8x4", _SESSIONS % "limit": "10x4"},
        3,
    ),
    "NotificationsFail": Case(
        {'alertmanager_notifications_failed_total{integration="webhook"}': "0 0 1 2"},
        {'alertmanager_notifications_failed_total{integration="webhook"}': "7x3"},
        3,
    ),
    "AuditFailed": Case({_VERDICT % "FAIL": "0 1"}, {_VERDICT % "INCOMPLETE": "0 1"}, 1),
    "AuditIncomplete": Case(
        {_VERDICT % "INCOMPLETE": "0 1x40"}, {_VERDICT % "INCOMPLETE": "0 1x20 0x20"}, 35
    ),
    "AuditLate": Case(
        {_RAN: "0x40", _EVERY: "600x40"}, {_RAN: "0x20 1200x20", _EVERY: "600x40"}, 35
    ),
    "AuditLate: by hand": Case({_RAN: "0x40", _EVERY: "60x40"}, {_RAN: "0x40"}, 35),
    "BrokersMissing": Case(
        {'popmq_nameserver_brokers{instance="n"}': "2 1x5"},
        {'popmq_nameserver_brokers{instance="n"}': "2x5"},
        5,
    ),
    "BrokerReplaced": Case({_REPLACED % "b": "_ 1 1"}, {_REPLACED % "b": "1 1 stale"}, 2),
    "ProxiesMissing": Case(
        {_PROXY % 1: "1x10", _PROXY % 2: "1x3 stale"},
        {_PROXY % 1: "1x10", _PROXY % 2: "1x10", _PROXY % 3: "_x3 1x7"},
        8,
    ),
    "BrokerUnreachable": Case({_LINK: "1 0x5"}, {_LINK: "0 1x5"}, 4),
    "NoPrimary": Case(
        {_PRIMARY % "a1": "1 0x5", _PRIMARY % "a2": "0x5"},
        {_PRIMARY % "a1": "1 0x5", _PRIMARY % "a2": "0 1x5"},
        3,
    ),
    "ReplicasTooFew": Case(
        {_IN_SYNC % "a1": "2 1x5", _NEEDED: "2x5"}, {_IN_SYNC % "a1": "3 2x5", _NEEDED: "2x5"}, 3
    ),
    "ReplicaMissing": Case(
        {_IN_SYNC % "a1": "3 2x9"},
        {_IN_SYNC % "a1": "3x2 stale", _IN_SYNC % "a2": "_x2 3x9"},
        8,
    ),
    "ReplicaBehind": Case({_BEHIND: "0 99000000x9"}, {_BEHIND: "99000000x2 0x9"}, 6),
    "NameserversLost": Case({_LOST: "0 1x5"}, {_LOST: "1 0x5"}, 4),
    "VersionsDiffer": Case(
        {_BUILD % ("p", "2"): "1x90", _BUILD % ("b", "1"): "1x90"},
        {_BUILD % ("p", "2"): "1x90", _BUILD % ("b", "2"): "1x90"},
        80,
    ),
    "RowsToldTogether": Case(
        {'popmq_metric_rows_together{kind="topic",instance="b"}': "0 9x9"},
        {'popmq_metric_rows_together{kind="topic",instance="b"}': "0x9"},
        8,
    ),
    "IndexStopped": Case(
        {'popmq_index_stopped{instance="b"}': "0 1"},
        {'popmq_index_stopped{instance="b"}': "0x2"},
        1,
    ),
    "ServerErrors": Case(
        {_RPC % 20000: "0+95x10", _RPC % 50001: "0+5x10"},
        {_RPC % 20000: "0+95x10", _RPC % 50101: "0+5x10", _RPC % 40000: "0+50x10"},
        9,
    ),
    "SendsSlow": Case(
        _buckets("popmq_rpc_seconds", _SEND, "1", "5"),
        _buckets("popmq_rpc_seconds", _SEND, "0.001", "0.5"),
        15,
    ),
    "MessagesUnaccounted": Case(
        _standing(stored=10, settled=4, ready=3, inflight=2),
        _standing(stored=11, settled=4, ready=2, inflight=2, delayed=1, blocked=1, expired=1),
        3,
    ),
    "GroupStuck": Case(
        {_READY: "5x20", _OUT: "7x20"},
        {_READY: "5x20", _OUT: "0+1x20"},
        15,
    ),
    "GroupFallsBehind": Case(
        {_LAG: "1000+60x40", _ACKED: "0+60x40"},
        {_LAG: "3000-60x40", _ACKED: "0+60x40"},
        35,
    ),
    "GivenBackOften": Case({_OFTEN: "0 0 1 1"}, {_OFTEN: "5x3"}, 3),
    "DeadLetters": Case({_DEAD: "0 0 1 1"}, {_DEAD: "5x3"}, 3),
    "DeadLetters: of a topic that the group had not been seen to consume": Case(
        {_DEAD: "_ _ 1 1", _KEPT: "0 0 1 1"}, {_DEAD: "_ _ 5 5", _KEPT: "5x3"}, 3
    ),
    "MessagesExpired": Case({_EXPIRED: "0 0 8 8"}, {_EXPIRED: "8x3"}, 3),
    "TransactionsGivenUp": Case({_GIVEN_UP: "0 0 1 1"}, {_COMMITTED: "0 5 9 9"}, 3),
    "DeliveryLate": Case(
        {'popmq_revive_latency_seconds{instance="b"}': "0 9x5"},
        {
            'popmq_revive_latency_seconds{instance="b"}': "0 4x5",
            'popmq_timer_lag_seconds{instance="b"}': "0 0.5x5",
        },
        5,
    ),
    "MessagesDamaged": Case({_DAMAGED: "_ 3 3"}, {_DAMAGED: "3 0 0"}, 2),
    "DiskFills": Case(
        {'popmq_disk_state{instance="b"}': "1x5"}, {'popmq_disk_state{instance="b"}': "0 1 0x4"}, 4
    ),
    "SendsRefused": Case(
        {'popmq_disk_state{instance="b"}': "0 2"}, {'popmq_disk_state{instance="b"}': "1x2"}, 1
    ),
    "NeededFilesDeleted": Case({_FORCED: "0 0 1 1"}, {_BY_AGE: "0 3 9 9"}, 3),
    "DiskSlow": Case(
        _buckets("popmq_fsync_seconds", 'instance="b"', "0.25", "1"),
        _buckets("popmq_fsync_seconds", 'instance="b"', "0.001", "0.01"),
        15,
    ),
    "AnswersNotOnDisk": Case(
        {'popmq_flush_sync{instance="b"}': "1x5", 'popmq_pop_buffer_durable{instance="b"}': "0x5"},
        {'popmq_flush_sync{instance="b"}': "1x5", 'popmq_pop_buffer_durable{instance="b"}': "1x5"},
        4,
    ),
}
