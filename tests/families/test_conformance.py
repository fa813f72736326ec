"""Every family, and one that the tests plug in by one line, does what `conformance.py` asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.families import registry
from tests.families.conformance import CHECKS, Case, Check
from tests.families.toy.family import Toy

COUNTED = "SELECT count(*) AS n FROM s WHERE contains(k, '{}')"
WINDOWED = (
    "SELECT k, {} AS v, window.end AS we FROM s GROUP BY k, window(ts, '{} seconds', '5 seconds')"
)
CASES = (
    Case(
        "windows",
        {"sums": WINDOWED.format("sum(n)", 10), "medians": WINDOWED.format("median(n)", 20)},
        "medians",
        ("largest", WINDOWED.format("max(x)", 10)),
        has_windows=True,
        leaves_late_out=True,
    ),
    Case(
        "joins",
        {
            "some": "SELECT k, n FROM s WHERE n BETWEEN 2 AND 5",
            "more": "SELECT k FROM s WHERE x > 1",
        },
        "more",
        ("few", "SELECT big FROM s WHERE big < 9"),
    ),
    Case(
        "plain",
        {
            "so_far": "SELECT k, count(*) AS c FROM s GROUP BY k",
            "each": "SELECT upper(k) AS u FROM s",
        },
        "each",
        ("total", "SELECT sum(n) AS t FROM s"),
    ),
    Case(
        "toy",
        {"a": COUNTED.format("a"), "b": COUNTED.format("b"), "again": COUNTED.format("a")},
        "b",
        ("c", COUNTED.format("c")),
        leaves_late_out=True,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.family)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_family(
    check: Check, case: Case, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        registry, "FAMILIES", (*registry.FAMILIES[:-1], Toy(), registry.FAMILIES[-1])
    )
    check(case, spark, tmp_path, monkeypatch)


def test_every_family_has_a_case() -> None:
    assert {family.name for family in registry.FAMILIES} == {case.family for case in CASES} - {
        Toy.name
    }
