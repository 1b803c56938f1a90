"""The screen of audits: what it shows, and to whom."""

from pathlib import Path

from harness.console import FakeCluster, browsing
from unit.console.pages.test_hostile import EVIL

from popmq_admin.v1 import admin_pb2 as admin
from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.report.last_report import save


def saved(folder: Path, text: str = "t") -> None:
    found = {"kind": text, "topic": text, "consumer_group": text, "message_id": text}
    report = Report(
        snapshot_id=text,
        broker=text,
        verdict=AuditVerdict.FAIL,
        problems=[text],
        lease_states={text: 1},
        finding_counts={text: 1_234},
        findings=[found],
    )
    save(folder, report, folder)


async def test_verdict_and_findings_with_links(tmp_path: Path) -> None:
    saved(tmp_path)
    async with browsing(FakeCluster(), audit_dir=tmp_path) as browser:
        page = await browser.get("/audit")
    assert ">FAIL</span>" in page
    assert "The first 1 of 1,234." in page
    assert 'href="/message?id=t&amp;topic=t"' in page
    assert f"popmq-pipelines report --out {tmp_path}" in page


async def test_without_a_folder_it_says_how() -> None:
    async with browsing(FakeCluster()) as browser:
        assert "started without <code>--audit-dir</code>" in await browser.get("/audit")


async def test_a_folder_that_went_away(tmp_path: Path) -> None:
    async with browsing(FakeCluster(), audit_dir=tmp_path / "gone") as browser:
        assert "The reports cannot be read" in await browser.get("/audit")


async def test_it_needs_get_on_the_cluster(tmp_path: Path) -> None:
    saved(tmp_path)
    asked = admin.TestAccessResponse(authorization=True, allowed=False)
    async with browsing(FakeCluster(TestAccess=asked), audit_dir=tmp_path) as browser:
        page = await browser.get("/audit", 403)
    assert "1,234" not in page


async def test_what_a_report_says_stays_text(tmp_path: Path) -> None:
    for evil in EVIL:
        saved(tmp_path, evil)
        async with browsing(FakeCluster(), audit_dir=tmp_path) as browser:
            assert str(987 * 987) not in await browser.get("/audit")
