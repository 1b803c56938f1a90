"""What a connection says when no try was answered."""

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from popmq.connection.connection import Connection
from popmq.errors import ServerUnreachable

UNTRUSTED = "ipv4:127.0.0.1:8081: Tls handshake failed: CERTIFICATE_VERIFY_FAILED: self signed"
REFUSED = "ipv6:[::1]:8081: Failed to connect to remote host: Connection refused"


@pytest.mark.parametrize("details", [[UNTRUSTED, REFUSED], [REFUSED, UNTRUSTED]])
async def test_a_certificate_that_is_not_trusted_is_told_whichever_address_came_last(
    details: list[str],
) -> None:
    """A name has several addresses, and gRPC tells of the last one that it tried."""
    connection = Connection(
        "https://localhost:8081", tls=None, namespace="", credentials=None, timeout_s=1
    )
    left = iter(details)

    async def attempt() -> None:
        raise AioRpcError(grpc.StatusCode.UNAVAILABLE, Metadata(), Metadata(), next(left), "")

    with pytest.raises(ServerUnreachable, match=r"self signed; .*Tls\.from_files\(ca="):
        await connection.retrying(attempt, attempts=2, asked="SendMessage")
