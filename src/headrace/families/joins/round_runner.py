"""A relation's turns: what its rounds keep, look up and leave to commit, whoever runs their tasks.

Rows are kept and looked up batch by batch (`levels/probing.py`); what comes back are the names of
the files this left.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from headrace.families.joins.coordinator import JoinCoordinator
from headrace.families.joins.cost import best_s, price_s, summed
from headrace.families.joins.figures import NAME, JoinsFigures, ShapeFigures
from headrace.families.joins.levels.notes import JoinNotes, Seen
from headrace.families.joins.levels.probes import Looked
from headrace.families.joins.levels.probing import Look, Report, Task
from headrace.families.joins.plan import NOBODY, JoinShape
from headrace.families.joins.words import look_name
from headrace.records import encode
from headrace.relations.keeper import Keeper, PendingRows
from headrace.relations.keeping import CompactTask
from headrace.relations.rounds import FOLDER, NONE
from headrace.relations.row_files import RowFile
from headrace.runtime.family import Outcome, Place, Round
from headrace.runtime.ledger import FileMark, mark_of


class Tasks(Protocol):
    """Runs the tasks of one round."""

    def take(self, task: Task) -> list[Report]:
        """`take_batch` of each batch of the round's rows."""

    def compact(self, task: CompactTask) -> list[Report]:
        """`compact_files` of all of them, some at a time."""

    def look(self, task: Task, files: Sequence[RowFile]) -> list[Report]:
        """Run `look_all` for each of these row files; what each task reports."""


@dataclass(frozen=True, slots=True)
class PendingRound:
    """What a round has done before it is committed."""

    looks: Sequence[Look]
    held: Sequence[FileMark]
    reports: Sequence[Report]
    rows: PendingRows


