"""Turns of relations that are joined, one case after the other; `test_joined_rounds.py` draws
them."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.config import Config
from headrace.families.joins.reading.join_log import JoinLog, JoinReader
from headrace.relations import wear
from headrace.runtime.ledger import Ledger
from headrace.values import Relation
from tests.families.joins.asked import T0, Row, rank
from tests.families.joins.played import Played, stream, table

Play = Callable[..., Played]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    made: list[Played] = []

    def begin(*relations: Relation) -> Played:
        made.append(Played(tmp_path / str(len(made)), relations))
        return made[-1]

    yield begin
    for played in made:
        played.home.release()


def row(**values: Any) -> Row:
    return {
        "k": "x",
        "n": 0,
        "a": 0,
        "b": 0.0,
        "d": None,
        "ts": T0,
        "u": 0,
        "gone": False,
        **values,
    }


def test_levels_of_a_round_that_failed_are_written_again(play: Play) -> None:
    played = play(stream("r"), stream("s"))
    played.add("q", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > 1")
    for name in "rs":
        played.replan(name)
    played.round("s", [[row(b=2.0)]])
    played.abandon("r", [[row()]])
    played.replan("r")
    done = played.round("r", [[row()]])
    assert done is not None and done.notes.written


def test_a_level_that_is_committed_is_not_written_again(play: Play) -> None:
    played = play(stream("r"), stream("s"))
    played.add("q", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > 1")
    played.replan("r")
    played.round("r", [[row()]])
    (level,) = (played.home.root / "streams/r/levels").glob("*.npz")
    before = level.stat()
    played.open()
    played.replan("r")
    played.round("r", [[row()]])
    assert (level.stat().st_mtime_ns, level.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_side_without_rows_yet_has_no_answers(play: Play) -> None:
    played = play(stream("r"), stream("s"))
    asked = played.add("q", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > 1")
    played.replan("r")
    played.round("r", [[row()]])
    assert played.log(asked).read_all().num_rows == 0


@pytest.mark.parametrize(("name", "advice"), [("r", "bound the event times"), ("t", "fewer keys")])
def test_a_limit_is_told_with_what_can_be_done(play: Play, name: str, advice: str) -> None:
    """A table has no event times to bound."""
    played = play(stream("r"), stream("s"), table("t", ("k",)))
    played.config = Config.of(join_rows_max=1)
    played.open()
    asked = played.add("q", f"SELECT x.u AS u FROM {name} AS x JOIN s AS y ON y.b - x.b > 1")
    played.replan(name)
    (told,) = played.over_limit(name, [[row(), row(k="y")]]).items()
    assert told[0] == asked.id and "2 rows" in told[1] and "join_rows_max is 1;" in told[1]
    assert [words in told[1] for words in ("bound the event times", "fewer keys")] == [
        words == advice for words in ("bound the event times", "fewer keys")
    ]


def test_an_odd_row_is_told_once(play: Play) -> None:
    """Whichever shapes it is odd for, and not again when it goes."""
    played = play(table("r", ("k",)), stream("s"))
    played.add("own", "SELECT x.u AS u FROM r AS x JOIN r AS y ON y.b - x.b > 1")
    played.add("other", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > 1")
    played.replan("r")
    came = played.round("r", [[row(b=math.nan), row(k="y")]])
    went = played.round("r", [[row(b=1.0), row(k="y", b=2.0)]])
    assert came is not None and went is not None
    assert (came.notes.odd, went.notes.odd) == (1, 0)


SOME = [("1", ""), ("y.u", ""), ("x.u", "WHERE x.u > 0"), ("1", "WHERE y.u > 0")]


@pytest.mark.parametrize(("select", "where"), SOME)
def test_a_query_need_not_read_both_sides(play: Play, select: str, where: str) -> None:
    played = play(stream("r"), stream("s"))
    asked = played.add("q", f"SELECT {select} AS c FROM r AS x CROSS JOIN s AS y {where}")
    for name in "rs":
        played.replan(name)
        played.round(name, [[row(u=1)], [row(u=1)]])
    assert played.log(asked).read_all().to_pylist() == [{"c": 1}] * 4


def test_what_is_asked_besides_is_asked_of_any_whole_number(play: Play) -> None:
    """Of what rows do not meet by, nothing is too large."""
    played = play(stream("r"), stream("s"))
    above = played.add(
        "above", "SELECT x.u AS u FROM r AS x JOIN s AS y ON x.k = y.k AND y.n > x.n"
    )
    near = played.add(
        "near",
        "SELECT x.u AS u FROM r AS x JOIN s AS y ON x.k = y.k AND y.n - x.n BETWEEN -2 AND 2",
    )
    far = played.add(
        "far",
        "SELECT x.u AS u FROM s AS x JOIN r AS y ON x.k = y.k AND abs(y.n - x.n) > 2 AND y.u > 0",
    )
    for name, values in (("r", [2**63 - 1, -(2**63), 5]), ("s", [2**63 - 2])):
        played.replan(name)
        played.round(name, [[row(n=n, u=u) for u, n in enumerate(values)]])
    assert played.log(above).read_all().to_pylist() == [{"u": 1}, {"u": 2}]
    assert played.log(near).read_all().to_pylist() == [{"u": 0}]
    assert played.log(far).read_all().num_rows == 2


@pytest.mark.parametrize(
    ("where", "theirs"),
    [
        ("y.b > x.b", lambda x, y: rank(y) > rank(x)),
        ("y.b <= x.b", lambda x, y: rank(y) <= rank(x)),
        ("y.b - x.b > 2", lambda x, y: rank(y - x) > rank(2.0)),
        ("x.b - y.b > 2", lambda x, y: rank(x - y) > rank(2.0)),
        ("x.b - y.b <= 2", lambda x, y: rank(x - y) <= rank(2.0)),
        ("abs(x.b - y.b) > 2", lambda x, y: rank(abs(x - y)) > rank(2.0)),
    ],
)
def test_what_is_asked_besides_is_asked_of_any_double(
    play: Play, where: str, theirs: Callable[[float, float], bool]
) -> None:
    """NaN is above all, the difference of two infinities is NaN, and so is its negative."""
    played = play(stream("r"), stream("s"))
    asked = played.add(
        "q", f"SELECT x.b AS x, y.b AS y FROM r AS x JOIN s AS y ON x.k = y.k AND {where}"
    )
    values = [math.nan, math.inf, -math.inf, 0.0, 5.0, -1e308, 1e308]
    for name in "rs":
        played.replan(name)
        played.round(name, [[row(b=b) for b in values]])
    found = {
        (rank(pair["x"]), rank(pair["y"])) for pair in played.log(asked).read_all().to_pylist()
    }
    assert found == {(rank(x), rank(y)) for x in values for y in values if theirs(x, y)}


def net(log: JoinLog) -> Counter[int]:
    found: Counter[int] = Counter()
    for answer in log.read_all().to_pylist():
        found[answer["u"]] += answer.get("change", 1)
        assert found[answer["u"]] >= 0
    return +found


def test_only_what_was_answered_is_taken_back(play: Play) -> None:
    played = play(stream("r"), table("s", ("k",)))
    played.add("first", "SELECT y.u AS u FROM r AS x JOIN s AS y ON x.k = y.k")
    for name in "rs":
        played.replan(name)
    played.round("s", [[row(u=1), row(u=2, k="y")]])
    played.round("r", [[row(), row(k="y")]])
    later = played.add(
        "later", "SELECT y.u AS u FROM r AS x JOIN s AS y ON x.k = y.k WHERE y.u > 0"
    )
    for name in "rs":
        played.replan(name)
    played.round("r", [[row()]])
    assert net(played.log(later)) == {1: 1}
    played.round("s", [[row(u=3), row(u=4, k="y", gone=True)]])
    assert net(played.log(later)) == {3: 2}


def test_who_reads_late_takes_back_what_was_answered(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file in which a row came has been let go of, and the round in which it went has
    not."""
    monkeypatch.setattr(wear, "SPARE_ROWS", 0)
    monkeypatch.setattr(wear, "FILES_MAX", 1)
    played = Played(tmp_path / "h", (stream("r"), table("s", ("k",))), Config.of(manifests_kept=3))
    select = "SELECT y.u AS u FROM r AS x JOIN s AS y ON x.k = y.k"
    played.add("first", select)

    def run(name: str, *rows: Row) -> None:
        for each in "rs":
            played.replan(each)
        played.round(name, [rows])

    run("s", row(u=1), row(k="z"))
    run("r", row())
    run("s", row(k="z", u=1))
    later = played.add("later", f"{select} WHERE y.u > 0")
    seen: dict[int, list[int]] = {}
    for n in range(6):  # in the first of them the row goes that only `first` has answered
        run("s", row(u=7 + n))
        for _ in range(3):
            run("r", row(k="nobody's"))
        log = played.log(later, played.new_reader())
        for turn in log.rounds():
            found = log.read(later.id, later.query, turn)
            changes = [] if found is None else found.column("change").to_pylist()
            assert seen.setdefault(turn, changes) == changes, turn
    kept = played.log(later, played.new_reader()).rounds()
    assert seen[min(seen)] == [1] and min(kept) > min(seen)
    played.home.release()


