"""Which settings does a process tell, and what does it never tell?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from popmq_broker.config import BrokerConfig, Flush
from popmq_common.process.config import from_env, sources_field, variables
from popmq_common.process.settings_in_force import is_hidden, settings_in_force
from popmq_proxy.config import ProxyConfig

CONFIGS: list[type[Any]] = [BrokerConfig, ProxyConfig]
PATHS_SHOWN = {
    "data_dir",
    "link_tls_ca",
    "link_tls_cert",
    "link_tls_client_ca",
    "metrics_tls_cert",
    "metrics_tls_client_ca",
    "nameserver_tls_ca",
    "register_tls_ca",
    "register_tls_cert",
    "replica_tls_ca",
    "tls_cert",
    "tls_client_ca",
}
"""Directories and certificates: nothing in them is secret."""
NO_SECRETS = {"queue_file_bytes"}
"""Fields whose names sound like one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    name: str = "a"
    flush: Flush = Flush.SYNC
    port: int = 1
    hosts: tuple[str, ...] = ()
    checked: bool = False
    secret: str = field(default="", repr=False)
    secret_file: Path | None = None
    place: str = ""
    sources: Mapping[str, str] = sources_field()


def told(environ: Mapping[str, str], options: Mapping[str, str] | None = None) -> dict[str, Any]:
    config = from_env(Sample, "X_", environ, options)
    return {one.name: (one.value, one.source) for one in settings_in_force(config, "X_")}


def test_each_setting_has_its_value_and_what_set_it() -> None:
    environ = {"X_FLUSH": "ASYNC", "X_HOSTS": "a:1,b:2", "X_CHECKED": "yes", "X_PORT": "7"}
    assert told(environ, {"X_PORT": "--port"}) == {
        "X_NAME": ("a", "default"),
        "X_FLUSH": ("async", "environment"),
        "X_PORT": ("7", "--port"),
        "X_HOSTS": ("a:1,b:2", "environment"),
        "X_CHECKED": ("true", "environment"),
        "X_SECRET": ("", "default"),
        "X_SECRET_FILE": ("", "default"),
        "X_PLACE": ("", "default"),
    }


def test_a_program_that_sets_something_is_told_as_that() -> None:
    (name, *_) = settings_in_force(Sample(name="b"), "X_")
    assert name == ("X_NAME", "b", "program")


def test_a_setting_that_has_the_value_of_the_default_was_set_all_the_same() -> None:
    assert told({"X_NAME": "a"})["X_NAME"] == ("a", "environment")


def test_a_secret_is_told_as_set_wherever_it_comes_from() -> None:
    found = told({"X_SECRET": "hunter2"})
    assert found["X_SECRET"] == ("set", "environment")
    found = told({"X_SECRET_FILE": "/run/secrets/hunter2"})
    assert found["X_SECRET"] == ("set", "file")
    assert found["X_SECRET_FILE"] == ("set", "environment")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://key:hunter2@bucket/x", "s3://***@bucket/x"),
        ("s3://key:hun/ter@2@bucket/x", "s3://***@bucket/x"),
        ("https://h/x?token=hunter2", "https://h/x?***"),
        ("etcd://a:1,b:2", "etcd://a:1,b:2"),
        ("/data/a?b@c", "/data/a?b@c"),
    ],
)
def test_a_url_is_told_without_what_lets_one_in(url: str, shown: str) -> None:
    assert told({"X_PLACE": url})["X_PLACE"] == (shown, "environment")


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_with_a_secret_or_a_path_is_hidden_or_known_to_be_harmless(
    config: type[Any],
) -> None:
    """A new one fails here until somebody has thought about it."""
    hints = get_type_hints(config)
    fields = variables(config)
    for one in fields:
        if hints[one.name] in (Path, Path | None):
            assert is_hidden(one) != (one.name in PATHS_SHOWN), one.name
        sounds = any(word in one.name for word in ("secret", "password", "token", "key", "file"))
        if sounds and one.name not in NO_SECRETS | {"retention_files_max"}:
            assert is_hidden(one), one.name


@pytest.mark.parametrize("config", CONFIGS)
def test_no_value_of_a_hidden_field_is_told(config: type[Any]) -> None:
    hidden = [one for one in variables(config) if is_hidden(one)]
    assert len(hidden) >= 4
    environ = {f"P_{one.name.upper()}": "hunter2" for one in hidden}
    made = from_env(config, "P_", {"P_DATA_DIR": "/d", **environ})
    assert "hunter2" not in str([one for one in settings_in_force(made, "P_")])


@pytest.mark.parametrize("config", CONFIGS)
def test_sources_are_no_variable(config: type[Any]) -> None:
    assert "sources" not in {one.name for one in variables(config)}
    made = from_env(config, "P_", {"P_DATA_DIR": "/d", "P_SOURCES": "x", "P_PORT": "0"})
    assert made.sources["port"] == "environment"
    assert made == from_env(config, "P_", {"P_DATA_DIR": "/d", "P_PORT": "0"}, {"P_PORT": "--x"})
