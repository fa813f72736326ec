"""Settings of Spark that a user gives: read, and refused where answers or the gate depend on them.

`spark.sql.…` says what SQL means, so of it only those are taken that are about speed and place.  Of
the rest those are refused that load code into Spark's planner, or that Headrace sets by a setting
of its own.  Pure: what Headrace sets itself is in `runtime/session.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import HeadraceError, hide

SETTING, VARIABLE = "spark", "HEADRACE_SPARK_CONF"
DOCS = "docs/cluster.md lists what may be set"
JOINED = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
"""Ours and the user's, one after the other."""
PACKAGES = "spark.jars.packages"
"""A list: ours and the user's."""

_MAY_SQL = (
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.maxPartitionNum",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
    "spark.sql.maxMetadataStringLength",
    "spark.sql.debug.maxToStringFields",
    "spark.sql.shuffledHashJoinFactor",
    "spark.sql.warehouse.dir",
)
_ANSWERS = "answers depend on it"
_GATE = "it runs code of its own inside Spark's planner, past the gate for SQL"
_PRIVATE = "what is in a home is its owner's only"


@dataclass(frozen=True, slots=True)
class _Rule:
    why: str
    next: str


_REFUSED: Mapping[str, _Rule] = {
    "spark.master": _Rule("it has a setting of its own", "HEADRACE_MASTER, or Config.of(master=…)"),
    "spark.remote": _Rule(
        "Headrace needs Spark's own session, not Spark Connect's", "HEADRACE_MASTER names a cluster"
    ),
    "spark.driver.memory": _Rule(
        "it has a setting of its own", "HEADRACE_DRIVER_MEMORY, or Config.of(driver_memory=…)"
    ),
    "spark.sql.shuffle.partitions": _Rule(
        "it has a setting of its own",
        "HEADRACE_SHUFFLE_PARTITIONS, or Config.of(shuffle_partitions=…)",
    ),
    "spark.plugins": _Rule(_GATE, DOCS),
    "spark.extraListeners": _Rule("it runs code of its own inside Spark's scheduler", DOCS),
    "spark.driver.userClassPathFirst": _Rule("it replaces Spark's own classes", DOCS),
    "spark.executor.userClassPathFirst": _Rule("it replaces Spark's own classes", DOCS),
    "spark.api.mode": _Rule("Headrace needs Spark's own session, not Spark Connect's", DOCS),
    "spark.executor.killOnFatalError.depth": _Rule(
        "a query whose expression needs too much of a stack would end the executor", DOCS
    ),
    "spark.executorEnv.PYTHONHASHSEED": _Rule(_ANSWERS, DOCS),
    "spark.log.level": _Rule("Headrace says itself what happens", "HEADRACE_DEBUG=1 shows more"),
}
_REFUSED_BELOW: Mapping[str, _Rule] = {
    "spark.sql.": _Rule(f"it may change what SQL means: {_ANSWERS}", DOCS),
    "spark.hadoop.fs.permissions.": _Rule(_PRIVATE, DOCS),
    "spark.hadoop.mapreduce.": _Rule("it may change how answers are written", DOCS),
    "spark.hadoop.mapred.": _Rule("it may change how answers are written", DOCS),
    "spark.hadoop.parquet.": _Rule("it may change how answers are written", DOCS),
    "spark.hadoop.fs.file.": _Rule("the home and its answers are files", DOCS),
    "spark.python.daemon.": _Rule("it replaces what runs Headrace's tasks", DOCS),
    "spark.python.worker.module": _Rule("it replaces what runs Headrace's tasks", DOCS),
    "spark.connect.": _Rule("Headrace needs Spark's own session, not Spark Connect's", DOCS),
}
_SECRET = ("password", "secret", "token", "credential", "access.key")


def refusal(key: str) -> tuple[str, str] | None:
    """Why a setting is not a user's to give, and what to do instead; None if it is."""
    rule = _REFUSED.get(key)
    if rule is None and key not in _MAY_SQL:
        rule = next((r for start, r in _REFUSED_BELOW.items() if key.startswith(start)), None)
    return None if rule is None else (rule.why, rule.next)


def checked(settings: Mapping[str, str], where: str) -> dict[str, str]:
    """The settings, if each may be given; `where` they come from is told."""
    for key, value in settings.items():
        if not all(isinstance(text, str) for text in (key, value)):
            raise _error("a Spark setting is a text, with a text", f"{key!r}: {value!r}", where)
        if not key.startswith("spark.") or any(c.isspace() for c in key):
            raise _error("Spark's settings begin with `spark.`", key, where)
        if any(word in key.lower() for word in _SECRET):
            hide(value)
        why = refusal(key)
        if why is not None:
            reason, instead = why
            raise _error(
                f"the Spark setting {key} cannot be given: {reason}",
                f"{key}={value}",
                where,
                instead,
            )
    return dict(settings)


def parse_pairs(texts: Iterable[str], where: str) -> dict[str, str]:
    """`key=value` each; the last of a key counts."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.strip().partition("=")
        if not equals or not key.strip():
            raise _error("a Spark setting is key=value", text, where)
        found[key.strip()] = value.strip()
    return checked(found, where)


def parse_text(text: str, where: str = VARIABLE) -> dict[str, str]:
    """Pairs on a line each, or, where it is one line, with a `;` between them."""
    parts = text.split("\n") if "\n" in text.strip() else text.split(";")
    return parse_pairs((part for part in parts if part.strip()), where)


def merged(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What a session is made with: the user's beside ours, which none replaces but by being allowed
    to."""
    both = {**ours, **checked(given, "Config.spark")}
    for key in JOINED:
        if key in ours and key in given:
            both[key] = f"{ours[key]} {given[key]}"
    if PACKAGES in ours and PACKAGES in given:
        both[PACKAGES] = f"{ours[PACKAGES]},{given[PACKAGES]}"
    return both


def _error(what: str, value: str, where: str, instead: str = "") -> HeadraceError:
    example = "e.g. --conf spark.executor.memory=2g"
    return HeadraceError(
        what, value=f"{value} (from {where})", hint=instead or example, code="SPARK_CONF"
    )
