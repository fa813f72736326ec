"""A relation's turns: what its rounds keep, look up and leave to commit, whoever runs their tasks.

Rows are kept and looked up batch by batch (`probing.py`); what comes back are the names of the files this left.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from headrace.families.joins.cost import price_s, summed
from headrace.families.joins.plan import NOBODY
from headrace.families.joins.probing import Look, Report, Task
from headrace.families.joins.rounds import KIND as FOLDER
from headrace.families.joins.rounds import JoinRound, Seen, round_folder, round_path
from headrace.families.joins.rowfiles import RowFile
from headrace.families.joins.state import Joints
from headrace.runtime.family import Outcome, Place, Round
from headrace.runtime.ledger import FileMark, mark_of
from headrace.runtime.statistics import Load


class Tasks(Protocol):
    """Runs the tasks of one round."""

    def take(self, task: Task) -> list[Report]:
        """`take_batch` of each batch of the round's rows."""

    def look(self, task: Task, files: Sequence[RowFile]) -> list[Report]:
        """`look_all` of each file."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a round has done before it is committed."""

    looks: Sequence[Look]
    held: Sequence[FileMark]
    reports: Sequence[Report]

    @property
    def files(self) -> tuple[RowFile, ...]:
        return tuple(r.file for r in self.reports if r.file is not None)


