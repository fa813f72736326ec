"""Sketches of a small round as they arrive: put into the form in which executors send those of
larger ones.

Spark sorts and thins lists, and tells registers from hashes, with an object and an interpreted step
for each value.  A round that is one task anyway sends values as they come (hashes of those that are
not numbers), and compiled code does the rest here in a fraction of the time, while Spark reads the
next round.  How much that is stays bounded: such a round has `one_task_bytes_max` bytes of input,
and a cell sends the values of at most `SENT_MAX` rows, or `SENT_TIMES` times what a percentile
keeps.  A round with a larger cell, or of too many bytes, is asked for again, as larger rounds are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.families.windows.aggregation.columns import asked_for, part_names
from headrace.families.windows.measures import Measure
from headrace.families.windows.sketches import hll_kernels, value_kernels
from headrace.families.windows.sketches.hll_kernels import Ints
from headrace.families.windows.sketches.kinds import Limits, from_keys, to_keys

HASHES = "hashes"
AS_THEY_COME = ("sent", HASHES)
COUPONS = pa.list_(pa.field("element", pa.int32(), nullable=False))


def came_whole(
    table: pa.Table, measures: tuple[Measure, ...], limits: Limits, bytes_max: int
) -> bool:
    """Whether every cell was small enough to be sent as it is, and all of them together are."""
    asked = asked_for(measures, limits).columns.items()
    sent = [table.column(name) for name, (function, _) in asked if _kind(function) in AS_THEY_COME]
    return not any(c.null_count for c in sent) and sum(c.nbytes for c in sent) <= bytes_max


def arrive(table: pa.Table, measures: tuple[Measure, ...], limits: Limits) -> pa.Table:
    """What was sent of a small round, as if it were a larger one."""
    asked = asked_for(measures, limits)
    others = [name for name in table.column_names if name not in asked.columns]
    fields, columns = (
        [table.schema.field(name) for name in others],
        [table.column(name) for name in others],
    )
    for part, name in part_names(measures).items():
        source = asked.sources[part]
        field, sent = table.schema.field(source).with_name(name), table.column(source)
        kind, _, parameter = part[0].partition(":")
        if kind == "coupons":
            are_hashes = _kind(asked.columns[source][0]) == HASHES
            sent = _coupons(sent.combine_chunks(), int(parameter), are_hashes)
        elif kind in ("thin", "list"):
            sent = _ordered(sent.combine_chunks(), int(parameter or 0))
        fields.append(
            field.with_type(sent.type).with_nullable(
                field.nullable and kind not in ("coupons", "thin")
            )
        )
        columns.append(sent)
    return pa.table(columns, pa.schema(fields))


def _kind(function: str) -> str:
    return function.partition(":")[0]


def _coupons(lists: pa.ListArray, precision: int, are_hashes: bool) -> pa.ListArray:
    values = _numbers(lists)
    hashes = values if are_hashes else _hashed(values)
    coupons, ends = hll_kernels.coupons_of(hashes, offsets_of(lists), precision)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(coupons), type=COUPONS)


def _hashed(values: np.ndarray) -> Ints:
    if values.dtype == np.float64:
        return hll_kernels.hash_longs(hll_kernels.bits_of(values))
    if values.dtype == np.int64:
        return hll_kernels.hash_longs(values)
    return hll_kernels.hash_ints(values.astype(np.int32))


def _ordered(lists: pa.ListArray, most: int) -> pa.ListArray:
    """Each list in order, and thinned, if `most` is not 0."""
    numbers, offsets = _numbers(lists), offsets_of(lists)
    is_real = pa.types.is_floating(lists.type.value_type)
    keys = to_keys(numbers) if is_real else np.array(numbers, np.int64)
    value_kernels.sort_runs(keys, offsets)
    if most:
        keys, offsets = value_kernels.thin_runs(keys, offsets, most)
    values = pa.array(from_keys(keys) if is_real else keys).cast(lists.type.value_type)
    missing = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), values, type=lists.type, mask=missing
    )


def _numbers(lists: pa.ListArray) -> np.ndarray:
    numbers: np.ndarray = lists.flatten().to_numpy(zero_copy_only=False)
    return numbers


def offsets_of(lists: pa.ListArray) -> Ints:
    """Where the values of each list begin, and the end; a list that is null has none."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return np.append(0, np.cumsum(lengths, dtype=np.int64))
