"""What a round of a relation left of its rows, as a file of the round; and all such rounds of a relation.

Rounds of relations that are looked up in each other come one after the other, whoever they are of,
and each has a *turn*, a number that grows with each of them.  So a pair of rows is answered by the
later of them, and every reader sees the same order.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.records import check_path, decode, reading
from headrace.relations.row_files import RowFile
from headrace.runtime.ledger import Ledger

FOLDER = "kept"
MORE, ALL, NONE = "more", "all", "none"


@dataclass(frozen=True, slots=True)
class KeptRound:
    """`version` of the catalog it was answered with; `after`: the newest rounds of the relations it
    looked at; `since`: the turns in which the oldest rows came that it found; `before`: the turn of
    the relation before this one; `notes`: what families say of the round, by family.

    `holds`: its files are more rows of the relation, or all there are, or not all that came: then
    rows of rounds before are not looked up any more.  Where a table is written anew, `changes` are
    what came and went with the round, if somebody reads that, and `begins` tells of the rounds
    before: versions of the catalog, each with the first turn that had it."""

    turn: int
    round_id: int
    version: int
    files: tuple[RowFile, ...]
    after: Mapping[str, int] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    before: int = -1
    holds: str = MORE
    notes: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[RowFile, ...] = ()
    begins: tuple[tuple[int, int], ...] = ()

    @property
    def events(self) -> tuple[RowFile, ...]:
        """The files of what came and went with the round."""
        return self.changes if self.holds == ALL else self.files

    def pack(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @staticmethod
    def unpack(data: bytes, version: int) -> KeptRound:
        """ValueError where it is not what `pack` writes."""
        found = replace(decode(KeptRound, json.loads(data)), version=version)
        if found.holds not in (MORE, ALL, NONE):
            raise ValueError(f"holds: {found.holds}")
        if (found.changes or found.begins) and found.holds != ALL:
            raise ValueError("a table written anew that holds only changes")
        for file in (*found.files, *found.changes):
            check_path(file.path)
        return found


def first_turn(begins: Sequence[tuple[int, int]], version: int) -> int | None:
    """The first turn that had a version of the catalog, or a later one."""
    at = bisect_left(begins, (version, -1))
    return begins[at][1] if at < len(begins) else None


def needed_begins(
    begins: Sequence[tuple[int, int]], versions: Collection[int]
) -> list[tuple[int, int]]:
    """Those that tell the first turns of these versions."""
    at = {bisect_left(begins, (version, -1)) for version in versions}
    return [begins[i] for i in sorted(at) if i < len(begins)]


def round_folder(folder: str, round_id: int) -> str:
    return f"{folder}/{FOLDER}/{round_id:012d}"


def round_path(folder: str, round_id: int) -> str:
    return f"{round_folder(folder, round_id)}/round.json"


class KeptRounds:
    """The committed rounds of a relation that kept rows and are themselves kept, oldest first."""

    def __init__(self, ledger: Ledger, after: int = -1) -> None:
        """Only those later than `after`."""
        self._ledger = ledger
        self.rounds: list[KeptRound] = []
        self.base = 0  # rows of rounds from this one on may be looked up
        self._looked = after

    def refresh(self) -> Sequence[KeptRound]:
        """Take in what was committed since; those that were new."""
        newest = self._ledger.newest
        first = 0 if newest is None else newest.keep.get(FOLDER, newest.round_id + 1)
        while self.rounds and self.rounds[0].round_id < first:
            del self.rounds[0]
        rounds = self._ledger.rounds
        at = bisect_left(rounds, max(first, self._looked + 1))
        new = [found for number in rounds[at:] if (found := self._read(number)) is not None]
        self._looked = max(self._looked, *rounds[-1:], -1)
        self.rounds += new
        for done in new:
            if done.holds != MORE:
                self.base = done.round_id + (done.holds == NONE)
        return new

    @property
    def joinable(self) -> Sequence[KeptRound]:
        """Those whose rows may be looked up."""
        return self.rounds[bisect_left(self.rounds, self.base, key=lambda done: done.round_id) :]

    def check_after(self, others: Mapping[str, KeptRounds], until: int | None = None) -> None:
        """Is all there that the newest round, `until` a turn, has looked at?  A lost manifest looks
        like a round that was never committed, and only who has built on it knows."""
        newest = next(
            (done for done in reversed(self.rounds) if until is None or done.turn <= until), None
        )
        for name, round_id in newest.after.items() if newest is not None else ():
            if name in others and others[name].newest_id < round_id:
                raise others[name]._ledger.missing(round_id)

    def begins(self) -> list[tuple[int, int]]:
        """Versions of the catalog, each with the first turn that had it; those of rounds that were
        let go of too, as far as the newest table that was written anew tells them."""
        wholes = (i for i in reversed(range(len(self.rounds))) if self.rounds[i].holds == ALL)
        at = next(wholes, 0)
        found = list(self.rounds[at].begins) if self.rounds else []
        for done in self.rounds[at:]:
            if not found or done.version > found[-1][0]:
                found.append((done.version, done.turn))
        return found

    def first_since(self, turn: int) -> int | None:
        """The first round of a turn or later."""
        at = bisect_left(self.rounds, turn, key=lambda done: done.turn)
        return self.rounds[at].round_id if at < len(self.rounds) else None

    def found_by(self, kept: int, relation: str) -> int | None:
        """The turn in which the oldest rows of a relation came that the newest so many rounds have
        found."""
        at = bisect_left(self.rounds, self.newest_id + 1 - kept, key=lambda done: done.round_id)
        return self.rounds[at].since.get(relation) if at < len(self.rounds) else None

    def turn_of(self, round_id: int) -> int:
        """The turn of one of the rounds."""
        return self.rounds[bisect_left(self.rounds, round_id, key=lambda done: done.round_id)].turn

    @property
    def oldest_id(self) -> int:
        """The id of the oldest round that is kept, or −1."""
        return self.rounds[0].round_id if self.rounds else -1

    @property
    def newest_id(self) -> int:
        """The newest committed round of the relation, whether it kept rows or not."""
        return -1 if self._ledger.newest is None else self._ledger.newest.round_id

    def _read(self, round_id: int) -> KeptRound | None:
        manifest = self._ledger.read(round_id)
        path = round_path(self._ledger.folder, round_id)
        mark = next((mark for mark in manifest.files if mark.path == path), None)
        if mark is None:
            return None
        data = self._ledger.check(mark)
        with reading(Path(path)):
            return KeptRound.unpack(data, manifest.catalog_version)
