"""The pane log: what each round added to the panes, one small file a round.

It is the family's whole durable state.  Rings are rebuilt from it after a restart, and a new query
starts with as much history as the log holds for its predicate, its keys and its measures; windows
that reach further back are not answered, because rows of theirs may be missing.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from headrace.disk import Disk
from headrace.families.windows.measures import Measure
from headrace.families.windows.plan import Cut, Cuts, Share
from headrace.runtime.ledger import FileMark, Ledger, mark_of
from headrace.sql.codec import decode_expr, encode_expr
from headrace.sql.tree import Expr

_META = b"headrace"


@dataclass(frozen=True, slots=True)
class PaneRound:
    """One round of the log.  `newest_before_us`: rows of earlier rounds are not newer than this."""

    round_id: int
    newest_before_us: int | None
    newest_us: int | None
    cuts: Cuts
    rows: int
    mark: FileMark


class PaneLog:
    """The rounds still kept, oldest first."""

    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self._disk = disk
        self._ledger = ledger
        self._writer = ThreadPoolExecutor(1, "headrace-panes")
        self.rounds: list[PaneRound] = []
        newest = ledger.newest
        first = 0 if newest is None else max(newest.keep.get("panes", 0), newest.first_round)
        for round_id in ledger.rounds:
            marks = [m for m in ledger.read(round_id).files if "/panes/" in m.path] if round_id >= first else []
            self.rounds += [self._open(round_id, mark) for mark in marks]

    def path(self, round_id: int) -> str:
        return f"{self._ledger.folder}/panes/{round_id:012d}.arrow"

    def append(self, round_id: int, newest_before_us: int | None, newest_us: int | None, cuts: Cuts,
               table: pa.Table) -> FileMark:
        """Write a round; it counts once it is committed."""
        return self.begin(round_id, newest_before_us, newest_us, cuts, table)()

    def begin(self, round_id: int, newest_before_us: int | None, newest_us: int | None, cuts: Cuts,
              table: pa.Table) -> Callable[[], FileMark]:
        """Write a round while the caller goes on; what is returned waits for it, and must be called."""
        meta = {"before": newest_before_us, "newest": newest_us, "cuts": _cuts_out(cuts)}
        table = table.replace_schema_metadata({_META: json.dumps(meta).encode()})
        writing = self._writer.submit(self._write, self.path(round_id), table)

        def end() -> FileMark:
            mark = writing.result()
            self.rounds.append(PaneRound(round_id, newest_before_us, newest_us, cuts, table.num_rows, mark))
            return mark

        return end

    def _write(self, path: str, table: pa.Table) -> FileMark:
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data = sink.getbuffer()
        self._disk.put(path, data)
        return mark_of(path, data)

    def read(self, entry: PaneRound) -> pa.Table:
        with pa.memory_map(str(self._disk.root / entry.mark.path)) as file:
            return pa.ipc.open_stream(file.read_buffer()).read_all()

    def keep_from(self, horizon_us: int | None) -> int:
        """Let go of rounds whose panes are all older than the horizon; the first round kept."""
        while len(self.rounds) > 1 and horizon_us is not None:
            newest = self.rounds[0].newest_us
            if newest is not None and newest >= horizon_us:
                break
            del self.rounds[0]
        return self.rounds[0].round_id if self.rounds else 0

    def since(self, share: Share) -> tuple[bool, int]:
        """(whether all rows ever are covered, else the time from which they are) for a query's needs."""
        start: PaneRound | None = None
        for entry in reversed(self.rounds):
            if entry.rows and not holds(entry.cuts, share):
                break
            start = entry
        if start is not None:
            before = start.newest_before_us
        else:
            before = self.rounds[-1].newest_us if self.rounds else None
        return (True, 0) if before is None else (False, before + 1)

    def replay(self) -> Iterator[tuple[PaneRound, pa.Table]]:
        for entry in self.rounds:
            if entry.rows:
                yield entry, self.read(entry)

    def _open(self, round_id: int, mark: FileMark) -> PaneRound:
        data = self._ledger.check(mark)
        table = pa.ipc.open_stream(data).read_all()
        meta = json.loads(table.schema.metadata[_META])
        cuts = _cuts_in(json.dumps(meta["cuts"]))
        return PaneRound(round_id, meta["before"], meta["newest"], cuts, table.num_rows, mark)


@lru_cache(maxsize=100_000)
def holds(cuts: Cuts, share: Share) -> bool:
    """Whether rounds of these cuts have all the query needs."""
    return (
        cuts.find(share.slot) is not None
        and set(share.measures) <= set(cuts.measures)
        and share.window.grain_us % cuts.pane_us == 0
        and all(_edges(cuts, c) >= set(b.edges()) for c, b in zip(share.slot.cells, share.bands, strict=True))
    )


@lru_cache(maxsize=1_000)
def _edges(cuts: Cuts, cell: Expr) -> frozenset[int]:
    return frozenset(cuts.edges_of(cell))


@lru_cache(maxsize=16)
def _cuts_out(cuts: Cuts) -> dict[str, object]:
    def out(exprs: Iterable[Expr]) -> list[str]:
        return [encode_expr(e) for e in exprs]

    return {
        "pane_us": cuts.pane_us,
        "cuts": [[out(c.keys), out(c.predicates)] for c in cuts.cuts],
        "measures": [[m.kind, None if m.arg is None else encode_expr(m.arg)] for m in cuts.measures],
        "edges": [[encode_expr(key), edges] for key, edges in cuts.edges],
    }


@lru_cache(maxsize=64)
def _cuts_in(text: str) -> Cuts:
    data = json.loads(text)
    cuts = tuple(Cut(tuple(map(decode_expr, k)), tuple(map(decode_expr, p))) for k, p in data["cuts"])
    measures = tuple(Measure(kind, None if arg is None else decode_expr(arg)) for kind, arg in data["measures"])
    edges = tuple((decode_expr(key), tuple(own)) for key, own in data.get("edges", ()))
    return Cuts(data["pane_us"], cuts, measures, edges)
