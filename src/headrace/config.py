"""Every limit and setting, with its default.  Passing a limit is an error that names it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.errors import HeadraceError, near
from headrace.spark_settings import SETTING, VARIABLE, checked, parse_text


def utc_us(text: str, setting: str) -> int:
    """A time as µs since 1970; without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise HeadraceError(
            f"setting {setting} must be a time from year 1 to 9999",
            value=text,
            code="CONFIG",
            hint="e.g. 2020-01-01 or 2020-01-01 12:00:00",
        ) from None
    return (time.replace(tzinfo=time.tzinfo or UTC) - datetime.fromtimestamp(0, UTC)) // timedelta(
        microseconds=1
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one engine.  `Config.of(name=value, …)` checks names and values."""

    # the gate for SQL
    sql_length_max: int = 100_000
    sql_depth_max: int = 200
    sql_in_list_max: int = 10_000
    sql_pattern_length_max: int = 1_000
    sql_pattern_steps_max: int = 100_000_000  # of RLIKE, at worst, on a text of 1,000 characters
    # the catalog
    queries_max: int = 1_000_000
    name_length_max: int = 200
    # a larger log is written anew when most of it speaks of what is gone
    catalog_compact_bytes: int = 4 << 20
    # rounds
    cut_rows_max: int = 2_000_000
    one_task_bytes_max: int = 16 << 20
    dead_letter_rows_max: int = 10_000
    manifests_kept: int = 100_000
    quarantine_probes_max: int = 500
    time_min: str = "0001-01-01"
    time_max: str = "9999-12-31 23:59:59.999999"
    ahead_ms_max: int = 86_400_000
    trigger_ms: int = 0
    # windows
    panes_max: int = 100_000
    ring_bytes_max: int = 4 << 30
    history_ms: int = 0
    log_rounds_max: int = 10_000
    fold_bytes_max: int = 256 << 20
    distinct_values_max: int = 100_000
    sketch_values_max: int = 1_000_000
    sketch_bytes_max: int = 1 << 30
    sketch_registers_max: int = 1 << 16
    sketch_accuracy_max: int = 1_000_000
    # windows in shards, once the driver holds more than this, or works longer on each round: into
    # how many parts groups are told apart, and where executors hold them between rounds (memory, or
    # the machine's temporary files, if it is not named)
    driver_state_bytes_max: int = 3 << 30
    driver_ms_max: int = 10_000
    shards: int = 8
    shard_folder: str = ""
    # joins
    join_rows_max: int = 10_000_000
    join_pairs_max: int = 50_000_000
    # plain Spark beside the shared queries
    plain_rows_max: int = 50_000_000
    # when Spark dies: how often in a row it is started again, the first pause, and tries of work a
    # worker died under
    restart: int = 0
    restart_pause_ms: int = 1_000
    restart_pause_ms_max: int = 60_000
    worker_tries: int = 3
    # Spark
    shuffle_partitions: int = 2
    driver_memory: str = "4g"
    master: str = "local[*]"
    # further settings of a Spark of ours; none that answers depend on
    spark: Mapping[str, str] = field(default_factory=dict, hash=False)
    # secrets of sources, beside the environment
    secrets_file: str = ""

    @staticmethod
    def of(**settings: Any) -> Config:
        """The defaults but for these; an unknown name, or a value of another type, is an error."""
        known = {f.name: f.type for f in fields(Config)}
        for name, value in settings.items():
            if name not in known:
                raise HeadraceError(
                    "unknown setting", value=name, choices=near(name, known), code="CONFIG"
                )
            if name == SETTING:
                settings = {**settings, name: _spark_settings(value)}
                continue
            want = type(getattr(Config(), name))
            if not isinstance(value, want) or isinstance(value, bool):
                raise HeadraceError(
                    f"setting {name} must be {want.__name__}", value=repr(value), code="CONFIG"
                )
            if isinstance(value, int) and value < 0:
                raise HeadraceError(
                    f"setting {name} must not be negative", value=value, code="CONFIG"
                )
        made = replace(Config(), **settings)
        if utc_us(made.time_min, "time_min") > utc_us(made.time_max, "time_max"):
            raise HeadraceError(
                "time_min is after time_max",
                value=f"{made.time_min} > {made.time_max}",
                code="CONFIG",
            )
        return made

    @staticmethod
    def from_environment() -> Config:
        """`HEADRACE_<SETTING>=value` for any setting, e.g. HEADRACE_MASTER=local[2]; those of Spark in
        HEADRACE_SPARK_CONF."""
        settings: dict[str, Any] = {}
        if text := os.environ.get(VARIABLE):
            settings[SETTING] = parse_text(text)
        for own in fields(Config):
            text = os.environ.get(f"HEADRACE_{own.name.upper()}")
            if text is None or own.name == SETTING:
                continue
            default = getattr(Config(), own.name)
            try:
                settings[own.name] = type(default)(text)
            except ValueError as error:
                raise HeadraceError(
                    f"HEADRACE_{own.name.upper()} must be {type(default).__name__}",
                    value=text,
                    code="CONFIG",
                ) from error
        return Config.of(**settings)


def _spark_settings(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise HeadraceError(
            f"setting {SETTING} must be a mapping",
            value=repr(value),
            code="CONFIG",
            hint="e.g. Config.of(spark={'spark.executor.memory': '2g'})",
        )
    return checked(value, "Config.spark")
