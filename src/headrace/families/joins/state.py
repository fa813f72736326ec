"""Joins of one engine: what the pipelines of relations that are joined have in common.

A round of one relation looks at the rows the others have committed, so only one such round is under way at a time:
`turn` is the lock, held from that look to the commit.  Another relation may be planned meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.joins.plan import Joint, Share, horizon_us, share
from headrace.families.joins.probes import Rates
from headrace.families.joins.probing import Look
from headrace.families.joins.rounds import JoinRounds
from headrace.families.joins.rowfiles import RowFile
from headrace.families.joins.standing import Level, Standing
from headrace.runtime.ledger import FileMark, Ledger, mark_of
from headrace.values import Relation


@dataclass(slots=True)
class Rows:
    """The rows of a relation that may still be joined, and how far its event time is."""

    relation: Relation
    rounds: JoinRounds
    ledger: Ledger
    files: list[RowFile] = field(default_factory=list)

    @property
    def watermark_us(self) -> int | None:
        newest = self.ledger.newest
        return None if newest is None or newest.newest_us is None else newest.newest_us - self.relation.late_us

    @property
    def size(self) -> int:
        return sum(file.growth for file in self.files)


class Joints:
    """`ledger_of`: the ledger of a relation, whoever runs it."""

    def __init__(self, disk: Disk, config: Config, relation_of: Callable[[str], Relation],
                 ledger_of: Callable[[str], Ledger]) -> None:  # fmt: skip
        self.turn = threading.Lock()
        self._mutex = threading.RLock()
        self._disk = disk
        self._config = config
        self._relation_of = relation_of
        self._ledger_of = ledger_of
        self._rows: dict[str, Rows] = {}
        self._queries: dict[str, dict[int, Share]] = {}
        self._shares: dict[int, Share] = {}
        self._bounds: set[tuple[tuple[str, str], tuple[int, int] | None]] = set()
        self._standing: dict[Joint, Standing] = {}
        self._levels: dict[tuple[str, Level], FileMark] = {}
        self._rates: dict[str, Rates] = {}
        self.tick = 0

    # -- queries ------------------------------------------------------------------------------------

    def replan(self, relation: str, queries: Sequence[Registered]) -> None:
        """These are the joins of a relation from its next round on."""
        with self._mutex:
            self._queries[relation] = {r.id: self._share(r) for r in queries}
            known = {i: s for own in self._queries.values() for i, s in own.items()}
            by_joint: dict[Joint, dict[int, Share]] = {joint: {} for joint in self._standing}
            for i, own in known.items():
                by_joint.setdefault(own.joint, {})[i] = own
            for joint, own_shares in by_joint.items():
                standing = self._standing.setdefault(joint, Standing(joint))
                standing.update({i: s.boxes for i, s in own_shares.items()})
                if not own_shares:
                    del self._standing[joint]
            self._shares = known
            self._bounds = {(own.joint.relations, own.bound) for own in known.values()}
            for rows in self._rows.values():  # what was past for the queries before may not be for these
                rows.files = [file for done in rows.rounds.rounds for file in done.files]

    def _share(self, registered: Registered) -> Share:
        known = self._shares.get(registered.id)
        if known is not None:
            return known
        query = registered.query
        assert query.joined is not None
        return share(query, self._relation_of(query.source), self._relation_of(query.joined))

    def queries(self, relation: str) -> Mapping[int, Share]:
        return self._queries.get(relation, {})

    # -- rows ---------------------------------------------------------------------------------------

    def rows(self, relation: str) -> Rows:
        """What is committed of a relation's rows, without those no query needs any more."""
        with self._mutex:
            rows = self._entry(relation)
            for done in rows.rounds.refresh():
                rows.files += done.files
                self.tick = max(self.tick, done.tick)
                self._rates.update(done.rates)
            first = rows.rounds.rounds[0].round_id if rows.rounds.rounds else None
            horizon = self._horizon_us(relation)
            kept = [f for f in rows.files if first is not None and f.round_id >= first]
            rows.files = [f for f in kept if not _is_past(f, horizon)]
            return rows

    def _entry(self, relation: str) -> Rows:
        if relation not in self._rows:
            ledger = self._ledger_of(relation)
            self._rows[relation] = Rows(self._relation_of(relation), JoinRounds(ledger), ledger)
        self._rows[relation].ledger.refresh()
        return self._rows[relation]

    def _horizon_us(self, relation: str) -> int | None:
        """Rows older than this join nothing that is still to come."""
        limits: list[int | None] = []
        watermarks: dict[str, int | None] = {}
        for relations, bound in self._bounds:
            for side in (0, 1):
                if relations[side] == relation:
                    other = relations[1 - side]
                    if other not in watermarks:
                        watermarks[other] = self._entry(other).watermark_us
                    limits.append(horizon_us(bound, side, watermarks[other]))
        known = [limit for limit in limits if limit is not None]
        return min(known) if limits and len(known) == len(limits) else None

    def unbounded(self, relation: str) -> list[int]:
        """Queries for which all rows of a relation are kept; all of its queries, if there are none."""
        queries = self.queries(relation)
        found = [i for i, s in queries.items() for side in (0, 1)
                 if s.joint.relations[side] == relation and horizon_us(s.bound, side, 0) is None]  # fmt: skip
        return found or list(queries)

    def forget(self, relation: str, folder: str) -> None:
        """Read the relation's rows anew from what is committed, and write its levels anew."""
        with self._mutex:
            self._rows.pop(relation, None)
            self._levels = {key: mark for key, mark in self._levels.items() if key[0] != folder}

    # -- a round ------------------------------------------------------------------------------------

    def looks(self, relation: str, folder: str) -> tuple[list[Look], list[FileMark]]:
        """How rows of a relation are looked up, and the files of levels that are needed for it."""
        with self._mutex:
            found: list[Look] = []
            held: list[FileMark] = []
            for joint, standing in self._standing.items():
                if relation not in joint.relations or not standing.levels:
                    continue
                marks = [self._level(folder, level) for level in standing.levels]
                held += marks
                paths = tuple(mark.path for mark in marks)
                rates = tuple(self._rates.get(path) for path in paths)
                for side in (0, 1):
                    if joint.relations[side] == relation:
                        files = tuple(self.rows(joint.relations[1 - side]).files)
                        found.append(Look(len(found), joint, side, files, paths, rates))
            kept = {mark.path for mark in held}
            self._levels = {k: m for k, m in self._levels.items() if k[0] != folder or m.path in kept}
            own = f"{folder}/"
            self._rates = {path: r for path, r in self._rates.items() if not path.startswith(own) or path in kept}
            return found, held

    def _level(self, folder: str, level: Level) -> FileMark:
        key = folder, level
        mark = self._levels.get(key)
        if mark is None or not self._is_there(mark.path):  # a round without joins lets go of it
            data = level.pack()
            mark = self._levels[key] = mark_of(f"{folder}/levels/{sha256(data).hexdigest()[:32]}.npz", data)
            if not self._is_there(mark.path):  # else it may be committed, and is never written twice
                self._disk.put(mark.path, data)
        return mark

    def _is_there(self, path: str) -> bool:
        return (self._disk.root / path).is_file()

    def note(self, rates: Mapping[str, Rates]) -> None:
        self._rates.update(rates)

    def rates(self, paths: Sequence[str]) -> dict[str, Rates]:
        return {path: self._rates[path] for path in paths if path in self._rates}


def _is_past(file: RowFile, horizon_us: int | None) -> bool:
    return horizon_us is not None and file.newest_us is not None and file.newest_us < horizon_us

