"""What a round changes of the answers of queries that are answered anew each round.

Spark writes the whole new answer; then it groups the rows of the new answer and of the one before
by all columns, with a signed count: what is left over came (+1) or went (−1), as often as the count
says.  Only that goes into the log.  Where nothing is left over the new files are removed, and the
answer before stays.

Rows are the same as Spark's `EXCEPT ALL` has it: NULL is NULL, all NaN are one, and so are 0.0 and
-0.0.  Maps, which `EXCEPT ALL` refuses, are the same if they have the same entries: they are
grouped as lists of entries in order of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from headrace.families.plain.present import FOLDER, kept_answers, present_path
from headrace.quoting import quote_name, quote_text
from headrace.runtime.answers import file_mark, plain_folder
from headrace.runtime.parquet_files import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from headrace.runtime.family import Outcome, Place, Round
    from headrace.runtime.ledger import FileMark

_COUNT, _CHANGE = "headrace_count", "headrace_change"
_Marks = tuple["FileMark", ...]


class Differences:
    """Of one relation's queries.  `quarantined`: those of them that are not answered any more, and
    still read."""

    def __init__(self, place: Place, quarantined: Callable[[], Collection[int]]) -> None:
        self._place = place
        self._quarantined = quarantined
        self._kept = dict(kept_answers(place.ledger))
        for mark in (mark for marks in self._kept.values() for mark in marks):
            place.ledger.check(mark)
        self._round_id = -1
        self._new: dict[int, _Marks] = {}
        self._tidy()

    def begin(self, round: Round) -> None:
        """A round's rows may be read several times before it is committed: what the last reading of
        the round before left is then what counts."""
        if round.id != self._round_id:
            self._kept.update(self._new)
        self._round_id, self._new = round.id, {}

    def is_known(self, query_id: int) -> bool:
        """Whether the query has been answered before this round."""
        return query_id in self._kept

    def write(self, query_id: int, answer: DataFrame, round: Round, outcome: Outcome) -> None:
        """The answer of a round, and what it changes, if anything.  Nothing is left of it if it
        fails."""
        log = f"{plain_folder(self._place.folder, round.id)}/{query_id}"
        marks: _Marks = ()
        try:
            marks = self._write_whole(query_id, answer, round)
            files, rows = self._write_changes(log, answer, self._kept.get(query_id), marks)
        except BaseException:
            self._remove(log, marks)
            raise
        if rows or not self.is_known(query_id):
            self._new[query_id] = marks
        else:
            self._remove(log, marks)
        if rows:
            outcome.files += files
            outcome.answers += rows
        else:
            self._place.disk.clear(log)

    def held(self, live: Collection[int]) -> _Marks:
        """The files that the present answers are in after this round; a query that is dropped has
        none any more."""
        wanted = {*live, *self._quarantined()}
        kept = {**self._kept, **self._new}
        self._kept = {i: marks for i, marks in self._kept.items() if i in wanted}
        return tuple(mark for i, marks in kept.items() if i in wanted for mark in marks)

    # -- files -------------------------------------------------------------------------------------

    def _write_whole(self, query_id: int, answer: DataFrame, round: Round) -> _Marks:
        """Files beside each other: a folder for each answer would stay when they are gone."""
        disk = self._place.disk
        folder = f"{self._place.folder}/{FOLDER}/{round.id:012d}.{query_id}"
        try:
            disk.clear(folder)
            paths = []
            for part, written in enumerate(write_parquet(answer, disk, folder).paths):
                paths.append(present_path(self._place.folder, round.id, query_id, part))
                disk.rename(written, paths[-1])
        finally:
            disk.clear(folder)
        return tuple(file_mark(disk, path) for path in paths)

    def _write_changes(
        self, log: str, answer: DataFrame, old: _Marks | None, new: _Marks
    ) -> tuple[list[FileMark], int]:
        disk = self._place.disk
        before = None if old is None else self._read(answer, old)
        changes = changes_of(before, self._read(answer, new))
        written = write_parquet(changes, disk, log)
        return [file_mark(disk, path) for path in written.paths], written.rows

    def _read(self, answer: DataFrame, marks: _Marks) -> DataFrame:
        reader = answer.sparkSession.read.schema(answer.schema)
        return reader.parquet(*(self._place.disk.url(mark.path) for mark in marks))

    def _remove(self, log: str, marks: _Marks) -> None:
        self._place.disk.clear(log)
        for mark in marks:
            self._place.disk.remove(mark.path)

    def _tidy(self) -> None:
        """Files of a round that was not committed."""
        disk, folder = self._place.disk, f"{self._place.folder}/{FOLDER}"
        kept = {mark.path for marks in self._kept.values() for mark in marks}
        for path in (disk.root / folder).iterdir():
            inside = f"{folder}/{path.name}"
            if path.is_dir():
                disk.clear(inside)
            elif inside not in kept:
                disk.remove(inside)


def changes_of(old: DataFrame | None, new: DataFrame) -> DataFrame:
    """The rows that came and went, as often as they did, and a last column +1 or −1; without an
    answer before, all come.  Rows that are the same look the same, whenever they come or go: zeros
    have no sign, and maps are in order."""
    fields = new.schema.fields
    names = [quote_name(field.name) for field in fields]
    plain = [f"{_canonical(n, f.dataType)} AS {n}" for n, f in zip(names, fields, strict=True)]
    shown = [f"{_restored(n, f.dataType)} AS {n}" for n, f in zip(names, fields, strict=True)]
    came = new.selectExpr(*plain, f"1L AS {_COUNT}")
    if old is None:
        return came.selectExpr(*shown, f"CAST(1 AS TINYINT) AS {_CHANGE}")
    both = came.unionAll(old.selectExpr(*plain, f"-1L AS {_COUNT}"))
    counted = both.groupBy(*names).agg({_COUNT: "sum"}).toDF(*new.columns, _COUNT)
    sign = f"IF({_COUNT} > 0, 1Y, -1Y)"
    times = f"explode(array_repeat({sign}, CAST(abs({_COUNT}) AS INT)))"
    return counted.where(f"{_COUNT} <> 0").selectExpr(*shown, f"{times} AS {_CHANGE}")


def _canonical(value: str, kind: DataType, depth: int = 0) -> str:
    """SQL for a value that Spark groups by, and that is equal for values that are the same."""
    name, own = kind.typeName(), f"v{depth}"
    if name in ("float", "double"):
        nan = f"CAST('NaN' AS {name})"
        return f"CASE WHEN {value} = 0 THEN CAST(0 AS {name}) WHEN isnan({value}) THEN {nan} ELSE {value} END"
    if not _is_nested(kind):
        return value
    inside: Any = kind
    if name == "array":
        return f"transform({value}, {own} -> {_canonical(own, inside.elementType, depth + 1)})"
    if name == "map":
        key = _canonical(f"{own}.key", inside.keyType, depth + 1)
        held = _canonical(f"{own}.value", inside.valueType, depth + 1)
        entry = f"named_struct('key', {key}, 'value', {held})"
        return f"sort_array(transform(map_entries({value}), {own} -> {entry}))"
    return _each_field(value, inside, _canonical, depth)


def _restored(value: str, kind: DataType, depth: int = 0) -> str:
    """SQL for a value of the query's own type again: lists of entries are maps."""
    name, own = kind.typeName(), f"v{depth}"
    if not _has_map(kind):
        return value
    inside: Any = kind
    if name == "array":
        return f"transform({value}, {own} -> {_restored(own, inside.elementType, depth + 1)})"
    if name == "map":
        held = _restored(f"{own}.value", inside.valueType, depth + 1)
        entry = f"named_struct('key', {own}.key, 'value', {held})"
        return f"map_from_entries(transform({value}, {own} -> {entry}))"
    return _each_field(value, inside, _restored, depth)


def _each_field(value: str, kind: Any, made: Callable[..., str], depth: int) -> str:
    fields = [
        f"{quote_text(f.name)}, {made(f'{value}.{quote_name(f.name)}', f.dataType, depth)}"
        for f in kind.fields
    ]
    return f"IF({value} IS NULL, NULL, named_struct({', '.join(fields)}))"


def _is_nested(kind: DataType) -> bool:
    return kind.typeName() in ("array", "map", "struct")


def _has_map(kind: DataType) -> bool:
    return "map<" in kind.simpleString()
