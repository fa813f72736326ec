"""Joins that may be killed anywhere: two streams and a table, fed file by file, resumed where the
home says it stopped.

As a script (`python join_survivor.py FOLDER FORM [wait]`) it is the child that
`test_join_survival.py` kills.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from random import Random

import headrace
from headrace.runtime.session import make_session
from tests.engine.survivor import CONFIG, Add, Drop, Read, Step, to_do
from tests.engine.test_joins import DDL, QUERIES, Row, arrow, drawn
from tests.streams import write_file

RELATIONS = {"r": False, "s": False, "t": True}
"""By name: whether it is a table."""
STREAMS = {name: QUERIES[name] for name in ("band", "select", "names")}
TABLES = {
    "near": "SELECT r.n AS rn, t.n AS tn, t.b - r.b AS d FROM r JOIN t ON abs(t.b - r.b) <= 2.5",
    "keyed": "SELECT s.k AS k, t.a AS a FROM s JOIN t ON s.k = t.k AND s.n = t.n WHERE s.a BETWEEN 1 AND 8",
    "twins": "SELECT x.n AS xn, y.n AS yn FROM t x JOIN t y ON y.n - x.n BETWEEN 0 AND 2 WHERE x.a > y.a",
}
FIRST = STREAMS | TABLES
ROWS = 20


def _steps(late: int, files: int) -> tuple[Step, ...]:
    """`far` goes, and comes again when `late` files of each relation have been read."""
    far = ("far", QUERIES["far"])
    middle = (Drop("far"), Add((far, ("whole", QUERIES["whole"]))))
    return Add((*FIRST.items(), far)), Read(late), *middle, Read(files)


LATE = {"short": 1, "long": 4}
FILES = {"short": 2, "long": 10}
FORMS = {form: _steps(LATE[form], FILES[form]) for form in FILES}


@cache
def rows_of(name: str, index: int) -> tuple[Row, ...]:
    """File `index` of a relation."""
    return tuple(drawn(Random(f"{name}{index}"), ROWS, index * 10))


def survive(folder: Path, form: str) -> None:
    """All steps that the home does not have yet, in order."""
    with headrace.Engine(folder / "race", config=CONFIG) as eng:
        for name, is_table in RELATIONS.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            source = f"parquet:{folder / name}?maxFilesPerTrigger=1"
            if is_table:
                eng.create_table(name, source, schema=DDL, key="k, n", deleted="gone")
            else:
                eng.create_stream(name, source, schema=DDL, time="ts", late="1 hour")
        for step in to_do(FORMS[form], eng.catalog.version - len(RELATIONS)):
            match step:
                case Add(queries):
                    eng.add_many(dict(queries))
                case Drop(name):
                    eng.drop(name)
                case Read(files):
                    _reveal(folder, files)
                    eng.run()
    (folder / "done").touch()


def _reveal(folder: Path, files: int) -> None:
    for name in RELATIONS:
        for index in range(files):
            if not (folder / name / f"{index:06d}.parquet").exists():
                write_file(folder / name, index, arrow(rows_of(name, index)))


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if sys.argv[3:] == ["wait"]:
        make_session(CONFIG)
        sys.stdin.read()
    survive(Path(sys.argv[1]), sys.argv[2])
