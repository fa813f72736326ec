"""An engine that remembers what it was asked, so that commands are tested without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa

from headrace.cost_attribution import StreamCost
from headrace.errors import CatalogError, HeadraceError
from headrace.runtime.statistics import RoundStats


class FakeAnswer(dict[str, Any]):
    def __init__(self, seq: int, **values: Any) -> None:
        super().__init__(values)
        self.seq = seq


@dataclass
class FakeInfo:
    name: str
    sql: str
    stream: str = "trades"
    family: str = "windows"
    state: str = "live"
    reason: str = ""
    answers: int = 0


def a_round(number: int, rows: int = 100, answers: int = 10) -> RoundStats:
    return RoundStats(
        "trades",
        number,
        rows,
        1,
        0,
        2,
        3,
        answers,
        number * 4_000_000,
        {"total": 0.5},
        figures={"windows": {"unshared_s": 50.0}},
    )


@dataclass
class FakeEngine:
    """Two rounds are there to be run, whatever the queries; started, it has a new one at every
    look."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    infos: dict[str, FakeInfo] = field(default_factory=dict)
    answers: list[FakeAnswer] = field(default_factory=list)
    rounds: list[RoundStats] = field(default_factory=list)
    bills: list[StreamCost] = field(default_factory=list)
    spark: Any = field(default_factory=MagicMock)
    started: bool = False
    interrupt_run: bool = False
    restart: int | None = None
    conf: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def prepare(self, *, whole: bool = False) -> list[HeadraceError]:
        self.calls.append(("prepare",))
        return []

    def create_stream(
        self, name: str, source: str, *, schema: str, time: str, late: str = "0 seconds"
    ) -> None:
        self.calls.append(("create_stream", name, source, schema, time, late))

    def create_table(
        self, name: str, source: str, *, schema: str, key: str, deleted: str | None = None
    ) -> None:
        self.calls.append(("create_table", name, source, schema, key, deleted))

    def add(self, sql: str, name: str | None = None) -> str:
        if self.failure is not None:
            raise self.failure
        made = name or f"query_{len(self.infos) + 1}"
        self.add_many({made: sql})
        return made

    def add_many(self, queries: Mapping[str, str]) -> list[str]:
        self.calls.append(("add_many", *queries))
        for name, sql in queries.items():
            self.infos[name] = FakeInfo(name, sql)
        return list(queries)

    def drop(self, query: str) -> None:
        if query not in self.infos:
            raise CatalogError("no such query", value=query, choices=tuple(self.infos))
        self.calls.append(("drop", query))
        del self.infos[query]

    def explain(self, query: str | None = None) -> str:
        return f"plan of {query or 'everything'}\n"

    def run(self) -> None:
        self.calls.append(("run",))
        if self.interrupt_run:
            raise KeyboardInterrupt
        self.rounds += [a_round(len(self.rounds)), a_round(len(self.rounds) + 1)]

    def start(self) -> None:
        self.calls.append(("start",))
        self.started = True

    def stop(self) -> None:
        self.calls.append(("stop",))
        self.started = False

    @property
    def is_running(self) -> bool:
        return self.started

    def close(self) -> None:
        self.calls.append(("close",))

    def read(self, query: str) -> pa.Table:
        self.calls.append(("read", query))
        return pa.Table.from_pylist([dict(a) for a in self.answers])

    def watch(
        self, query: str, since: int | None = None, follow: bool | None = None
    ) -> Iterator[FakeAnswer]:
        self.calls.append(("watch", query, since, follow))
        yield from (a for a in self.answers if since is None or a.seq > since)

    def queries(self) -> list[FakeInfo]:
        return list(self.infos.values())

    def costs(self) -> list[StreamCost]:
        return self.bills

    def statistics(self, stream: str | None = None) -> list[RoundStats]:
        if self.started:
            self.rounds.append(a_round(len(self.rounds)))
        return self.rounds[-5:]
