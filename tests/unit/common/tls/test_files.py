"""What cannot be used is told at the start, with what to do about it."""

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from harness.authority import HOUR, Authority
from harness.certificates import Certified

from popmq_common.process.config import ConfigError
from popmq_common.tls.contexts import ClientAuth, ServerPolicy, client_context, server_context
from popmq_common.tls.files import TlsFiles

ANYONE = ServerPolicy()


def files(made: Certified, authority: Path | None = None) -> TlsFiles:
    return TlsFiles(
        setting="POPMQ_X_TLS", certificate=made.certificate, key=made.key, authority=authority
    )


def refused(files: TlsFiles, says: str, policy: ServerPolicy = ANYONE) -> None:
    with pytest.raises(ConfigError, match=says):
        server_context(files, policy)


def test_right_ones_are_used(authority: Authority) -> None:
    made = authority.signed("right")
    server_context(files(made), ANYONE)
    server_context(files(made, authority.pem), ServerPolicy(client_auth=ClientAuth.REQUIRED))
    client_context(files(made, authority.pem))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o610, 0o602])
def test_a_key_that_others_can_read_is_refused(authority: Authority, mode: int) -> None:
    made = authority.signed(f"mode-{mode}")
    made.key.chmod(mode)
    refused(files(made), rf"\(mode {mode:04o}\): chmod 600 .*mode-{mode}\.key")


def test_a_key_of_root_may_be_read_by_the_services_group(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So Kubernetes mounts a secret for a process that is not root."""
    made = authority.signed("mounted")
    made.key.chmod(0o440)
    refused(files(made), "chmod 600")
    monkeypatch.setattr("popmq_common.tls.files.os.geteuid", lambda: 10_001)
    monkeypatch.setattr("popmq_common.tls.files._owner", lambda found: 0)
    server_context(files(made), ANYONE)
    made.key.chmod(0o444)
    refused(files(made), "chmod 600")


def test_one_that_is_expired_or_not_valid_yet_is_refused(authority: Authority) -> None:
    past = authority.signed("expired", ends=-HOUR)
    refused(files(past), r"expired\.pem expired on 2\d{3}-.* UTC")
    later = authority.signed("later", begins=HOUR, ends=timedelta(hours=2))
    refused(files(later), r"later\.pem is valid from .* on: check this machine's clock")


def test_one_that_is_missing_is_named(authority: Authority, tmp_path: Path) -> None:
    made = authority.signed("there")
    gone = tmp_path / "gone"
    refused(files(Certified(made.certificate, gone)), "gone cannot be read: No such file")
    refused(files(Certified(gone, made.key)), "gone cannot be read: No such file")
    with_authority = ServerPolicy(client_auth=ClientAuth.OPTIONAL)
    refused(files(made, gone), "gone cannot be read: No such file", with_authority)


def test_half_a_pair_is_told_by_its_settings(authority: Authority) -> None:
    half = TlsFiles(setting="POPMQ_X_TLS", certificate=authority.pem)
    refused(half, "POPMQ_X_TLS_CERT and POPMQ_X_TLS_KEY belong together")


def test_a_key_of_another_certificate_is_told(authority: Authority) -> None:
    one, other = authority.signed("one"), authority.signed("other")
    refused(files(Certified(one.certificate, other.key)), r"other\.key is not that of .*one\.pem")


def test_a_key_with_a_password_asks_nobody(authority: Authority) -> None:
    made = authority.signed("locked")
    locked = made.key.with_suffix(".locked")
    command = ["openssl", "pkey", "-in", str(made.key), "-aes256", "-passout", "pass:x"]
    subprocess.run([*command, "-out", str(locked)], check=True)
    locked.chmod(0o600)
    refused(files(Certified(made.certificate, locked)), "is encrypted; decrypt it: openssl pkey")


def test_what_is_no_pem_is_told(authority: Authority, tmp_path: Path) -> None:
    made = authority.signed("fine")
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("not PEM")
    wrong.chmod(0o600)
    no_pem = r"wrong\.pem cannot be used: it holds no certificate"
    refused(files(Certified(wrong, made.key)), no_pem)
    refused(files(Certified(made.certificate, wrong)), r"its key .*wrong\.pem cannot be used")
    with pytest.raises(ConfigError, match=r"authority .*wrong\.pem cannot be used"):
        client_context(TlsFiles(setting="POPMQ_X_TLS", authority=wrong))


def test_ciphers_that_there_are_not_are_told(authority: Authority) -> None:
    policy = ServerPolicy(ciphers="NO-SUCH-CIPHER")
    refused(files(authority.signed("c")), "POPMQ_X_TLS_CIPHERS='NO-SUCH-CIPHER'", policy)
