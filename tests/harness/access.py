"""Signed requests to proxies that ask who sends them."""

import hmac
from hashlib import sha1
from typing import Any

from harness.proxy import ProxyDriver

from popmq_admin.v1 import admin_pb2 as admin
from popmq_proxy.front.rpcs import rpcs
from popmq_proxy.metrics import ProxyMetrics
from popmq_proxy.rpc.shared.context import CallContext

DATE = b"20261123T101112Z"


def signature(user: str, key: str, date: bytes = DATE) -> tuple[bytes, bytes]:
    """(authorization, x-mq-date-time)"""
    digest = hmac.new(key.encode(), date, sha1).hexdigest()
    head = f"MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time"
    return f"{head}, Signature={digest}".encode(), date


def context(
    user: str, key: str, *, client_id: str = "client", address: str = "192.0.2.7"
) -> CallContext:
    return CallContext(
        {"x-mq-client-id": client_id}, f"{address}:4711", None, signature=signature(user, key)
    )


class GuardedProxy(ProxyDriver):
    """A proxy with authentication and authorization; every call passes the guard."""

    def __init__(self, *engines: Any, **settings: Any) -> None:
        switches = {"authentication": True, "authorization": True, **settings}
        super().__init__(*engines, **switches)
        table = rpcs(self.methods, ProxyMetrics(self.upstream.sessions))
        self._handlers = {rpc.name: rpc.handler for rpc in table}

    def ask(self, ctx: CallContext, name: str, request: Any) -> Any:
        """Raises what the guard refuses of the admin service; messaging has a status."""
        return self.run(self._handlers[name](ctx, request))

    def refresh(self) -> None:
        self.run(self.methods.access.refresh())


def allow(proxy: GuardedProxy, ctx: CallContext, user: str, *entries: tuple[str, str]) -> None:
    """`entries`: (resource, actions)."""
    request = admin.PutAclRequest(
        subject=f"User:{user}",
        entries=[
            admin.AclEntry(resource=resource, actions=actions.split(","), decision="Allow")
            for resource, actions in entries
        ],
    )
    proxy.ask(ctx, "PutAcl", request)
