"""A small race for engine tests: one stream fed file by file, one engine, and Spark's own answer to
compare with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.errors import HeadraceError
from tests.streams import EPOCH_US, Stream, canonical, same_rows, spark_answer, write_file

DDL = "k STRING, n INT, x DOUBLE, big BIGINT, ts TIMESTAMP"
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("big", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
Row = dict[str, Any]


def row(
    at_s: float, k: str | None = "a", n: int | None = 1, x: float | None = 1.0, big: int | None = 1
) -> Row:
    """A row `at_s` seconds after the epoch of the tests."""
    return {"k": k, "n": n, "x": x, "big": big, "ts": EPOCH_US + round(at_s * 1e6)}


def rows_of(first_s: int, count: int, step_s: float = 1.0) -> list[Row]:
    """Rows that differ in every column, in order of time."""
    return [
        row(first_s + i * step_s, "abc"[i % 3], i % 7 + 1, (i * 37 % 11) / 4, i * i)
        for i in range(count)
    ]


def table_of(rows: Sequence[Row]) -> pa.Table:
    plain = {f.name: pa.array([r[f.name] for r in rows], f.type) for f in SCHEMA if f.name != "ts"}
    return pa.table(
        {**plain, "ts": pa.array([r["ts"] for r in rows], pa.int64()).cast(SCHEMA.field("ts").type)}
    )


class Race:
    """A home, its source folder, and everything that was fed into it; one file is one round."""

    def __init__(
        self, spark: SparkSession, folder: Path, late_s: int = 0, config: Config | None = None
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.config = config
        self.late_us = late_s * 1_000_000
        self.files: list[pa.Table] = []
        self.src = folder / "src"
        self.src.mkdir()
        self.eng = self.open()

    def open(self) -> headrace.Engine:
        """Another engine on the same home, as after a restart."""
        self.eng = headrace.Engine(self.folder / "race", spark=self.spark, config=self.config)
        self.eng.create_stream(
            "s",
            f"parquet:{self.src}?maxFilesPerTrigger=1",
            schema=DDL,
            time="ts",
            late=f"{self.late_us} microseconds",
        )
        return self.eng

    def feed(self, *files: Sequence[Row]) -> None:
        for rows in files:
            write_file(self.src, len(self.files), table_of(rows))
            self.files.append(table_of(rows))

    def answers(self, name: str) -> list[Row]:
        rows: list[Row] = self.eng.results(name).to_pylist()
        return rows

    def oracle(self, name: str, sql: str | None = None) -> pa.Table:
        """What Spark answers to the query's own text over all rows that are not late.

        Of several values that are the mode Spark takes any; ours is the least, as with its second
        argument."""
        text = re.sub(
            r"\bmode\((\w+)\)", r"mode(\1, true)", sql or self.eng.catalog.query(name).query.sql
        )
        return spark_answer(self.spark, text, "s", self._stream().counted(), DDL)

    def check(self, *names: str, whole: bool = True, whole_from_s: float | None = None) -> None:
        """Every answer is Spark's, over all rows; `whole`: and every closed window has been
        answered.

        Of a query that came later every window from its first answer on has been answered, and
        every window that ends `whole_from_s` seconds after the epoch of the tests or later."""
        for name in names:
            theirs = self.oracle(name)
            closed_us = self._stream().closed_us() or 0
            columns = theirs.column_names
            done = [r for r in theirs.to_pylist() if r["we"].timestamp() * 1e6 <= closed_us + 0.5]
            expected = canonical(pa.Table.from_pylist(done, theirs.schema), columns)
            ours = canonical(self.eng.results(name), columns)
            if not whole:
                ends = [r[columns.index("we")] for r in ours]
                if whole_from_s is not None:
                    ends.append(datetime.fromtimestamp(EPOCH_US / 1e6 + whole_from_s, UTC))
                since = min(ends, default=None)
                expected = [
                    r for r in expected if since is not None and r[columns.index("we")] >= since
                ]
            assert same_rows(ours, expected), (
                f"{name}\nours:  {ours}\nspark: {expected}\n{self.eng.explain(name)}"
            )

    def state(self, name: str) -> tuple[str, str]:
        """(state, reason) of a query."""
        return next((q.state, q.reason) for q in self.eng.queries() if q.name == name)

    def _stream(self) -> Stream:
        return Stream(SCHEMA, DDL, tuple(self.files), self.late_us)


def said(error: HeadraceError, *words: str) -> None:
    """The error says what, the value, and the choices or the next step; and these words."""
    assert error.what
    assert error.choices or error.hint, f"no next step: {error}"
    for word in words:
        assert word in str(error), f"{word!r} is not in: {error}"
