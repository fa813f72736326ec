"""Sketches against brute force: kernels, bundles, trees and tables, and sketch stores whose windows
come and go."""

from __future__ import annotations

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.families.windows.aggregation.columns import NO_LIMITS, ROWS_PART, part_names, parts_of
from headrace.families.windows.aggregation.eviction import evicted_by_sketches
from headrace.families.windows.cuts import Cut, Cuts
from headrace.families.windows.measures import ROWS, Measure
from headrace.families.windows.pane_log.panes import holds
from headrace.families.windows.plan import Program, Share, Slot
from headrace.families.windows.sketches import choice, hll_kernels, sketch_store
from headrace.families.windows.sketches.bias import Bias
from headrace.families.windows.sketches.bundles import Bundle, Points, Registers
from headrace.families.windows.sketches.choice import costs_of
from headrace.families.windows.sketches.kinds import from_keys, points_max, sketch_of, to_keys
from headrace.families.windows.sketches.sketch_store import SketchStore
from headrace.families.windows.sketches.sketch_stores import blocks_of
from headrace.families.windows.sketches.trees import Table, Tree, dyadic_runs, grain_of
from headrace.families.windows.sketches.value_kernels import share_weights
from headrace.families.windows.weave.edges import Shape
from headrace.sql.tree import Aggregate, Column
from headrace.values import BIGINT, INT, Window

QUICK = settings(max_examples=60, deadline=None)
VALUES = st.lists(st.integers(-5, 5), max_size=12)
BUNDLES = st.lists(st.dictionaries(st.integers(0, 4), VALUES, max_size=4), min_size=1, max_size=6)
Lists = dict[int, list[int]]


def points(lists: Lists, is_set: bool = False, thin_to: int = 0) -> Points:
    """What a pane with these values holds."""
    groups = sorted(lists)
    each = [Counter(lists[g]) for g in groups]
    values = [v for counts in each for v in sorted(counts)]
    weights = [1 if is_set else counts[v] for counts in each for v in sorted(counts)]
    offsets = np.append(0, np.cumsum([len(c) for c in each])).astype(np.int64)
    return Points(
        np.array(groups, np.int32),
        offsets,
        np.array(values, np.int64),
        np.array(weights, np.int64),
        is_set,
        thin_to,
    )


def lists_of(bundle: Points) -> Lists:
    """Every value as often as it counts."""
    found = {}
    for i, group in enumerate(bundle.groups.tolist()):
        span = slice(bundle.offsets[i], bundle.offsets[i + 1])
        found[group] = np.repeat(bundle.values[span], bundle.weights[span]).tolist()
    return found


def joined(many: list[Lists]) -> Lists:
    return {
        g: sorted(v for lists in many for v in lists.get(g, []))
        for g in sorted({g for ls in many for g in ls})
    }


# -- bundles ---------------------------------------------------------------------------------------


@QUICK
@given(many=BUNDLES)
def test_merging_keeps_every_value(many: list[Lists]) -> None:
    first, *others = [points(lists) for lists in many]
    assert lists_of(first.merge(others)) == joined(many)


@QUICK
@given(many=BUNDLES)
def test_merging_sets_keeps_different_values(many: list[Lists]) -> None:
    first, *others = [points(lists, is_set=True) for lists in many]
    merged = first.merge(others)
    assert lists_of(merged) == {g: sorted(set(v)) for g, v in joined(many).items()}
    wanted = np.array([0, 3, 7], np.int32)
    assert merged.sizes(wanted).tolist() == [
        len(set(joined(many).get(g, []))) for g in wanted.tolist()
    ]


