"""What the manifests of a home tell: which files each round read, and which queries it was to
answer.

Rows are made from the seed again, not read from the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace
from headrace.catalog.catalog import Registered
from headrace.families.registry import family_of
from headrace.runtime.answers import AnswerLog
from headrace.runtime.ledger import Ledger, Manifest
from tests.chaos.workload import DDL, LATE_US, rows_of
from tests.streams import Stream

Answers = list[tuple[int, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Life:
    """A query, and the rounds of each of its relations (by place) that were to answer it."""

    registered: Registered
    rounds: Mapping[str, Sequence[int]]
    is_live: bool

    @property
    def name(self) -> str:
        return self.registered.name

    @property
    def sql(self) -> str:
        return self.registered.query.sql


class Record:
    def __init__(self, home: Path, seed: int) -> None:
        self._eng = headrace.Engine(home)
        self._seed = seed
        disk = self._eng.home.disk
        ledgers = {name: Ledger(disk, self._eng.home.stream_folder(name)) for name in DDL}
        self.rounds = {
            name: [ledger.read(i) for i in ledger.rounds] for name, ledger in ledgers.items()
        }
        self._log = AnswerLog(disk, ledgers["s"])

    def check_inputs(self, files: Mapping[str, int]) -> Iterator[str]:
        """So many files of each relation have been read, each once."""
        for name, count in files.items():
            read = Counter(i for m in self.rounds[name] for i in indices(m))
            twice = [i for i, n in read.items() if n > 1]
            lost, odd = sorted(set(range(count)) - set(read)), sorted(set(read) - set(range(count)))
            if twice or lost or odd:
                yield f"{name}: files read twice: {twice}; never: {lost}; unknown: {odd}"

    def rows(self, name: str, rounds: Sequence[Manifest]) -> pa.Table:
        files = [rows_of(self._seed, name, i) for m in rounds for i in indices(m)]
        return pa.concat_tables(files) if files else rows_of(self._seed, name, 0).slice(0, 0)

    @cached_property
    def stream(self) -> Stream:
        """Of `s`: one part for each round."""
        parts = tuple(self.rows("s", [m]) for m in self.rounds["s"])
        return Stream(rows_of(self._seed, "s", 0).schema, DDL["s"], parts, LATE_US)

    @cached_property
    def counted_rounds(self) -> list[pa.Table]:
        """Rows of each round of `s` that were not late."""
        return self.stream.counted_rounds()

    @cached_property
    def counted(self) -> pa.Table:
        return pa.concat_tables(self.counted_rounds)

    @cached_property
    def newest_us(self) -> list[int]:
        """The newest time up to each round of `s`."""
        found, newest = [], 0
        for rows in self.stream.files:
            newest = max([newest, *rows.column("ts").cast(pa.int64()).to_pylist()])
            found.append(newest)
        return found

    def lives(self) -> list[Life]:
        """Every query that any round knew of."""
        past = {
            v: self._eng.catalog.at(v)
            for v in {m.catalog_version for ms in self.rounds.values() for m in ms}
        }
        ever = {own.id: own for queries in past.values() for own in queries.values()}
        now = {own.id: own for own in self._eng.catalog.queries.values()}

        def rounds_of(own: Registered) -> dict[str, list[int]]:
            return {
                name: [
                    k
                    for k, m in enumerate(self.rounds[name])
                    if _is_in(past[m.catalog_version], own)
                ]
                for name in own.query.relations
            }

        return [Life(now.get(i, own), rounds_of(own), i in now) for i, own in sorted(ever.items())]

    def answers_of(self, life: Life) -> Answers | None:
        """With their places.  None: they were made on reading, and nobody can read a query that is
        dropped."""
        own = life.registered
        if not life.is_live and not family_of(own, self._eng.catalog.relation).counts_answers:
            return None
        if life.is_live:
            return [(a.seq, dict(a)) for a in self._eng.watch(own.name, follow=False)]
        tables = self._log.read_all(own.id, own.query)
        return [(r << 32 | i, row) for r, t in tables for i, row in enumerate(t.to_pylist())]


def indices(manifest: Manifest) -> list[int]:
    """The files a round read, by their number."""
    return [int(Path(path).stem) for path, _, _ in manifest.inputs]


def _is_in(queries: Mapping[str, Registered], own: Registered) -> bool:
    found = queries.get(own.name)
    return found is not None and found.id == own.id and found.quarantine is None
