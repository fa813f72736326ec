"""Spark's own logs, read with suspicion: what they say must be what was committed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import HomeError, SourceError
from headrace.runtime.home import Home
from headrace.runtime.ledger import Manifest
from headrace.runtime.sparklogs import Input, Listed, SparkLogs, chain, stat_inputs
from tests.runtime.recording import QuickDisk
from tests.runtime.test_ledger import manifest


class Checkpoint:
    """A checkpoint folder as Spark writes it, two rounds of one file each and a third under way."""

    def __init__(self, folder: Path) -> None:
        disk = QuickDisk(folder)
        Home(folder, disk).stream_folder("s")
        self.root = folder / "streams/s/checkpoint"
        self.logs = SparkLogs(disk, "streams/s")
        for place in ("offsets", "commits", "sources/0"):
            (self.root / place).mkdir(parents=True)
        (self.root / "metadata").write_text('{"id":"one"}')
        for n in range(3):
            self.source(n)
            self.offsets(n, n)
        for n in range(2):
            (self.root / "commits" / str(n)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        self.newest = self.manifest(1, self.manifest(0, None))
        self.before = Input.of(self.newest)

    def source(self, n: int, *extra: int, kind: str = "") -> None:
        rows = [
            json.dumps({"path": f"file:///src/{i}", "timestamp": 1_000 + i, "batchId": i})
            for i in (*extra, n)
        ]
        (self.root / "sources/0" / f"{n}{kind}").write_text("\n".join(["v1", *rows]))

    def offsets(self, round_id: int, end: int) -> None:
        (self.root / "offsets" / str(round_id)).write_text(
            f'v1\n{{"conf":{{}}}}\n{{"logOffset":{end}}}'
        )

    def manifest(self, round_id: int, before: Manifest | None) -> Manifest:
        read = self.logs.input_of(round_id, None if before is None else Input.of(before))
        return replace(
            manifest(round_id),
            checkpoint_id=read.checkpoint_id,
            offsets=read.offsets,
            chain=read.chain,
        )

    def code(self) -> str:
        with pytest.raises(HomeError) as caught:
            self.logs.verify(self.newest)
        return caught.value.code


@pytest.fixture
def spark_logs(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "home")


def test_what_a_round_reads(spark_logs: Checkpoint) -> None:
    read = spark_logs.logs.input_of(2, spark_logs.before)
    assert read.files == (Listed("file:///src/2", 1_002, 2),)
    assert read.checkpoint_id == "one" and json.loads(read.offsets) == {"logOffset": 2}
    every = tuple(Listed(f"file:///src/{i}", 1_000 + i, i) for i in range(3))
    assert read.chain == chain("", every)


def test_a_round_may_span_entries(spark_logs: Checkpoint) -> None:
    spark_logs.source(3)
    spark_logs.offsets(2, 3)
    assert [f.batch for f in spark_logs.logs.input_of(2, spark_logs.before).files] == [2, 3]


def test_logs_that_match_are_fine_also_with_a_round_under_way(spark_logs: Checkpoint) -> None:
    spark_logs.logs.mend(spark_logs.newest)
    spark_logs.logs.verify(spark_logs.newest)
    assert (spark_logs.root / "offsets/2").exists() and (spark_logs.root / "sources/0/2").exists()


def test_a_compacted_log_tells_the_same(spark_logs: Checkpoint) -> None:
    before = spark_logs.logs.input_of(2, spark_logs.before).chain
    (spark_logs.root / "sources/0/2").unlink()
    spark_logs.source(2, 0, 1, kind=".compact")
    assert spark_logs.logs.input_of(2, spark_logs.before).chain == before
    spark_logs.logs.verify(spark_logs.newest)
    (spark_logs.root / "sources/0/0").unlink()  # as Spark does once they have expired
    assert spark_logs.logs.input_of(2, spark_logs.before).chain == before


@pytest.mark.parametrize("file", ["metadata", "offsets/1", "sources/0/0", "sources/0/1"])
@pytest.mark.parametrize("content", [b"", b"v1", b"\0\0\0\0", b"\xff", None])
def test_damage_to_what_was_committed_stops(
    spark_logs: Checkpoint, file: str, content: bytes | None
) -> None:
    path = spark_logs.root / file
    path.unlink() if content is None else path.write_bytes(content)
    spark_logs.logs.mend(spark_logs.newest)
    assert spark_logs.code() == "CHECKPOINT_MISMATCH"


ODD_JSON = [
    "null",
    "1",
    '"x"',
    "[]",
    "{}",
    '{"epoch":3}',
    '{"id":1}',
    '{"id":null}',
    "[1]",
    "Infinity",
    "[" * 5_000,
    '{"logOffset":Infinity}',
    '{"logOffset":[]}',
    '{"path":"x","timestamp":NaN,"batchId":0}',
    '"path"',
    '{"path":"x","timestamp":1e999,"batchId":0}',
    '{"path":"\\ud800","timestamp":1,"batchId":0}',
    '{"path":[]}',
]


@pytest.mark.parametrize("file", ["metadata", "offsets/1", "sources/0/0", "sources/0/1"])
@pytest.mark.parametrize("text", ODD_JSON)
@pytest.mark.parametrize("newest", ["is there", "is none"])
def test_json_of_another_kind(spark_logs: Checkpoint, file: str, text: str, newest: str) -> None:
    """Whatever JSON stands in a file of Spark's, it is told as ours, or taken away where nothing is
    committed."""
    body = (
        text
        if file == "metadata"
        else f"v1\n{{}}\n{text}"
        if file.startswith("offsets")
        else f"v1\n{text}"
    )
    (spark_logs.root / file).write_text(body)
    if newest == "is none":
        for path in (spark_logs.root / "commits").iterdir():
            path.unlink()
        spark_logs.logs.mend(None)
        assert file != "metadata" or not (spark_logs.root / file).exists()
        return
    spark_logs.logs.mend(spark_logs.newest)
    assert spark_logs.code() == "CHECKPOINT_MISMATCH"


def test_a_changed_digit_stops(spark_logs: Checkpoint) -> None:
    for file in ("offsets/1", "sources/0/0", "sources/0/1", "metadata"):
        path = spark_logs.root / file
        good = path.read_text()
        for old, new in (("1", "2"), ("src", "sRc"), ("one", "two")):
            head, newline, body = good.rpartition("\n")
            if old in body:
                path.write_text(head + newline + body.replace(old, new))
                assert spark_logs.code() == "CHECKPOINT_MISMATCH", (file, old)
        path.write_text(good)
    spark_logs.logs.verify(spark_logs.newest)


@pytest.mark.parametrize("end", [0, 3, 92])
def test_offsets_outside_the_list_of_files_stop(spark_logs: Checkpoint, end: int) -> None:
    """Spark takes a changed digit as it is: a smaller one reads files twice, a larger one loses
    files later."""
    spark_logs.offsets(2, end)
    with pytest.raises(HomeError, match="point outside"):
        spark_logs.logs.input_of(2, spark_logs.before)


@pytest.mark.parametrize("content", [b"", b"v1", b"v1\n{", b"\0\0\0\0", b"\xff"])
@pytest.mark.parametrize("file", ["offsets/2", "sources/0/2", "commits/1"])
def test_what_a_power_cut_tore_is_taken_away_where_nothing_was_committed(
    spark_logs: Checkpoint, file: str, content: bytes
) -> None:
    (spark_logs.root / file).write_bytes(content)
    spark_logs.logs.mend(spark_logs.newest)
    assert not (spark_logs.root / file).exists()
    spark_logs.logs.verify(spark_logs.newest)
    assert not (file == "sources/0/2" and (spark_logs.root / "offsets/2").exists())
    assert (spark_logs.root / "offsets/1").exists() and (spark_logs.root / "sources/0/1").exists()


def test_offsets_whose_files_are_lost_are_taken_away(spark_logs: Checkpoint) -> None:
    (spark_logs.root / "sources/0/2").unlink()
    spark_logs.logs.mend(spark_logs.newest)
    assert not (spark_logs.root / "offsets/2").exists()


def go_ahead(spark_logs: Checkpoint) -> None:
    """Round 2 is done for Spark, and round 3 begun."""
    (spark_logs.root / "commits/2").write_text("v1\n{}")
    spark_logs.source(3)
    spark_logs.offsets(3, 3)


def test_the_round_spark_is_ahead_is_taken_back(spark_logs: Checkpoint) -> None:
    go_ahead(spark_logs)
    spark_logs.logs.verify(spark_logs.newest)
    spark_logs.logs.mend(spark_logs.newest)
    spark_logs.logs.verify(spark_logs.newest)
    found = {
        str(p.relative_to(spark_logs.root)) for p in spark_logs.root.rglob("*") if p.name.isdigit()
    }
    assert found >= {"offsets/2", "sources/0/2", "commits/1"}  # the same input again
    assert not found & {"commits/2", "offsets/3", "sources/0/3"}


def test_files_only_listed_are_listed_anew(spark_logs: Checkpoint) -> None:
    """Killed between listing files and planning the round: with them, the next round would be of
    two."""
    (spark_logs.root / "offsets/2").unlink()
    spark_logs.logs.mend(spark_logs.newest)
    assert (
        not (spark_logs.root / "sources/0/2").exists()
        and (spark_logs.root / "sources/0/1").exists()
    )


@pytest.mark.parametrize("expired", [False, True])
def test_a_compacted_entry_stays_if_it_alone_knows(spark_logs: Checkpoint, expired: bool) -> None:
    go_ahead(spark_logs)
    (spark_logs.root / "sources/0/3").unlink()
    spark_logs.source(3, 0, 1, 2, kind=".compact")
    if expired:
        (spark_logs.root / "sources/0/0").unlink()
    spark_logs.logs.mend(spark_logs.newest)
    spark_logs.logs.verify(spark_logs.newest)
    assert (spark_logs.root / "sources/0/3.compact").exists() == expired


def test_where_another_source_began_stays(spark_logs: Checkpoint) -> None:
    """The rate source keeps its first moment where the file source keeps its list: another would be
    another stream."""
    for n in range(3):
        (spark_logs.root / "offsets" / str(n)).write_text(f"v1\n{{}}\n{n}")
    for n in (1, 2):
        (spark_logs.root / "sources/0" / str(n)).unlink()
    (spark_logs.root / "sources/0/0").write_text("v1\n1700000000000")
    spark_logs.logs.mend(replace(spark_logs.newest, offsets="1"))
    assert (spark_logs.root / "sources/0/0").exists() and (spark_logs.root / "offsets/2").exists()


def test_spark_further_ahead_of_the_manifests_stops(spark_logs: Checkpoint) -> None:
    go_ahead(spark_logs)
    (spark_logs.root / "commits/3").write_text("v1\n{}")
    spark_logs.logs.mend(spark_logs.newest)
    assert spark_logs.code() == "CHECKPOINT_MISMATCH"
    (spark_logs.root / "commits/3").unlink()
    spark_logs.source(4)
    spark_logs.offsets(4, 4)
    spark_logs.logs.mend(spark_logs.newest)
    assert spark_logs.code() == "CHECKPOINT_MISMATCH"


def test_spark_has_rounds_and_we_have_none(spark_logs: Checkpoint) -> None:
    spark_logs.logs.mend(None)
    with pytest.raises(HomeError, match="no manifest speaks of it"):
        spark_logs.logs.verify(None)


def test_a_torn_first_start_is_taken_away(tmp_path: Path) -> None:
    spark_logs = Checkpoint(tmp_path / "home")
    for n in range(2):
        (spark_logs.root / "commits" / str(n)).unlink()
    (spark_logs.root / "metadata").write_bytes(b"")
    spark_logs.logs.mend(None)
    spark_logs.logs.verify(None)
    assert not (spark_logs.root / "metadata").exists()


def test_what_spark_had_not_named_yet_is_taken_away(spark_logs: Checkpoint) -> None:
    """A kill in the middle of a write; Spark 4.3 does not begin round 0 beside such a file."""
    left = [
        ".metadata.7.tmp",
        "offsets/.2.5e.tmp",
        "offsets/..2.5e.tmp.crc",
        "commits/.9.crc",
        "sources/0/.2.crc",
    ]
    for name in left:
        (spark_logs.root / name).write_bytes(b"x")
    spark_logs.logs.mend(spark_logs.newest)
    spark_logs.logs.verify(spark_logs.newest)
    assert [name for name in left if (spark_logs.root / name).exists()] == ["sources/0/.2.crc"]


# -- source files ----------------------------------------------------------------------------------


def listed(path: Path) -> tuple[Listed, ...]:
    return (Listed(f"file://{path}", path.stat().st_mtime_ns // 1_000_000, 0),)


def test_a_source_file_is_as_it_was_listed_or_we_stop(tmp_path: Path) -> None:
    path = tmp_path / "a b"
    path.write_text("rows")
    files = (replace(listed(path)[0], path=f"file://{tmp_path}/a%20b"),)
    assert stat_inputs(files) == ((files[0].path, 4, files[0].time_ms),)
    os.utime(path, (1, 1))
    with pytest.raises(SourceError) as caught:
        stat_inputs(files)
    assert caught.value.code == "SOURCE_CHANGED"
    path.unlink()
    with pytest.raises(SourceError) as caught:
        stat_inputs(files)
    assert caught.value.code == "SOURCE_GONE"


def test_files_elsewhere_are_taken_at_sparks_word() -> None:
    assert stat_inputs((Listed("s3a://bucket/a", 5, 0),)) == (("s3a://bucket/a", -1, 5),)
