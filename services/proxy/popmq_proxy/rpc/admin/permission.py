"""Who may change topics, groups and offsets: whoever shows the admin secret, when there is one.

    x-popmq-admin-secret: SECRET

Looking needs no secret. docs/decisions/0008-admin-secret.md tells why it is this and no more.
"""

import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from popmq_common.errors import AdminSecretMissing, AdminSecretWrong
from popmq_common.process.config import ConfigError
from popmq_proxy.rpc.shared.context import CallContext

CHANGES: Final = frozenset(
    {
        "CreateTopic",
        "UpdateTopic",
        "SpreadTopics",
        "DeleteTopic",
        "CreateGroup",
        "UpdateGroup",
        "DeleteGroup",
        "RedriveDeadLetters",
        "Redrive",
        "PurgeDeadLetters",
        "SettleTransaction",
        "ResetOffsets",
        "SetPermission",
        "AcceptBroker",
        "MovePrimary",
        "ExportSnapshot",
        "RebuildQueue",
        "CreateUser",
        "UpdateUser",
        "RotateUser",
        "DeleteUser",
        "PutAcl",
        "DeleteAcl",
        "ListUsers",
        "ListAcls",
        "TestAccess",
        "SetLimits",
        "ListLimits",
        "ListAuditLines",
    }
)
LOOKS: Final = frozenset(
    {
        "ListTopics",
        "DescribeTopic",
        "ListGroups",
        "DescribeGroup",
        "ListDeadLetters",
        "ListTransactions",
        "FindMessages",
        "GetMessage",
        "Explain",
        "Inspect",
        "ShowCluster",
        "ShowReplicas",
        "ShowSettings",
        "ListDelayed",
        "PeekMessages",
        "ExportStatus",
    }
)
"""What anybody may ask who reaches the port. A call in neither set needs the secret."""
SECRET_BYTES_MIN: Final = 16
_HEADER: Final = "x-popmq-admin-secret"
"""Not `authorization`: that is the signature of RocketMQ's clients."""

Handler = Callable[[CallContext, Any], Awaitable[Any]]


def read_secret(path: Path | None) -> bytes | None:
    """None: none is asked for. Raises `ConfigError`."""
    if path is None:
        return None
    try:
        secret = path.read_bytes().strip()
    except OSError as wrong:
        raise ConfigError(f"the admin secret cannot be read: {wrong}") from wrong
    if len(secret) < SECRET_BYTES_MIN:
        text = f"the admin secret in {path} has {len(secret)} bytes; take {SECRET_BYTES_MIN} or"
        raise ConfigError(f"{text} more: openssl rand -hex 32 > {path}")
    return secret


class PermissionHandler:
    def __init__(self, secret: bytes | None) -> None:
        self._secret = secret

    def guarding(self, call: str, handler: Handler) -> Handler:
        """`handler`, but refused to those who may not make this `call`."""
        if self._secret is None or call in LOOKS:
            return handler

        async def guarded(ctx: CallContext, request: Any) -> Any:
            self.check(ctx, call)
            return await handler(ctx, request)

        return guarded

    def check(self, ctx: CallContext, call: str) -> None:
        """Raises `AdminSecretMissing`, `AdminSecretWrong`."""
        if self._secret is None:
            return
        shown = ctx.metadata.get(_HEADER)
        if shown is None:
            raise AdminSecretMissing(call=call)
        if not hmac.compare_digest(shown.encode(), self._secret):
            raise AdminSecretWrong(call=call)
