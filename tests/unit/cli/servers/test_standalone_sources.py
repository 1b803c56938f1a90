"""What is told to have set the settings of popmq standalone?"""

from pathlib import Path

import pytest

from popmq_cli.servers.run_standalone import standalone_configs


def test_options_the_environment_and_the_commands_own_defaults_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POPMQ_BROKER_RETENTION_MS", "1000")
    monkeypatch.setenv("POPMQ_BROKER_CREATE_GROUPS", "false")
    broker, proxy = standalone_configs(
        host="127.0.0.1",
        port=1,
        tls_port=0,
        data_dir=tmp_path,
        create_topics=True,
        flush="sync",
        front=None,
        given=frozenset({"port"}),
    )
    assert dict(broker.sources) == {
        "data_dir": "popmq standalone",
        "flush": "popmq standalone",
        "retention_ms": "environment",
        "create_groups": "environment",
    }
    assert dict(proxy.sources) == {
        "host": "popmq standalone",
        "port": "--port",
        "tls_port": "popmq standalone",
        "create_topics": "popmq standalone",
    }
