"""What Spark, Java and Python write goes below the home, and a user without a name is given one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from headrace.errors import HeadraceError
from headrace.kernel_places import KEPT_IN
from headrace.runtime import writing_places
from headrace.runtime.nameless import chosen_name, log_in, user_name
from headrace.runtime.writing_places import (
    has_own_folder,
    java_options,
    settle,
    spark_settings,
)

NOBODY = 54321


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    for name in ("SPARK_USER", "HADOOP_USER_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_what_is_temporary_goes_into_the_home(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(writing_places, "has_own_folder", lambda: True)
    scratch = tmp_path / "race" / "tmp" / "spark-1"
    settings = spark_settings(scratch)
    assert set(settings) == {"spark.local.dir", "spark.sql.warehouse.dir"}
    assert all(Path(place).is_relative_to(scratch) for place in settings.values())
    options = java_options(scratch)
    assert f"-Djava.io.tmpdir={scratch}" in options and "user.home" not in options


def test_a_user_without_a_folder_has_one_in_the_home(tmp_path: Path, unnamed: None) -> None:
    assert not has_own_folder()
    scratch = tmp_path / "race" / "tmp" / "spark-1"
    assert f"-Duser.home={scratch}" in java_options(scratch)
    assert spark_settings(scratch)["spark.jars.ivy"] == str(tmp_path / "race" / "ivy")


def test_python_finds_a_place_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tempfile.gettempdir()
    monkeypatch.setenv("TMPDIR", before)
    monkeypatch.delenv(KEPT_IN, raising=False)
    settle(tmp_path)
    assert os.environ["TMPDIR"] == before and not (tmp_path / "tmp").exists()

    def fail() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "gettempdir", fail)
    settle(tmp_path)
    assert os.environ["TMPDIR"] == tempfile.tempdir == str(tmp_path / "tmp")
    assert (tmp_path / "tmp").stat().st_mode & 0o777 == 0o700


def test_who_has_a_name_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **_: pytest.fail("started"))
    assert user_name() is not None
    log_in({})


def test_who_has_none_is_told_to_hadoop(monkeypatch: pytest.MonkeyPatch, unnamed: None) -> None:
    told: list[str] = []
    java(monkeypatch, SimpleNamespace(createRemoteUser=str, setLoginUser=told.append))
    log_in({"spark.master": "local[1]"})
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    log_in({})
    assert told == [f"uid-{NOBODY}", "ann"]


def test_a_hadoop_that_cannot_be_told_is_said_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, unnamed: None
) -> None:
    def refuse(name: str) -> None:
        raise Py4JError("setLoginUser does not exist")

    java(monkeypatch, SimpleNamespace(createRemoteUser=str, setLoginUser=refuse))
    with pytest.raises(HeadraceError, match="useradd") as raised:
        log_in({})
    assert raised.value.code == "NO_USER_NAME"
    assert chosen_name() == f"uid-{NOBODY}"


def java(monkeypatch: pytest.MonkeyPatch, hadoop: Any) -> None:
    """A Java that runs, and no Spark in it yet."""
    security = SimpleNamespace(security=SimpleNamespace(UserGroupInformation=hadoop))
    org = SimpleNamespace(apache=SimpleNamespace(hadoop=security))
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **_: None)
    settings = SimpleNamespace(set=lambda name, value: None)
    jvm = SimpleNamespace(org=org, SparkConf=lambda defaults: settings)
    monkeypatch.setattr(SparkContext, "_jvm", jvm)
