"""Starting Spark's Java: what it says goes into the log, and its classes come out of an archive.

PySpark starts Java when it makes its first context, on the terminal.  Here it is started just before,
as PySpark would, and given to it.  A Java that runs already is another's: it is left as it is.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.runtime.java_archive import archive_options
from headrace.runtime.spark_log import debugging

if TYPE_CHECKING:
    from headrace.runtime.spark_log import SparkLog

OPTIONS = "spark.driver.extraJavaOptions"
MASK = 0o077  # what Java and its workers write is its owner's


def launch(settings: Mapping[str, str], log: SparkLog | None) -> None:
    """Start Java with these settings, unless there is one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    with SparkContext._lock:
        if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
            return
        conf = SparkConf(loadDefaults=False).setAll(list(_with_archive(settings).items()))
        file = None if log is None else log.open()
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"umask": MASK, **_outputs(log, file)}
            )
        finally:
            if file is not None:
                file.close()
        SparkContext._ensure_initialized(gateway=gateway)


def _with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    from pyspark.find_spark_home import _find_spark_home

    spark = Path(_find_spark_home())
    options = archive_options(spark / "jars", spark / "conf", settings)
    return {**settings, OPTIONS: f"{settings.get(OPTIONS, '')} {options}".strip()}


def _outputs(log: SparkLog | None, file: Any) -> dict[str, Any]:
    """The terminal where somebody looks for a fault, or asked for nothing else."""
    if log is None or debugging():
        return {}
    told = subprocess.DEVNULL if file is None else file
    return {"stdout": told, "stderr": told}
