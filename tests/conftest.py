"""One Spark session for the whole run: small, quiet, on this machine only; and homes in memory,
where there is room."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.jvm import SETTINGS, SMALL_JVM
from tests.seeds import (  # noqa: F401 - a fixture and hooks, which pytest finds here
    pytest_report_header,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_sessionstart,
    seed,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No database of old failures and no draws fixed by the text of a test: `tests/seeds.py` alone says
# what is drawn.
settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    derandomize=False,
    print_blob=True,
)
settings.load_profile("default")

MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 1 << 30


def use_memory() -> None:
    """Tests make thousands of homes and sync each of their files, and cut the power on paper
    only."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


use_memory()
os.environ.setdefault("SPARK_SUBMIT_OPTS", SMALL_JVM)
os.environ["HEADRACE_CACHE_DIR"] = ""  # no archive of classes is made when a test's Java ends


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("headrace-tests")
    warehouse = tmp_path_factory.mktemp("warehouse")
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
