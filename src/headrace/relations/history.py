"""All committed rows of a relation, with the turns in which each came and went: for who reads them.

A row is there for the events of a turn if it came before, and has not gone before.  So answers of
any turn are made whenever somebody asks, whatever came and went since.

Where a table is written anew (`relations/wear.py`), its rows are there twice: as they were for turns
up to that one, and once more for later ones.  The new row tells when the old one came.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np

from headrace.relations.arrays import Ints
from headrace.relations.attributes import Mask
from headrace.relations.image import Image
from headrace.relations.rounds import ALL, FOLDER, KeptRound, KeptRounds, first_turn
from headrace.relations.row_files import CAME, RowFile
from headrace.relations.spans import Span, Spans
from headrace.relations.store import INDEX_BITS, OfFile, Store
from headrace.runtime.ledger import Ledger

NEVER = np.iinfo(np.int64).max
LONG_AGO = -1


class _Turns:
    """A map from row numbers to turns, as two sorted arrays."""

    def __init__(self) -> None:
        self._rows: Ints = np.empty(0, np.int64)
        self._at: Ints = np.empty(0, np.int64)

    def add(self, parts: Sequence[tuple[Ints, Ints]]) -> None:
        """Take in pairs of arrays: numbers of rows, and the turn of each."""
        if not any(rows.size for rows, _ in parts):
            return
        rows, at = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(rows)
        rows, at = np.concatenate([self._rows, rows[order]]), np.concatenate([self._at, at[order]])
        order = np.argsort(rows, kind="stable")  # which merges what is in order
        self._rows, self._at = rows[order], at[order]

    def forget(self, before: int) -> None:
        """Forget rows with numbers lower than this."""
        first = int(np.searchsorted(self._rows, before))
        if first:
            self._rows, self._at = self._rows[first:].copy(), self._at[first:].copy()

    def of(self, rows: Ints, other: Ints) -> Ints:
        """Of these rows; `other` for those that have none here."""
        if not self._rows.size:
            return other
        at = np.minimum(np.searchsorted(self._rows, rows), self._rows.size - 1)
        return np.where(self._rows[at] == rows, self._at[at], other)


class History:
    """Rounds of one relation, as far as they are committed."""

    def __init__(self, relation: str, ledger: Ledger, store: Store) -> None:
        self.relation = relation
        self._ledger = ledger
        self._store = store
        self._rounds = KeptRounds(ledger)
        self._new: list[KeptRound] = []
        self._oldest = NEVER
        self._begin()

    def _begin(self) -> None:
        self._turns_of_files = _Turns()  # of files
        self._ends_of_files = _Turns()  # of those whose rows were written anew
        self._open_files: list[int] = []  # the others
        self._went = _Turns()
        self._came = _Turns()
        self._newest: list[tuple[int, int]] = []
        self._spans = Spans(self.relation, self._store, self._files, self.narrowed)

    @property
    def rounds(self) -> Sequence[KeptRound]:
        return self._rounds.rounds

    @property
    def turn(self) -> int:
        """The newest turn."""
        return self.rounds[-1].turn if self.rounds else 0

    @property
    def gone(self) -> int:
        """The newest turn that is no longer kept."""
        return self.rounds[0].before if self.rounds else -1

    def first_turn(self, version: int) -> int | None:
        """The first turn that had a version of the catalog, or a later one."""
        return first_turn(self._rounds.begins(), version)

    def has_lost_since(self, version: int) -> bool:
        """Whether rounds that had this version of the catalog, or a later one, are no longer
        kept."""
        newest = self._ledger.newest
        first = 0 if newest is None else newest.keep.get(FOLDER, 0)
        return first > 0 and self._ledger.read(first - 1).catalog_version >= version

    def whole_since(self, turn: int) -> int | None:
        """The turn of the rounds kept from which on all rows are told that were there after a
        turn; None if they are not kept any more."""
        rounds = [done for done in self.rounds if done.turn <= turn]
        begin = next((done.turn for done in reversed(rounds) if done.holds == ALL), None)
        if begin is None and (not self.rounds or self.rounds[0].before < 0):
            return 0
        return begin

    def has_since(self, turn: int) -> bool:
        """Whether the rows that came in a turn, or later, are still kept."""
        return bool(self.rounds) and self.rounds[0].turn <= turn

    def check_after(self, other: History, until: int) -> None:
        """Has nothing of another relation been lost that rounds `until` a turn have looked at?"""
        self._rounds.check_after({other.relation: other._rounds}, until)

    def refresh(self) -> None:
        """Take in what was committed since.  Rounds with a damaged file stay new: they are said
        again."""
        self._ledger.refresh()
        self._new += self._rounds.refresh()
        oldest = self.rounds[0].round_id if self.rounds else NEVER
        kept = [done for done in self._new if done.round_id >= oldest]
        for file in (file for done in kept for file in {*done.events, *done.files}):
            self._store.table(file)
        self._new = []
        # all others were let go of, and turns may be counted anew
        if len(kept) == len(self.rounds):
            self._begin()
        elif oldest != self._oldest:
            self._forget()
        self._oldest = oldest
        self._take(kept)

    def _forget(self) -> None:
        """What is no longer kept.  Files are numbered as they come."""
        kept = (file for done in self.rounds for file in (*done.changes, *done.files))
        oldest = next(kept, None)
        if oldest is None:
            return
        first = self._store.number(self.relation, oldest)
        self._turns_of_files.forget(first)
        self._ends_of_files.forget(first)
        self._open_files = [number for number in self._open_files if number >= first]
        self._went.forget(first << INDEX_BITS)
        self._came.forget(first << INDEX_BITS)
        while len(self._newest) > 1 and self._newest[1][1] < self.rounds[0].turn:
            del self._newest[0]

    def _take(self, rounds: Sequence[KeptRound]) -> None:
        """Some at a time: what goes after a table was written anew is looked up in that."""
        begins = [i for i, done in enumerate(rounds) if done.holds == ALL]
        for first, last in pairwise([0, *(i + 1 for i in begins), len(rounds)]):
            self._take_some(rounds[first:last])

    def _take_some(self, rounds: Sequence[KeptRound]) -> None:
        """Of these only the last may have written the table anew."""
        went, came = list[tuple[Ints, Ints]](), list[tuple[Ints, Ints]]()
        self._number(rounds)
        for done in rounds:
            for file in done.events:
                self._note_newest(file.newest_us, done.turn)
                goes, were = self._store.gone(self.relation, file)
                went.append((were, np.full(were.size, done.turn)))
                came.append(self._told(file) or (goes, self.came(were)))
        wholes = (file for done in rounds if done.holds == ALL for file in done.files)
        came += [told for file in wholes if (told := self._told(file)) is not None]
        self._went.add(went)
        self._came.add(came)

    def _number(self, rounds: Sequence[KeptRound]) -> None:
        turns, ends = list[tuple[Ints, Ints]](), list[tuple[Ints, Ints]]()
        for done in rounds:
            numbers = self._numbers(done.events)
            turns.append((numbers, np.full(numbers.size, done.turn)))
            self._open_files += numbers.tolist()
            if done.holds == ALL:
                ended = np.array(self._open_files, np.int64)
                ends.append((ended, np.full(ended.size, done.turn)))
                numbers = self._numbers(done.files)
                turns.append((numbers, np.full(numbers.size, done.turn)))
                self._open_files = numbers.tolist()
        self._turns_of_files.add(turns)
        self._ends_of_files.add(ends)

    def _numbers(self, files: Sequence[RowFile]) -> Ints:
        return np.array([self._store.number(self.relation, file) for file in files], np.int64)

    def _told(self, file: RowFile) -> tuple[Ints, Ints] | None:
        """The rows of a file that came before it, and the turns in which it says that they did:
        those that go, and those of a table written anew.  None where it is of an older home, and
        does not say."""
        table = self._store.table(file)
        if CAME not in table.column_names:
            return None
        came = table.column(CAME)
        at = np.flatnonzero(came.is_valid().to_numpy())
        first = self._store.number(self.relation, file) << INDEX_BITS
        return first | at, came.take(at).to_numpy()

    def _note_newest(self, newest_us: int | None, turn: int) -> None:
        newest = NEVER if newest_us is None else newest_us
        if not self._newest or newest > self._newest[-1][0]:
            self._newest.append((newest, turn))

    def first_newer(self, us: int) -> int:
        """A turn before which no row came whose event time is this, or later."""
        at = bisect_left(self._newest, (us, -1))
        return self._newest[at][1] if at < len(self._newest) else NEVER

    # -- images ------------------------------------------------------------------------------------

    def image(self, key: Hashable, of_file: OfFile, span: Span) -> Image:
        """The rows that were there in a span, among some that were not, in order of attributes of
        theirs; what these are `of_file` says for each file, and the key tells one such from
        another."""
        return self._spans.image(key, of_file, span)

    def _files(self, first: int, last: int) -> Sequence[RowFile]:
        """Of turns from one up to another."""
        begin = bisect_left(self.rounds, first, key=lambda done: done.turn)
        end = bisect_right(self.rounds, last, key=lambda done: done.turn)
        return [file for done in self.rounds[begin:end] for file in done.files]

    def narrowed(self, image: Image, span: Span) -> Image:
        """Without rows that came or had gone outside the span."""

        def is_inside(rows: Ints) -> Mask:
            came, went = self.turns(rows), self._gone(rows)
            found: Mask = (came >= span.since) & (came <= span.last) & (went >= span.first)
            return found

        return image.where(is_inside)

    # -- turns -------------------------------------------------------------------------------------

    def turns(self, rows: Ints) -> Ints:
        """The turns in which rows came, were written anew, or events happened; of rows that are no
        longer kept, one before all."""
        return self._turns_of_files.of(rows >> INDEX_BITS, np.full(rows.size, LONG_AGO))

    def came(self, rows: Ints) -> Ints:
        """The turns in which rows came that are there, or now go; of one that was written anew,
        when it first came."""
        return self._came.of(rows, self.turns(rows))

    def _gone(self, rows: Ints) -> Ints:
        """The turns in which rows went, or were written anew."""
        never = np.full(rows.size, NEVER)
        ends = self._ends_of_files.of(rows >> INDEX_BITS, never)
        return np.minimum(self._went.of(rows, never), ends)

    def are_there(self, rows: Ints, at: Ints, side: int) -> Mask:
        """Whether rows are there for events of a side in some turns: those of side 0 find what was
        there before their turn, those of side 1 what is there after it, which differs only where a
        relation is joined with itself."""
        came, went = self.turns(rows), self._gone(rows)
        return (came < at) & (at <= went) if side == 0 else (came <= at) & (at < went)
