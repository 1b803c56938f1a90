"""Who asks for the front inside Envoy, which is gone, is told what there is instead."""

import pytest
from click.testing import CliRunner

from popmq_cli.servers.run_proxy import run_proxy
from popmq_cli.servers.run_standalone import run_standalone
from popmq_common.process.config import ConfigError, from_env
from popmq_proxy.config import Front, ProxyConfig


def says_what_there_is(text: str) -> bool:
    return all(word in text for word in ("http2", "grpcio", "docs/edge-proxy.md"))


@pytest.mark.parametrize("command", [run_proxy, run_standalone])
@pytest.mark.parametrize("how", ["option", "variable"])
def test_the_front_that_is_gone_is_refused(command: object, how: str) -> None:
    words = ["--front", "envoy"] if how == "option" else []
    env = {"POPMQ_PROXY_FRONT": "Envoy"} if how == "variable" else {}
    done = CliRunner().invoke(command, words, env=env)  # type: ignore[arg-type]
    assert done.exit_code == 2
    assert says_what_there_is(done.output)


def test_other_words_are_refused_with_those_that_mean_something() -> None:
    with pytest.raises(ConfigError, match="one of grpcio, http2"):
        from_env(ProxyConfig, "POPMQ_PROXY_", {"POPMQ_PROXY_FRONT": "apache"})
    with pytest.raises(ConfigError) as gone:
        from_env(ProxyConfig, "POPMQ_PROXY_", {"POPMQ_PROXY_FRONT": "envoy"})
    assert says_what_there_is(str(gone.value))
    assert [front.value for front in Front] == ["grpcio", "http2"]
