"""What joins and filters say of a round beside the rows it kept: the queries it saw, and the records
of whom its rows affect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace.families.joins.levels.probes import Rates, Written
from headrace.records import check_path, decode, reading
from headrace.relations.rounds import KeptRound, round_path

FAMILY = "joins"


@dataclass(frozen=True, slots=True)
class Seen:
    """A shape as a round saw it, from the side its events are on: the queries of its levels."""

    kind: str
    side: int
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JoinNotes:
    """`rates` of methods by level, as they are known now; `odd`: rows that could not be
    compared."""

    seen: tuple[Seen, ...] = ()
    written: tuple[Written, ...] = ()
    odd: int = 0
    rates: Mapping[str, Rates] = field(default_factory=dict)

    def pack(self) -> Mapping[str, Any]:
        return {FAMILY: asdict(self)}

    def check(self, done: KeptRound) -> None:
        """ValueError where they cannot be of this round."""
        for path in (level for look in self.seen for level in look.levels):
            check_path(path)
        parts = {file.part for file in done.events}
        for w in self.written:
            check_path(w.path)
            if part_of(w.path) not in parts:
                raise ValueError(f"{w.path}: of rows the round has not kept")
            if not (0 <= w.look < len(self.seen) and 0 <= w.level < len(self.seen[w.look].levels)):
                raise ValueError(f"{w.path}: of a level the round has not seen")


def notes_of(done: KeptRound, folder: str) -> JoinNotes:
    """Of a committed round of the relation with this folder."""
    with reading(Path(round_path(folder, done.round_id))):
        found = decode(JoinNotes, done.notes.get(FAMILY, {}))
        found.check(done)
    return found


def part_of(path: str) -> int:
    """The part of a round's rows that a file of records is of."""
    return int(path.rpartition("/")[2].partition(".")[0])
