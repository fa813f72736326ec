"""What must be true whatever happened: every committed answer is Spark's own, there once, and none
is missing.

Windows are answered by the rounds that close them, over all rows that were not late; filters have
the rows of their rounds; joins all pairs but those of two rows that were there before.  A reader
saw each answer once, as it is now.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.runtime.ledger import Manifest
from tests.chaos.follower import line_of
from tests.chaos.record import Answers, Life, Record
from tests.chaos.workload import DDL, FIRST, LATE_US, TABLE_KEY, Row, is_failing, kind_of
from tests.streams import canonical, same_rows

Pairs = Counter[tuple[Any, ...]]


@dataclass(slots=True)
class Verdict:
    wrong: list[str] = field(default_factory=list)
    queries: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    seen: int = 0
    rounds: int = 0
    quarantined: int = 0

    def __str__(self) -> str:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.queries.items()))
        return (
            f"{self.answers:,} answers of {self.queries.total()} queries ({kinds}) in {self.rounds:,} rounds "
            f"compared, {self.seen:,} as a follower saw them; {self.quarantined} quarantined; "
            f"{len(self.wrong)} wrong"
        )


class Judge:
    def __init__(self, spark: SparkSession, record: Record) -> None:
        self._session = spark.newSession()
        self._session.conf.set("spark.sql.ansi.enabled", "true")
        self._session.conf.set("spark.sql.session.timeZone", "UTC")
        self._record = record
        self._viewed: pa.Table | None = None

    def verdict(self, files: Mapping[str, int], seen: Sequence[list[Any]]) -> Verdict:
        """`files` of each relation are to have been read; `seen`: what the follower wrote down."""
        found = Verdict(
            rounds=sum(len(rounds) for rounds in self._record.rounds.values()), seen=len(seen)
        )
        found.wrong += self._record.check_inputs(files)
        if found.wrong:
            return found
        lives = self._record.lives()
        answers = {life.registered.id: self._record.answers_of(life) for life in lives}
        glimpses: dict[int, list[tuple[str, ...]]] = {i: [] for i in answers}
        for query_id, _, _, row in seen:
            glimpses.setdefault(query_id, []).append(tuple(row.values()))
        for life in lives:
            found.queries[kind_of(life.name)] += 1
            own, ours = life.registered, answers[life.registered.id]
            wrong = (
                self._check_glimpses(life, glimpses[own.id])
                if ours is None
                else self._check(life, ours)
            )
            found.wrong += [f"{life.name}: {life.sql}\n    {w}" for w in wrong]
            found.quarantined += own.quarantine is not None
            found.answers += len(ours or ())
        found.wrong += check_seen(lives, answers, seen)
        return found

    def _check(self, life: Life, ours: Answers) -> Iterator[str]:
        kind, quarantine = kind_of(life.name), life.registered.quarantine
        if quarantine is not None and not is_failing(life.name):
            yield f"quarantined: {quarantine}"
        if is_failing(life.name):
            yield from self._check_failing(life)
        elif kind == "join":
            yield from self._check_join(life, ours)
        elif kind == "current":
            yield from self._check_current(life, ours)
        elif life.registered.query.window is not None:
            yield from self._check_windows(life, ours)
        else:
            yield from self._check_filter(life, ours)

    def _check_failing(self, life: Life) -> Iterator[str]:
        """Where Spark itself fails it is quarantined, as soon as the windows of the rows it fails
        on are closed."""
        rows = [self._record.counted_rounds[k] for k in life.rounds["s"][:-5]]
        if life.is_live and life.registered.quarantine is None and rows:
            try:
                self._spark(life.sql, pa.concat_tables(rows))
            except PySparkException:
                yield "not quarantined"

    def _check_windows(self, life: Life, ours: Answers) -> Iterator[str]:
        window, rounds, newest_us = (
            life.registered.query.window,
            life.rounds["s"],
            self._record.newest_us,
        )
        assert window is not None
        theirs = [
            (_us(row["we"]), row) for row in self._spark(life.sql, self._record.counted).to_pylist()
        ]
        closed_us = newest_us[rounds[-1]] - LATE_US if rounds else 0
        first_us = min((_us(row["we"]) for _, row in ours), default=closed_us + 1)
        since_us = 0
        # it came later: windows it has seen whole, and those it found a history for
        if rounds and rounds[0] > 0:
            before_us = newest_us[rounds[0] - 1]
            if first_us <= before_us - LATE_US:
                yield "it answers a window that was closed before it came"
            whole = [end for end, _ in theirs if end - window.range_us > before_us]
            since_us = min([first_us, *whole])
        yield from _compared(ours, [row for end, row in theirs if since_us <= end <= closed_us])

    def _check_filter(self, life: Life, ours: Answers) -> Iterator[str]:
        yield from _compared(ours, self._spark(life.sql, self._rows_of(life)).to_pylist())

    def _rows_of(self, life: Life) -> pa.Table:
        """Those of its rounds, late ones too."""
        return self._record.rows("s", [self._record.rounds["s"][k] for k in life.rounds["s"]])

    def _check_current(self, life: Life, ours: Answers) -> Iterator[str]:
        """What is left of its changes.  Rows begin with the query's first round, or with the
        stream's."""
        rounds = life.rounds["s"]
        if not rounds:
            return
        left: dict[tuple[object, ...], tuple[int, dict[str, object]]] = {}
        for seq, row in ours:
            own = {name: value for name, value in row.items() if name != "change"}
            if row["change"] == 1:
                left[tuple(own.values())] = seq, own
            elif left.pop(tuple(own.values()), None) is None:
                yield f"it takes back what it has not answered: {own}"
        newest = list(left.values())
        counted = self._record.counted_rounds
        spans = [pa.concat_tables(counted[first : rounds[-1] + 1]) for first in (rounds[0], 0)]
        problems = [
            list(_compared(newest, self._spark(life.sql, rows).to_pylist())) for rows in spans
        ]
        yield from problems[0] if all(problems) else ()

    def _check_glimpses(self, life: Life, seen: Sequence[tuple[str, ...]]) -> Iterator[str]:
        """Of a query that was dropped, and whose answers are made on reading, the follower saw
        some."""
        if is_failing(life.name):
            return
        if kind_of(life.name) == "join":
            theirs = list(self._pairs_of(life).elements())
        else:
            theirs = [
                tuple(row.values())
                for row in self._spark(life.sql, self._rows_of(life)).to_pylist()
            ]
        odd = Counter(seen) - Counter(tuple(map(repr, row)) for row in theirs)
        if odd:
            yield f"the follower saw what is not Spark's: {odd.total()} {list(odd)[:3]}"

    def _check_join(self, life: Life, ours: Answers) -> Iterator[str]:
        net: Pairs = Counter()
        for _, row in ours:
            change = row.get("change", 1)
            net[tuple(v for name, v in row.items() if name != "change")] += change
        theirs = self._pairs_of(life)
        lost, odd = theirs - net, net - theirs
        if lost or odd or any(count < 0 for count in net.values()):
            yield f"pairs missing: {lost.total()} {list(lost)[:3]}; too many: {odd.total()} {list(odd)[:3]}"

    def _pairs_of(self, life: Life) -> Pairs:
        """All that there are, but those of two rows that were there before the query was."""
        theirs, own = self._joined(life, self._record.rounds), self._record.rounds
        if life.name in FIRST:
            return theirs
        before = {
            name: own[name][: min(rounds, default=None)] for name, rounds in life.rounds.items()
        }
        return theirs - self._joined(life, before)

    def _joined(self, life: Life, rounds: Mapping[str, Sequence[Manifest]]) -> Pairs:
        for name in life.registered.query.relations:
            rows = self._record.rows(name, rounds[name])
            view = (
                pa.Table.from_pylist(_latest(rows.to_pylist()), rows.schema)
                if name == "t"
                else rows
            )
            self._session.createDataFrame(view, DDL[name]).createOrReplaceTempView(name)
        return Counter(
            tuple(row.values()) for row in self._session.sql(life.sql).toArrow().to_pylist()
        )

    def _spark(self, sql: str, rows: pa.Table) -> pa.Table:
        """Spark's own answer to the user's own text over rows of `s`."""
        if rows is not self._viewed:
            self._session.createDataFrame(rows, DDL["s"]).createOrReplaceTempView("s")
            self._viewed = rows
        return self._session.sql(sql).toArrow()


