"""Secrets of sources are named, looked up when the source is opened, and printed nowhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from time import perf_counter

import pytest

import headrace
from headrace import errors
from headrace.config import Config
from headrace.errors import HeadraceError, RoundError, SourceError, hide, redact
from headrace.runtime.doctor import examine
from headrace.runtime.scratch import OWNER, Scratch, sweep
from headrace.secret_options import may_be_secret, resolve

DDL = "k STRING, ts TIMESTAMP"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2-hunter2";'


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_hidden", set())


@pytest.mark.parametrize(
    "source",
    [
        "kafka://host:9092/topic?kafka.sasl.jaas.config=hunter2-hunter2",
        "kafka://host:9092/topic?kafka.ssl.key.password=hunter2-hunter2",
        "kafka://host:9092/topic?kafka.ssl.keystore.password=secret:not a name hunter2-hunter2",
        "kafka://me:hunter2-hunter2@host:9092/topic",
        "json:s3a://me:hunter2-hunter2@bucket/data",
        "json:s3a://me:hunter2/hunter2-hunter2@bucket/data",
        "kafka://me:hunter2-hunter2/x@host:9092/topic",
        "parquet:s3a://me:12/hunter2@bucket/x",
        "mysql:me:hunter2@host/db",
        "kafka://host:9092/?kafka.ssl.key.password=hunter2-hunter2",
        "kafke://host:9092/topic?kafka.ssl.key.password=hunter2-hunter2",
    ],
)
def test_a_literal_secret_is_refused_and_not_repeated(tmp_path: Path, source: str) -> None:
    eng = headrace.Engine(tmp_path / "race")
    with pytest.raises(SourceError) as found:
        eng.create_stream("s", source, schema=DDL, time="ts")
    assert "hunter2" not in str(found.value)
    assert "hunter2" not in repr(found.value.__dict__)
    assert not (tmp_path / "race" / "catalog.log").exists()


@pytest.mark.parametrize(
    "source",
    [
        "json:s3a://bucket/a@b/c",
        "json:hdfs://node:9000/a@b",
        "json:abfss://data@account.dfs.example/x",
    ],
)
def test_a_path_may_have_an_at(tmp_path: Path, source: str) -> None:
    headrace.Engine(tmp_path / "race").create_stream("s", source, schema=DDL, time="ts")


def test_a_reference_is_kept_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_LOGIN", JAAS)
    eng = headrace.Engine(tmp_path / "race")
    eng.create_stream(
        "s", "kafka://host:9092/t?kafka.sasl.jaas.config=secret:KAFKA_LOGIN", schema=DDL, time="ts"
    )
    assert "hunter2" not in (tmp_path / "race" / "catalog.log").read_text()
    assert resolve("kafka.sasl.jaas.config", "secret:KAFKA_LOGIN", "") == JAAS
    for said in (JAAS, "login failed for password hunter2-hunter2", f"Map(a -> {JAAS})"):
        assert "hunter2" not in str(RoundError("a round failed", value=said))


def test_secrets_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("# ours\nONE=value with = inside\n\nTWO=2\n")
    file.chmod(0o600)
    assert resolve("x.password", "secret:ONE", str(file)) == "value with = inside"
    with pytest.raises(SourceError, match="SECRET_MISSING"):
        resolve("x.password", "secret:THREE", str(file))
    file.chmod(0o644)
    with pytest.raises(SourceError, match="SECRETS_FILE") as found:
        resolve("x.password", "secret:ONE", str(file))
    assert "chmod 600" in found.value.hint
    with pytest.raises(SourceError, match="SECRETS_FILE"):
        resolve("x.password", "secret:ONE", str(tmp_path / "none"))
    assert Config.of(secrets_file=str(file)).secrets_file == str(file)


@pytest.mark.parametrize(
    ("name", "words"), [("folder", "directory"), ("a\0b", "null"), ("bytes", "UTF-8")]
)
def test_a_file_of_secrets_that_is_none(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"ONE=\xff\n")
    (tmp_path / "bytes").chmod(0o600)
    with pytest.raises(SourceError, match="SECRETS_FILE") as found:
        resolve("x.password", "secret:ONE", str(tmp_path / name))
    assert words in str(found.value) and "chmod" not in found.value.hint


def test_a_line_without_a_value_is_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("ONE\nTWO=\n")
    file.chmod(0o600)
    with pytest.raises(SourceError, match="SECRET_MISSING"):
        resolve("x.password", "secret:ONE", str(file))
    assert resolve("x.password", "secret:TWO", str(file)) == ""


def test_which_options_may_be_secret() -> None:
    secret = (
        "password",
        "kafka.sasl.jaas.config",
        "ssl.key.password",
        "fs.s3a.secret.key",
        "fs.s3a.access.key",
        "apiKey",
        "oauth.token",
        "credentials",
        "kafka.ssl.truststore.password",
    )
    plain = (
        "path",
        "key",
        "kafka.sasl.mechanism",
        "kafka.security.protocol",
        "maxFilesPerTrigger",
        "header",
    )
    assert all(map(may_be_secret, secret))
    assert not any(map(may_be_secret, plain))


def test_texts_without_secrets_stay_as_they_are() -> None:
    for text in (
        "SELECT token = 'x', passwords FROM s WHERE secret=1",
        "a@b",
        "parquet:/d?maxFilesPerTrigger=1",
    ):
        assert redact(text) == text
    hide("abc")
    assert redact("abc") == "abc", "too short to be told from words"
    assert redact("http://u:pw@h/x") == "http://***@h/x"
    assert redact("s3a://me:p/w@bucket/x") == "s3a://***@bucket/x"
    assert redact("hdfs://node:9000/a@b") == "hdfs://node:9000/a@b"
    assert (
        redact("kafka:x?kafka.sasl.jaas.config=secret:NAME")
        == "kafka:x?kafka.sasl.jaas.config=secret:NAME"
    )


HOSTILE = (
    "a:" + "?" * 100_000 + " =",
    "x:?a=b " + "a" * 100_000 + " =",
    "x:?a=b " + "secret" * 20_000,
    "=" + "passw" * 20_000,
    "passw=" + " " * 100_000,
    "x:?a=b " + 'passw="' * 15_000,
    "://" * 30_000 + "@",
    "://" + "a:" * 50_000 + "@",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_takes_long(text: str) -> None:
    """Messages quote what users write; by the square of its length each of these took minutes."""
    began = perf_counter()
    redact(text)
    assert perf_counter() - began < 2


def modes(race: Path) -> set[tuple[bool, int]]:
    return {(p.is_dir(), stat.S_IMODE(p.stat().st_mode)) for p in (race, *race.rglob("*"))}


def test_a_home_is_its_owners(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        eng = headrace.Engine(tmp_path / "race")
        eng.create_stream("s", "rate://5", schema="v BIGINT, ts TIMESTAMP", time="ts")
        eng.home.hold()
        eng.home.stream_folder("s")
        eng.home.release()
    finally:
        os.umask(before)
    assert modes(tmp_path / "race") == {(True, 0o700), (False, 0o600)}


def test_an_open_home_is_shut(tmp_path: Path) -> None:
    headrace.Engine(tmp_path / "race")
    (tmp_path / "race").chmod(0o755)
    headrace.Engine(tmp_path / "race")
    assert stat.S_IMODE((tmp_path / "race").stat().st_mode) == 0o700
    assert not [f for f in examine(tmp_path / "race") if f.level != "ok"]


def test_scratch_folders_go_when_their_owner_has_gone(tmp_path: Path) -> None:
    mine, other = Scratch(tmp_path), Scratch(tmp_path)
    kept, gone = mine.make(), other.make()
    assert kept is not None and gone is not None
    assert other._lock is not None
    other._lock.close()  # as if it was killed
    (tmp_path / "tmp" / "not-ours").mkdir()
    sweep(tmp_path / "tmp")
    assert kept.is_dir() and not gone.exists() and (tmp_path / "tmp" / "not-ours").is_dir()
    assert (kept / OWNER).exists()
    mine.remove()
    assert not kept.exists()
    assert Scratch(tmp_path / "a b, c").make() is None


def test_no_home_is_made_by_a_refused_source(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="SECRET_LITERAL"):
        headrace.Engine(tmp_path / "race").create_table(
            "t", "kafka://h:1/t?kafka.ssl.key.password=x", schema="k STRING", key="k"
        )
