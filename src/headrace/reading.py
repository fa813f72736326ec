"""Reading committed answers: whole, or one after another with a place to resume from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.errors import ServingError
from headrace.evaluation.python_rows import python_rows
from headrace.families.contract import Log
from headrace.runtime.waking import Wait
from headrace.showing import html_table

LOOK_S = 0.2  # how long a watcher waits before it asks again whether the engine still runs
SEQ = "headrace.seq"
_SEQ_BITS = 32  # a seq is round << 32 | position in the round: it only grows, and never changes


class Waking(Protocol):
    """Wakes whoever waits for a commit (`runtime/waking.py`)."""

    def arm(self) -> Wait: ...

    def close(self) -> None: ...


class Answer(dict[str, object]):
    """One answer, as a dict of its columns; `seq` is where to resume after it.  Times and dates
    beyond Python's years 1 to 9999 are ISO 8601 texts."""

    __slots__ = ("seq",)

    def __init__(self, row: dict[str, object], seq: int) -> None:
        super().__init__(row)
        self.seq = seq

    def __repr__(self) -> str:
        return f"Answer(seq={self.seq}, {dict(self)!r})"

    def _repr_html_(self) -> str:
        return html_table([{"seq": self.seq, **self}])


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A live query as `headrace list` shows it.  `reason`: why it is quarantined, or not shared;
    `answers`: None where they are made when they are read."""

    name: str
    stream: str
    family: str
    state: str
    reason: str
    sql: str
    answers: int | None


def last_seq(page: pa.Table) -> int | None:
    """The seq of the last answer of a page, to be passed as `after` for the next; None before the
    first answer."""
    found = (page.schema.metadata or {}).get(SEQ.encode())
    return None if found is None else int(found)


def page_of(
    registered: Registered, log: Log, after: int | None, limit: int | None, empty: pa.Table
) -> pa.Table:
    """Answers after a place, at most so many; `last_seq` tells where the next page begins.
    `empty`: one without."""
    begin, left, last = _begin(log, after), limit, after
    parts: list[pa.Table] = []
    for round_id, row, found in _parts(registered, log, log.rounds(begin[0] - 1), begin):
        parts.append(found.slice(0, left))
        rows = parts[-1].num_rows
        last, left = _seq(round_id, row + rows - 1), None if left is None else left - rows
        if left == 0:
            break
    page = pa.concat_tables(parts).combine_chunks() if parts else empty
    return (
        page
        if last is None
        else page.replace_schema_metadata({**(page.schema.metadata or {}), SEQ: str(last)})
    )


def newest_seq(registered: Registered, log: Log) -> int | None:
    """Of the newest answer; None before the first."""
    for round_id in reversed(log.rounds()):
        found = log.read(registered.id, registered.query, round_id)
        if found is not None and found.num_rows:
            return _seq(round_id, found.num_rows - 1)
    return None


def watch_answers(
    registered: Registered,
    log: Callable[[], Log],
    since: int | None,
    goes_on: Callable[[], bool],
    waking: Waking,
) -> Iterator[Answer]:
    """Committed answers in order, each once, from just after `since`; waits for more while
    `goes_on`."""
    return _follow(registered, log, _begin(log(), since), goes_on, waking)


def _follow(
    registered: Registered,
    log: Callable[[], Log],
    begin: _Place,
    goes_on: Callable[[], bool],
    waking: Waking,
) -> Iterator[Answer]:
    with closing(waking):
        while True:
            wait, is_last = waking.arm(), not goes_on()
            answers = log()
            rounds = answers.rounds(begin[0] - 1)  # once: more may come while these are read
            for round_id, first, found in _parts(registered, answers, rounds, begin):
                for row, answer in enumerate(python_rows(found), first):
                    yield Answer(answer, _seq(round_id, row))
            begin = (rounds[-1] + 1, 0) if rounds else begin
            if is_last:
                return
            wait(LOOK_S)


_Place = tuple[int, int]
"""A round and a row of it."""


def _parts(
    registered: Registered, log: Log, rounds: Sequence[int], begin: _Place
) -> Iterator[tuple[int, int, pa.Table]]:
    """Answers of these rounds, from a place on: the round, the first row of it, and those from
    there."""
    for round_id in rounds:
        found = log.read(registered.id, registered.query, round_id)
        first = begin[1] if round_id == begin[0] else 0
        if found is not None and found.num_rows > first:
            yield round_id, first, found.slice(first)


def _begin(log: Log, since: int | None) -> _Place:
    """The place just after a seq, if answers from there on are kept."""
    if since is None:
        return 0, 0
    if type(since) is not int or since < 0:
        raise ServingError(
            "not a place to resume from", value=since, hint="pass the .seq of an answer"
        )
    round_id, row = since >> _SEQ_BITS, since & ((1 << _SEQ_BITS) - 1)
    rounds = log.rounds()
    if round_id > max(rounds, default=-1):
        raise ServingError(
            "nothing was answered yet at this place",
            value=since,
            code="SINCE_UNKNOWN",
            hint="pass the .seq of an answer of this home, or watch without since",
        )
    if log.has_lost(round_id):
        raise ServingError(
            "answers after this place have been removed",
            value=since,
            hint=f"the oldest round kept is {min(rounds)}; watch without since",
            code="SINCE_GONE",
        )
    return round_id, row + 1


def _seq(round_id: int, row: int) -> int:
    return round_id << _SEQ_BITS | row