def check_seen(
    lives: Sequence[Life], answers: Mapping[int, Answers | None], seen: Sequence[list[Any]]
) -> Iterator[str]:
    """The follower saw each answer once, in order, as it is there now; of live queries all."""
    by_id: dict[int, list[list[Any]]] = {}
    for line in seen:
        by_id.setdefault(line[0], []).append(line)
    for life in lives:
        own, ours = life.registered, answers[life.registered.id]
        lines = by_id.pop(own.id, [])
        seqs = [line[2] for line in lines]
        if seqs != sorted(set(seqs)):
            yield f"{life.name}: the follower saw an answer twice, or out of order"
        if ours is None:
            continue
        now = [json.loads(line_of(own.id, own.name, seq, row)) for seq, row in ours]
        if lines != (now if life.is_live else now[: len(lines)]):
            odd = next(
                (pair for pair in zip(lines, now, strict=False) if pair[0] != pair[1]),
                "more or fewer",
            )
            yield f"{life.name}: the follower saw {len(lines)} answers, {len(now)} are there now; they differ: {odd}"
    if by_id:
        yield f"the follower saw answers of queries no round knew: {sorted(by_id)}"


def _compared(ours: Answers, theirs: Sequence[Row]) -> Iterator[str]:
    if not ours and not theirs:
        return
    columns = list((theirs or [row for _, row in ours])[0])
    mine = (
        canonical(pa.Table.from_pylist([{c: row[c] for c in columns} for _, row in ours]), columns)
        if ours
        else []
    )
    spark = canonical(pa.Table.from_pylist(list(theirs)), columns) if theirs else []
    if not same_rows(mine, spark):
        lost, odd = [r for r in spark if r not in mine][:3], [r for r in mine if r not in spark][:3]
        yield f"{len(mine)} answers, Spark has {len(spark)}; missing e.g. {lost}; too many e.g. {odd}"


def _latest(rows: Sequence[Row]) -> list[Row]:
    """The rows of a table that count."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[c] for c in TABLE_KEY)
        found.pop(key, None)
        if not row["gone"]:
            found[key] = row
    return list(found.values())


def _us(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
