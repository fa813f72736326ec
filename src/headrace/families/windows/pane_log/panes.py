"""The pane log: what each round added to the panes, one small file a round; old rounds are folded
(`pane_log/background.py`).

It is the family's whole durable state.  Rings are rebuilt from it after a restart, and a new query
starts with as much history as the log holds for its predicate, its keys and its measures; windows
that reach further back are not answered, because rows of theirs may be missing.

A round's own file is in the manifest of that round.  Folded files are in none of their rounds': the
newest manifest names those in force (`held`), and from which round on rounds stand for themselves
(`keep`).
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from headrace.disk import Disk
from headrace.families.windows.cuts import Cut, Cuts
from headrace.families.windows.measures import Measure
from headrace.families.windows.plan import Share, Slot
from headrace.records import decode, reading
from headrace.runtime.ledger import FileMark, Ledger, mark_of
from headrace.sql.bands import Band
from headrace.sql.codec import decode_expr, encode_expr
from headrace.sql.tree import Expr

META = b"headrace"
NO_CUTS = Cuts(0, (), ())


@dataclass(frozen=True, slots=True)
class PaneRound:
    """One round of the log, or several folded into one, up to `round_id`.

    `newest_before_us`: rows of earlier rounds are not newer than this."""

    round_id: int
    newest_before_us: int | None
    newest_us: int | None
    cuts: Cuts
    rows: int
    mark: FileMark

    @property
    def is_folded(self) -> bool:
        return "/folded/" in self.mark.path


@dataclass(frozen=True, slots=True)
class PanesMeta:
    """Beside the rows of a file."""

    before: int | None
    newest: int | None
    cuts: Mapping[str, Any]
    round: int


class PaneLog:
    """The rounds still kept, oldest first."""

    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self._disk = disk
        self._ledger = ledger
        self._writer = ThreadPoolExecutor(1, "headrace-panes")
        self.rounds: list[PaneRound] = []
        newest = ledger.newest
        own = f"{ledger.folder}/folded/"
        held = [m for m in newest.held if m.path.startswith(own)] if newest is not None else []
        self.rounds += [self._open(0, mark) for mark in held]
        first = 0 if newest is None else max(newest.keep.get("panes", 0), newest.first_round)
        for round_id in ledger.rounds:
            marks = (
                [m for m in ledger.read(round_id).files if "/panes/" in m.path]
                if round_id >= first
                else []
            )
            self.rounds += [self._open(round_id, mark) for mark in marks]

    def path(self, round_id: int) -> str:
        return f"{self._ledger.folder}/panes/{round_id:012d}.arrow"

    def append(
        self,
        round_id: int,
        newest_before_us: int | None,
        newest_us: int | None,
        cuts: Cuts,
        table: pa.Table,
    ) -> FileMark:
        """Write a round; it counts once it is committed."""
        return self.begin(round_id, newest_before_us, newest_us, cuts, table)()

    def begin(
        self,
        round_id: int,
        newest_before_us: int | None,
        newest_us: int | None,
        cuts: Cuts,
        table: pa.Table,
    ) -> Callable[[], FileMark]:
        """Write a round while the caller goes on; what is returned waits for it, and must be
        called."""
        writing = self._writer.submit(
            self.write, self.path(round_id), round_id, newest_before_us, newest_us, cuts, table
        )

        def end() -> FileMark:
            entry = writing.result()
            self.rounds.append(entry)
            return entry.mark

        return end

    def skip(self, round_id: int, newest_us: int | None) -> FileMark:
        """A round whose panes nobody asked for: what the log held is of no use after it, and it
        begins anew behind its rows."""
        self.rounds.clear()
        return self.append(round_id, newest_us, newest_us, NO_CUTS, pa.table({}))

    def write(
        self,
        path: str,
        round_id: int,
        newest_before_us: int | None,
        newest_us: int | None,
        cuts: Cuts,
        table: pa.Table,
    ) -> PaneRound:
        """A file of the log, durable; it is no part of the log yet."""
        return write_panes(self._disk, path, round_id, newest_before_us, newest_us, cuts, table)

    def read(self, entry: PaneRound) -> pa.Table:
        path = self._disk.root / entry.mark.path
        with reading(path), pa.memory_map(str(path)) as file:
            return pa.ipc.open_stream(file.read_buffer()).read_all()

    def keep_from(self, horizon_us: int | None) -> int:
        """Let go of rounds whose panes are all older than the horizon; the first round that stands
        for itself."""
        while len(self.rounds) > 1 and horizon_us is not None:
            newest = self.rounds[0].newest_us
            if newest is not None and newest >= horizon_us:
                break
            del self.rounds[0]
        return next((e.round_id for e in self.rounds if not e.is_folded), 0)

    @property
    def held(self) -> tuple[FileMark, ...]:
        """The folded files in force."""
        return tuple(e.mark for e in self.rounds if e.is_folded)

    @property
    def nbytes(self) -> int:
        return sum(e.mark.size for e in self.rounds)

    def since(self, share: Share) -> tuple[bool, int]:
        """(whether all rows ever are covered, else the time from which they are) for a query's
        needs."""
        start: PaneRound | None = None
        for entry in reversed(self.rounds):
            if entry.rows and not holds(entry.cuts, share):
                break
            start = entry
        if start is not None:
            before = start.newest_before_us
        else:
            before = self.newest_us
        return (True, 0) if before is None else (False, before + 1)

    @property
    def newest_us(self) -> int | None:
        """The time of the newest row."""
        return self.rounds[-1].newest_us if self.rounds else None

    def replay(self, from_us: int) -> Iterator[tuple[PaneRound, pa.Table]]:
        """Rounds with rows from that time on, oldest first."""
        for entry in self.rounds:
            if entry.rows and (entry.newest_us is None or entry.newest_us >= from_us):
                yield entry, self.read(entry)

    def _open(self, round_id: int, mark: FileMark) -> PaneRound:
        data = self._ledger.check(mark)
        with reading(self._disk.root / mark.path):
            meta, cuts, rows = read_panes(data)
        return PaneRound(meta.round, meta.before, meta.newest, cuts, rows.num_rows, mark)


def write_panes(
    disk: Disk,
    path: str,
    round_id: int,
    newest_before_us: int | None,
    newest_us: int | None,
    cuts: Cuts,
    table: pa.Table,
) -> PaneRound:
    """A file of a pane log, durable."""
    meta = {
        "before": newest_before_us,
        "newest": newest_us,
        "cuts": _cuts_out(cuts),
        "round": round_id,
    }
    table = table.replace_schema_metadata({META: json.dumps(meta).encode()})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getbuffer()
    disk.put(path, data)
    return PaneRound(
        round_id, newest_before_us, newest_us, cuts, table.num_rows, mark_of(path, data)
    )


def read_panes(data: bytes | pa.Buffer) -> tuple[PanesMeta, Cuts, pa.Table]:
    """What such a file says of its rows, and the rows."""
    table = pa.ipc.open_stream(data).read_all()
    meta, cuts = meta_of(table.schema)
    return meta, cuts, table


def meta_of(schema: pa.Schema) -> tuple[PanesMeta, Cuts]:
    meta = decode(PanesMeta, json.loads(schema.metadata[META]))
    return meta, _cuts_in(json.dumps(meta.cuts))


@lru_cache(maxsize=100_000)
def holds(cuts: Cuts, share: Share) -> bool:
    """Whether rounds of these cuts have all the query needs."""
    return (
        _serves(cuts, share.slot, share.measures, share.bands)
        and share.window.grain_us % cuts.pane_us == 0
    )


def _serves(cuts: Cuts, slot: Slot, measures: tuple[Measure, ...], bands: tuple[Band, ...]) -> bool:
    return (
        cuts.find(slot) is not None
        and set(measures) <= set(cuts.measures)
        and all(cuts.has_edges(c, b) for c, b in zip(slot.cells, bands, strict=True))
    )


def served_by(shares: Iterable[Share]) -> Callable[[Cuts], frozenset[int]]:
    """Which of these shares, but for their windows, rounds of some cuts have all they need for."""
    asked = list(dict.fromkeys((s.slot, s.measures, s.bands) for s in shares))

    @lru_cache(maxsize=1_000)
    def served(cuts: Cuts) -> frozenset[int]:
        return frozenset(i for i, needs in enumerate(asked) if _serves(cuts, *needs))

    return served


def mark_of_cuts(cuts: Cuts) -> int:
    """The same for equal cuts, in every process."""
    return zlib.crc32(json.dumps(_cuts_out(cuts)).encode())


@lru_cache(maxsize=16)
def _cuts_out(cuts: Cuts) -> dict[str, object]:
    def out(exprs: Iterable[Expr]) -> list[str]:
        return [encode_expr(e) for e in exprs]

    return {
        "pane_us": cuts.pane_us,
        "cuts": [
            [out(c.keys), out(c.predicates), out(c.cells), *([] if c.has_facts else [False])]
            for c in cuts.cuts
        ],
        "measures": [
            [m.kind, None if m.arg is None else encode_expr(m.arg), *m.params]
            for m in cuts.measures
        ],
        "edges": [[encode_expr(key), edges] for key, edges in cuts.edges],
    }


@lru_cache(maxsize=64)
def _cuts_in(text: str) -> Cuts:
    data = json.loads(text)
    cuts = tuple(_cut_in(cut) for cut in data["cuts"])
    measures = tuple(
        Measure(kind, None if arg is None else decode_expr(arg), tuple(params))
        for kind, arg, *params in data["measures"]
    )
    edges = tuple((decode_expr(key), tuple(own)) for key, own in data.get("edges", ()))
    return Cuts(data["pane_us"], cuts, measures, edges)


def _cut_in(data: Sequence[Any]) -> Cut:
    keys, predicates, cells = (tuple(map(decode_expr, exprs)) for exprs in data[:3])
    return Cut(keys, predicates, cells, has_facts=len(data) == 3)
