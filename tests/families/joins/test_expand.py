"""Reading answers of joins: by many at once, and looking at little more than there is to answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.errors import ServingError
from headrace.families.joins.reading import join_log as expand
from headrace.families.joins.reading import pairs
from headrace.families.joins.reading.join_log import JoinReader
from headrace.families.joins.reading.notices import Notices
from headrace.families.joins.reading.pairs import Run
from headrace.families.joins.reading.turn_batches import pairs_in
from headrace.reading import Answer, watch_answers
from headrace.relations.arrays import Ints
from headrace.relations.history import LONG_AGO, History
from headrace.relations.store import INDEX_BITS, Store
from headrace.runtime.ledger import Ledger, Manifest
from headrace.runtime.waking import CommitSignal
from headrace.values import Relation
from tests.families.joins.asked import T0
from tests.families.joins.played import Played, stream, table
from tests.families.joins.test_turns import row

Play = Callable[..., Played]
NEAR = "y.ts BETWEEN x.ts - INTERVAL '10' SECONDS AND x.ts"


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


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs were looked at, by block."""
    sizes: list[int] = []

    def expanded(runs: Sequence[Run], event: Ints) -> tuple[Ints, Ints]:
        sizes.append(pairs_in(runs))
        return pairs.expanded(runs, event)

    monkeypatch.setattr(expand, "expanded", expanded)
    return sizes


def read_last(played: Played, asked: Registered) -> int:
    log = played.log(asked)
    found = log.read(asked.id, asked.query, log.rounds()[-1])
    return 0 if found is None else found.num_rows


@pytest.mark.parametrize("others", [(), ("SELECT x.u AS u FROM r AS x JOIN s AS y ON y.n = x.n",)])
def test_rows_that_are_past_are_not_looked_at(
    play: Play, looked: list[int], others: Sequence[str]
) -> None:
    """Whether another query needs them or not."""
    played = play(stream("r", 0), stream("s", 0))
    asked = played.add(
        "near", f"SELECT x.u AS u, y.u AS v FROM r AS x JOIN s AS y ON y.n = x.n AND {NEAR}"
    )
    for number, sql in enumerate(others):
        played.add(f"q{number}", sql)
    for name in "rs":
        played.replan(name)
    for i in range(40):
        for name in "sr":
            played.round(name, [[row(ts=T0 + timedelta(seconds=100 * i)) for _ in range(20)]])
    assert read_last(played, asked) == sum(looked) == 400
    looked.clear()
    assert played.log(asked).read_all().num_rows == 16_000
    assert sum(looked) < 4 * 16_000


def test_rows_that_had_gone_are_not_looked_at(play: Play, looked: list[int]) -> None:
    played = play(stream("r"), table("t", ("k",)))
    asked = played.add("q", "SELECT x.u AS u, y.u AS v FROM r AS x JOIN t AS y ON y.n = x.n")
    for name in "rt":
        played.replan(name)
    for i in range(100):
        played.round("t", [[row(u=i)]])
    played.round("r", [[row(u=i) for i in range(100)]])
    assert read_last(played, asked) == sum(looked) == 100


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_home_may_have_more_pairs_than_are_expanded_at_once(play: Play, is_watched: bool) -> None:
    """What is limited is what is answered at once, not what there was."""
    played = play(stream("r"), table("t", ("k",)))
    asked = played.add("q", "SELECT x.u AS u, y.u AS v FROM r AS x JOIN t AS y ON y.n = x.n")
    for name in "rt":
        played.replan(name)
    for i in range(40):
        played.round("t", [[row(u=i)]])
    played.round("r", [[row(u=i) for i in range(10)]])
    home = played.home
    reader = JoinReader(
        home.root,
        played.catalog.relation,
        lambda name: Ledger(home.disk, home.stream_folder(name)),
        pairs_max=10,
    )
    log = played.log(asked, reader)
    found = log.read(asked.id, asked.query, log.rounds()[-1]) if is_watched else log.read_all()
    assert found is not None and found.column("v").to_pylist() == [39] * 10
    played.round("r", [[row(u=10)]])
    log = played.log(asked, reader)
    assert log.read(asked.id, asked.query, log.rounds()[-1]) is not None
    with pytest.raises(ServingError) as caught:
        log.read_all()
    assert caught.value.code == "PAIRS"


def test_turns_that_are_counted_anew_are_read_anew(play: Play) -> None:
    """By who has read others of the same numbers, whose rows were let go of."""
    played = play(stream("r"))
    reader, sql = played.reader, "SELECT x.u AS u, y.u AS v FROM r AS x JOIN r AS y ON y.n > x.n"
    for step in range(2):
        asked = played.add(f"q{step}", sql)
        played.replan("r")
        played.round("r", [[row(n=n, u=10 * step + n) for n in range(2)]])
        assert played.log(asked, reader).read_all().to_pylist() == [
            {"u": 10 * step, "v": 10 * step + 1}
        ]
        played.drop(f"q{step}")
        played.replan("r")
        played.round("r", [[row()]])
        played.open()


