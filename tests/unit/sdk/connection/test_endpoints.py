"""What may be written for an endpoint, and what is refused at once."""

from pathlib import Path

import pytest

from popmq import Client, Tls
from popmq.connection.endpoints import Endpoints


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", "localhost:8081"),
        ("localhost:9000", "localhost:9000"),
        ("http://localhost", "localhost:8081"),
        ("http://localhost:80/", "localhost:80"),
        ("127.0.0.1", "127.0.0.1:8081"),
        ("[::1]", "[::1]:8081"),
        ("[::1]:9000", "[::1]:9000"),
        (" a ; b:1 ;", "a:8081;b:1"),
        ("http://a;http://b:1", "a:8081;b:1"),
    ],
)
def test_without_tls(text: str, expected: str) -> None:
    found = Endpoints.of(text)
    assert (";".join(found.addresses), found.tls) == (expected, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://localhost", "localhost:8081"),
        ("https://localhost:443", "localhost:443"),
        ("https://a;https://[::1]:1", "a:8081;[::1]:1"),
    ],
)
def test_https_means_tls(text: str, expected: str) -> None:
    found = Endpoints.of(text)
    assert (";".join(found.addresses), found.tls) == (expected, Tls())


@pytest.mark.parametrize("text", ["localhost", "https://localhost"])
def test_tls_may_be_asked_for_beside_the_address(text: str) -> None:
    assert Endpoints.of(text, True).tls == Tls()
    own = Tls(ca=b"pem", server_name="queue.example")
    assert Endpoints.of(text, own).tls == own


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "host:port"),
        (" ; ", "host:port"),
        ("http://a;https://b", "all of them"),
        ("a;https://b", "all of them"),
        ("a,b", "';'"),
        ("ftp://a", "ftp"),
        ("a:port", "port"),
        ("a:0", "port"),
        ("a:65536", "port"),
        ("a:", "port"),
        (":8081", "host"),
        ("::1", "[::1]:8081"),
        ("a:1/path", "/path"),
    ],
)
def test_what_is_no_endpoint(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="endpoint") as refused:
        Endpoints.of(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(("text", "tls"), [("http://a", True), ("https://a", False)])
def test_scheme_and_tls_must_agree(text: str, tls: bool) -> None:
    with pytest.raises(ValueError, match=r"tls=(True|False)"):
        Client(text, tls=tls)


def test_certificates_from_files(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_bytes(name.encode())
    found = Tls.from_files(
        ca=tmp_path / "ca", certificate=str(tmp_path / "certificate"), key=tmp_path / "key"
    )
    assert found == Tls(ca=b"ca", certificate=b"certificate", key=b"key")


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ValueError, match="key"):
        Tls(certificate=b"pem")