@QUICK
@given(many=BUNDLES, share=st.floats(0, 1))
def test_ranks_and_modes(many: list[Lists], share: float) -> None:
    first, *others = [points(lists) for lists in many]
    merged, everything = first.merge(others), joined(many)
    wanted = np.arange(6, dtype=np.int32)
    at, (below, above, past) = merged.at_share(wanted, share), merged.around_share(wanted, share)
    for g in wanted.tolist():
        values = everything.get(g, [])
        if values:
            position = (len(values) - 1) * share
            assert at[g] == values[max(1, math.ceil(share * len(values))) - 1]
            assert (below[g], above[g]) == (
                values[math.floor(position)],
                values[math.ceil(position)],
            )
            assert past[g] == position - math.floor(position)
            counts = Counter(values)
            assert merged.most_frequent(wanted)[g] == min(
                v for v in counts if counts[v] == max(counts.values())
            )


@QUICK
@given(values=st.lists(st.floats(allow_nan=True), max_size=30))
def test_keys_have_the_order_of_doubles(values: list[float]) -> None:
    array = np.array(values, np.float64)
    back = from_keys(np.sort(to_keys(array)))
    assert np.array_equal(back, np.sort(array), equal_nan=True)
    assert np.signbit(back[back == 0]).sum() == np.signbit(array[array == 0]).sum()
    assert np.unique(to_keys(array, is_set=True)).size == np.unique(array).size


def rank_error(values: list[int], found: int, rank: int) -> int:
    """How far the nearest rank of `found` is from the rank that was asked for."""
    ranks = [i + 1 for i, v in enumerate(values) if v == found]
    return (
        min(max(0, ranks[0] - rank), max(0, ranks[-1] - rank))
        if ranks[0] > rank
        else max(0, rank - ranks[-1])
    )


@QUICK
@given(
    seed=st.integers(0, 10**9),
    accuracy=st.integers(1, 20),
    share=st.floats(0, 1),
    same=st.booleans(),
)
def test_thinned_twice_is_within_the_stated_error(
    seed: int, accuracy: int, share: float, same: bool
) -> None:
    """Cells thinned as Spark does, merged to fragments, thinned again, merged: never further than n
    / accuracy."""
    r = Random(seed)
    most, top = points_max(accuracy), 9 if same else 10**6
    everything: list[int] = []
    fragments = []
    for _ in range(r.randint(1, 4)):
        cells = []
        for _ in range(r.randint(1, 4)):
            values = sorted(r.randint(0, top) for _ in range(r.choice([1, 5, 3 * most, 200])))
            everything += values
            cells.append(_thinned_by_spark(values, most))
        fragments.append(cells[0].merge(cells[1:]).seal())
        assert fragments[-1].values.size <= most
    merged = fragments[0].merge(fragments[1:])
    everything.sort()
    assert int(merged.weights.sum()) == len(everything)
    rank = max(1, math.ceil(share * len(everything)))
    found = int(merged.at_share(np.array([0], np.int32), share)[0])
    assert rank_error(everything, found, rank) <= len(everything) / accuracy


