"""Rounds of the windows family without Spark: real rings, pane log and ledger; a page of Python
makes panes of rows.

`Logged.round` does what `job.py` and `commit.py` do around a round: take, close, answer, prune,
commit, sweep. `expected` keeps every row and answers by looking at all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.windows.aggregation.aggregate import (
    PANE,
    SET,
    all_keys,
    cell_name,
    grouping,
    key_name,
    word_names,
)
from headrace.families.windows.aggregation.columns import part_names
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.rings.answering import Answering
from headrace.families.windows.rings.rings import Rings
from headrace.runtime.answers import dress
from headrace.runtime.family import Round
from headrace.runtime.ledger import FileMark, Ledger, Manifest
from headrace.runtime.statistics import Census
from headrace.sql.bands import double_of
from headrace.sql.bind import bind
from headrace.sql.emit import emit
from headrace.sql.query import Query
from headrace.sql.tree import Call, Expr
from headrace.values import BIGINT, DOUBLE, STRING, TIMESTAMP, Field, Relation
from tests.runtime.recording import QuickDisk

FOLDER = "streams/s"
FIELDS = (Field("k", STRING), Field("n", BIGINT), Field("x", DOUBLE), Field("ts", TIMESTAMP))


@dataclass(frozen=True)
class Row:
    t: int
    k: str | None
    n: int
    x: float | None


Answer = tuple[Any, ...]
"""(window end in µs, the SELECT's values)."""
VALUES: dict[str, Callable[[Row], Any]] = {
    "1": lambda r: 1,
    "`x`": lambda r: r.x,
    "`n`": lambda r: r.n,
    "`k`": lambda r: r.k,
    "(`n` > 0)": lambda r: r.n > 0,
}


def panes_of(cuts: Cuts, rows: Iterable[Row]) -> pa.Table:
    """What Spark's aggregate would leave, which knows that counts are never null."""
    keys, names = all_keys(cuts), part_names(cuts.measures)
    cells: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        for c, cut in enumerate(cuts.cuts):
            own = grouping(cut)
            values = tuple(_value(k, row) if k in own.keys else None for k in keys)
            bits = sum(1 << i for i, p in enumerate(own.predicates) if _value(p, row))
            ranks = tuple(
                _rank(key, edges, row) if key in own.cells else None for key, edges in cuts.edges
            )
            cells.setdefault((row.t - row.t % cuts.pane_us, values, bits, c, ranks), []).append(row)
    found = list(cells.items())
    columns: dict[str, pa.Array] = {PANE: pa.array([cell[0] for cell, _ in found], pa.int64())}
    for i, key in enumerate(keys):
        kind = pa.string() if key.type == STRING else pa.int64()
        columns[key_name(i)] = pa.array([cell[1][i] for cell, _ in found], kind)
    for c in range(len(cuts.cuts)):
        for word in word_names(cuts, c):
            columns[word] = pa.array([cell[2] for cell, _ in found], pa.int64())
    for i, (key, _) in enumerate(cuts.edges):
        columns[cell_name(cuts, key)] = pa.array([cell[4][i] for cell, _ in found], pa.int32())
    if len(cuts.cuts) > 1:
        columns[SET] = pa.array([cell[3] for cell, _ in found], pa.int64())
    for (function, text), name in names.items():
        made = [part_of(function, [VALUES[text](r) for r in inside]) for _, inside in found]
        is_float = text == "`x`" and function != "count"
        columns[name] = pa.array(made, pa.float64() if is_float else pa.int64())
    counts = {name for (function, _), name in names.items() if function == "count"}
    fields = [
        pa.field(name, column.type, nullable=name not in counts) for name, column in columns.items()
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _value(expr: Expr, row: Row) -> Any:
    return VALUES[emit(expr)](row)


def _rank(key: Expr, edges: tuple[int, ...], row: Row) -> int | None:
    """How many edges are at or below the attribute."""
    assert isinstance(key, Call)
    value = _value(key.args[0], row)
    if value is None:
        return None
    return sum(
        bool((double_of(edge) if key.args[0].type == DOUBLE else edge) <= value) for edge in edges
    )


def part_of(function: str, values: Sequence[Any]) -> Any:
    there = [v for v in values if v is not None]
    if function == "count":
        return len(there)
    if not there:
        return None
    match function:
        case "sum":
            return sum(there)
        case "sum_high":
            return sum(v >> 32 for v in there)
        case "sum_low":
            return sum(v & 0xFFFFFFFF for v in there)
        case "min" | "max":
            return min(there) if function == "min" else max(there)
        case "var_pop":
            mean = math.fsum(there) / len(there)
            return math.fsum((v - mean) ** 2 for v in there) / len(there)
        case other:
            raise AssertionError(other)


class Logged:
    """A stream's rings over a home on disk; `open` again is a restart."""

    def __init__(
        self, root: Path, config: Config, late_us: int = 0, disk: Disk | None = None
    ) -> None:
        self.relation = Relation("s", "none:", FIELDS, "ts", late_us)
        self.config = config
        self.disk = disk or QuickDisk(root)
        if disk is None:
            self.disk.make_root()
            for folder in ("panes", "folded", "rounds"):
                self.disk.make_folder(f"{FOLDER}/{folder}")
        self.queries: dict[int, Query] = {}
        self.answers: dict[int, list[Answer]] = {}
        self.open()

    def open(self) -> None:
        self.ledger = Ledger(self.disk, FOLDER)
        self.rings = Rings(self.disk, self.ledger, self.config)
        self._answering = Answering()
        self._seated: set[int] = set()

    def add(self, query_id: int, sql: str) -> None:
        self.queries[query_id] = bind(
            sql, {"s": self.relation}, name=f"q{query_id}", config=self.config
        )

    def drop(self, query_id: int) -> None:
        del self.queries[query_id]

    def round(self, rows: Sequence[Row]) -> None:
        self.round_of(
            lambda cuts: panes_of(cuts, self.counted(rows)), max((r.t for r in rows), default=None)
        )

    def counted(self, rows: Sequence[Row]) -> list[Row]:
        newest = self.ledger.newest
        limit = (
            -math.inf
            if newest is None or newest.newest_us is None
            else newest.newest_us - self.relation.late_us
        )
        return [r for r in rows if r.t >= limit]

    def round_of(self, panes: Callable[[Cuts], pa.Table], newest_us: int | None) -> None:
        if set(self.queries) != self._seated:
            self.rings.assign([Registered(i, q, 1) for i, q in self.queries.items()], self.relation)
            self._seated = set(self.queries)
        newest = self.ledger.newest
        number, before = (0, None) if newest is None else (newest.round_id + 1, newest.newest_us)
        cuts = self.rings.cutting.cuts()
        round = Round(number, before, self.relation.late_us, Census(newest_us=newest_us))
        mark = self.rings.take(cuts, panes(cuts), round, _no_facts)
        blocks = [
            block
            for closed in self.rings.close(round.watermark_us)
            for found, _ in self._answering.finish(closed, self.rings.keys, {})
            for block in found
        ]
        keep = self.rings.prune(round.watermark_us)
        held = self.rings.log.held
        self._commit(round, keep, mark, held)
        for block in blocks:
            self._note(block)

    def _commit(self, round: Round, keep: int, mark: FileMark, held: tuple[FileMark, ...]) -> None:
        old = self.ledger.newest
        self.disk.sync(f"{FOLDER}/panes")
        if old is None or old.held != held:
            self.disk.sync(f"{FOLDER}/folded")
        first = max(0, keep - 1)
        self.ledger.commit(
            Manifest(
                round.id,
                "",
                0,
                0,
                0,
                first,
                round.newest_us,
                "",
                "",
                (),
                (mark,),
                {"panes": keep},
                {},
                held,
            )
        )
        for gone in old.held if old is not None else ():
            if gone not in held:
                self.disk.remove(gone.path)
        for path in (self.disk.root / FOLDER / "panes").iterdir():
            if int(path.stem) < keep:
                self.disk.remove(f"{FOLDER}/panes/{path.name}")

    def _note(self, block: Any) -> None:
        at = 0
        for query_id, count in zip(block.ids.tolist(), block.counts.tolist(), strict=True):
            part = pa.table(
                [
                    pa.array(block.end_us[at : at + count]),
                    *(c.slice(at, count) for c in block.columns),
                ],
                names=[f"c{i}" for i in range(1 + len(block.columns))],
            )
            query = self.queries[query_id]
            names = [o.name for o in query.outputs]
            ends = block.end_us[at : at + count].tolist()
            values = dress(query, part).select(names).to_pylist()
            found = self.answers.setdefault(query_id, [])
            found += [
                (end, *(row[n] for n in names)) for end, row in zip(ends, values, strict=True)
            ]
            at += count

    def log_bytes_on_disk(self) -> int:
        return sum(
            p.stat().st_size
            for f in ("panes", "folded")
            for p in (self.disk.root / FOLDER / f).iterdir()
        )


def _no_facts(*_: Any) -> list[pa.Array]:
    raise AssertionError("no query here has facts")


def expected(
    query: Query,
    rows: Sequence[Row],
    watermark_us: int,
    where: Callable[[Row], bool],
    values: Callable[[list[Row]], Answer],
) -> list[Answer]:
    """Every window that ends at or before the watermark, by looking at all rows; one group-by key,
    k."""
    window = query.window
    assert window is not None
    found: list[Answer] = []
    times = [r.t for r in rows]
    first = (min(times) - window.range_us) // window.slide_us * window.slide_us
    for start in range(first, watermark_us - window.range_us + 1, window.slide_us):
        inside = [r for r in rows if start <= r.t < start + window.range_us and where(r)]
        keys = sorted({r.k for r in inside}, key=str)
        found += [
            (start + window.range_us, k, *values([r for r in inside if r.k == k])) for k in keys
        ]
    return found


def near(a: Answer, b: Answer) -> bool:
    """Equal, doubles to 1e-12 of their size (of 1, near zero)."""
    return len(a) == len(b) and all(
        math.isclose(x, y, rel_tol=1e-12, abs_tol=1e-12)
        if isinstance(x, float) and isinstance(y, float)
        else x == y
        for x, y in zip(a, b, strict=True)
    )


def by_end(answers: Mapping[int, list[Answer]]) -> dict[int, list[Answer]]:
    return {
        i: sorted(rows, key=lambda a: tuple(str(v) for v in a[:2])) for i, rows in answers.items()
    }
