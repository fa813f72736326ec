"""Sketches of a small round as they arrive: put into the form in which executors send those of larger ones.

Spark sorts and thins lists, and tells registers from hashes, with an object and an interpreted step for each value.  A
round that is one task anyway sends values and hashes as they come, and compiled code does the rest here in a fraction
of the time.  How much that is stays bounded: such a round has `one_task_bytes_max` bytes of input, a cell sends at most
`HASHES_MAX` hashes (of more rows, no more than there are coupons), and of a percentile's values at most `SENT_MAX`
times what it keeps.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.families.windows.columns import part_names
from headrace.families.windows.measures import Measure
from headrace.families.windows.sketches import hll_kernels, value_kernels
from headrace.families.windows.sketches.hll_kernels import Ints
from headrace.families.windows.sketches.kinds import from_keys, to_keys

COUPONS = pa.list_(pa.field("element", pa.int32(), nullable=False))


def arrive(table: pa.Table, measures: tuple[Measure, ...]) -> pa.Table:
    """What was sent of a small round, as if it were a larger one."""
    for (function, _), name in part_names(measures).items():
        kind, _, parameter = function.partition(":")
        if kind in ("coupons", "thin", "list"):
            lists = table.column(name).combine_chunks()
            made = _coupons(lists, int(parameter)) if kind == "coupons" else _ordered(lists, int(parameter or 0))
            field = table.schema.field(name).with_type(made.type)
            table = table.set_column(table.column_names.index(name), field, made)
    return table


def _coupons(lists: pa.ListArray, precision: int) -> pa.ListArray:
    coupons, ends = hll_kernels.coupons_of(_numbers(lists), offsets_of(lists), precision)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(coupons), type=COUPONS)


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
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=lists.type, mask=missing)


def _numbers(lists: pa.ListArray) -> np.ndarray:
    numbers: np.ndarray = lists.flatten().to_numpy(zero_copy_only=False)
    return numbers


def offsets_of(lists: pa.ListArray) -> Ints:
    """Where the values of each list begin, and the end; a list that is null has none."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return np.append(0, np.cumsum(lengths, dtype=np.int64))
