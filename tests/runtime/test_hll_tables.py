"""A Spark that does not show its tables is told from one that has died."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from headrace.errors import RoundError
from headrace.runtime.hll_tables import hll_tables


class Silent:
    """Java as py4j shows it: any name leads on, and no call is answered; `lives`: but that of the
    clock."""

    def __init__(self, lives: bool, name: str = "") -> None:
        self._lives, self._name = lives, name

    def __getattr__(self, name: str) -> Silent:
        return Silent(self._lives, name)

    def __call__(self, *_: object) -> Any:
        if self._name == "nanoTime":
            if not self._lives:
                raise Py4JNetworkError("Answer from Java side is empty")
            return 7
        raise Py4JError("An error occurred while calling z:org.apache.spark.THRESHOLDS")


def session(lives: bool) -> SparkSession:
    return cast(SparkSession, SimpleNamespace(_jvm=Silent(lives), version="4.3.0"))


def test_a_spark_that_hides_them_is_an_error_of_ours() -> None:
    with pytest.raises(RoundError, match="does not show the tables"):
        hll_tables(session(lives=True), 9)


def test_a_spark_that_died_says_nothing_of_its_tables() -> None:
    with pytest.raises(Py4JNetworkError):
        hll_tables(session(lives=False), 9)
