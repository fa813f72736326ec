"""Streams for tests: rows in files of a known order, and what Spark itself answers over them."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headrace.evaluation.python_rows import python_rows
from tests.odd_values import YEAR_1_US, YEAR_10000_US

EPOCH_US = 1_700_000_000_000_000
FIRST_FILE_S = 1_600_000_000


def write_file(folder: Path, index: int, rows: pa.Table) -> Path:
    """One more source file, whole or not at all; Spark reads files by time, so each is a second
    newer."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{index:06d}.parquet"
    aside = folder / f".{index:06d}.part"
    pq.write_table(rows, aside)
    os.utime(aside, (FIRST_FILE_S + index, FIRST_FILE_S + index))
    aside.rename(path)
    return path


@dataclass(frozen=True)
class Stream:
    """Files of rows, read one a round."""

    schema: pa.Schema
    ddl: str
    files: tuple[pa.Table, ...]
    late_us: int

    def write(self, folder: Path) -> str:
        for i, rows in enumerate(self.files):
            write_file(folder, i, rows)
        return f"parquet:{folder}?maxFilesPerTrigger=1"

    def counted(self) -> pa.Table:
        """The rows that are not late."""
        kept = self.counted_rounds()
        return pa.concat_tables(kept) if kept else self.schema.empty_table()

    def counted_rounds(self) -> list[pa.Table]:
        """The rows of each round that are not late, by the rule: older than the newest of earlier
        rounds − late."""
        newest: int | None = None
        kept = []
        for rows in self.files:
            times = taken_us(rows)
            limit = None if newest is None else newest - self.late_us
            keep = [t is not None and (limit is None or t >= limit) for t in times]
            kept.append(rows.filter(pa.array(keep, pa.bool_())))
            newest = max(
                [t for t in times if t is not None] + ([] if newest is None else [newest]),
                default=None,
            )
        return kept

    def closed_us(self) -> int | None:
        """Windows that end at or before this must have been answered."""
        times = [t for rows in self.files for t in taken_us(rows) if t is not None]
        return max(times) - self.late_us if times else None


def taken_us(rows: pa.Table) -> list[int | None]:
    """Event times; those beyond `time_min` and `time_max` are none, as a row of such a time is a
    dead letter."""
    times = rows.column("ts").cast(pa.int64()).to_pylist()
    return [t if t is not None and YEAR_1_US <= t < YEAR_10000_US else None for t in times]


INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Rows at hand are filtered while Spark plans, before its optimizer puts constants in place of columns:
# it then answers `d <=> -0D AND CAST(d AS STRING) = '0.0'` otherwise than over files.
NOT_AHEAD = {
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
}
UNPRUNED = {"spark.sql.parquet.filterPushdown": "false"}


@contextmanager
def as_oracle(spark: SparkSession, is_compiled: bool = True) -> Iterator[None]:
    """Spark as it is asked for right answers.  It skips rows of Parquet files by statistics that
    leave NaN out and tell -0.0 from 0.0: here it does not.  Not compiled, it answers a few rows
    sooner; but it then evaluates a SELECT before its HAVING, and may fail where it would not."""
    settings = UNPRUNED if is_compiled else {**UNPRUNED, **INTERPRETED}
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def spark_answer(spark: SparkSession, sql: str, name: str, rows: pa.Table, ddl: str) -> pa.Table:
    """Spark's own batch answer for the same SQL over the same rows."""
    with tempfile.TemporaryDirectory() as folder, as_oracle(spark):
        pq.write_table(rows, Path(folder) / "rows.parquet")
        spark.read.schema(ddl).parquet(folder).createOrReplaceTempView(name)
        return spark.sql(sql).toArrow()


def canonical(table: pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, comparable with `same_rows`."""
    rows = [tuple(row[c] for c in columns) for row in python_rows(table.select(list(columns)))]
    return sorted(rows, key=lambda r: tuple(_sort_key(v) for v in r))


def left_over(log: pa.Table) -> list[tuple[Any, ...]]:
    """What is left of a log when all that it takes back is gone, in an order of its own; of one
    without changes all."""
    if "change" not in log.column_names:
        return canonical(log, log.column_names)
    columns = [name for name in log.column_names if name != "change"]
    rows = canonical(log, [*columns, "change"])
    left: dict[str, list[tuple[Any, ...]]] = {}
    # what comes goes first here: a log may take back, and answer again, in any round
    for *values, _ in (row for row in rows if row[-1] > 0):
        left.setdefault(_name_of(values), []).append(tuple(values))
    for *values, _ in (row for row in rows if row[-1] < 0):
        left[_name_of(values)].pop()
    return sorted(
        (row for same in left.values() for row in same),
        key=lambda r: tuple(_sort_key(v) for v in r),
    )


def _name_of(value: Any) -> str:
    """The same for values that are the same: zeros have no sign, NaN is NaN, maps have no order."""
    if isinstance(value, float):
        return repr(value + 0.0)
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{_name_of(k)}: {_name_of(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_name_of, value))}]"
    return repr(value)


def _sort_key(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, "")
    if isinstance(value, float):
        return (1, f"{value + 0.0:+.6e}" if not math.isnan(value) else "nan")  # one zero
    return (2, str(value))


def same_rows(ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]]) -> bool:
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
        for a, b in pairs
    )


def same_value(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or a == b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_value(a[k], b[k]) for k in a)
    return bool(a == b)
