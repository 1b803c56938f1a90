"""What does a failed call tell whoever set TLS up?"""

from pathlib import Path

import pytest

from popmq_common.tls.files import TlsFiles
from popmq_common.tls.grpc_tls import _todo

CLOSED = [
    "Handshake read failed (Socket closed)",
    "Handshake read failed (recvmsg:Connection reset by peer (104))",
]


@pytest.mark.parametrize("text", CLOSED)
def test_a_handshake_that_is_cut_off_may_have_met_plaintext(text: str) -> None:
    files = TlsFiles(setting="POPMQ_X_TLS", authority=Path("ca.pem"))
    assert "POPMQ_X_TLS_CERT" in _todo(text, files)
    assert "or speak no TLS" in _todo(text, files)


@pytest.mark.parametrize("text", CLOSED)
def test_plaintext_that_is_cut_off_may_have_met_tls(text: str) -> None:
    assert "if it speaks TLS" in _todo(text, None)
