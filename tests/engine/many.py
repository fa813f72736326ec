"""Thousands of random queries, each compared with Spark's answer to its own text.

    python -m tests.engine.many --queries 20000 --seed 7

Sets of windows, sketches, filters and joins take turns, each in an engine of its own.  A set that
fails is told with its kind and seed, and the run goes on; `--kind windows --set 123` repeats one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from unittest.mock import patch

from pyspark.sql import SparkSession

from headrace.errors import HeadraceWarning
from tests.chaos.run import own_spark
from tests.engine import random_windows, test_join_oracle, test_oracle
from tests.engine.test_sketches import SKETCHED
from tests.jvm import SMALL_JVM


def windows(spark: SparkSession, seed: int) -> int:
    return test_oracle.check_seed(spark, seed, 40)


def sketches(spark: SparkSession, seed: int) -> int:
    with patch.object(random_windows, "AGGREGATES", SKETCHED):
        return test_oracle.check_seed(spark, seed, 40)


def filters(spark: SparkSession, seed: int) -> int:
    return test_join_oracle.check_seed(spark, seed, 80, [test_join_oracle.draw_filter])


def joins(spark: SparkSession, seed: int) -> int:
    return test_join_oracle.check_seed(spark, seed, 120, [test_join_oracle.draw_join])


KINDS: dict[str, Callable[[SparkSession, int], int]] = {
    kind.__name__: kind for kind in (windows, sketches, filters, joins)
}
TURNS = ("windows", "joins", "filters", "joins", "sketches", "joins")


def check(spark: SparkSession, kind: str, seed: int) -> int | None:
    """How many queries were right; None, and why, if one was not or a round failed."""
    try:
        return KINDS[kind](spark, seed)
    except Exception:  # noqa: BLE001 - told, counted, and the run goes on
        print(f"WRONG: --kind {kind} --set {seed}\n{traceback.format_exc()[-6_000:]}", flush=True)
        return None


def run(spark: SparkSession, seed: int, queries: int) -> Counter[str]:
    r, done, began_s = Random(seed), Counter[str](), time.monotonic()
    while sum(count for kind, count in done.items() if kind in KINDS) < queries:
        kind = TURNS[done["sets"] % len(TURNS)]
        right = check(spark, kind, r.randrange(2**32))
        done["sets"] += 1
        done["wrong sets"] += right is None
        done[kind] += right or 0
        if done["sets"] % 10 == 0:
            print(f"{time.monotonic() - began_s:7.0f} s  {dict(done)}", flush=True)
    return done


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kind", choices=[*KINDS], default=None)
    parser.add_argument("--set", type=int, default=None)
    given = parser.parse_args(words)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SMALL_JVM)
    warnings.simplefilter("ignore", HeadraceWarning)
    spark = own_spark()
    if given.kind is not None and given.set is not None:
        return int(check(spark, given.kind, given.set) is None)
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}; repeat with: make oracle SEED={seed} QUERIES={given.queries}", flush=True)
    done = run(spark, seed, given.queries)
    print(f"seed {seed}: {dict(done)}", flush=True)
    return int(done["wrong sets"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
