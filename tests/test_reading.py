"""Pages, places to resume from, and who waits for a commit: over a log that is a dict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
import pytest

from headrace.catalog.state import Registered
from headrace.errors import ServingError
from headrace.reading import Answer, last_seq, newest_seq, page_of, watch_answers
from headrace.sql.bind import bind
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import Relation

STREAM = Relation("s", "parquet:s", parse_schema("n BIGINT, ts TIMESTAMP"), time="ts")
ASKED = Registered(1, bind("SELECT n FROM s", {"s": STREAM}, name="q"), 1)
EMPTY = pa.table({"n": pa.array([], pa.int64())})


@dataclass
class Kept:
    """Answers by round; a round may have none."""

    answers: dict[int, list[int]] = field(default_factory=dict)

    def rounds(self, after: int = -1) -> list[int]:
        return sorted(round_id for round_id in self.answers if round_id > after)

    def has_lost(self, after: int) -> bool:
        return bool(self.answers) and after < min(self.answers) - 1

    def read(self, query_id: int, query: Query, round_id: int) -> pa.Table | None:
        values = self.answers[round_id]
        return pa.table({"n": pa.array(values, pa.int64())}) if values else None


LOG = Kept({3: [10, 11, 12], 4: [], 5: [20], 7: [30, 31], 8: []})


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_pages_are_the_whole_log_each_answer_once(limit: int) -> None:
    pages: list[list[int]] = []
    after = None
    while True:
        page = page_of(ASKED, LOG, after, limit, EMPTY)
        if not page.num_rows:
            break
        pages.append(page.column("n").to_pylist())
        after = last_seq(page)
    assert [value for page in pages for value in page] == [10, 11, 12, 20, 30, 31]
    assert all(len(page) == limit for page in pages[:-1]) and len(pages[-1]) <= limit
    assert last_seq(page) == after, "where nothing has come the next page begins at the same place"


def test_a_page_without_an_end_has_all() -> None:
    page = page_of(ASKED, LOG, None, None, EMPTY)
    assert page.num_rows == 6 and last_seq(page) == newest_seq(ASKED, LOG) == 7 << 32 | 1
    assert last_seq(page_of(ASKED, Kept(), None, None, EMPTY)) is None
    assert newest_seq(ASKED, Kept({0: []})) is None


def test_a_place_that_was_not_reached_or_is_gone_is_said() -> None:
    with pytest.raises(ServingError, match="nothing was answered yet"):
        page_of(ASKED, LOG, 9 << 32, None, EMPTY)
    with pytest.raises(ServingError, match="removed"):
        page_of(ASKED, LOG, 1 << 32, None, EMPTY)
    assert page_of(ASKED, LOG, 2 << 32, 1, EMPTY).column("n").to_pylist() == [10]


class Commits:
    """Wakes as the engine does: a commit that comes once it is armed is not waited for."""

    def __init__(self, events: list[Callable[[], None]]) -> None:
        self._events = events
        self.is_armed = self.is_closed = False

    def arm(self) -> Callable[[float], None]:
        self.is_armed = True

        def wait(timeout_s: float) -> None:
            self.is_armed = False
            if self._events:
                self._events.pop(0)()

        return wait

    def close(self) -> None:
        self.is_closed = True


def watched(log: Kept, goes_on: Callable[[], bool], waking: Commits) -> Iterator[Answer]:
    looks = count()

    def armed() -> Kept:
        is_first = next(looks) == 0  # only to see where it begins
        assert is_first or waking.is_armed, "a commit between looking and arming would be missed"
        return Kept(dict(log.answers))

    return watch_answers(ASKED, armed, None, goes_on, waking)


def test_who_watches_looks_only_when_it_would_be_woken() -> None:
    log = Kept({0: [1]})
    waking = Commits([lambda: log.answers.update({1: []}), lambda: log.answers.update({2: [2, 3]})])
    turns = iter([True, True, False])
    found = list(watched(log, lambda: next(turns), waking))
    assert [answer["n"] for answer in found] == [1, 2, 3]
    assert [answer.seq for answer in found] == [0, 2 << 32, 2 << 32 | 1] and waking.is_closed


def test_what_an_engine_commits_as_it_ends_is_seen() -> None:
    """Whether it goes on is asked before looking: what it committed until then is all there is."""
    log = Kept({0: [1]})

    def commits_and_ends() -> bool:
        log.answers[1] = [2]
        return False

    assert [a["n"] for a in watched(log, commits_and_ends, Commits([]))] == [1, 2]
