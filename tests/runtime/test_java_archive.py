"""The archive of Java's classes: where it may be, when it is taken, and that it never stops a start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.runtime import java_archive
from headrace.runtime.java_archive import KEPT, VARIABLE, archive_options, find_java, is_whole

MEMORY = {"spark.driver.memory": "4g"}


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jars of a Spark, a Java 17, and a cache."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(java_archive, "FREE_BYTES_MIN", 0)
    use_java(tmp_path, monkeypatch, "17.0.15")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").write_bytes(b"classes")
    return tmp_path / "jars"


def use_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    home = tmp_path / f"java-{version}"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))


def options(jars: Path, memory: str = "4g") -> str:
    return archive_options(jars, jars.parent / "conf", {"spark.driver.memory": memory})


def archive(text: str) -> Path:
    """The file that options name."""
    (named,) = (o.partition("=")[2] for o in text.split() if o.endswith(".jsa"))
    return Path(named)


def test_it_is_made_once_and_then_taken(jars: Path) -> None:
    first = options(jars)
    assert first.startswith("-XX:ArchiveClassesAtExit=")
    archive(first).write_bytes(bytes(100))
    assert options(jars) == first, "its first bytes are written last: this one was cut off"
    archive(first).write_bytes(b"\xf0\x0b\xab\xa8" + bytes(100))
    archive(first).chmod(0o666)
    assert options(jars) == first, "somebody else may have written it"
    archive(first).chmod(0o400)
    assert options(jars).startswith(f"-XX:SharedArchiveFile={archive(first)}")


def test_java_of_19_on_does_it_by_itself(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_java(tmp_path, monkeypatch, "21.0.2")
    assert options(jars).startswith("-XX:+AutoCreateSharedArchive -XX:SharedArchiveFile=")


def test_another_spark_java_or_memory_has_another(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {archive(options(jars)), archive(options(jars, memory="64g"))}
    (jars / "spark.jar").write_bytes(b"other classes")
    found.add(archive(options(jars)))
    use_java(tmp_path, monkeypatch, "18.0.1")
    found.add(archive(options(jars)))
    assert len(found) == 4


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_old_javas_have_none(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    use_java(tmp_path, monkeypatch, version)
    assert options(jars) == ""


def test_none_where_nothing_may_be_kept(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert options(jars) == ""
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "a file"))
    assert options(jars) == "", "Spark could not name it"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    assert options(jars) == ""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(java_archive, "FREE_BYTES_MIN", 1 << 62)
    assert options(jars) == "", "the disk has no room"


def test_none_where_the_class_path_has_folders(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert options(jars) == ""
    monkeypatch.delenv("HADOOP_CONF_DIR")
    assert options(jars)
    (tmp_path / "conf").mkdir()
    assert options(jars) == ""


def test_few_are_kept(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    for age in range(5):
        path = folder / f"spark-{age}.jsa"
        path.write_bytes(b"classes")
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert options(jars)
    assert sorted(p.name for p in folder.iterdir()) == [f"spark-{i}.jsa" for i in range(KEPT - 1)]


def test_the_java_here_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = find_java()
    assert found is not None and found.version >= 17
    assert not is_whole(Path("/nowhere"))