class RoundRunner:
    """Runs the rounds of one relation that is joined or filtered."""

    def __init__(self, place: Place, shapes: JoinCoordinator) -> None:
        self._place = place
        self._coordinator = shapes
        self._name = place.relation.name
        self._keeper = Keeper(place, shapes)
        shapes.forget(self._name, place.folder)
        self._tidy()

    def take(
        self, tasks: Tasks, round: Round, only: Collection[JoinShape] | None = None
    ) -> PendingRound:
        """Keep the rows and look them up; `only` for some shapes, or for none, to see whether that
        fails."""
        self._coordinator.expect(self._name, round.census.rows)
        looks, held = self._coordinator.looks(self._name, self._place.folder, self._committed())
        if only is not None:
            looks = [look for look in looks if look.shape in only]
        keep = self._keeper.task(round)
        takes = round.census.rows and (looks or keep.holds != NONE or only is not None)
        task = Task.of(keep, looks)
        reports = self._take(tasks, task) if takes else []
        rows = self._keeper.taken(keep, _files(reports))
        if takes and only is None and self._keeper.is_worn():
            rows = self._keeper.rewritten(keep, rows, lambda task: _files(tasks.compact(task)))
        self._coordinator.relations.add(self._name, rows.holds, rows.files)
        return PendingRound(looks, held, reports, rows)

    def _take(self, tasks: Tasks, task: Task) -> list[Report]:
        """Keep the rows and look them up; those of a relation joined with itself when all of the
        round are kept."""
        self._keeper.make_room(task)
        if all(look.other != self._name for look in task.looks):
            return tasks.take(task)
        reports = tasks.take(replace(task, looks=()))
        files = _files(reports)
        seen = tuple(
            replace(look, files=(*look.files, *files))
            if look.side == 1 and look.other == self._name
            else look
            for look in task.looks
        )
        return reports + [
            replace(r, file=None) for r in tasks.look(replace(task, looks=seen), files)
        ]

    def too_large(self) -> dict[int, str]:
        """Queries that join a table which has too many rows for that, with the reason."""
        for other in self._coordinator.too_large(self._name):
            reason = (
                f"it needs all rows of {other}, which has more than the limit join_rows_max = "
                f"{self._place.config.join_rows_max:,}; raise the limit"
            )
            return dict.fromkeys(self._coordinator.joining(self._name, other), reason)
        return {}

    def over_limit(self, pending: PendingRound) -> dict[int, str]:
        """Queries for which more rows would have to be kept than may be, with the reason."""
        limit, size = self._place.config.join_rows_max, self._keeper.size(pending.rows)
        if size <= limit or not self._coordinator.needs_rows(self._name):
            return {}
        bound = "bound the event times, if both are streams (s.ts BETWEEN r.ts - INTERVAL '1' HOUR AND r.ts)"
        less = (
            "have fewer keys in the table, by deleting some"
            if self._place.relation.is_table
            else bound
        )
        reason = (
            f"it needs {size:,} rows of {self._name} kept, the limit join_rows_max is {limit:,}; "
            f"{less}, or raise the limit"
        )
        return dict.fromkeys(self._coordinator.unbounded(self._name), reason)

    # -- what is committed -------------------------------------------------------------------------

    def outcome(self, pending: PendingRound, round: Round) -> Outcome:
        outcome = Outcome(held=tuple(pending.held))
        self._measure(pending, round, outcome)
        if self._keeper.has_to_tell(pending.rows, round):
            outcome.files += self._write(pending, round)
        outcome.keep[FOLDER] = self._keeper.first_kept(pending.rows, round)
        return outcome

    def _measure(self, pending: PendingRound, round: Round, outcome: Outcome) -> None:
        tallies = self._coordinator.tallies(self._name)
        shapes, event_s = {}, 0.0
        for look in pending.looks:
            tally = tallies.get((look.shape, look.side), {})
            looked = [own for r in pending.reports for own in r.looked if own.look == look.number]
            own = shapes[look_name(look.shape, look.side)] = _shape_figures(
                looked, int(tally.get("ranges", 0))
            )
            event_s += best_s(
                look.shape.kind,
                int(tally.get("groups", 0)),
                int(tally.get("ranges", 0)),
                own.alone_s,
            )
        outcome.priced["joins"] = price_s(round.census.rows, event_s)
        figures = JoinsFigures(shapes, self._keeper.size(pending.rows), summed(tallies.values()))
        outcome.figures[NAME] = encode(figures)

    def _write(self, pending: PendingRound, round: Round) -> list[FileMark]:
        disk, looks = self._place.disk, pending.looks
        written = tuple(w for r in pending.reports for w in r.written)
        seen = tuple(Seen(look.shape.kind, look.side, look.levels) for look in looks)
        looked = [own for r in pending.reports for own in r.looked]
        self._coordinator.note(
            {
                looks[own.look].levels[own.level]: own.rates
                for own in looked
                if own.rates is not None
            }
        )
        rates = self._coordinator.rates([path for look in looks for path in look.levels])
        odd = sum(r.odd for r in pending.reports)
        looked_at = {look.other: look.files for look in looks if look.other != NOBODY}
        notes = JoinNotes(seen, written, odd, rates).pack() if looks else {}
        marks = [FileMark(w.path, w.size, w.crc) for w in written]
        for mark in marks:
            disk.sync(mark.path)
        marks += self._keeper.write(pending.rows, round, looked_at, notes)
        if odd:
            marks.append(self._write_dead_letters(pending.reports, odd, round))
        return marks

    def _write_dead_letters(self, reports: Sequence[Report], odd: int, round: Round) -> FileMark:
        """Odd rows, at most `dead_letter_rows_max` of them."""
        reason = "NaN, infinite or too large in what a join compares"
        rows = [row for r in reports for row in r.odd_rows][
            : self._place.config.dead_letter_rows_max
        ]
        lines = [
            json.dumps({"round": round.id, "reason": reason, "row": row}, default=str)
            for row in rows
        ]
        if odd > len(rows):
            lines.append(
                json.dumps(
                    {"round": round.id, "reason": "more of these", "left_out": odd - len(rows)}
                )
            )
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


def _files(reports: Sequence[Report]) -> list[RowFile]:
    return [report.file for report in reports if report.file is not None]


def _shape_figures(looked: Sequence[Looked], ranges: int) -> ShapeFigures:
    """A shape's part of a round.  All levels are looked through for an event: the first tells how
    many events."""
    methods = {name: int(count) for name, count in summed(own.events for own in looked).items()}
    timed, known = (
        [own for own in looked if own.rates is None],
        [own for own in looked if own.alone_s],
    )
    events = sum(own.rows for own in known if own.level == 0)
    alone = (
        {name: s / events for name, s in summed(own.alone_s for own in known).items()}
        if events
        else {}
    )
    took_s = sum(own.seconds for own in timed) / max(
        1, sum(own.rows for own in timed if own.level == 0)
    )
    return ShapeFigures(ranges, methods, alone, took_s)


def nothing(place: Place, round: Round) -> Outcome:
    """Of a relation that is not joined any more."""
    newest = place.ledger.newest
    return (
        Outcome(keep={FOLDER: round.id + 1})
        if newest is not None and FOLDER in newest.keep
        else Outcome()
    )