@pytest.mark.parametrize("goes", [("x", "y"), ("y", "x"), ("x",), ("y",)])
def test_a_pair_of_one_table_is_taken_back_once(play: Play, goes: tuple[str, ...]) -> None:
    """Also where both of its rows go in one round: each of them meets the other then."""
    played = play(table("r", ("k",)))
    asked = played.add("q", "SELECT x.u AS u, y.u AS v FROM r AS x JOIN r AS y ON y.b - x.b > 1")
    played.replan("r")
    played.round("r", [[row(u=1), row(k="y", b=2.0, u=2)]])
    first = played.log(asked).read_all().to_pylist()
    assert first == [{"u": 1, "v": 2, "change": 1}]
    played.round("r", [[row(k=k, gone=True) for k in goes]])
    log = played.log(asked).read_all().to_pylist()
    assert log == [*first, {"u": 1, "v": 2, "change": -1}]


def test_a_round_begun_before_a_query_came_counts_once_another_knows_of_it(play: Play) -> None:
    played = play(stream("r"), table("s", ("k",)))
    played.add("first", "SELECT y.u AS u FROM r AS x JOIN s AS y ON x.k = y.k")
    for name in "rs":
        played.replan(name)
    played.round("s", [[row(u=1)]])
    later = played.add(
        "later", "SELECT y.u AS u FROM r AS x JOIN s AS y ON x.k = y.k WHERE y.u > 0"
    )
    played.replan("r")
    played.round("r", [[row()]])
    assert net(played.log(later)) == {1: 1}
    played.round("s", [[row(u=2)]])  # has not heard of it
    assert net(played.log(later)) == {2: 1}


