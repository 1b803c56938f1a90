"""What a worker of a proxy has of its own."""

import pytest

from popmq_common.process import logs
from popmq_common.process.config import ConfigError
from popmq_proxy.config import Front, ProxyConfig
from popmq_proxy.workers.listeners import Listeners
from popmq_proxy.workers.supervisor import audit_log, check, worker_config


def test_each_has_an_audit_trail_of_its_own() -> None:
    assert [audit_log("/var/log/audit.log", number) for number in range(2)] == [
        "/var/log/audit.log",
        "/var/log/audit-1.log",
    ]
    assert [audit_log(path, 1) for path in ("", "-")] == ["", "-"]


def test_a_worker_has_a_name_and_the_ports_of_all_and_no_page_of_metrics() -> None:
    config = ProxyConfig(name="p", port=0, workers=3, metrics_port=9_100, audit_log="/a.log")
    listeners = Listeners(config, logs.get("test"))
    try:
        own = worker_config(config, listeners, "p-1", 1)
    finally:
        listeners.close()
    assert (own.name, own.port) == ("p-1", listeners.port)
    assert (own.metrics_port, own.audit_log) == (0, "/a-1.log")


@pytest.mark.parametrize("workers", [0, -1, 65])
def test_a_number_of_workers_that_makes_no_sense_is_refused(workers: int) -> None:
    with pytest.raises(ConfigError, match="POPMQ_PROXY_WORKERS must be a number from 1 to 64"):
        check(ProxyConfig(workers=workers))


def test_grpcio_has_one_worker() -> None:
    with pytest.raises(ConfigError, match="needs the front http2"):
        check(ProxyConfig(workers=2, front=Front.GRPCIO))
