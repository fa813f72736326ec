"""The Spark session: small, quiet, closed to user text, and bound to this machine where its master
is on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.kernel_places import for_workers
from headrace.runtime.launching import launch
from headrace.runtime.nameless import log_in
from headrace.runtime.quiet import log_level
from headrace.runtime.spark_log import SparkLog
from headrace.runtime.writing_places import java_options, spark_settings
from headrace.spark_settings import merged

_STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.restrictedMode.enabled": "true",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.cleaner.periodicGC.interval": "2min",
    # what Spark writes into the home is its owner's, too
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # A stack or memory that is not enough for one expression fails its task; Spark would end the
    # whole JVM.
    "spark.executor.killOnFatalError.depth": "0",
    # Many predicates make one long method of the generated Java, and a method above 8,000 bytes the
    # JVM would interpret, at a tenth of the speed, rather than compile.
    "spark.driver.extraJavaOptions": "-XX:-DontCompileHugeMethods",
    "spark.executor.extraJavaOptions": "-XX:-DontCompileHugeMethods",
}

PYTHON = "spark.pyspark.python"

# Nobody else has to reach a driver whose executors are on its machine.
_HERE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    # rows that lie together by some of the keys are grouped where they lie
    "spark.sql.requireAllClusterKeysForDistribution": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.streaming.fileSource.cleaner.numThreads": "0",
    # Statistics of Parquet files and of rows that Spark keeps in memory leave NaN out and tell -0.0
    # from 0.0: rows that pass a filter would be skipped.
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    # from 128 groups on Spark would sort the rows for aggregates that keep sketches or lists
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}

# Spark's default manager of checkpoint files starts `chmod` some ten times a round where Hadoop's
# native library is missing, as it is in PySpark: 0.1 s.  This one renames files into place too, by
# the same POSIX rename.
CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM = tuple(
    f"org.apache.spark.sql.execution.streaming.{place}FileSystemBasedCheckpointFileManager"
    for place in ("checkpointing.", "")  # the latter is Spark 4.0's
)


def make_session(
    config: Config,
    packages: Sequence[str] = (),
    scratch: Path | None = None,
    log: SparkLog | None = None,
) -> SparkSession:
    """A session with everything Headrace wants; its temporary files in `scratch`, its files nobody
    else's; what Spark says in `log`."""
    check_java()
    builder = SparkSession.builder.appName("headrace").master(config.master)
    settings = {**_STATIC, **_SESSION, "spark.driver.memory": config.driver_memory}
    settings["spark.log.level"] = log_level(log is not None)
    settings["spark.sql.shuffle.partitions"] = str(config.shuffle_partitions)
    settings.update(_HERE if is_here(config.master) else {})
    if scratch is not None:
        settings["spark.driver.extraJavaOptions"] += f" {java_options(scratch)}"
        settings |= spark_settings(scratch)
    if packages:
        settings["spark.jars.packages"] = ",".join(packages)
    settings = merged(settings, config.spark)
    for key, value in settings.items():
        builder = builder.config(key, value)
    own = {"spark.app.name": "headrace", "spark.master": config.master, **settings}
    launch(own, log)
    log_in(own)
    session = builder.getOrCreate()
    if PYTHON in config.spark:
        session.sparkContext.pythonExec = config.spark[PYTHON]
    settle_session(session, config)
    return session


def borrow_session(spark: SparkSession, config: Config) -> SparkSession:
    """A session of our own on the caller's Spark: their settings stay as they are."""
    session = spark.newSession()
    settle_session(session, config)
    return session


def settle_session(session: SparkSession, config: Config) -> None:
    """What answers depend on: types, time zone, ANSI mode; and how fast Spark keeps its logs."""
    for key, value in _SESSION.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.shuffle.partitions", str(config.shuffle_partitions))
    _settle_workers(session)
    assert session._jvm is not None
    known = session._jvm.org.apache.spark.util.Utils.classIsLoadable
    for manager in filter(known, _BY_FILE_SYSTEM):
        session.conf.set(CHECKPOINTS, manager)


def _settle_workers(session: SparkSession) -> None:
    """Workers on this machine run the Python that we run, unless somebody chose another; all look
    for compiled kernels where we do."""
    context = session.sparkContext
    for name, value in for_workers(is_here(context.master)).items():
        context.environment.setdefault(name, value)
    is_chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().contains(PYTHON)
    if is_here(context.master) and not is_chosen:
        context.pythonExec = sys.executable


def is_here(master: str | None) -> bool:
    """Whether all of Spark is on this machine: `local[2]`, or `local-cluster[…]`, which has
    executors of its own here."""
    return (master or "").startswith("local")


def check_java() -> None:
    """Java 17 or newer, or one line that says what to install."""
    version = java_version()
    if version is None or version < 17:
        raise HeadraceError(
            "Spark needs Java 17 or newer",
            value="none found" if version is None else f"Java {version}",
            hint="install openjdk-17-jre-headless (`make java` does it on Debian), or set JAVA_HOME",
            code="JAVA",
        )


def java_version() -> int | None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        return None
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    quoted = text.partition('"')[2].partition('"')[0]
    parts = quoted.replace("-", ".").split(".")
    numbers = [int(p) for p in parts if p.isdigit()]
    if not numbers:
        return None
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
