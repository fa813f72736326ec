"""Reading committed answers: whole, or one after another with a place to resume from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.errors import ServingError
from headrace.evaluation.arrow import ARROW_TIME, arrow_type
from headrace.evaluation.python_rows import python_rows
from headrace.runtime.answers import column_names
from headrace.runtime.waking import Wait
from headrace.sql.query import Query

LOOK_S = 0.2  # how long a watcher waits before it asks again whether the engine still runs
_SEQ_BITS = 32  # a seq is round << 32 | position in the round: it only grows, and never changes


class Log(Protocol):
    """Committed answers by round, or by turn."""

    def rounds(self, after: int = -1) -> list[int]: ...

    def has_lost(self, after: int) -> bool:
        """Whether answers of a later round are no longer kept."""

    def read(self, query_id: int, query: Query, round_id: int) -> pa.Table | None: ...


class Waking(Protocol):
    """Wakes whoever waits for a commit (`runtime/waking.py`)."""

    def arm(self) -> Wait: ...

    def close(self) -> None: ...


class Answer(dict[str, object]):
    """One answer, as a dict of its columns; `seq` is where to resume after it.  Times and dates beyond Python's years
    1 to 9999 are ISO 8601 texts."""

    __slots__ = ("seq",)

    def __init__(self, row: dict[str, object], seq: int) -> None:
        super().__init__(row)
        self.seq = seq


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A live query as `headrace list` shows it.  `reason`: why it is quarantined, or not shared; `answers`: None where
    they are made when they are read."""

    name: str
    stream: str
    family: str
    state: str
    reason: str
    sql: str
    answers: int | None


def empty_answer(query: Query) -> pa.Table:
    """The columns of an answer, without rows."""
    types = {o.name: arrow_type(o.expr.type) for o in query.outputs}
    return pa.table({n: pa.array([], types.get(n, ARROW_TIME)) for n in column_names(query)})


def watch_answers(
    registered: Registered, log: Callable[[], Log], since: int | None, goes_on: Callable[[], bool],
    waking: Waking,
) -> Iterator[Answer]:
    """Committed answers in order, each once, from just after `since`; waits for more while `goes_on`."""
    if since is not None and (type(since) is not int or since < 0):
        raise ServingError("not a place to resume from", value=since, hint="pass the .seq of an answer")
    done_round, done_row = (-1, -1) if since is None else (since >> _SEQ_BITS, since & ((1 << _SEQ_BITS) - 1))
    found = log()
    rounds = found.rounds()
    if since is not None and done_round > max(rounds, default=-1):
        raise ServingError("nothing was answered yet at this place", value=since, code="SINCE_UNKNOWN",
                           hint="pass the .seq of an answer of this home, or watch without since")
    if since is not None and found.has_lost(done_round):
        raise ServingError("answers after this place have been removed", value=since,
                           hint=f"the oldest round kept is {min(rounds)}; watch without since", code="SINCE_GONE")
    return _follow(registered, log, done_round, done_row, goes_on, waking)


def _follow(
    registered: Registered, log: Callable[[], Log], done_round: int, done_row: int,
    goes_on: Callable[[], bool], waking: Waking,
) -> Iterator[Answer]:
    after = done_round - 1
    with closing(waking):
        while True:
            wait, last_look = waking.arm(), not goes_on()
            answers = log()
            for round_id in answers.rounds(after):
                skip = done_row + 1 if round_id == done_round else 0
                table = answers.read(registered.id, registered.query, round_id)
                for position, row in enumerate(python_rows(table.slice(skip)) if table is not None else (), skip):
                    yield Answer(row, (round_id << _SEQ_BITS) | position)
                after = round_id
            if last_look:
                return
            wait(LOOK_S)
