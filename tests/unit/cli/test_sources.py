"""What Prometheus is told of containers, and of the audits."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from popmq_cli.sources import container, handler, targets, together


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("popmq-proxy-2.popmq_back", "proxy-2"),
        ("my-proxy-popmq-proxy-12.my_back", "proxy-12"),
        ("popmq_proxy_3.popmq_back", "proxy-3"),
        ("somebody", "10.0.0.9"),
        ("", "10.0.0.9"),
    ],
)
def test_a_container_is_called_as_compose_calls_it(host: str, name: str) -> None:
    assert container("10.0.0.9", "proxy", host) == name


def test_targets_are_what_prometheus_reads() -> None:
    hosts = {"10.0.0.9": "p-proxy-1.p_back", "10.0.0.7": "p-proxy-2.p_back"}
    assert targets("proxy", 5557, hosts, hosts.__getitem__) == [
        {"targets": ["10.0.0.7:5557"], "labels": {"service": "proxy", "instance": "proxy-2:5557"}},
        {"targets": ["10.0.0.9:5557"], "labels": {"service": "proxy", "instance": "proxy-1:5557"}},
    ]


PAGE = '# HELP a_figure what it is\n# TYPE a_figure gauge\na_figure{broker="%s"} 1\n'


def test_a_figure_of_two_files_is_explained_once() -> None:
    page = together([PAGE % "a" + "b_figure 2\n", PAGE % "b"])
    assert page.count("# HELP") == 1
    (family, other) = text_string_to_metric_families(page)
    assert {sample.labels["broker"] for sample in family.samples} == {"a", "b"}
    assert other.name == "b_figure"
    assert together([]) == ""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_it_serves_both(address: str, tmp_path: Path) -> None:
    assert get(f"{address}/metrics") == ""
    (tmp_path / "broker-a.prom").write_text(PAGE % "a")
    (tmp_path / "broker-a.json").write_text("not for Prometheus")
    assert get(f"{address}/metrics") == PAGE % "a"
    (found,) = json.loads(get(f"{address}/targets?name=localhost&port=1"))
    assert found["targets"] == ["127.0.0.1:1"]
    assert json.loads(get(f"{address}/targets?name=nobody.invalid&port=1")) == []
    for wrong in ("/targets?name=x&port=y", "/targets", "/"):
        with pytest.raises(HTTPError):
            get(address + wrong)
