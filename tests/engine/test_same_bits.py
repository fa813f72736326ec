"""A run that is killed between rounds, or within one, has the answers of an undisturbed run to the
bit.

Sums of doubles depend on the order they are added in, so whatever the engine chooses (rows or
groups, one grouping or several, what waits for its pane) it must choose the same after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.families.windows import driver_work
from headrace.families.windows.aggregation import cutting, sending
from headrace.runtime.ledger import Ledger, Manifest
from tests.engine.race import Race, Row, row

WHAT = (
    "sum(x) AS a, avg(x) AS b",
    "stddev(x) AS a, var_pop(x) AS b",
    "min(x) AS a, max(x) AS b",
    "sum(x * n) AS a",
)
PLAIN = {
    f"q{i}": f"SELECT {by}{what}, window.end AS we FROM s {where}GROUP BY {by}window(ts, '20 seconds', '5 seconds')"
    for i, (what, by, where) in enumerate(
        (what, by, where) for what in WHAT for by in ("", "k, ") for where in ("", "WHERE n > 2 ")
    )
}
CROWD = {
    f"c{i}": f"SELECT k, sum(x) AS a, stddev(x) AS b, window.end AS we FROM s WHERE x > {i * 0.61} "
    "GROUP BY k, window(ts, '20 seconds', '10 seconds')"
    for i in range(20)
}
KEYED = {
    f"g{i}": f"SELECT {key}, sum(x) AS a, stddev(x) AS b, window.end AS we FROM s "
    f"GROUP BY {key}, window(ts, '20 seconds', '5 seconds')"
    for i, key in enumerate(("k", "n", "big"))
}


def drawn(seed: int, files: int, count: int) -> list[list[Row]]:
    """Rows whose doubles do not add up alike in another order; files share their panes."""
    r = Random(seed)

    def one(file: int) -> Row:
        at_s = 6 * file + 8 * r.random()
        return row(
            at_s, r.choice("abcdefg"), r.randint(0, 6), r.uniform(0, 13) ** 3 / 7, r.randint(0, 40)
        )

    return [[one(file) for _ in range(count)] for file in range(files)]


def bits(race: Race, names: Sequence[str]) -> dict[str, list[tuple[str, ...]]]:
    def exact(value: Any) -> str:
        return value.hex() if isinstance(value, float) else str(value)

    return {
        name: sorted(tuple(map(exact, answer.values())) for answer in race.answers(name))
        for name in names
    }


def killed(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next round is read and answered, and the process dies before its commit."""
    own = Ledger.commit

    def die(self: Ledger, manifest: Manifest) -> None:
        raise HeadraceError("killed")

    monkeypatch.setattr(Ledger, "commit", die)
    with pytest.raises(HeadraceError, match="killed"):
        race.eng.run()
    monkeypatch.setattr(Ledger, "commit", own)


def check(
    spark: SparkSession,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    queries: Mapping[str, str],
    files: Sequence[Sequence[Row]],
    seed: int,
) -> list[list[tuple[bool, int]]]:
    """The choices of both runs: for each round whether it was sent as rows, and its groupings."""
    chosen: list[list[tuple[bool, int]]] = [[], []]
    own, which, r = driver_work.DriverWork._collect, [0], Random(seed)

    def note(
        self: driver_work.DriverWork, batch: Any, cuts: Any, limits: Any, as_rows: bool
    ) -> Any:
        chosen[which[0]].append((as_rows, len(cuts.cuts)))
        return own(self, batch, cuts, limits, as_rows)

    monkeypatch.setattr(driver_work.DriverWork, "_collect", note)
    races = []
    for number in (0, 1):
        which[0] = number
        (folder / str(number)).mkdir()
        race = Race(spark, folder / str(number), late_s=3)
        race.eng.add_many(queries)
        if number == 0:
            race.feed(*files)
            race.eng.run()
        for rows in files if number == 1 else ():
            race.feed(rows)
            fate = r.random()
            if fate < 0.3:
                killed(race, monkeypatch)
                chosen[1].pop()
            if fate < 0.7:
                race.open()
            race.eng.run()
        races.append(race)
    wanted, found = (bits(race, list(queries)) for race in races)
    assert all(wanted.values())
    differing = [name for name in queries if wanted[name] != found[name]]
    assert not differing, f"{differing} differ; choices: {chosen}"
    return chosen


def test_rows_or_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(sending, "LOOK_ROUNDS", 3)
    monkeypatch.setattr(sending, "SHARE_MIN", 0.3)
    undisturbed, disturbed = check(spark, tmp_path, monkeypatch, PLAIN, drawn(seed, 10, 40), seed)
    assert undisturbed == disturbed and {rows for rows, _ in undisturbed} == {False, True}


def test_one_grouping_or_several(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(cutting.Choice, "ROWS_MIN", 10)
    monkeypatch.setattr(sending, "SHARE_MIN", 2.0)
    undisturbed, disturbed = check(spark, tmp_path, monkeypatch, KEYED, drawn(seed, 6, 60), seed)
    assert undisturbed == disturbed and len({cuts for _, cuts in undisturbed}) == 2


def test_crowds_of_constants(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Their rows wait until their pane closes, also those that waited when the process died."""
    monkeypatch.setattr(sending, "LOOK_ROUNDS", 2)
    undisturbed, disturbed = check(spark, tmp_path, monkeypatch, CROWD, drawn(seed, 8, 40), seed)
    assert undisturbed == disturbed
