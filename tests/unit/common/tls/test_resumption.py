"""Does a client that comes again show its certificate again?"""

import ssl

import pytest
from harness.authority import Authority

from popmq_common.tls.contexts import ClientAuth, ServerPolicy, client_context, server_context
from popmq_common.tls.files import TlsFiles


@pytest.mark.parametrize("auth", [ClientAuth.OPTIONAL, ClientAuth.REQUIRED])
def test_no_ticket_lets_it_in_without(authority: Authority, auth: ClientAuth) -> None:
    assert not _tickets(authority, auth)


def test_who_shows_none_may_come_back_faster(authority: Authority) -> None:
    assert _tickets(authority, ClientAuth.NONE)


def _tickets(authority: Authority, auth: ClientAuth) -> bool:
    """Whether a server gives its client one."""
    made = authority.signed("either")
    files = TlsFiles(
        setting="POPMQ_X_TLS",
        certificate=made.certificate,
        key=made.key,
        authority=authority.pem,
    )
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(files, ServerPolicy(client_auth=auth)).wrap_bio(
        to_server, to_client, server_side=True
    )
    client = client_context(files).wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting = {server, client}
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.discard(end)
            except ssl.SSLWantReadError:
                continue
    server.write(b"x")
    assert client.read(1) == b"x"
    session = client.session
    return session is not None and session.has_ticket
