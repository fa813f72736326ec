"""A month of ten-second panes, without Spark: what the pane log keeps, and what a restart costs.

Rings and log are the real ones; a round is 20 minutes of panes (quick: 2 hours) as Spark's
aggregate would leave them, for three queries: 10 s, an hour sliding by a minute, and 30 days
sliding by a day.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from headrace.bench.report import Figure
from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.windows.aggregation.aggregate import PANE, key_name
from headrace.families.windows.aggregation.columns import part_names
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.rings.rings import Rings
from headrace.runtime.family import Round
from headrace.runtime.ledger import Ledger, Manifest
from headrace.runtime.statistics import Census
from headrace.sql.bind import bind
from headrace.values import BIGINT, DOUBLE, TIMESTAMP, US_PER_S, Field, Relation

QUERIES = (
    "SELECT k, count(*) AS c, sum(x) AS s FROM s GROUP BY k, window(ts, '10 seconds')",
    "SELECT k, max(x) AS hi FROM s GROUP BY k, window(ts, '1 hour', '1 minute')",
    "SELECT k, avg(x) AS a, stddev(x) AS d FROM s GROUP BY k, window(ts, '30 days', '1 day')",
)
FOLDER = "streams/s"
PANE_US = 10 * US_PER_S
DAY_PANES = 8_640
DAYS = 31
START_US = 19_000 * 86_400 * US_PER_S
MB = 1e6


class Month:
    """So many days, round by round."""

    def __init__(self, root: Path, quick: bool) -> None:
        self._groups = 10 if quick else 50
        self._round_panes = 720 if quick else 120
        root.mkdir()
        self._disk = Disk(root)
        for part in ("rounds", "panes", "folded"):
            self._disk.make_folder(f"{FOLDER}/{part}")
        self._relation = Relation(
            "s", "none:", (Field("k", BIGINT), Field("x", DOUBLE), Field("ts", TIMESTAMP)), "ts"
        )
        self._rng = np.random.default_rng(1)
        self._written = 0
        self._open()

    def run(self, tell: Callable[[str], None]) -> list[Figure]:
        day_rounds = DAY_PANES // self._round_panes
        rounds = DAYS * day_rounds
        began = perf_counter()
        for number in range(rounds):
            if number % day_rounds == 0:
                tell(f"a month: day {number // day_rounds} of {DAYS}")
            self._round(number)
        round_s = (perf_counter() - began) / rounds
        log = self._rings.log
        figures = [
            Figure("month_log_mb", log.nbytes / MB, "MB", note=f"{len(log.rounds)} files"),
            Figure(
                "month_log_unfolded_mb",
                self._written * 30 / DAYS / MB,
                "MB",
                note="30 days of rounds",
            ),
            Figure("month_round_s", round_s, "s", note="without Spark, folds included"),
        ]
        began = perf_counter()
        self._open()
        self._round(rounds)
        self._rings.rest()
        return [
            *figures,
            Figure("month_restart_s", perf_counter() - began, "s", note="open, rebuild, one round"),
        ]

    def _open(self) -> None:
        config = Config()
        self._ledger = Ledger(self._disk, FOLDER)
        self._rings = Rings(self._disk, self._ledger, config)
        bound = [
            bind(sql, {"s": self._relation}, name=f"q{i}", config=config)
            for i, sql in enumerate(QUERIES)
        ]
        self._rings.assign(
            [Registered(i, query, 1) for i, query in enumerate(bound)], self._relation
        )

    def _round(self, number: int) -> None:
        """Take, close and commit; answers are not written."""
        first = START_US + number * self._round_panes * PANE_US
        newest = self._ledger.newest
        cuts = self._rings.cutting.cuts()
        round = Round(
            number,
            newest.newest_us if newest else None,
            0,
            Census(newest_us=first + self._round_panes * PANE_US - 1),
        )
        mark = self._rings.take(
            cuts, self._panes(cuts, first), round, lambda keys, values, facts: []
        )
        for _ in self._rings.close(round.watermark_us):
            pass
        keep = self._rings.prune(round.watermark_us)
        self._written += mark.size
        held = self._rings.log.held
        self._ledger.commit(
            Manifest(
                number,
                "",
                0,
                0,
                0,
                max(0, keep - 1),
                round.newest_us,
                "",
                "",
                (),
                (mark,),
                {"panes": keep},
                {},
                held,
            )
        )
        self._sweep(
            keep, {m.path for m in newest.held} - {m.path for m in held} if newest else set()
        )

    def _sweep(self, keep: int, released: set[str]) -> None:
        for name in released:
            self._disk.remove(name)
        for path in (self._disk.root / FOLDER / "panes").iterdir():
            if int(path.stem) < keep:
                self._disk.remove(f"{FOLDER}/panes/{path.name}")

    def _panes(self, cuts: Cuts, first: int) -> pa.Table:
        """A cell for each pane and group, of four rows."""
        size = self._round_panes * self._groups
        values = self._rng.uniform(0, 100, size)
        of = {
            "count": np.full(size, 4),
            "sum": 4 * values,
            "var_pop": values,
            "min": values,
            "max": values,
        }
        return pa.table(
            {
                PANE: np.repeat(first + np.arange(self._round_panes) * PANE_US, self._groups),
                key_name(0): np.tile(np.arange(self._groups), self._round_panes),
                **{name: of[function] for (function, _), name in part_names(cuts.measures).items()},
            }
        )
