"""Calls of popmq.admin.v1, in a client's namespace, with its errors."""

from typing import Any, Final

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq.connection.connection import DENIED, NO_ANSWER, Connection
from popmq.errors import RefusedByServer, error_of

TIMEOUT_S: Final = 10.0
"""Every broker is asked, so it may take longer than a send."""
_CODES: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: v2.BAD_REQUEST,
    grpc.StatusCode.RESOURCE_EXHAUSTED: v2.PRECONDITION_FAILED,
    grpc.StatusCode.UNIMPLEMENTED: v2.NOT_IMPLEMENTED,
}


class AdminCalls:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._prefix = f"{connection.namespace}%" if connection.namespace else ""

    def _stored(self, name: str) -> str:
        """As the server names it."""
        return f"{self._prefix}{name}"

    async def _ask(
        self, rpc: str, request: Any, not_found: int, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """`not_found`: the code of what NOT_FOUND means here."""
        connection = self._connection
        method = getattr(connection.admin, rpc)

        async def ask() -> Any:
            try:
                return await method(
                    request, timeout=timeout_s, metadata=connection.admin_metadata()
                )
            except grpc.aio.AioRpcError as failed:
                if failed.code() in NO_ANSWER or failed.code() in DENIED:
                    raise
                raise _refused(failed, rpc, not_found, connection.endpoint) from failed

        return await connection.retrying(ask, asked=rpc)


def _refused(
    failed: grpc.aio.AioRpcError, rpc: str, not_found: int, endpoint: str
) -> RefusedByServer:
    text = failed.details() or failed.code().name
    if failed.code() is grpc.StatusCode.UNIMPLEMENTED:
        text = f"{endpoint} does not know {rpc}: it is no PopMQ, or an older one"
    if failed.code() is grpc.StatusCode.NOT_FOUND:
        return error_of(v2.Status(code=v2.Code.ValueType(not_found), message=text))
    code = _CODES.get(failed.code(), v2.INTERNAL_SERVER_ERROR)
    return error_of(v2.Status(code=code, message=text))