def _thinned_by_spark(values: list[int], most: int) -> Points:
    """The filter of `kinds.part_sql`, and the weights the driver gives."""
    n = len(values)
    if n > most:
        share = [i * most // n for i in range(n)]
        starts = [(s * n + most - 1) // most for s in share]
        stops = [((s + 1) * n + most - 1) // most for s in share]
        values = [v for i, v in enumerate(values) if i == (starts[i] + stops[i] - 1) // 2]
    offsets = np.array([0, len(values)], np.int64)
    weights = share_weights(np.array([n]), offsets, most)
    run = Points(
        np.array([0], np.int32), offsets, np.array(values, np.int64), weights, thin_to=most
    )
    return run.merge(
        [Points(np.array([0], np.int32), np.zeros(2, np.int64), values_none(), values_none())]
    )


def values_none() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.empty(0, np.int64)


def registers(values: list[int], precision: int) -> Registers:
    """By the book: the first bits say where, the zeros of the rest how much."""
    out = np.zeros((1, 1 << precision), np.uint8)
    for value in values:
        word = Random(value).getrandbits(64)
        at, rest = word >> 64 - precision, word & (1 << 64 - precision) - 1
        out[0, at] = max(out[0, at], 65 - precision - rest.bit_length())
    return Registers(np.array([0], np.int32), out)


def bias_of(r: Random, precision: int) -> Bias:
    """Tables like Spark's, some entries out of order."""
    raw = sorted(r.uniform(0.7, 5.5) * 2**precision for _ in range(r.choice([7, 80, 200])))
    for _ in range(3):
        i = r.randrange(1, len(raw))
        raw[i - 1], raw[i] = raw[i], raw[i - 1]
    return Bias(r.uniform(0, 2**precision), np.array(raw), np.array([r.gauss(0, 9) for _ in raw]))


def java_search(values: list[float], wanted: float) -> int:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high - 1) // 2
        if values[middle] == wanted:
            return middle
        low, high = (middle + 1, high) if values[middle] < wanted else (low, middle)
    return low


def estimated(line: list[int], bias: Bias) -> int:
    """HyperLogLog++ as printed, in Spark's order of additions."""
    m, raw = len(line), bias.raw.tolist()
    z = 0.0
    for rank in line:
        z += 1.0 / (1 << rank)
    a = {16: 0.673, 32: 0.697, 64: 0.709}.get(m, 0.7213 / (1 + 1.079 / m))
    e, zeros = a * m * m / z, line.count(0)
    linear = m * math.log(m / zeros) if zeros else math.inf
    if linear <= bias.threshold or (zeros and e <= 2.5 * m):
        return math.floor(linear + 0.5)
    if e < 5 * m:
        low = max(java_search(raw, e) - 5, 0)
        high = min(low + 6, len(raw))
        while high < len(raw) and (e - raw[high]) ** 2 < (e - raw[low]) ** 2:
            low, high = low + 1, high + 1
        e -= sum(bias.bias[low:high].tolist()) / (high - low)
    return math.floor(e + 0.5)


@pytest.mark.parametrize("precision", [4, 5, 6, 7, 9, 12])
def test_estimates_are_hyperloglog_as_printed(precision: int, seed: int) -> None:
    """With tables of any kind, from no value to eight a register; also with ranks that no sum of 52
    bits holds."""
    r, m, group = Random(seed), 1 << precision, np.array([0], np.int32)
    for count in (0, 1, 3, m // 4, m, 2 * m, 3 * m, 5 * m, 8 * m):
        made, bias = (
            registers([r.getrandbits(40) for _ in range(count)], precision),
            bias_of(r, precision),
        )
        if count > m and r.random() < 0.5:
            made.registers[0, : r.randrange(4)] = 65 - precision
        assert made.distinct(group, bias).tolist() == [
            estimated(made.registers[0].tolist(), bias)
        ], count


def test_no_linear_count_is_so_near_a_half_that_logarithms_matter() -> None:
    """Java's logarithm and ours may differ in the last bit: no m · ln(m / zeros) must be rounded by
    it."""
    for precision in range(4, 19):
        m = 1 << precision
        zeros = np.arange(1, m + 1)
        linear = m * np.log(m / zeros)
        apart = np.abs(linear - np.floor(linear) - 0.5)
        assert apart.min() > 8 * np.spacing(linear[apart.argmin()]), precision


@QUICK
@given(
    values=st.lists(st.integers(0, 10**6), max_size=60),
    cuts=st.integers(1, 4),
    precision=st.integers(4, 12),
)
def test_coupons_are_registers(values: list[int], cuts: int, precision: int) -> None:
    """Each value's own, in several cells of one group and in any order."""
    coupons = []
    for value in values:
        (line,) = registers([value], precision).registers
        at = int(line.argmax())
        coupons.append((int(line[at]) << precision) + at)
    out = np.zeros((1, 1 << precision), np.uint8)
    edges = np.linspace(0, len(values), cuts + 1).astype(np.int64)
    lines = np.zeros(cuts, np.int64)
    hll_kernels.fold_coupons(np.array(coupons, np.int32), edges, lines, precision, out)
    assert np.array_equal(out, registers(values, precision).registers)


@QUICK
@given(many=st.lists(st.lists(st.integers(0, 500), max_size=40), min_size=1, max_size=5))
def test_registers_merge_as_their_values_do(many: list[list[int]]) -> None:
    first, *others = [registers(values, 5) for values in many]
    whole = registers([v for values in many for v in values], 5)
    assert np.array_equal(first.merge(others).registers, whole.registers)


# -- trees and tables ------------------------------------------------------------------------------


@QUICK
@given(first=st.integers(-300, 300), size=st.integers(0, 200))
def test_dyadic_runs_cover_each_pane_once(first: int, size: int) -> None:
    runs = dyadic_runs(first, first + size)
    panes = [p for level, place in runs for p in range(place << level, (place + 1) << level)]
    assert panes == list(range(first, first + size))
    assert len(runs) <= 2 * max(1, size.bit_length())


SHAPES = [
    Shape(10, 10),
    Shape(20, 10),
    Shape(30, 5),
    Shape(7, 3, 1),
    Shape(12, 4),
    Shape(9, 4),
    Shape(60, 20, 5),
    Shape(15, 15, 5),
    Shape(2, 6, 1),
]


def is_due(shape: Shape, start: int) -> bool:
    return (start - shape.offset_us) % shape.slide_us == 0


@QUICK
@given(seed=st.integers(0, 10**9), chosen=st.sets(st.sampled_from(SHAPES), min_size=1))
def test_keepers_give_every_window_its_panes(seed: int, chosen: set[Shape]) -> None:
    r = Random(seed)
    held: list[Tree[Points] | Table[Points]] = [Tree(list(chosen), -100), Table(list(chosen), -100)]
    grain = grain_of(list(chosen))
    panes = {
        t: {r.randint(0, 3): [r.randint(0, 9)]} for t in range(-100, 100, grain) if r.random() < 0.7
    }
    for keeper in held:
        for now in range(-100, 101, grain):
            if now - grain in panes:
                keeper.take(np.array([now - grain]), [points(panes[now - grain])])
            for shape in chosen:
                start = now - shape.range_us
                if is_due(shape, start) and start >= -100:
                    parts = keeper.parts(start, now)
                    merged = lists_of(parts[0].merge(parts[1:])) if parts else {}
                    assert merged == joined([panes[t] for t in panes if start <= t < now])
            keeper.forget(now - max(s.range_us for s in chosen) + 1)
    assert not held[0].serves([Shape(11, 11)], 100)
    assert not held[0].serves(chosen, -100)


def test_panes_without_rows_cost_a_table_nothing() -> None:
    """Thirty days beside 100 ms are 26 million panes, of which a quiet stream fills a few."""
    day, tenth = 86_400_000_000, 100_000
    shapes = [Shape(10 * tenth, tenth), Shape(30 * day, day)]
    table: Table[Points] = Table(shapes, 0)
    filled = [0, 7 * tenth, 3 * day, 29 * day + 5 * tenth]
    for at in filled:
        table.take(np.array([at]), [points({0: [at]})])
    (first, *others), began = table.parts(0, 30 * day), perf_counter()
    assert lists_of(first.merge(others)) == {0: filled}
    for end in range(day, 60 * day, day):
        table.parts(end - 30 * day, end)
        table.forget(end - 30 * day)
    assert sum(map(len, table._levels)) < 100
    assert perf_counter() - began < 2


# -- sketch stores ---------------------------------------------------------------------------------


class Brute:
    """All panes ever, and a sketch store that must answer as if it had them."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.pool = ThreadPoolExecutor(1)
        self.sketch_store = SketchStore("values", self.pool)
        self.log: list[dict[int, Lists]] = []
        self.shapes: Counter[Shape] = Counter()
        self.watermark: int | None = None

    def change(self) -> None:
        """Windows come and go; the sketch store may be told that it has to begin anew, as after a
        restart."""
        for _ in range(self.r.randint(0, 2)):
            shape = self.r.choice(SHAPES)
            self.shapes[shape] += 1
            self.sketch_store.join(shape)
        gone = self.r.choice([*self.shapes])
        if self.shapes.total() > 1 and self.r.random() < 0.4:
            self.shapes[gone] -= 1
            self.shapes += Counter()
            self.sketch_store.leave(gone)
        self.sketch_store.is_new |= self.r.random() < 0.1

    def feed_history(self) -> None:
        """What `SketchStores` does with the pane log."""
        is_new = self.sketch_store.is_new
        if is_new:
            self.sketch_store.begin(self.watermark)
        missing = self.sketch_store.settle()
        assert not self.sketch_store.is_tangled
        panes: dict[int, list[Bundle]] = {}
        for entry in self.log:
            for time, lists in entry.items():
                if time < self.sketch_store.closed_us:
                    panes.setdefault(time, []).append(points(lists))
                elif is_new:
                    self.sketch_store.add(np.array([time]), [points(lists)])
        self.sketch_store.feed(missing, panes)

    def round(self, now: int) -> None:
        least = now - 10 if self.watermark is None else self.watermark
        entry: dict[int, Lists] = {}
        for _ in range(self.r.randint(0, 6)):
            time = self.r.randint(least, now)
            entry.setdefault(time, {}).setdefault(self.r.randint(0, 2), []).append(
                self.r.randint(0, 5)
            )
        self.feed_history()
        for time, lists in entry.items():
            self.sketch_store.add(np.array([time]), [points(lists)])
        self.log.append(entry)
        before, self.watermark = self.watermark, now - 3
        self.sketch_store.close(self.watermark)
        for shape in self.shapes:
            for end in range(-50 if before is None else before + 1, self.watermark + 1):
                if is_due(shape, end - shape.range_us):
                    bundle = self.sketch_store.window(shape, end)
                    assert bundle is None or isinstance(bundle, Points)
                    ours = {} if bundle is None else lists_of(bundle)
                    start = end - shape.range_us
                    assert ours == joined(
                        [ls for e in self.log for t, ls in e.items() if start <= t < end]
                    )
        self.sketch_store.forget()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9), inline=st.booleans())
@example(seed=67108864, inline=False)  # a table that took wide panes, then asked for narrow ones
@example(seed=190, inline=True)
def test_a_grove_is_rewoven_without_a_gap(seed: int, inline: bool) -> None:
    """Windows come and go, plans are rebuilt here and beside, and after every round every window
    that ended has all its values."""
    brute = Brute(seed)
    limit, sketch_store.INLINE_MAX = sketch_store.INLINE_MAX, 10**6 if inline else 0
    try:
        brute.shapes[SHAPES[1]] += 1
        brute.sketch_store.join(SHAPES[1])
        now = 0
        for _ in range(12):
            brute.change()
            now += brute.r.choice([1, 4, 10, 30])
            brute.round(now)
        assert brute.sketch_store.replans > 1
    finally:
        sketch_store.INLINE_MAX = limit
        brute.pool.shutdown()


def test_all_three_operators_are_chosen_by_cost() -> None:
    """Alike windows share a tree, families with few common edges part; where windows overlap much
    the table wins."""
    second = 10**6
    alike = costs_of(tuple(Shape(60 * second * k, 60 * second) for k in (1, 2)), "hll")
    assert alike.best == choice.TREE and alike.forest == alike.tree
    fine = costs_of(tuple(Shape(3600 * second, k * second) for k in (1, 2, 3)), "hll")
    assert fine.best == choice.TABLE and fine.table < fine.forest
    minutes = [
        Shape(k * slide * second, slide * second) for slide in (60, 61) for k in range(2, 12)
    ]
    apart = costs_of(tuple(minutes), "hll")
    assert (
        apart.best == choice.FOREST
        and len(apart.trees) == 2
        and apart.forest < min(apart.tree, apart.table)
    )


def test_whose_sketches_are_the_largest_of_a_round_is_told() -> None:
    x, y = Column("x", INT), Column("y", INT)
    few, many = Measure("distinct", x), Measure("values", y)
    cuts = Cuts(10, (Cut((), ()),), (ROWS, few, many))
    names = part_names(cuts.measures)
    table = pa.table(
        {
            names[ROWS_PART]: [1],
            names[parts_of(few)[0]]: [[1, 2]],
            names[parts_of(many)[0]]: [list(range(1_000))],
        }
    )
    program = Program((), None, (), ())
    shares = {
        n: Share(Slot(None, ()), Window(10, 10), (ROWS, m), program)
        for n, m in ((1, few), (2, many))
    }
    assert evicted_by_sketches(cuts, table, NO_LIMITS, shares, 10_000) == {}
    found = evicted_by_sketches(cuts, table, NO_LIMITS, shares, 5_000)
    assert set(found) == {2} and "sketch_bytes_max = 5,000" in found[2]


@QUICK
@given(ends=st.lists(st.integers(-4, 4)), base=st.integers(0, 3))
def test_every_answer_is_in_the_block_of_its_end(ends: list[int], base: int) -> None:
    """Whatever the ends are: panes are numbered from 1970 on, and below zero before."""
    ends.sort()
    blocks = list(blocks_of(np.array(ends, np.int64), base))
    assert [i for first, last in blocks for i in range(first, last)] == list(
        range(base, base + len(ends))
    )
    assert [{ends[i - base] for i in range(*block)} for block in blocks] == [
        {e} for e in sorted(set(ends))
    ]


def test_registers_of_another_hash_are_not_taken_for_ours() -> None:
    """A pane log of an older version: its sketches have a name and a place, and serve nobody."""
    arg, count = Column("n", INT), Measure("count", Column("n", INT))
    now = sketch_of(Aggregate("approx_count_distinct", (arg,), BIGINT))
    old, new = Measure("hll", arg, now[2][:1]), Measure(*now)
    slot, window = Slot(None, ()), Window(60_000_000, 60_000_000, 0)
    for kept in (old, new):
        cuts = Cuts(1_000_000, (Cut((), ()),), (ROWS, kept, count))
        assert list(part_names(cuts.measures).values()) == ["m0", "m1", "m2"]
        asked = Share(slot, window, (ROWS, count, new), Program((), None, (), ()))
        assert holds(cuts, asked) == (kept == new)
        assert holds(cuts, replace(asked, measures=(ROWS, count))), (
            "the rest of it is as good as ever"
        )


@settings(max_examples=30, deadline=None)
@given(
    shapes=st.lists(
        st.builds(Shape, st.integers(1, 40), st.integers(1, 12), st.integers(0, 3)),
        min_size=1,
        max_size=4,
    )
)
def test_no_more_sketches_are_kept_than_was_said(shapes: list[Shape]) -> None:
    """Every pane has rows and every window is asked for, in trees or the table as the costs
    choose."""
    shapes = sorted(set(shapes))
    own = costs_of(tuple(shapes), "hll")
    trees = [[shapes[n] for n in tree] for tree in own.trees]
    most = choice.held_most(shapes, trees, own.best == choice.TABLE)
    one = registers([1], 4)
    with ThreadPoolExecutor(1) as pool:
        held = SketchStore("hll", pool)
        for shape in shapes:
            held.join(shape)
        held.begin(0)
        held.settle()
        for now in range(1, 150):
            held.add(np.array([now - 1]), [one])
            held.close(now)
            for shape in shapes:
                if (now - shape.range_us - shape.offset_us) % shape.slide_us == 0:
                    held.window(shape, now)
            held.forget()
            open_panes = held.grain_us
            assert held.nbytes <= (most + open_panes) * one.nbytes, (now, held.operator, most)
