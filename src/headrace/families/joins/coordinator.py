"""Joins of one engine: what the pipelines of relations that are joined have in common.

A round of one relation looks at the rows the others have committed, so only one such round is under
way at a time (`Relations.commit_lock`).  Each relation plans in a
thread of its own, at any time.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.joins.levels.level import Level, level_name, sides_of
from headrace.families.joins.levels.notes import notes_of
from headrace.families.joins.levels.probes import Rates
from headrace.families.joins.levels.probing import Look
from headrace.families.joins.levels.standing import Standing
from headrace.families.joins.plan import (
    FILTER,
    NOBODY,
    JoinShape,
    Share,
    filter_share,
    horizon_us,
    share,
)
from headrace.relations.rounds import needed_begins
from headrace.relations.rows import Relations, Rows
from headrace.runtime.ledger import FileMark, mark_of
from headrace.values import Relation


class Need(NamedTuple):
    """Rows of a relation are needed on a side, for those of another that are still to come, by a
    bound of time."""

    other: str
    side: int
    bound: tuple[int, int] | None


def _needs(own: Share, relation: str) -> list[Need]:
    """What a query needs of a relation; a filter nothing."""
    sides = sides_of(own.shape, relation) if own.shape.kind != FILTER else ()
    return [Need(own.shape.relations[1 - side], side, own.bound) for side in sides]


class JoinCoordinator:
    """`relations`: the rows of all relations of the engine; `rests`: whether a relation has joins or
    filters in quarantine, whose answers are still read."""

    def __init__(
        self,
        disk: Disk,
        config: Config,
        relation_of: Callable[[str], Relation],
        relations: Relations,
        rests: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.relations = relations
        self._planning = threading.Lock()
        self._disk = disk
        self._config = config
        self._relation_of = relation_of
        self.rests = rests
        self._asked: dict[str, set[int]] = {}
        self._shares: dict[int, Share] = {}
        self._versions: dict[int, int] = {}
        self._standing: dict[JoinShape, Standing] = {}
        self._needs: dict[str, Counter[Need]] = {}
        self._levels: dict[tuple[str, Level], FileMark] = {}
        self._rates: dict[str, Rates] = {}
        self._noted: dict[str, int] = {}  # the newest round of each relation whose rates are known

    # -- queries -----------------------------------------------------------------------------------

    def replan(self, relation: str, queries: Sequence[Registered]) -> None:
        """These are the joins and filters of a relation from its next round on."""
        with self._planning:
            known, asked = self._asked.get(relation, set()), {r.id for r in queries}
            self._change(relation, [r for r in queries if r.id not in known], known - asked)

    def change(self, relation: str, comes: Sequence[Registered], goes: Iterable[int]) -> None:
        """The same, told by what comes and what goes: it costs what changes."""
        with self._planning:
            self._change(relation, comes, goes)

    def _change(self, relation: str, comes: Sequence[Registered], goes: Iterable[int]) -> None:
        """What a relation knew and no longer does has gone for all; what is new counts at once for
        both sides."""
        new = {r.id: self._share(r) for r in comes if r.id not in self._shares}
        gone = [i for i in goes if i in self._shares]
        touched: dict[JoinShape, tuple[dict[int, Share], list[int]]] = {}
        for i, own_share in new.items():
            touched.setdefault(own_share.shape, ({}, []))[0][i] = own_share
        for i in gone:
            touched.setdefault(self._shares[i].shape, ({}, []))[1].append(i)
        for shape, (own_comes, own_goes) in touched.items():
            self._update(shape, own_comes, own_goes)
        self._shares.update(new)
        self._versions.update((r.id, r.version) for r in comes)
        self._asked.setdefault(relation, set()).update(r.id for r in comes)
        for i in gone:
            del self._shares[i], self._versions[i]
            for asked in self._asked.values():
                asked.discard(i)

    def _update(self, shape: JoinShape, comes: Mapping[int, Share], goes: Sequence[int]) -> None:
        standing = self._standing.setdefault(shape, Standing(shape))
        standing.update({i: own.boxes for i, own in comes.items()}, goes)
        if not len(standing):
            del self._standing[shape]
        for relation in set(shape.relations):
            needs = Counter(self._needs.get(relation, {}))
            needs.update(need for own in comes.values() for need in _needs(own, relation))
            needs.subtract(need for i in goes for need in _needs(self._shares[i], relation))
            self._needs[relation] = +needs

    def _share(self, registered: Registered) -> Share:
        query = registered.query
        if query.joined is None:
            filtered = filter_share(query, self._relation_of(query.source))
            assert isinstance(filtered, Share)
            return filtered
        return share(query, self._relation_of(query.source), self._relation_of(query.joined))

    def is_asked(self, relation: str) -> bool:
        """Whether it has joins or filters."""
        return bool(self._asked.get(relation))

    def needs_rows(self, relation: str) -> bool:
        """Whether it has joins: filters keep nothing."""
        return bool(self._needs.get(relation))

    def tallies(self, relation: str) -> dict[tuple[JoinShape, int], dict[str, float]]:
        """How the queries of a relation stand (`Standing.tally`), by shape and the side it is
        on."""
        with self._planning:
            return {
                (shape, side): own.tally(side)
                for shape, own in self._standing.items()
                for side in sides_of(shape, relation)
            }

    # -- rows --------------------------------------------------------------------------------------

    def rows(self, relation: str) -> Rows:
        """What is committed of a relation's rows, without those no query needs any more."""
        rows = self.relations.rows(relation, self._horizon_us(relation))
        rounds, noted = rows.rounds.rounds, self._noted.get(relation, -1)
        for done in rounds[bisect_right(rounds, noted, key=lambda done: done.round_id) :]:
            self._rates.update(notes_of(done, rows.ledger.folder).rates)
            self._noted[relation] = done.round_id
        return rows

    def _horizon_us(self, relation: str) -> int | None:
        """Rows older than this join nothing that is still to come."""
        needs: Mapping[Need, int] = self._needs.get(relation, {})
        watermarks = {
            other: self.relations.entry(other).watermark_us
            for other in {need.other for need in needs}
        }
        limits = [horizon_us(need.bound, need.side, watermarks[need.other]) for need in needs]
        known = [limit for limit in limits if limit is not None]
        return min(known) if limits and len(known) == len(limits) else None

    def unbounded(self, relation: str) -> list[int]:
        """Queries for which all rows of a relation are kept; all that join it, if there are
        none."""
        with self._planning:
            shares = {i: self._shares[i] for i in self._asked.get(relation, ())}
        joins = {i: found for i, own in shares.items() if (found := _needs(own, relation))}
        unbounded = [
            i
            for i, found in joins.items()
            if any(horizon_us(n.bound, n.side, 0) is None for n in found)
        ]
        return unbounded or list(joins)

    def too_large(self, relation: str) -> list[str]:
        """The other tables of its joins that have more rows than may be joined."""
        with self._planning:
            shares = [self._shares[i] for i in self._asked.get(relation, ())]
        others = {name for own in shares for name in own.shape.relations} - {relation, NOBODY}
        limit = self._config.join_rows_max
        return sorted(
            name
            for name in others
            if self._relation_of(name).is_table and self.rows(name).size > limit
        )

    def begins(self, relation: str) -> list[tuple[int, int]]:
        """What has to be told of the rounds of a relation before they are let go of: when the
        queries began that are answered."""
        begins = self.rows(relation).rounds.begins()
        if self.rests(relation):
            return begins
        with self._planning:
            versions = {self._versions[i] for i in self._asked.get(relation, ())}
        return needed_begins(begins, versions)

    def joining(self, relation: str, other: str) -> list[int]:
        """The queries of a relation that join it with another."""
        with self._planning:
            return [
                i for i in self._asked.get(relation, ()) if other in self._shares[i].shape.relations
            ]

    def by_shape(self, relation: str) -> dict[JoinShape, list[int]]:
        """The queries of a relation."""
        found: dict[JoinShape, list[int]] = {}
        with self._planning:
            for i in self._asked.get(relation, ()):
                found.setdefault(self._shares[i].shape, []).append(i)
        return found

    def forget(self, relation: str, folder: str) -> None:
        """Read the relation's rows anew from what is committed, and write its levels anew.  Not
        while another looks at them."""
        self.relations.forget(relation)
        with self.relations.commit_lock:
            self._noted.pop(relation, None)
            self._levels = {key: mark for key, mark in self._levels.items() if key[0] != folder}

    # -- a round -----------------------------------------------------------------------------------

    def expect(self, relation: str, events: int) -> None:
        """So many rows of a relation are looked up next: levels are merged where that is worth
        it."""
        with self._planning:
            for shape, standing in self._standing.items():
                for side in sides_of(shape, relation):
                    standing.expect(side, events)

    def looks(
        self, relation: str, folder: str, committed: Sequence[FileMark]
    ) -> tuple[list[Look], list[FileMark]]:
        """How rows of a relation are looked up, and the files of levels that are needed for it;
        those that are not `committed` are written."""
        found: list[Look] = []
        held: list[FileMark] = []
        self.rows(relation)
        for shape, levels in self._levels_of(relation).items():
            marks = [self._level(folder, level, committed) for level in levels]
            held += marks
            paths = tuple(mark.path for mark in marks)
            # they are of the machine, whoever was asked for
            known = next(iter(self._rates.values()), None)
            rates = tuple(self._rates.get(path, known) for path in paths)
            for side in (0, 1):
                if shape.relations[side] == relation:
                    other = shape.relations[1 - side]
                    files = () if shape.kind == FILTER else tuple(self.rows(other).files)
                    found.append(Look(len(found), shape, side, files, paths, rates))
        others = {look.other for look in found if look.shape.kind != FILTER}
        self.relations.check({relation, *others})
        kept = {mark.path for mark in held}
        self._levels = {k: m for k, m in self._levels.items() if k[0] != folder or m.path in kept}
        self._rates = {
            path: r
            for path, r in self._rates.items()
            if not path.startswith(f"{folder}/") or path in kept
        }
        return found, held

    def _levels_of(self, relation: str) -> dict[JoinShape, list[Level]]:
        with self._planning:
            return {
                shape: list(standing.levels)
                for shape, standing in self._standing.items()
                if relation in shape.relations and standing.levels
            }

    def _level(self, folder: str, level: Level, committed: Sequence[FileMark]) -> FileMark:
        """Named by its content, so it may be there: a committed file is left alone, any other may
        be gone or torn."""
        known = self._levels.get((folder, level))
        if known is not None and known in committed:
            return known
        data = level.pack()
        mark = mark_of(f"{folder}/levels/{level_name(data)}", data)
        if mark not in committed:
            self._disk.put_aside(mark.path, data)
        self._levels[folder, level] = mark
        return mark

    def note(self, rates: Mapping[str, Rates]) -> None:
        self._rates.update(rates)

    def rates(self, paths: Sequence[str]) -> dict[str, Rates]:
        return {path: self._rates[path] for path in paths if path in self._rates}