def test_a_watcher_resumes_where_turns_in_between_were_of_others(play: Play) -> None:
    """Also after one that is no longer kept, if none after it is gone."""
    played = play(stream("r", 0), stream("t", 0), config=Config.of(manifests_kept=3))
    asked = played.add("q", "SELECT u FROM r WHERE a < 9")
    for name in "rt":
        played.add(
            name + name,
            f"SELECT x.u AS u FROM {name} AS x JOIN {name} AS y ON y.n = x.n AND {NEAR}",
        )
    for name in "rt":
        played.replan(name)

    def watch(since: int | None = None) -> list[Answer]:
        return list(
            watch_answers(
                asked, lambda: played.reader.log(asked), since, lambda: False, CommitSignal()
            )
        )

    seen: dict[int, Answer] = {}
    for i in range(8):
        for name in "rttt":
            played.round(name, [[row(u=i, ts=T0 + timedelta(seconds=100 * i))]])
        seen |= {answer.seq: answer for answer in watch()}
    seqs = sorted(seen)
    assert len(seqs) == 8 and all((b - a) >> 32 > 1 for a, b in pairwise(seqs))
    first = seqs.index(watch()[0].seq)
    assert first > 1
    assert [n for n, seq in enumerate(seqs) if has_lost(watch, seq)] == list(range(first - 1))
    for n in range(first - 1, 8):
        assert [answer.seq for answer in watch(seqs[n])] == seqs[n + 1 :]


def test_a_watcher_is_told_of_turns_that_are_gone(play: Play) -> None:
    played = play(stream("r", 0), stream("s", 0), config=Config.of(manifests_kept=2))
    asked = played.add("q", f"SELECT x.u AS u FROM r AS x JOIN s AS y ON y.n = x.n AND {NEAR}")
    for name in "rs":
        played.replan(name)

    def watch(since: int | None = None) -> list[Answer]:
        return list(
            watch_answers(asked, lambda: played.log(asked), since, lambda: False, CommitSignal())
        )

    seen: dict[int, Answer] = {}
    for i in range(8):
        for name in "sr":
            played.round(name, [[row(u=i, ts=T0 + timedelta(seconds=100 * i))]])
        seen |= {answer.seq: answer for answer in watch()}
    seqs, kept = sorted(seen), [answer.seq for answer in watch()]
    assert seqs[-len(kept) :] == kept and 1 < len(kept) < 7
    assert all(has_lost(watch, seq) for seq in seqs[: -len(kept) - 1])
    for n, seq in enumerate(kept):
        assert [answer.seq for answer in watch(seq)] == kept[n + 1 :]


def has_lost(watch: Callable[[int], list[Answer]], since: int) -> bool:
    try:
        watch(since)
    except ServingError as error:
        assert error.code == "SINCE_GONE"
        return True
    return False


def test_what_is_no_longer_kept_is_forgotten(play: Play) -> None:
    played = play(stream("r", 0), config=Config.of(manifests_kept=2))
    asked = played.add(
        "q", f"SELECT x.u AS u, y.u AS v FROM r AS x JOIN r AS y ON y.n = x.n AND {NEAR}"
    )
    played.replan("r")
    history = History(
        "r", Ledger(played.home.disk, played.home.stream_folder("r")), Store(played.home.root)
    )
    for i in range(20):
        played.round("r", [[row(u=i, ts=T0 + timedelta(seconds=100 * i))]])
        assert played.log(asked).read_all().to_pylist()[-1] == {"u": i, "v": i}
        history.refresh()
    assert len(history.rounds) < 6
    first = history.rounds[0].turn
    turns = history.turns(np.arange(20) << INDEX_BITS).tolist()  # a file a round
    assert turns == [LONG_AGO] * (first - 1) + list(range(first, 21))
    assert len(history._newest) < 8


def test_nothing_is_sorted_if_nothing_came(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(stream("r"), table("t", ("k",)))
    asked = played.add("q", "SELECT x.u AS u FROM r AS x JOIN t AS y ON y.n = x.n")
    for name in "rt":
        played.replan(name)
    for i in range(3):
        played.round("t", [[row(u=i)]])
    log = played.log(asked)
    monkeypatch.setattr(np, "argsort", None)
    assert played.log(asked).rounds() == log.rounds() == [1, 2, 3]


def test_notices_of_old_rounds_are_not_read(play: Play) -> None:
    played = play(stream("r"))
    played.add("q", "SELECT u FROM r WHERE a < 9")
    played.replan("r")
    for i in range(5):
        played.round("r", [[row(u=i)]])
    read: list[int] = []

    class Told(Ledger):
        def read(self, round_id: int) -> Manifest:
            read.append(round_id)
            return super().read(round_id)

    notices = Notices(played.home.root, Told(played.home.disk, played.home.stream_folder("r")))
    read.clear()
    assert [notice.round_id for notice in notices.after(2)] == [3, 4] == read
    assert [notice.round_id for notice in notices.after(-1)] == [0, 1, 2, 3, 4]
    assert list(notices.after(4)) == []


def test_rows_that_are_let_go_of_while_they_are_read(play: Play) -> None:
    """Another reader has seen it: it is said, and answers do not become less."""
    played = play(stream("r", 0), config=Config.of(manifests_kept=2))
    asked = played.add(
        "q", f"SELECT x.u AS u, y.u AS v FROM r AS x JOIN r AS y ON y.n = x.n AND {NEAR}"
    )
    played.replan("r")
    played.round("r", [[row(u=0)]])
    log = played.log(asked)
    for i in range(1, 9):
        played.round("r", [[row(u=i, ts=T0 + timedelta(seconds=100 * i))]])
    assert log.read_all().to_pylist() == [{"u": 0, "v": 0}]
    assert played.log(asked).read_all().num_rows < 9
    with pytest.raises(ServingError) as caught:
        log.read(asked.id, asked.query, 1)
    assert caught.value.code == "SINCE_GONE"
