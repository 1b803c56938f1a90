"""Envoy's configuration for one worker: HTTP/2 in, our application behind it, nothing between.

Clients with and without TLS share the port: the first byte tells them apart.

    public port ─┬─ plain ────────────────────────────────► HTTP ► application
                 └─ TLS ► decrypted, with the client's address in a PROXY header
                                         │                            ▲
    private port, loopback only  ◄───────┘── plain ───────────────────┘

The way round is needed because pyvoy makes an application of its own, with its own thread, for
every place that names it, and there must be one. Streams are never ended for being idle, for a
long poll is; dead connections are found by pings. What a client may take is bounded: connections,
streams, bytes in flight of one stream and of one connection.
"""

from dataclasses import dataclass
from typing import Any, Final

from popmq_common.units import MiB

STAT_PREFIX: Final = "popmq"
PRIVATE: Final = "decrypted"
STREAMS_MAX: Final = 16_384  # of one connection; a client parks one poll per topic and broker
STREAM_WINDOW_BYTES: Final = 1 * MiB
CONNECTION_WINDOW_BYTES: Final = 16 * MiB
BUFFER_BYTES: Final = 1 * MiB
HEADERS_KIB_MAX: Final = 60
FIRST_BYTE_S: Final = 15
"""A connection on which nothing comes for so long is closed; afterwards it may be silent."""
PING_EVERY_S: Final = 60
PING_ANSWER_S: Final = 20
_TYPE: Final = "type.googleapis.com/envoy.extensions"
_HCM: Final = f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoySettings:
    host: str
    port: int
    private_port: int
    """On the loopback, from where TLS connections go on decrypted."""
    admin_port: int
    connections_max: int
    key_pem: bytes
    certificate_pem: bytes


def bootstrap(settings: EnvoySettings, application: list[Any]) -> dict[str, Any]:
    """The whole configuration. `application` is pyvoy's list of HTTP filters."""
    public = {"start": settings.port, "end": settings.port + 1}
    listener = {
        "name": "clients",
        "address": _address(settings.host, settings.port),
        "additional_addresses": [{"address": _address("127.0.0.1", settings.private_port)}],
        "enable_reuse_port": True,
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "listener_filters": [
            {
                "name": "envoy.filters.listener.proxy_protocol",
                "filter_disabled": {"destination_port_range": public},
                "typed_config": {
                    "@type": f"{_TYPE}.filters.listener.proxy_protocol.v3.ProxyProtocol"
                },
            },
            {
                "name": "envoy.filters.listener.tls_inspector",
                "typed_config": {
                    "@type": f"{_TYPE}.filters.listener.tls_inspector.v3.TlsInspector"
                },
            },
        ],
        "listener_filters_timeout": f"{FIRST_BYTE_S}s",
        "filter_chains": [_decrypting(settings), {"filters": [_connections(application)]}],
    }
    return {
        "admin": {"address": _address("127.0.0.1", settings.admin_port)},
        "overload_manager": _connection_limit(settings.connections_max),
        "static_resources": {"listeners": [listener], "clusters": [_private_port(settings)]},
    }


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def _connections(application: list[Any]) -> dict[str, Any]:
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": _HCM,
            "stat_prefix": STAT_PREFIX,
            "codec_type": "AUTO",
            "generate_request_id": False,
            "stream_idle_timeout": "0s",
            "request_timeout": "0s",
            "max_request_headers_kb": HEADERS_KIB_MAX,
            "http2_protocol_options": {
                "max_concurrent_streams": STREAMS_MAX,
                "initial_stream_window_size": STREAM_WINDOW_BYTES,
                "initial_connection_window_size": CONNECTION_WINDOW_BYTES,
                "connection_keepalive": {
                    "interval": f"{PING_EVERY_S}s",
                    "timeout": f"{PING_ANSWER_S}s",
                },
            },
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"]}]},
            "http_filters": application,
        },
    }


def _decrypting(settings: EnvoySettings) -> dict[str, Any]:
    certificate = {
        "certificate_chain": {"inline_string": settings.certificate_pem.decode()},
        "private_key": {"inline_string": settings.key_pem.decode()},
    }
    return {
        "filter_chain_match": {"transport_protocol": "tls"},
        "transport_socket": {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": f"{_TYPE}.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": {
                    "tls_certificates": [certificate],
                    "alpn_protocols": ["h2", "http/1.1"],
                },
            },
        },
        "filters": [
            {
                "name": "envoy.filters.network.tcp_proxy",
                "typed_config": {
                    "@type": f"{_TYPE}.filters.network.tcp_proxy.v3.TcpProxy",
                    "stat_prefix": "popmq_tls",
                    "cluster": PRIVATE,
                    "idle_timeout": "0s",
                },
            }
        ],
    }


def _private_port(settings: EnvoySettings) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _address("127.0.0.1", settings.private_port)}}
    limit = {"max_connections": settings.connections_max, "max_pending_requests": 1024}
    proxy_protocol = f"{_TYPE}.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport"
    raw = f"{_TYPE}.transport_sockets.raw_buffer.v3.RawBuffer"
    return {
        "name": PRIVATE,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [limit]},
        "load_assignment": {
            "cluster_name": PRIVATE,
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
        "transport_socket": {
            "name": "envoy.transport_sockets.upstream_proxy_protocol",
            "typed_config": {
                "@type": proxy_protocol,
                "config": {"version": "V2"},
                "transport_socket": {
                    "name": "envoy.transport_sockets.raw_buffer",
                    "typed_config": {"@type": raw},
                },
            },
        },
    }


def _connection_limit(count: int) -> dict[str, Any]:
    monitor = f"{_TYPE}.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
    return {
        "resource_monitors": [
            {
                "name": "envoy.resource_monitors.global_downstream_max_connections",
                "typed_config": {"@type": monitor, "max_active_downstream_connections": count},
            }
        ]
    }
