"""doctor: the machine, then the home."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from headrace.cli import checking
from headrace.cli.checking import Seen, java_found, packages_found, python_found, space_found

Command = Callable[..., Result]


def a_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "level", "what"),
    [
        ("17.0.15", "ok", "Java 17"),
        ("21", "ok", "Java 21"),
        ("1.8.0_402", "bad", "Java 8 is too old"),
        ("11.0.2", "bad", "Java 11 is too old"),
    ],
)
def test_java(
    version: str, level: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, version)))
    found = java_found()
    assert (found.level, found.what) == (level, what)
    assert ("make java" in found.next) == (level == "bad")


def test_missing_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_found().what == "Java is missing"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_found().what == "JAVA_HOME has no Java"


def test_python_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_found((3, 11, 0)).level == "ok"
    assert python_found((3, 10, 9)).level == "bad"
    assert packages_found().level == "ok"
    monkeypatch.setattr(checking, "PACKAGES", ("numpy", "no-such-package"))
    assert packages_found().what == "missing packages: no-such-package"


def test_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GB free" in space_found(tmp_path / "not" / "yet").what
    monkeypatch.setattr(checking, "FREE_BYTES_MIN", 1 << 60)
    assert space_found(tmp_path).level == "warn"


def test_the_home_is_examined_and_bad_means_exit_code_1(
    headrace: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = [Seen("warn", "3 dead letters", "look at race/dead"), Seen("ok", "12 rounds")]
    monkeypatch.setattr(checking, "_examined", lambda home: findings)
    result = headrace("doctor")
    assert result.exit_code == 0
    assert "! 3 dead letters\n  → look at race/dead" in result.stdout
    findings.append(Seen("bad", "round 7 is damaged", "restore it"))
    result = headrace("doctor", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)[-1] == {
        "level": "bad",
        "what": "round 7 is damaged",
        "next": "restore it",
    }


def test_no_home_is_not_an_error(headrace: Command) -> None:
    result = headrace("doctor", "--home", "nowhere")
    assert result.exit_code == 0
    assert "no home" in result.stdout


def test_what_a_version_of_spark_lacks_is_told_with_what_it_costs() -> None:
    (lack,) = checking.spark_found("4.2.0")
    assert lack.level == "warn" and "restricted mode" in lack.what
    assert "no answer differs" in lack.next and "4.3 has it" in lack.next
    assert list(checking.spark_found("4.3.0")) == []
    (other,) = checking.spark_found("3.5.6")
    assert other.level == "bad" and "from 4.0 on, below 4.4" in other.next


def test_where_kernels_are_kept_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_KERNELS", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    kept = checking.kernels_found(tmp_path / "race")
    assert kept.level == "ok" and str(tmp_path / "kernels") in kept.what
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    (tmp_path / "race").write_text("")
    nowhere = checking.kernels_found(tmp_path / "race")
    assert nowhere.level == "warn" and "headrace warm" in nowhere.next
