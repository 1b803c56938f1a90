"""What an audit remembers: which snapshot may come next, what has to be judged again."""

from dataclasses import replace
from pathlib import Path

import pytest

from popmq_pipelines.snapshot.manifest import Manifest
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables.ledger import Epoch, Ledger, LedgerDamaged


def epoch(number: int, **changed: object) -> Epoch:
    made = Epoch(
        number=number,
        snapshot_id=f"s{number}",
        manifest_sha256=f"sha-{number}",
        log_from=100 * (number - 1),
        log_end=100 * number,
        log_first_ms=1,
        latest_ms=2,
        last_row=None,
        lease_count=3,
        touched=[number],
        judged=[number],
        still_open=[],
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def manifest(**changed: object) -> Manifest:
    made = Manifest(
        schema_version=2,
        code_version="test",
        snapshot_id="next",
        broker="b",
        cluster="c",
        log_start=0,
        log_from=200,
        log_end=300,
        log_last=290,
        log_last_sha256="",
        log_first_ms=1,
        offsets_log_end=300,
        as_of_ms=5,
        running_since_ms=0,
        problems=[],
        files={},
    )
    return replace(made, **changed)  # type: ignore[arg-type]


TWO = Ledger("b", (epoch(1), epoch(2)))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, None),
        ({"log_from": 0}, None),  # a whole one: what is known is passed over
        ({"log_end": 200}, None),  # nothing has happened
        ({"log_from": 250}, "log offsets 200 to 250 are in no snapshot that was audited"),
        ({"log_end": 150}, "ends at log offset 150, before s2 (200)"),
        ({"broker": "other"}, "this audit is of 'b', the snapshot of 'other'"),
    ],
)
def test_what_may_come_next(changed: dict[str, object], told: str | None) -> None:
    problems = ledgers.problems(TWO, manifest(**changed))
    assert bool(problems) == bool(told)
    if told:
        assert told in problems[0]


def test_anything_may_come_first() -> None:
    assert ledgers.problems(Ledger(), manifest(log_from=250)) == []


def test_a_run_judges_its_own_epoch_what_it_touches_and_what_is_open() -> None:
    ledger = Ledger("b", (epoch(1), epoch(2), epoch(3, still_open=[2])))
    assert ledgers.judged(ledger, 4, [4], 0) == [2, 4]
    assert ledgers.judged(ledger, 4, [1, 4], 0) == [1, 2, 4]
    assert ledgers.judged(ledger, 4, [9], 0) == [2, 4]  # forgotten


def test_what_waits_wakes_its_epoch_at_its_time_and_not_before() -> None:
    ledger = Ledger("b", (epoch(1), epoch(2), epoch(3, wakes={"1": 500, "2": 600})))
    assert ledgers.judged(ledger, 4, [4], 499) == [4]
    assert ledgers.judged(ledger, 4, [4], 500) == [1, 4]
    assert ledgers.judged(ledger, 4, [4], 600) == [1, 2, 4]


def test_going_back_remembers_what_later_runs_had_judged() -> None:
    ledger = Ledger("b", (epoch(1), epoch(2), epoch(3, judged=[1, 3]), epoch(4, judged=[2, 4])))
    back = ledgers.rewound(ledger, "s3")
    assert [one.number for one in back.epochs] == [1, 2]
    assert back.again == (1, 2)
    assert ledgers.judged(back, 3, [], 0) == [1, 2, 3]
    assert ledgers.rewound(ledger, "unknown") == ledger


def test_the_files_with_rows_of_an_epoch_are_its_own_and_those_that_touched_it() -> None:
    ledger = Ledger("b", (epoch(1), epoch(2, touched=[1, 2]), epoch(3)))
    assert [one.number for one in ledgers.sources(ledger, [1])] == [1, 2]
    assert [one.number for one in ledgers.sources(ledger, [3])] == [3]


def test_only_what_the_broker_has_deleted_all_of_is_forgotten() -> None:
    ledger = Ledger("b", (epoch(1), epoch(2), epoch(3)))
    assert [one.number for one in ledgers.forgettable(ledger, 199)] == [1]
    assert [one.number for one in ledgers.forgettable(ledger, 10_000)] == [1, 2]


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    ledger = Ledger("b", (epoch(1, last_row={"topic": "t"}),), (1,))
    ledgers.save(tmp_path, ledger)
    assert ledgers.load(tmp_path) == ledger
    assert ledgers.load(tmp_path / "nowhere") == Ledger()


@pytest.mark.parametrize("text", ["", "{}", '{"version": 99}', '{"version": 1, "broker": "b"}'])
def test_a_damaged_one_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "ledger.json").write_text(text)
    with pytest.raises(LedgerDamaged, match="backfill"):
        ledgers.load(tmp_path)
