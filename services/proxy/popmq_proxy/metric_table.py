"""What a proxy's /metrics has. docs/metrics.md is made of this table."""

from popmq_common.metrics.metric import counter, defined, gauge, histogram

RPC = histogram(
    "popmq_rpc_seconds",
    "Time of a client's RPC, including the time that a receive waits",
    "method",
    rocketmq="rocketmq_rpc_latency",
)
RPC_STATUS = counter(
    "popmq_rpc_status", "RPCs by the status code of the public protocol", "method", "code"
)
RPCS_NOW = gauge("popmq_rpcs_in_progress", "RPCs under way", "method")
CLIENTS = gauge(
    "popmq_clients",
    "Clients that have sent something to this proxy lately",
    rocketmq="rocketmq_producer_connections, rocketmq_consumer_connections",
)
CONNECTIONS = gauge("popmq_connections", "Connections of clients; not with the front grpcio")
RECEIVED_BYTES = gauge(
    "popmq_received_bytes",
    "Bytes held of requests that are incomplete or large; not with the front grpcio",
)
ARRIVING = gauge(
    "popmq_requests_arriving",
    "Requests that have not arrived completely; only with the front http2",
)
UNREAD_BYTES = gauge(
    "popmq_unread_bytes",
    "Bytes held of answers that clients have not read; only with the front http2",
)
LINK_UP = gauge(
    "popmq_link_up",
    "1: connected to this broker; 0: the last attempt failed, or the connection broke",
    "broker",
)
LINK_SILENT = gauge(
    "popmq_link_silent",
    "1: connected to this broker, but it does not answer; other brokers get what they can do",
    "broker",
)
LINK_CALLS = gauge("popmq_link_out_calls", "Calls to this broker under way", "broker")
ROUTES = gauge("popmq_routes", "Topics whose routes are remembered")
NAMESERVERS_LOST = gauge(
    "popmq_nameservers_lost", "1: no nameserver answers, and the last routes are used"
)
REFUSALS = counter("popmq_access_refused", "Requests refused by authentication or authorization")
ACCESS_VERSION = gauge(
    "popmq_access_version", "Version of the table of users and policies in force; 0: there is none"
)

ALL = defined(vars())
