"""popmq tls: what it makes, for whom, and what it leaves alone."""

import json
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from popmq_cli.main import main

PEMS = ("ca", "clients-ca", "nameserver", "broker", "proxy", "operator")


def run(*words: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["tls", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("made") / "tls"
    done = run("init", folder, "--host", "broker-a,10.0.0.3", "--host", "*.example.org", "--json")
    return folder, json.loads(done.stdout)


Made = tuple[Path, dict[str, Any]]


def verified(folder: Path, name: str, authority: str, purpose: str) -> bool:
    """By OpenSSL's own program, strictly."""
    command = ["openssl", "verify", "-x509_strict", "-purpose", purpose]
    command += ["-CAfile", str(folder / f"{authority}.pem"), str(folder / f"{name}.pem")]
    return subprocess.run(command, capture_output=True, timeout=30).returncode == 0


def certificate(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes())


def test_keys_are_private_and_certificates_are_not(made: Made) -> None:
    folder, _ = made
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {name: mode for name, mode in modes.items() if name.endswith(".key")} == {
        f"{name}.key": 0o600 for name in PEMS
    }
    assert {f"{name}.pem": 0o644 for name in PEMS}.items() <= modes.items()


def test_servers_and_clients_have_authorities_of_their_own(made: Made) -> None:
    """Else the certificate of any client would make it a proxy."""
    folder, _ = made
    for service in ("nameserver", "broker", "proxy"):
        for purpose in ("sslserver", "sslclient"):
            assert verified(folder, service, "ca", purpose)
        assert not verified(folder, service, "clients-ca", "sslclient")
    assert verified(folder, "operator", "clients-ca", "sslclient")
    assert not verified(folder, "operator", "clients-ca", "sslserver")
    assert not verified(folder, "operator", "ca", "sslclient")


def test_servers_are_named_as_they_are_reached(made: Made) -> None:
    folder, told = made
    names = certificate(folder, "broker").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    found = [str(name.value) for name in names.value]
    assert found == told["hosts"]
    assert found == ["broker-a", "10.0.0.3", "*.example.org", "localhost", "127.0.0.1", "::1"]


def test_pythons_ssl_accepts_each_pair(made: Made) -> None:
    folder, _ = made
    for name in PEMS:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")


def test_each_setting_is_a_setting_and_its_file_is_there(made: Made) -> None:
    from popmq_broker.config import BrokerConfig
    from popmq_common.process.config import from_env
    from popmq_nameserver.config import NameserverConfig
    from popmq_proxy.config import ProxyConfig

    _, told = made
    configs: dict[str, type[Any]] = {
        "nameserver": NameserverConfig,
        "broker": BrokerConfig,
        "proxy": ProxyConfig,
    }
    assert told["services"].keys() == configs.keys()
    for service, part in told["services"].items():
        prefix = f"POPMQ_{service.upper()}_"
        environment = {**part["environment"], "POPMQ_BROKER_DATA_DIR": "/x"}
        config: Any = from_env(configs[service], prefix, environment)
        for name, value in part["environment"].items():
            found = getattr(config, name.removeprefix(prefix).lower())
            if isinstance(found, Path):
                assert found.name in part["files"]
                assert found.exists()
            else:
                assert str(found).lower() == value


def test_nothing_is_overwritten_and_nothing_is_half_made(made: Made, tmp_path: Path) -> None:
    folder, _ = made
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert "ca.key is there already; nothing was written" in run("init", folder, code=1).output
    run("client", folder, "operator", code=1)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "operator.pem").write_text("mine")
    run("init", tmp_path, code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["operator.pem"]


def test_people_are_told_what_to_copy_and_what_to_set(tmp_path: Path) -> None:
    told = run("init", tmp_path / "tls").output
    assert "Each broker gets broker.pem, broker.key, ca.pem, and these settings:" in told
    assert f"POPMQ_BROKER_LINK_TLS_CERT={tmp_path}/tls/broker.pem" in told
    assert "no server needs them" in told


def test_a_clients_certificate_names_its_user(made: Made) -> None:
    folder, _ = made
    told = json.loads(run("client", folder, "bob@example.org", "--days", "30", "--json").stdout)
    assert told["user"] == "bob@example.org"
    shown = json.loads(run("show", told["certificate"], "--json").stdout)[0]
    assert (shown["subject"], shown["uses"], shown["names"]) == ("bob@example.org", ["client"], [])
    assert shown["daysLeft"] == 29
    assert verified(folder, "bob@example.org", "clients-ca", "sslclient")


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x" * 65, "a/b", "a\nb"])
def test_a_name_that_is_none_is_refused(made: Made, name: str) -> None:
    folder, _ = made
    run("client", folder, "--", name, code=2)


@pytest.mark.parametrize("host", ["a b", "a/b", "http://x", "-x"])
def test_a_host_that_is_none_is_refused(tmp_path: Path, host: str) -> None:
    assert "--host" in run("init", tmp_path / "t", f"--host={host}", code=2).output
    assert not (tmp_path / "t").exists()


def test_show_tells_people_what_counts(made: Made) -> None:
    folder, _ = made
    told = run("show", folder / "broker.pem").output
    assert "subject     popmq-broker" in told
    assert "broker-a, 10.0.0.3" in told
    assert "in 824 days" in told
    assert "holds no certificate" in run("show", folder / "broker.key", code=1).output
    assert "cannot be read" in run("show", folder / "none.pem", code=1).output


def test_what_is_renewed_has_a_new_key_and_the_same_names(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    run("init", folder, "--host", "a", "--days", "1")
    run("client", folder, "bob", "--days", "1")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    named = certificate(folder, "broker").extensions
    told = json.loads(run("renew", folder, "--json").stdout)
    assert told["renewed"] == ["broker", "nameserver", "operator", "proxy"]
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    changed = {name.split(".")[0] for name in before if before[name] != after[name]}
    assert changed == {"broker", "nameserver", "operator", "proxy"}
    assert before.keys() == after.keys()
    san = x509.SubjectAlternativeName
    again = certificate(folder, "broker").extensions
    assert again.get_extension_for_class(san) == named.get_extension_for_class(san)
    assert stat.S_IMODE((folder / "broker.key").stat().st_mode) == 0o600
    assert verified(folder, "broker", "ca", "sslserver")
    run("renew", folder, "bob", "broker", "--host", "b")
    assert verified(folder, "bob", "clients-ca", "sslclient")
    shown = json.loads(run("show", folder / "broker.pem", "--json").stdout)[0]
    assert shown["names"] == ["b", "localhost", "127.0.0.1", "::1"]
    for wrong in ("ca", "../x"):
        run("renew", folder, wrong, code=2)
    run("renew", folder, "nobody", code=1)


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "popmq_cli.tls.authority", raising=False)
    monkeypatch.delattr("popmq_cli.tls.authority", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    told = run("init", tmp_path / "tls", code=1).output
    assert "pip install 'popmq[server,tls]'" in told
