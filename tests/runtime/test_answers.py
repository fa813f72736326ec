"""The answers log: what is packed is read, by query and round, and watched from any place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.errors import HomeError, ServingError
from headrace.reading import watch_answers
from headrace.runtime.answers import (
    AnswerFile,
    AnswerLog,
    Block,
    Pieces,
    dress,
    file_mark,
    pack,
    plain_folder,
    shared_path,
)
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger, mark_of
from headrace.runtime.waking import CommitSignal
from headrace.sql.bind import bind
from headrace.sql.query import Query
from tests.runtime.recording import QuickDisk
from tests.runtime.scenario import SQL, relation_of
from tests.runtime.test_ledger import manifest

FOLDER = "streams/s"

COLUMNS = st.sampled_from(
    [
        (pa.int64(), st.none() | st.integers(-(2**63), 2**63 - 1)),
        (pa.float64(), st.none() | st.floats(allow_nan=False)),
        (pa.string(), st.none() | st.text(max_size=5)),
        (pa.bool_(), st.none() | st.booleans()),
    ]
)


def query_of(sql: str = SQL) -> Query:
    return bind(sql, {"s": relation_of(Path("/src"))}, name="q", config=Config())


@st.composite
def draw_blocks(draw: st.DrawFn) -> list[Block]:
    """Queries 1, 2, … spread over blocks of different columns; some answer nothing."""
    blocks, next_id = [], 1
    for _ in range(draw(st.integers(0, 3))):
        counts = draw(st.lists(st.integers(0, 4), max_size=4))
        rows = sum(counts)
        columns = []
        for kind, values in draw(st.lists(COLUMNS, max_size=3)):
            columns.append(pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind))
        ends = draw(st.lists(st.integers(-(2**40), 2**40), min_size=rows, max_size=rows))
        ids = np.arange(next_id, next_id + len(counts), dtype=np.int64)
        next_id += len(counts)
        blocks.append(
            Block(ids, np.array(counts, np.int64), np.array(ends, np.int64), tuple(columns))
        )
    return blocks


@given(blocks=draw_blocks())
def test_what_is_packed_is_read(blocks: list[Block]) -> None:
    file = AnswerFile(pa.py_buffer(bytes(pack(blocks))))
    counts = {}
    for block in blocks:
        start = 0
        for query_id, count in zip(block.ids.tolist(), block.counts.tolist(), strict=True):
            counts[query_id] = count
            found = file.rows(query_id)
            assert found is not None
            expected = [pa.array(block.end_us), *block.columns]
            assert [c.to_pylist() for c in found.columns] == [
                c.slice(start, count).to_pylist() for c in expected
            ]
            start += count
    assert file.counts() == counts
    assert file.rows(10_000) is None


def test_not_an_answers_file() -> None:
    with pytest.raises(HomeError, match="not an answers file"):
        AnswerFile(pa.py_buffer(b"x" * 100))


def test_answers_have_the_columns_of_the_select_and_their_window() -> None:
    query = query_of(
        "SELECT window.end AS e, sum(v) AS total, window FROM s GROUP BY window(ts, '2 seconds')"
    )
    stored = pa.table({"c0": pa.array([5_000_000]), "c1": pa.array([7])})
    row = dress(query, stored).to_pylist()[0]
    assert list(row) == ["e", "total", "window", "window_start", "window_end"]
    assert row["total"] == 7 and row["e"] == row["window_end"] == row["window"]["end"]
    assert (row["window_end"] - row["window_start"]).total_seconds() == 2


# -- the log ---------------------------------------------------------------------------------------


class Log:
    """An answers log to commit rounds to."""

    def __init__(self, folder: Path) -> None:
        self.disk = QuickDisk(folder)
        Home(folder, self.disk).stream_folder("s")
        self.ledger = Ledger(self.disk, FOLDER)
        self.answers = AnswerLog(self.disk, self.ledger)
        self.registered = Registered(1, query_of(), 1)

    def commit(self, *values: int, query_id: int = 1, first_round: int = 0) -> None:
        round_id = 0 if self.ledger.newest is None else self.ledger.newest.round_id + 1
        ends, total = np.arange(len(values)) * 1_000_000, pa.array(values, pa.int64())
        data = pack([Block(np.array([query_id]), np.array([len(values)]), ends, (total,))])
        path = shared_path(FOLDER, round_id)
        self.disk.put(path, data)
        self.ledger.commit(manifest(round_id, first_round, (mark_of(path, data),)))

    def watch(
        self, since: int | None = None, goes_on: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[int, object]]:
        for answer in watch_answers(
            self.registered, lambda: self.answers, since, goes_on, CommitSignal()
        ):
            yield answer.seq, answer["total"]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "home")


def test_answers_by_round_and_query(log: Log) -> None:
    log.commit(1, 2)
    log.commit(9, query_id=2)
    log.commit(3)
    found = [
        (r, t.column("total").to_pylist()) for r, t in log.answers.read_all(1, log.registered.query)
    ]
    assert found == [(0, [1, 2]), (2, [3])]
    assert log.answers.counts() == {1: 3, 2: 1}
    assert [r for r, _ in log.answers.read_all(1, log.registered.query, after=0)] == [2]


@pytest.mark.parametrize("content", [b"", b"short", None])
def test_a_damaged_answers_file_is_named(log: Log, content: bytes | None) -> None:
    log.commit(1, 2)
    path = log.disk.root / shared_path(FOLDER, 0)
    path.unlink() if content is None else path.write_bytes(content)
    asks: list[Callable[[], object]] = [
        log.answers.counts,
        lambda: log.answers.read(1, log.registered.query, 0),
    ]
    for ask in asks:
        with pytest.raises(HomeError) as caught:
            ask()
        assert caught.value.code == "FILE_DAMAGED"


def test_a_watcher_resumes_after_any_answer(log: Log) -> None:
    log.commit(1, 2, 3)
    log.commit(9, query_id=2)
    log.commit()
    log.commit(4, 5)
    seen = list(log.watch())
    assert [v for _, v in seen] == [1, 2, 3, 4, 5]
    assert [s for s, _ in seen] == sorted({s for s, _ in seen})
    for n, (seq, _) in enumerate(seen):
        assert list(log.watch(since=seq)) == seen[n + 1 :]


def test_a_watcher_goes_on_as_rounds_are_committed(log: Log) -> None:
    log.commit(1)
    script = iter([(2, 3), (), (4,)])

    def goes_on() -> bool:
        values = next(script, None)
        if values is not None:
            log.commit(*values)
        return values is not None

    seen = list(log.watch(goes_on=goes_on))
    assert [v for _, v in seen] == [1, 2, 3, 4] and seen == list(log.watch())


def test_a_round_is_read_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a watcher looks for more."""
    log.commit(1, 2)
    log.commit(3)
    read, looks = list[int](), iter([True] * 5)

    def reads(query_id: int, query: Query, round_id: int) -> pa.Table | None:
        read.append(round_id)
        return AnswerLog.read(log.answers, query_id, query, round_id)

    monkeypatch.setattr(log.answers, "read", reads)
    seen = list(log.watch(goes_on=lambda: next(looks, False)))
    assert (len(seen), read) == (3, [0, 1])
    assert [v for _, v in log.watch(since=seen[0][0])] == [2, 3]


