"""A stream from end to end, by whoever has installed the package and nothing else.

python tiny_stream.py SOURCES      run by scripts/check-wheel, in an empty folder
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import headrace

MEANS = "SELECT symbol, avg(price) AS p FROM trades GROUP BY symbol, window(ts, '10 seconds')"
NEAR = "SELECT t.symbol, l.name FROM trades t JOIN levels l ON l.price - t.price BETWEEN 0 AND 1"
SCHEMA = pa.schema(
    [("symbol", pa.string()), ("price", pa.float64()), ("ts", pa.timestamp("us", "UTC"))]
)


def main(sources: Path) -> None:
    check_package(sources)
    write_rows()
    with headrace.Engine("race") as eng:
        schema = "symbol STRING, price DOUBLE, ts TIMESTAMP"
        eng.create_stream("trades", "parquet:trades", schema=schema, time="ts")
        eng.create_table("levels", "json:levels", schema="name STRING, price DOUBLE", key="name")
        eng.add_many({"means": MEANS, "near": NEAR})
        eng.run()
        check("means", sorted(row_of(eng, "means", "symbol", "p")), [("a", 2.0), ("b", 5.0)])
        check("near", sorted(row_of(eng, "near", "symbol", "name")), [("b", "six")])
        families = {query.name: query.family for query in eng.queries()}
        check("who runs them", families, {"means": "windows", "near": "joins"})
    say(f"headrace {headrace.__version__}: a window query and a join are answered")


def check_package(sources: Path) -> None:
    """Every file of the sources is there, and none of the sources is what was imported."""
    package = Path(headrace.__file__).parent
    check("imported from", package.is_relative_to(sys.prefix), True)
    check("files", files_of(package), files_of(sources))


def files_of(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.parent.name[:2] != "__")
    return sorted(path.relative_to(folder).as_posix() for path in found)


def write_rows() -> None:
    for name in ("trades", "levels"):
        Path(name).mkdir()
    times = [datetime(2026, 1, 1, second=s, tzinfo=UTC) for s in (1, 2, 3, 30)]
    columns = [["a", "a", "b", "a"], [1.0, 3.0, 5.0, 9.0], times]
    pq.write_table(pa.table(columns, SCHEMA), "trades/0.parquet")
    Path("levels/0.json").write_text('{"name": "six", "price": 6.0}\n', encoding="utf-8")


def row_of(eng: headrace.Engine, query: str, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[c] for c in columns) for row in eng.results(query).to_pylist()]


def check(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        sys.exit(f"{what}: {found!r}, not {wanted!r}")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
