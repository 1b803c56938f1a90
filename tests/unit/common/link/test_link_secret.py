"""The link's secret: where it comes from, and what proves it."""

from pathlib import Path

import pytest

from popmq_common.link.link_secret import FILE_BYTES_MIN, SecretClaim, proof, proves, read
from popmq_common.process.config import ConfigError


def test_a_proof_is_of_its_secret_its_claim_and_all_its_parts_alone() -> None:
    shown = proof(b"secret", SecretClaim.PROXY, b"name", b"nonce")
    assert proves(shown, b"secret", SecretClaim.PROXY, b"name", b"nonce")
    assert not proves(shown, b"secreT", SecretClaim.PROXY, b"name", b"nonce")
    assert not proves(shown, b"secret", SecretClaim.BROKER, b"name", b"nonce")
    assert not proves(shown, b"secret", SecretClaim.PROXY, b"namen", b"once")
    assert not proves(shown, b"secret", SecretClaim.PROXY, b"name", b"nonce", b"")
    assert not proves(b"", b"secret", SecretClaim.PROXY, b"name", b"nonce")


def test_a_secret_is_read_from_a_variable_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"\n 0123456789abcdef \n")
    assert read("", None) == b""
    assert read("short", None) == b"short"
    assert read("", path) == b"0123456789abcdef"


@pytest.mark.parametrize("content", [b"", b" \n", b"x" * (FILE_BYTES_MIN - 1), None])
def test_a_file_that_cannot_be_one_is_told(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="secret"):
        read("", path)


def test_two_secrets_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="twice"):
        read("one", tmp_path / "other")