def test_rows_that_would_have_gone_with_a_failed_round_are_there(play: Play) -> None:
    """A worker that has seen them go is asked by another relation before the round is done
    again."""
    played = play(table("r", ("k",)), stream("s"))
    played.add("own", "SELECT x.u AS u FROM r AS x JOIN r AS y ON y.b - x.b > 1")
    played.add("other", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > 1")
    for name in "rs":
        played.replan(name)
    played.round("r", [[row(b=0.0)]])
    played.abandon("r", [[row(b=5.0)]])
    done = played.round("s", [[row(b=2.0)]])
    assert done is not None and len(done.notes.written) == 1


def test_a_turn_is_read_with_all_before_it(play: Play) -> None:
    """Both relations commit while a reader has looked at one of them."""
    played = play(stream("r"), stream("s"))
    asked = played.add("q", "SELECT x.u AS u FROM r AS x JOIN s AS y ON x.k = y.k")
    for name in "rs":
        played.replan(name)
    played.round("s", [[row(k="y")]])
    looks = count()

    class Meanwhile(Ledger):
        def refresh(self) -> None:
            for name in "rs" if next(looks) == 1 else "":  # it was opened before
                played.round(name, [[row(u=7)]])
            super().refresh()

    reader = JoinReader(
        played.home.root,
        played.catalog.relation,
        lambda name: (Ledger if name == "r" else Meanwhile)(
            played.home.disk, played.home.stream_folder(name)
        ),
    )
    log = played.log(asked, reader)
    assert (log.rounds(), log.read_all().to_pylist()) == ([1, 2, 3], [{"u": 7}])


def test_levels_that_were_let_go_of_are_written_again(play: Play) -> None:
    """By a relation that was not joined for a round; what it dropped has gone for the other too."""
    played = play(stream("r"), stream("s"))
    for i in range(9):
        played.add(f"q{i}", f"SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > {i}")
    for name in "sr":
        played.replan(name)
        played.round(name, [[row(b=2.0)]])
    for i in range(9):
        played.drop(f"q{i}")
    played.replan("r")
    played.round("r", [[row()]])
    assert not list((played.home.root / "streams/r/levels").glob("*.npz"))
    played.add("q", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > 1")
    played.replan("r")
    done = played.round("r", [[row()]])
    assert done is not None and len(done.notes.seen[0].levels) == 1


@pytest.mark.parametrize("lags", [False, True])
def test_rows_that_were_past_are_there_for_a_query_that_needs_them(play: Play, lags: bool) -> None:
    """As they are for who reads its answers, and after a restart."""
    played = play(stream("r"), stream("s"))
    near = "y.ts BETWEEN x.ts - INTERVAL '5' SECONDS AND x.ts"
    played.add("near", f"SELECT x.u AS u FROM r AS x JOIN s AS y ON x.n = y.n AND {near}")
    for name in "rs":
        played.replan(name)
    played.round("r", [[row(u=7)]])
    played.round("s", [[row(ts=T0 + timedelta(seconds=60))]])
    done = played.round("s", [[row(ts=T0 + timedelta(seconds=61))]])
    assert done is not None and not done.turn.looks[0].files
    ever = played.add("ever", "SELECT x.u AS u FROM r AS x JOIN s AS y ON x.n = y.n AND y.u < 9")
    for name in "s" if lags else "rs":
        played.replan(name)
    done = played.round("s", [[row(ts=T0 + timedelta(seconds=62))]])
    assert done is not None and done.notes.written and len(done.turn.looks[0].files) == 1
    assert played.log(ever).read_all().to_pylist() == [{"u": 7}]


def test_rows_are_past_when_they_are_for_every_query(play: Play) -> None:
    played = play(stream("r"), stream("s"))
    for name, seconds in (("near", 5), ("far", 60)):
        apart = f"y.ts BETWEEN x.ts AND x.ts + INTERVAL '{seconds}' SECONDS"
        played.add(name, f"SELECT x.u AS u FROM r AS x JOIN s AS y ON x.n = y.n AND {apart}")
    for name in "rs":
        played.replan(name)
    played.round("r", [[row()]])
    files = []
    for seconds in (30, 31, 90, 91):
        done = played.round("s", [[row(ts=T0 + timedelta(seconds=seconds))]])
        assert done is not None
        files.append(len(done.turn.looks[0].files))
    assert files == [1, 1, 1, 0]  # rows may be 10 seconds late


def test_a_relation_is_not_opened_while_another_has_its_turn(play: Play) -> None:
    """What a round under way looks at would be read anew under it."""
    played = play(stream("r"), stream("s"))
    played.add("q", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b > 1")
    with played.shapes.relations.commit_lock:
        opening = threading.Thread(target=played.shapes.forget, args=("s", "streams/s"))
        opening.start()
        opening.join(0.2)
        assert opening.is_alive()
    opening.join()


def test_workers_keep_what_the_newest_batches_were_looked_up_in(play: Play) -> None:
    """However often queries change: levels and images that nobody asks for go, numbers of files
    with them."""
    played = play(stream("r"), table("s", ("k",)))
    played.add("q", "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.n = x.n")
    worker = played.workers[0]
    for number, column in enumerate(["a", "b", "d", "u", "ts"] * 3):
        played.add(
            f"g{number}", f"SELECT x.u AS u FROM r AS x JOIN s AS y ON y.{column} = x.{column}"
        )
        for name in "rs":
            played.replan(name)
        for name in "rsr":
            played.round(name, [[row(u=number)]])
        played.drop(f"g{number}")
    for name in "rs":
        played.replan(name)
    for name in "rsr":
        played.round(name, [[row(u=99)]])
    assert len(worker._levels) == 2 and len(worker._probers) == 2, "each relation writes its own"
    assert len(worker._images) == 3, "r, s, and s by key"
    kept = dict(worker._probers)
    for name in "rsrs":
        played.round(name, [[row(u=len(name))]])
    assert all(worker._probers[key] is own for key, own in kept.items()), "relations take turns"


def test_numbers_of_files_in_no_image_are_dropped(play: Play) -> None:
    played = play(stream("r"), stream("s"))
    played.add(
        "q",
        "SELECT x.u AS u FROM r AS x JOIN s AS y ON y.n = x.n "
        "AND y.ts BETWEEN x.ts - INTERVAL '1' MINUTE AND x.ts + INTERVAL '1' MINUTE",
    )
    for name in "rs":
        played.replan(name)
    for number in range(200):
        for name in "rs":
            done = played.round(name, [[row(ts=T0 + timedelta(minutes=number))]])
            assert done is not None and (name == "r" or done.notes.written)
    worker = played.workers[0]
    assert len(worker._numbers) == len(worker._files) == len(worker._places) < 100
    assert len(worker._tables) < 200
