"""Executors on other machines, or in processes of their own here: they prove that they see the home
before anything runs on them, and are given the package.

Where Spark is one process (`local[…]`) none of this is needed.  On a cluster the driver writes a
sign into the home, and each executor reads it back, in a task; those that join later do before the
next round is read, and before the one under way is committed.  Each task that opens files of the
home looks for the sign too (`on_executor.proven`).
"""

from __future__ import annotations

import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark import SparkContext, __version__, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from headrace.disk import private
from headrace.errors import HeadraceError, HomeError, RoundError
from headrace.runtime.causes import PYTHON_HINT, SPARK_HINT, explain_worker
from headrace.runtime.on_executor import (
    OTHER,
    SEEN,
    SHUT,
    Sign,
    by_value,
    look_around,
    proven,
)
from headrace.runtime.scratch import TMP
from headrace.runtime.shipping import ship

NEEDED = ("numpy", "pyarrow", "pandas", "numba")
SIGN = "sign"
FIRST_S_MAX = 60.0  # until an executor is there
POLL_S = 0.2
PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0)  # of a task, so that all executors get one
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
F = TypeVar("F", bound=Callable[..., Any])
_clusters: dict[tuple[str, Path], Cluster] = {}
_making = threading.Lock()


def is_one_process(session: SparkSession) -> bool:
    """`local[…]`: driver and executor are one."""
    return (session.sparkContext.master or "").partition("[")[0] == "local"


def cluster_of(session: SparkSession, home: Path) -> Cluster | None:
    """The executors of a session, as they are for a home; None where Spark is one process, which
    sees what we see."""
    if is_one_process(session):
        return None
    context = session.sparkContext
    key = (context.applicationId, home.absolute())
    with _making:
        if key not in _clusters:
            for old in [k for k in _clusters if k[1] == key[1]]:
                del _clusters[old]
            _clusters[key] = Cluster(context, key[1])
        return _clusters[key]


def on_workers(frame: DataFrame, work: Work, kinds: str, home: Path) -> DataFrame:
    """`mapInArrow` for work that opens files of the home."""
    return frame.mapInArrow(as_carried(frame.sparkSession, work, home), kinds)


def as_carried(session: SparkSession, work: F, home: Path) -> F:
    """Work of a task, over whatever it is given, as executors can run it."""
    cluster = cluster_of(session, home)
    return work if cluster is None else cast(F, cluster.carried(work))


class Cluster:
    """The executors of one Spark application, for one home."""

    def __init__(self, context: SparkContext, home: Path) -> None:
        by_value()
        self._context = context
        self._home = home
        self._proven: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._sign = Sign(str(home), str(home / TMP / SIGN), uuid.uuid4().hex)
        self._package = ""

    def begin(self) -> None:
        """A stream begins: sign and package are in the home, whoever else has run it meanwhile."""
        with self._lock:
            _write(self._sign)
            self._package = str(ship(self._home))

    def carried(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """As it runs on an executor, wherever that is."""
        return proven(self._sign, self._package, cloudpickle.dumps(work))  # type: ignore[no-untyped-call]

    def check(self) -> None:
        """Before a round: raises if there is no executor, or one that does not see the home, or
        cannot run what it will be given.  Costs a question to the driver's Java as long as the
        executors are the same."""
        with self._lock:
            executors = self._executors()
            if len(executors) < 2 or not executors <= self._proven:
                self._prove()

    def check_new(self) -> None:
        """Before a commit: the same of executors that have come since."""
        with self._lock:
            if not self._executors() <= self._proven:
                self._prove()

    def _executors(self) -> frozenset[str]:
        """By address; the driver is one too."""
        java: Any = self._context._jsc
        text: str = java.sc().getExecutorMemoryStatus().keySet().mkString(" ")
        return frozenset(text.split())

    def _prove(self) -> None:
        seen: dict[str, dict[str, Any]] = {}
        executors = self._executors()
        self._await_first()
        for pause_s in PAUSES_S:
            for found in self._asked(pause_s):
                seen[found["executor"]] = found
            for found in seen.values():
                self._judge(found)
            executors = self._executors()
            if len(seen) >= len(executors) - 1:
                self._proven = executors
                return
        raise RoundError(
            "an executor could not be asked whether it sees the home",
            value=f"{len(seen)} of {len(executors) - 1} were",
            code="EXECUTORS",
            hint="it may be busy with work of others: give Headrace an application of its own, and run again",
        )

    def _await_first(self) -> None:
        """Spark itself would wait for ever."""
        start_s = time.monotonic()
        while len(self._executors()) < 2 and not self._is_elastic():
            if time.monotonic() - start_s > FIRST_S_MAX:
                raise RoundError(
                    f"no executor has come in {FIRST_S_MAX:.0f} s",
                    value=f"master {self._context.master}",
                    code="EXECUTORS",
                    hint="see in the cluster's page that it has free cores and memory, and that its machines can "
                    "connect to this one (spark.driver.host); ask for less with "
                    "--conf spark.executor.memory=1g --conf spark.cores.max=2",
                )
            time.sleep(POLL_S)

    def _is_elastic(self) -> bool:
        """Executors come when there is work for them."""
        return self._context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true"

    def _asked(self, pause_s: float) -> list[dict[str, Any]]:
        count = 2 * max(self._context.defaultParallelism, len(self._executors()))
        task = look_around(self._sign, NEEDED, pause_s)
        try:
            rows = self._context.parallelize(range(count), count)
            return rows.mapPartitionsWithIndex(task).collect()
        except Exception as error:
            told = explain_worker(error)
            if told is None:
                raise
            raise told from error

    def _judge(self, found: Mapping[str, Any]) -> None:
        if found["home"] != SEEN:
            raise self._unseen(found)
        if found["missing"]:
            raise HeadraceError(
                f"Python on the executors lacks what Headrace needs: {', '.join(found['missing'])}",
                value=f"{found['program']} (Python {found['python']}) on {found['host']}",
                code="WORKER_PYTHON",
                hint=PYTHON_HINT,
            )
        if _minor(found["spark"]) != _minor(__version__):
            raise HeadraceError(
                f"executors run Spark {found['spark']}, this process runs {__version__}",
                value=f"on {found['host']}",
                code="WORKER_SPARK",
                hint=SPARK_HINT,
            )
        ours = platform.python_version()
        if _minor(found["python"]) != _minor(ours):
            raise HeadraceError(
                f"executors run Python {found['python']}, this process runs {ours}",
                value=f"{found['program']} on {found['host']}",
                code="WORKER_PYTHON",
                hint=PYTHON_HINT,
            )

    def _unseen(self, found: Mapping[str, Any]) -> HomeError:
        what = {
            OTHER: f"another folder is at {self._home}",
            SHUT: f"the user with the id {found['user']} may not look into {self._home}",
        }.get(found["home"], f"there is no folder {self._home}")
        return HomeError(
            "an executor does not see the home",
            value=f"on {found['host']} {what}",
            code="HOME_UNSEEN",
            hint="nothing was run: have executors run as the user who runs this (a home is its owner's only)"
            if found["home"] == SHUT
            else "nothing was run: mount the same folder at the same path on every machine of the cluster (NFS, "
            "CephFS, …), or use a home that is; docs/cluster.md",
        )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _write(sign: Sign) -> None:
    """What nobody can have seen before, written into the home."""
    path = Path(sign.path)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not path.exists() or path.read_text() != sign.text:
        with open(path, "w", opener=private) as file:
            file.write(sign.text)
