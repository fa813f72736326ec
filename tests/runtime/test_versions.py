"""What depends on the version of Spark: its connector for Kafka, and what older ones lack."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.runtime.session import _SESSION, _STATIC, CHECKPOINTS, settle_session
from headrace.runtime.versions import (
    is_supported,
    kafka_package,
    lacking,
    major_minor,
    spark_version,
)


def test_the_connector_follows_the_spark_that_runs(spark: SparkSession) -> None:
    assert spark_version() == spark.version
    assert kafka_package() == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    assert kafka_package("4.0.1").endswith(":4.0.1")


@pytest.mark.parametrize(
    ("version", "found"),
    [("4.0.1", (4, 0)), ("4.3.0", (4, 3)), ("4.10.0.dev1", (4, 10)), ("odd", (0, 0))],
)
def test_versions_are_numbers(version: str, found: tuple[int, int]) -> None:
    assert major_minor(version) == found


def test_the_versions_that_are_checked_are_supported() -> None:
    assert all(map(is_supported, ("4.0.0", "4.1.1", "4.2.0", "4.3.9")))
    assert not any(map(is_supported, ("3.5.6", "4.4.0", "5.0.0")))


def test_the_newest_lacks_nothing() -> None:
    assert lacking("4.3.0") == []
    assert [lack.since for lack in lacking("4.2.0")] == [(4, 3)]
    assert [lack.since for lack in lacking("4.0.1")] == [(4, 1), (4, 2), (4, 3)]


def test_spark_knows_every_setting_that_it_is_given_or_is_said_to_lack_it(
    spark: SparkSession,
) -> None:
    """Spark takes any name for a setting, and does nothing about one that it does not know."""
    jvm: Any = spark._jvm
    entries = jvm.org.apache.spark.internal.config.ConfigEntry
    jvm.org.apache.spark.sql.internal.SQLConf.get()  # it registers its settings when it is loaded
    said = " ".join(lack.what for lack in lacking(spark.version))
    unknown = {
        name
        for name in (*_STATIC, *_SESSION)
        if not name.startswith("spark.hadoop.")  # Hadoop's own
        and entries.findEntry(name) is None
    }
    assert {name for name in unknown if name not in said} == set()
    assert [name for name in said.split() if name.strip("()") in _STATIC] == [
        f"({name})" for name in unknown
    ]


def test_every_version_has_the_manager_of_checkpoints(spark: SparkSession) -> None:
    """Without it each round starts `chmod` ten times."""
    from headrace.config import Config

    session = spark.newSession()
    settle_session(session, Config())
    assert "FileSystemBased" in str(session.conf.get(CHECKPOINTS))
