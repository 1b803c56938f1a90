"""The audit of both brokers while they run: by hand, and on a Spark cluster again and again."""

import pytest
from compose.cluster import BUILD_S, DEPLOY, Cluster
from compose.traffic import bodies, receive, send, within_true
from testcontainers.compose import DockerCompose

from popmq import Client

pytestmark = [pytest.mark.compose, pytest.mark.timeout(2400)]
PASSES = ["PASS", "PASS"]


def verdicts(said: str) -> list[str]:
    """PASS, FAIL or INCOMPLETE, a broker each."""
    lines = [line.partition("| ")[2] or line for line in said.splitlines()]
    return [line.partition(":")[0] for line in lines if ": snapshot" in line]


async def test_the_audit_passes_for_both_brokers(cluster: Cluster) -> None:
    sent, readers = bodies("audited", 48), cluster.group("audited-readers")
    async with Client(cluster.endpoint) as client:
        await send(client, "audited", sent)
        assert set(await receive(client, "audited", readers, sent)) == sent
    said = cluster.command("run", "--rm", "--build", "audit", timeout_s=BUILD_S)
    assert verdicts(said) == PASSES, said


async def test_the_spark_cluster_audits_again_and_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POPMQ_AUDIT_EVERY_S", "1")
    spark = Cluster(DockerCompose(str(DEPLOY), "docker-compose.yml", profiles=["spark"]), 0.0)
    services = ["spark-master", "spark-worker", "reconciliation"]
    spark.command("up", "--no-build", "--no-deps", "--wait", *services)
    try:

        def twice() -> bool:
            found = verdicts(spark.command("logs", "reconciliation"))
            assert set(found) <= set(PASSES), found
            return found[:4] == PASSES * 2

        await within_true(twice, 600)
        applications = spark.command("logs", "spark-master").count("Registered app")
        assert applications >= 4, "the audit ran elsewhere"
    finally:
        spark.command("rm", "--stop", "--force", *services)
