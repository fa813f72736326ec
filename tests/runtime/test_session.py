"""What a Spark of ours is made with, by where its master is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.runtime import session
from headrace.runtime.session import is_here, make_session
from headrace.runtime.sparkuse import SparkUse


class AskedError(Exception):
    """Instead of a session."""


class FakeBuilder:
    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def appName(self, name: str) -> FakeBuilder:
        return self

    def master(self, master: str) -> FakeBuilder:
        self.given["spark.master"] = master
        return self

    def config(self, key: str, value: str) -> FakeBuilder:
        self.given[key] = value
        return self

    def getOrCreate(self) -> None:
        raise AskedError


def settings(monkeypatch: pytest.MonkeyPatch, config: Config, scratch: Path) -> dict[str, str]:
    builder = FakeBuilder()
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=builder))
    with pytest.raises(AskedError):
        make_session(config, ["a:b:1"], scratch)
    return builder.given


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[2,1,1024]"])
def test_nobody_else_reaches_a_driver_whose_executors_are_here(
    master: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = settings(monkeypatch, Config.of(master=master), tmp_path)
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.local.dir"] == str(tmp_path)


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", "k8s://https://m:443"])
def test_on_a_cluster_spark_chooses_or_who_runs_it(
    master: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = Config.of(master=master)
    found = settings(monkeypatch, config, tmp_path)
    assert not is_here(master)
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(found)
    config = Config.of(master=master, spark={"spark.driver.host": "10.0.0.5"})
    assert settings(monkeypatch, config, tmp_path)["spark.driver.host"] == "10.0.0.5"


def test_settings_from_outside_are_beside_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"spark.executor.memory": "2g", "spark.jars.packages": "c:d:2"}
    found = settings(monkeypatch, Config.of(spark=given), tmp_path)
    assert found["spark.executor.memory"] == "2g"
    assert found["spark.jars.packages"] == "a:b:1,c:d:2"
    assert found["spark.sql.ansi.enabled"] == "true"


def test_a_config_that_was_not_checked_is_checked_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=FakeBuilder()))
    with pytest.raises(HeadraceError, match=r"ansi\.enabled cannot be given"):
        make_session(Config(spark={"spark.sql.ansi.enabled": "false"}))


@pytest.mark.parametrize(("master", "count"), [("local[2]", 1), ("spark://m:7077", 0)])
def test_temporary_files_are_in_the_home_where_all_is_here(
    master: str, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A shared folder is no place for them."""
    builder = FakeBuilder()
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=builder))
    used = SparkUse(None, Config.of(master=master), list, tmp_path)
    with pytest.raises(HeadraceError, match="does not start"):
        used.renew()
    assert ("spark.local.dir" in builder.given) == bool(count)
    assert len(list(tmp_path.glob("tmp/spark-*"))) == count
    used.close()