class Turns:
    """Of one relation."""

    def __init__(self, place: Place, joints: Joints) -> None:
        self._place = place
        self._joints = joints
        self._name = place.relation.name
        joints.forget(self._name, place.folder)
        self._tidy()

    def take(self, tasks: Tasks, round: Round) -> Turn:
        self._joints.expect(self._name, round.census.rows)
        looks, held = self._joints.looks(self._name, self._place.folder, self._committed())
        return Turn(looks, held, self._take(tasks, round, looks) if round.census.rows else [])

    def _take(self, tasks: Tasks, round: Round, looks: Sequence[Look]) -> list[Report]:
        """Keep the rows and look them up; those of a relation joined with itself when all of the round are kept."""
        disk, folder = self._place.disk, round_folder(self._place.folder, round.id)
        disk.make_folder(folder)
        self._clear(folder)
        own = tuple(self._joints.rows(self._name).files)
        joined = self._joints.is_joined(self._name)
        task = Task(str(disk.root.absolute()), folder, round.id, self._place.relation, own, tuple(looks), joined)
        if all(look.other != self._name for look in looks):
            return tasks.take(task)
        reports = tasks.take(replace(task, looks=()))
        files = [r.file for r in reports if r.file is not None]
        seen = tuple(replace(look, files=(*look.files, *files)) if look.side == 1 and look.other == self._name else look
                     for look in looks)  # fmt: skip
        return reports + [replace(r, file=None) for r in tasks.look(replace(task, looks=seen), files)]

    def _clear(self, folder: str) -> None:
        """What an attempt at the round has left; the folder stays, for tasks of it may still be writing."""
        for path in (self._place.disk.root / folder).iterdir():
            self._place.disk.remove(f"{folder}/{path.name}")

    def over_limit(self, turn: Turn) -> dict[int, str]:
        """Queries for which more rows would have to be kept than may be, with the reason."""
        limit, size = self._place.config.join_rows_max, self._kept(turn)
        if size <= limit or not self._joints.is_joined(self._name):
            return {}
        bound = "bound the event times, if both are streams (s.ts BETWEEN r.ts - INTERVAL '1' HOUR AND r.ts)"
        less = "have fewer keys in the table, by deleting some" if self._place.relation.is_table else bound
        reason = f"it needs {size:,} rows of {self._name} kept, the limit join_rows_max is {limit:,}; " \
                 f"{less}, or raise the limit"
        return dict.fromkeys(self._joints.unbounded(self._name), reason)

    def _kept(self, turn: Turn) -> int:
        return self._joints.rows(self._name).size + sum(file.growth for file in turn.files)

    # -- what is committed --------------------------------------------------------------------------

    def outcome(self, turn: Turn, round: Round) -> Outcome:
        outcome = Outcome(held=tuple(turn.held), load=self._load(turn, round))
        if turn.files:
            outcome.files += self._write(turn, round)
        rounds = self._joints.rows(self._name).rounds.rounds
        first = rounds[0].round_id if rounds else round.id
        outcome.keep[FOLDER] = first if self._needs_all() else max(first, self._oldest(round))
        return outcome

    def _load(self, turn: Turn, round: Round) -> Load:
        written = [w for r in turn.reports for w in r.written]
        methods = {name: int(count) for name, count in summed(w.events for w in written).items()}
        standing, rivals = self._joints.tally(self._name), summed(w.costs_s for w in written)
        price = price_s(round.census.rows, int(standing.get("groups", 0)))
        return Load(priced={"joins": price}, methods=methods, rivals_s=rivals, kept_rows=self._kept(turn),
                    standing=standing)  # fmt: skip

    def _needs_all(self) -> bool:
        return self._place.relation.is_table

    def _oldest(self, round: Round) -> int:
        """What may still be joined, and what the answers that are kept are made of."""
        kept = self._place.config.manifests_kept
        rounds = [file.round_id for file in self._joints.rows(self._name).files]
        return min([round.id + 1 - kept, *rounds, *self._joints.needed(self._name, kept)])

    def _write(self, turn: Turn, round: Round) -> list[FileMark]:
        disk, looks, files = self._place.disk, turn.looks, turn.files
        written = tuple(w for r in turn.reports for w in r.written)
        seen = tuple(Seen(look.joint.kind, look.side, look.levels) for look in looks)
        self._joints.note({looks[w.look].levels[w.level]: w.rates for w in written if w.rates is not None})
        rates = self._joints.rates([path for look in looks for path in look.levels])
        odd = sum(r.odd for r in turn.reports)
        after = self._joints.newest({look.other for look in looks} - {self._name, NOBODY})
        since = self._joints.oldest(looks)
        done = JoinRound(self._joints.tick + 1, round.id, 0, files, seen, written, odd, rates, after, since)
        marks = [FileMark(f.path, f.size, f.crc) for f in files]
        marks += [FileMark(w.path, w.size, w.crc) for w in written]
        for mark in marks:
            disk.sync(mark.path)
        path, data = round_path(self._place.folder, round.id), done.pack()
        disk.put(path, data)
        marks.append(mark_of(path, data))
        if odd:
            marks.append(self._bury(turn.reports, odd, round))
        return marks

    def _bury(self, reports: Sequence[Report], odd: int, round: Round) -> FileMark:
        """Odd rows, at most `dead_letter_rows_max` of them."""
        reason = "NaN, infinite or too large in what a join compares"
        rows = [row for r in reports for row in r.odd_rows][: self._place.config.dead_letter_rows_max]
        lines = [json.dumps({"round": round.id, "reason": reason, "row": row}, default=str) for row in rows]
        if odd > len(rows):
            lines.append(json.dumps({"round": round.id, "reason": "more of these", "left_out": odd - len(rows)}))
        path = f"{self._place.folder}/dead/{round.id:012d}.joins.jsonl"
        data = ("\n".join(lines) + "\n").encode()
        self._place.disk.put(path, data)
        return mark_of(path, data)

    def _tidy(self) -> None:
        """Levels that were written for a round that was not committed."""
        kept = {mark.path for mark in self._committed()}
        folder = f"{self._place.folder}/levels"
        for path in (self._place.disk.root / folder).iterdir():
            if f"{folder}/{path.name}" not in kept:
                self._place.disk.remove(f"{folder}/{path.name}")

    def _committed(self) -> tuple[FileMark, ...]:
        """Levels, among other files, that the newest round needs."""
        newest = self._place.ledger.newest
        return () if newest is None else newest.held


def nothing(place: Place, round: Round) -> Outcome:
    """Of a relation that is not joined any more."""
    newest = place.ledger.newest
    return Outcome(keep={FOLDER: round.id + 1}) if newest is not None and FOLDER in newest.keep else Outcome()
