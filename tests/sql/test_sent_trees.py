"""Trees that are sent to another process are found there: the hash of a text differs between
processes, and none is sent along."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

from headrace.families.windows.cuts import Cut, Cuts
from headrace.families.windows.measures import ROWS, Measure
from headrace.families.windows.plan import Slot
from headrace.sql.query import Output, Query
from headrace.sql.tree import Aggregate, Call, Column, Literal
from headrace.values import BOOLEAN, DOUBLE, INT, Type

LOOKED_UP = """
import pickle, sys
first, second = pickle.load(sys.stdin.buffer), pickle.load(sys.stdin.buffer)
assert all(own in dict.fromkeys(second) for own in first), [hash(o) for o in (*first, *second)]
"""


def trees() -> list[object]:
    k, x = Column("k", Type("string")), Column("x", DOUBLE)
    where = Call(">", (x, Literal(1, INT)), BOOLEAN)
    measure = Measure("sum_float", x)
    cuts = Cuts(10, (Cut((k,), (where,)),), (ROWS, measure))
    query = Query("q", "SELECT 1", "s", (Output("k", k),), where, (k,))
    return [
        where,
        Aggregate("sum", (x,), DOUBLE),
        measure,
        Slot(where, (k,)),
        cuts,
        Output("k", where),
        query,
    ]


def test_a_tree_that_was_hashed_here_is_equal_and_found_there() -> None:
    first, second = trees(), trees()
    assert all(hash(a) == hash(b) for a, b in zip(first, second, strict=True))
    # only the first have been hashed in the process that sends them
    sent = pickle.dumps(first) + pickle.dumps(trees())
    env = {
        **os.environ,
        "PYTHONHASHSEED": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    subprocess.run([sys.executable, "-c", LOOKED_UP], input=sent, env=env, check=True)
