"""Reading answers of joins: by many at once, and looking at little more than there is to answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.families.joins.expand import JoinReader
from headrace.values import Relation
from tests.families.joins.played import Played, stream
from tests.families.joins.test_turns import row

Play = Callable[..., Played]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    made: list[Played] = []

    def begin(*relations: Relation, config: Config | None = None) -> Played:
        made.append(Played(tmp_path / str(len(made)), relations, config))
        return made[-1]

    yield begin
    for played in made:
        played.home.release()


def test_many_read_at_once(play: Play) -> None:
    """Rounds that one of them takes in are not taken in by another too."""
    played = play(stream("r"), stream("s"))
    join = played.add("join", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > 1")
    pass_all = played.add("filter", "SELECT u FROM r WHERE a < 9")
    for name in "rs":
        played.replan(name)
    played.round("s", [[row(b=2.0)]])
    for _ in range(30):
        played.round("r", [[row()]])
    for _ in range(5):
        assert read_at_once(played.new_reader(), (join, pass_all), 4) == [[30, 30]] * 4


def read_at_once(reader: JoinReader, asked: Sequence[Registered], threads: int) -> list[list[int]]:
    """How many answers each thread finds."""
    begin, found = threading.Barrier(threads), list[list[int]]()

    def read() -> None:
        begin.wait()
        found.append([reader.log(registered).read_all().num_rows for registered in asked])

    readers = [threading.Thread(target=read) for _ in range(threads)]
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    return found
