"""The audit of both brokers while they run: by hand, and on a Spark cluster again and again."""

import subprocess

import pytest
from compose.cluster import BUILD_S, DEPLOY, Cluster, run
from compose.prometheus import query
from compose.test_prometheus import until
from compose.traffic import bodies, receive, send, within_true
from testcontainers.compose import DockerCompose

from popmq import Client

pytestmark = [pytest.mark.compose, pytest.mark.timeout(2400)]
PASSES = ["PASS", "PASS"]
KEEP_S = 5


def verdicts(said: str) -> list[str]:
    """PASS, FAIL or INCOMPLETE, a broker each."""
    lines = [line.partition("| ")[2] or line for line in said.splitlines()]
    return [line.partition(":")[0] for line in lines if ": snapshot" in line]


async def test_the_audit_passes_for_both_brokers(cluster: Cluster) -> None:
    """And Prometheus knows."""
    sent, readers = bodies("audited", 48), cluster.group("audited-readers")
    async with Client(cluster.endpoint) as client:
        await send(client, "audited", sent)
        assert set(await receive(client, "audited", readers, sent)) == sent
    await within_true(lambda: all(has_offsets(cluster, name) for name in ("broker-a", "broker-b")))
    said = cluster.command("run", "--rm", "--build", "audit", timeout_s=BUILD_S)
    assert verdicts(said) == PASSES, said

    async def told() -> bool:
        rows = await query(cluster, 'popmq_audit_verdict{verdict="PASS"} == 1')
        return {row["metric"]["broker"] for row in rows} == {"broker-a", "broker-b"}

    await until(told)


async def test_the_spark_cluster_audits_again_and_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the audit reaches it, and what audits leave there goes."""
    monkeypatch.setenv("POPMQ_AUDIT_EVERY_S", "1")
    monkeypatch.setenv("POPMQ_SPARK_KEEP_S", str(KEEP_S))
    spark = Cluster(DockerCompose(str(DEPLOY), "docker-compose.yml", profiles=["spark"]), 0.0)
    services = ["spark-master", "spark-worker", "reconciliation"]
    spark.command("up", "--no-build", "--no-deps", "--wait", *services)
    try:
        assert not reaches(cluster.containers("proxy")[0], "spark-master", 7077)
        assert reaches(spark.containers("spark-worker")[0], "spark-master", 7077)

        async def scheduled() -> bool:
            rows = await query(cluster, "popmq_audit_every_seconds")
            return [row["value"][1] for row in rows] == ["1"]

        def twice() -> bool:
            found = verdicts(spark.command("logs", "reconciliation"))
            assert set(found) <= set(PASSES), found
            return found[:4] == PASSES * 2

        await within_true(twice, 900)
        applications = spark.command("logs", "spark-master").count("Registered app")
        assert applications >= 2, "the audit ran elsewhere"
        await until(scheduled)
        spark.command("stop", "reconciliation")
        (worker,) = spark.containers("spark-worker")
        await within_true(lambda: run("docker", "exec", worker, "ls", "/tmp/work") == "", 120)
    finally:
        spark.command("rm", "--stop", "--force", *services)


def has_offsets(cluster: Cluster, broker: str) -> bool:
    """It writes them every few seconds; without them an audit can say nothing."""
    (container,) = cluster.containers(broker)
    words = ["docker", "exec", container, "test", "-s", "/data/config/consumerOffset.json"]
    return subprocess.run(words, capture_output=True, check=False, timeout=60).returncode == 0


def reaches(container: str, host: str, port: int) -> bool:
    attempt = f"import socket; socket.create_connection(({host!r}, {port}), 5)"
    words = ["docker", "exec", container, "python", "-c", attempt]
    return subprocess.run(words, capture_output=True, check=False, timeout=60).returncode == 0
