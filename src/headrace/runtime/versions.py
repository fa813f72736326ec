"""What follows the version of the Spark in use: packages for it, and what older versions lack.

pyspark 4.0 to 4.3 give the same answers, but for texts that `LACKS` names.  `make test-spark
VERSION=4.0.1` plays a query of each kind on one of them, and compares with that Spark's own answers.
What Headrace makes use of and a version does not have is in `LACKS` too: `headrace doctor` says what
that costs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

Version = tuple[int, int]
LEAST: Version = (4, 0)
BELOW: Version = (4, 4)
_SCALA = "2.13"  # of every PySpark 4


@dataclass(frozen=True, slots=True)
class Lack:
    """What versions before `since` do not have, and what that costs."""

    since: Version
    what: str
    cost: str


LACKS = (
    Lack(
        (4, 1),
        "quote within a text that is written twice ('a''b')",
        "Headrace reads a'b there, as newer ones do; the SQL of this Spark reads ab",
    ),
    Lack(
        (4, 2),
        "LIKE that finds characters beyond U+FFFF (an emoji) between wildcards",
        "Headrace finds them, as newer ones do; LIKE of this Spark alone does not",
    ),
    Lack(
        (4, 3),
        "restricted mode (spark.sql.restrictedMode.enabled)",
        "no answer differs; the gate alone keeps functions like java_method() from Spark, which 4.3 refuses too",
    ),
)


def spark_version() -> str:
    """Of the PySpark that is imported, also one that no package manager has installed."""
    try:
        return version_of("pyspark")
    except PackageNotFoundError:
        import pyspark

        return pyspark.__version__


def major_minor(version: str) -> Version:
    """(4, 0) of '4.0.1'; versions before a release too."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def is_supported(version: str) -> bool:
    return LEAST <= major_minor(version) < BELOW


def lacking(version: str) -> list[Lack]:
    """What this version does without."""
    return [lack for lack in LACKS if major_minor(version) < lack.since]


def kafka_package(version: str | None = None) -> str:
    """Spark's connector for Kafka, of the same version."""
    return f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{version or spark_version()}"