def test_not_a_place_to_resume_from(log: Log) -> None:
    with pytest.raises(ServingError, match="not a place to resume from"):
        list(log.watch(since=-1))


def test_answers_that_have_been_removed_are_said_to_be(log: Log) -> None:
    for value in range(4):
        log.commit(value)
    seqs = [s for s, _ in log.watch()]
    log.commit(4, first_round=3)
    with pytest.raises(ServingError) as caught:
        list(log.watch(since=seqs[0]))
    assert caught.value.code == "SINCE_GONE"
    assert [v for _, v in log.watch(since=seqs[2])] == [3, 4]


def test_answers_in_pieces_read_as_one(tmp_path: Path) -> None:
    """All but the last piece are files of their own, before the round's; rows of a query follow
    each other."""
    disk = QuickDisk(tmp_path / "race")
    Home(disk.root, disk).stream_folder("s")
    pieces = Pieces(disk, FOLDER, 0)
    for i, ids in enumerate(([1, 2], [], [2], [1, 2])):
        values = pa.array([10 * i + query_id for query_id in ids], pa.int64())
        block = Block(
            np.array(ids),
            np.ones(len(ids), np.int64),
            np.full(len(ids), (i + 1) * 10**6),
            (values,),
        )
        pieces.add([block] if ids else [])
    last = pack(pieces.last)
    disk.put(shared_path(FOLDER, 0), last)
    names = [mark.path.rpartition("/")[2] for mark in pieces.marks]
    assert names == ["000000000000.000000.arrow", "000000000000.000001.arrow"]
    ledger = Ledger(disk, FOLDER)
    ledger.commit(
        replace(manifest(0), files=(*pieces.marks, mark_of(shared_path(FOLDER, 0), last)))
    )
    log = AnswerLog(disk, ledger)
    found = {i: log.read(i, query_of(), 0) for i in (1, 2, 3)}
    assert {i: t.column("total").to_pylist() for i, t in found.items() if t is not None} == {
        1: [1, 31],
        2: [2, 22, 32],
    }
    assert log.counts() == {1: 2, 2: 3}


def test_what_a_round_takes_back_is_read_before_what_it_gives(tmp_path: Path) -> None:
    """However Spark has written it; else rows stay as they were written."""
    disk = QuickDisk(tmp_path / "race")
    Home(disk.root, disk).stream_folder("s")
    path = f"{plain_folder(FOLDER, 0)}/1/part-0.parquet"
    written = pa.table({"c0": [5, 2, 7, 3], "c1": pa.array([1, -1, 1, -1], pa.int8())})
    (disk.root / path).parent.mkdir(parents=True)
    pq.write_table(written, disk.root / path)
    ledger = Ledger(disk, FOLDER)
    ledger.commit(replace(manifest(0), files=(file_mark(disk, path),)))
    found = AnswerLog(disk, ledger).read(1, query_of("SELECT sum(v) AS total FROM s"), 0)
    assert found is not None
    assert found.to_pydict() == {"total": [2, 3, 5, 7], "change": [-1, -1, 1, 1]}
