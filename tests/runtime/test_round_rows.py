"""Who counts the rows of a round, who is asked when, and what is kept in memory for several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from headrace.config import Config
from headrace.runtime import round_rows
from headrace.runtime.event_times import TimeLimits
from headrace.runtime.family import Batch, Change, Outcome, Reading, Round
from headrace.runtime.round_rows import RoundRows, is_read_by_several
from headrace.runtime.statistics import Census, Stopwatch
from headrace.values import BIGINT, Field, Relation

TABLE = Relation("t", "parquet:/data/t", (Field("v", BIGINT),), key=("v",))
ROUND = Round(0, None, 0)
COUNTED = Census(7)


@dataclass
class Frame:
    """What Spark hands over: it may be kept, and let go of."""

    kept: list[str] = field(default_factory=list)

    def persist(self) -> Frame:
        self.kept.append("kept")
        return self

    def unpersist(self) -> None:
        self.kept.append("let go")


@dataclass
class FakeWork:
    name: str
    asked: list[tuple[str, int]]
    reads_rows: bool = True
    counts_rows: bool = False
    wants_replan: bool = False
    faults: Mapping[int, str] = field(default_factory=dict)

    def replan(self, change: Change) -> None:
        pass

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        self.asked.append((self.name, round.census.rows))
        census = COUNTED if self.counts_rows else None
        return Reading(lambda round, watch: Outcome(), census, self.faults)

    def done(self) -> None:
        pass

    def rest(self) -> None:
        pass


def rows_of(frame: Frame) -> RoundRows:
    limits = TimeLimits.of(Config(), 0)
    nowhere = cast(Any, None)  # no bad rows, no file
    return RoundRows(cast(Any, frame), TABLE, (), True, limits, Config(), nowhere, "streams/t")


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """Each time the runtime has counted."""
    found: list[Batch] = []

    def count(batch: Batch) -> Census:
        found.append(batch)
        return COUNTED

    monkeypatch.setattr(round_rows, "count_rows", count)
    return found


def test_who_counts_by_the_way_is_asked_first(counts: list[Batch]) -> None:
    """Then the others in their order, who know how many rows there are; the runtime counts
    nothing."""
    asked: list[tuple[str, int]] = []
    works = [FakeWork(name, asked, counts_rows=name == "c") for name in "abcd"]
    read = rows_of(Frame()).read(works, ROUND, Stopwatch())
    assert asked == [("c", 0), ("a", 7), ("b", 7), ("d", 7)]
    assert read.round.census == COUNTED and not counts and not read.priced


def test_where_nobody_does_the_runtime_counts_once(counts: list[Batch]) -> None:
    """Also when a query fails on a row, and the round is read again without it."""
    asked: list[tuple[str, int]] = []
    works = [
        FakeWork("a", asked),
        FakeWork("b", asked, faults={3: "it fails"}),
        FakeWork("c", asked),
    ]
    rows, watch = rows_of(Frame()), Stopwatch()
    assert rows.read(works, ROUND, watch).faults == {3: "it fails"}
    assert asked == [("a", 7), ("b", 7)]
    works[1].faults = {}
    read = rows.read(works, ROUND, watch)
    assert not read.faults and asked[2:] == [("a", 7), ("b", 7), ("c", 7)]
    assert len(counts) == 1 and "count" in watch.seconds
    assert set(read.priced) == {"plan", "count", "write", "commit"}


@pytest.mark.parametrize(
    ("works", "several"),
    [
        ([(False, False), (False, False)], False),  # the runtime reads them to count
        ([(True, True), (False, False)], False),
        ([(False, False), (True, False)], True),
        ([(True, True), (True, False)], True),
    ],
)
def test_rows_are_kept_for_several_who_read_them(
    counts: list[Batch], works: list[tuple[bool, bool]], several: bool
) -> None:
    fakes = [FakeWork("w", [], reads, by_the_way) for reads, by_the_way in works]
    frame = Frame()
    rows_of(frame).read(fakes, ROUND, Stopwatch())
    assert is_read_by_several(fakes) == several
    assert frame.kept == (["kept", "let go"] if several else [])
