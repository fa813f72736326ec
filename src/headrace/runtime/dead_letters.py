"""Dead letters: rows that do not fit the schema, or whose event time is not taken, kept with their
reason, bounded, counted."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pyspark.sql import DataFrame

from headrace.config import Config
from headrace.disk import Disk
from headrace.evaluation.python_rows import python_rows
from headrace.quoting import quote_name
from headrace.runtime.event_times import TimeLimits
from headrace.runtime.family import CORRUPT, Round
from headrace.runtime.ledger import FileMark, mark_of
from headrace.values import Relation


class DeadLetters:
    """Those of one round; `rows` are as they were read."""

    def __init__(
        self, rows: DataFrame, relation: Relation, limits: TimeLimits, config: Config
    ) -> None:
        self._rows = rows
        self._relation = relation
        self._limits = limits
        self._config = config

    def write(self, disk: Disk, folder: str, round: Round) -> list[FileMark]:
        """Write the bad rows of a round, at most `dead_letter_rows_max` of them, as lines of
        JSON."""
        letters = [{"round": round.id, **letter} for letter in self._letters()]
        if round.census.bad > len(letters):
            left_out = round.census.bad - len(letters)
            letters.append(
                {"round": round.id, "reason": "dead_letter_rows_max", "left_out": left_out}
            )
        data = "".join(json.dumps(letter, default=str) + "\n" for letter in letters).encode()
        path = f"{folder}/dead/{round.id:012d}.jsonl"
        disk.put(path, data)
        return [mark_of(path, data)]

    def _letters(self) -> Iterator[dict[str, object]]:
        room = self._config.dead_letter_rows_max
        fits = "true"
        if CORRUPT in self._rows.columns:
            fits = f"{quote_name(CORRUPT)} IS NULL"
            for (text,) in self._rows.where(f"NOT ({fits})").select(CORRUPT).limit(room).collect():
                room -= 1
                yield {"reason": "does not fit the schema", "row": text}
        if self._relation.time is None or not room:
            return
        us = f"unix_micros({quote_name(self._relation.time)})"
        beyond = self._rows.where(
            f"{fits} AND ({us} < {self._limits.min_us}L OR {us} > {self._limits.last_us}L)"
        )
        fields = [quote_name(f.name) for f in self._relation.fields]
        table = beyond.selectExpr(*fields, f"{us} AS _headrace_us").limit(room).toArrow()
        times = table.column("_headrace_us").to_pylist()
        for row, time_us in zip(python_rows(table.select(range(len(fields)))), times, strict=True):
            yield {"reason": self._limits.reason(time_us, self._config), "row": row}
