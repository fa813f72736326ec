"""The sketches of one measure of one slot, kept for every window that asks for it: a forest, one
tree, or a table.

Panes are open until the watermark has passed them.  Then the rows of all rounds are merged, once,
and every tree takes the pane.  Windows come and go between rounds: Weave Share says which share a
tree (`weave/online.py`).  A tree that has the edges it is asked for, and their history, stays; one
that has not is *missing*, and is fed all closed panes from the pane log before the next answer.  So
a sketch store is re-woven without a gap: no answer is asked of a tree before it holds what it
needs, and merging is the same in whatever trees it is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future

import numpy as np

from headrace.families.windows.sketches.bundles import Bundle
from headrace.families.windows.sketches.choice import TABLE, WEIGHTS, table_cost, trees_cost
from headrace.families.windows.sketches.hll_kernels import Ints
from headrace.families.windows.sketches.trees import Keeper, Table, Tree, grain_of
from headrace.families.windows.weave.edges import Shape
from headrace.families.windows.weave.online import OnlineWeave, Rebuilt, rebuild
from headrace.values import ALWAYS_US

INLINE_MAX = (
    512  # windows; the plan of so many takes milliseconds, of more it is made beside the rounds
)
STICKY = 0.9  # another operator must be cheaper than this share of what there is
DENSITY_PANES = 64  # closed panes between two looks at how many have rows
DENSITY_FACTOR = 2.0


class SketchStore:
    """Trees or a table of one measure of a slot."""

    def __init__(self, kind: str, executor: Executor) -> None:
        self._kind, self._executor = kind, executor
        self._shapes: Counter[Shape] = Counter()
        self._numbers: dict[Shape, int] = {}
        self._next = 0
        self._weave: OnlineWeave | None = None
        self._coming: Future[OnlineWeave | Rebuilt] | None = None
        self._keepers: dict[int, Keeper[Bundle]] = {}
        self._keeper_of: dict[Shape, Keeper[Bundle]] = {}
        self._open: dict[int, list[Bundle]] = {}
        self._is_changed, self._as_table, self._grain_us = True, False, 0
        self._density, self._planned = 1.0, (0, 1.0)
        self._counted = [0, 0]
        self.closed_us = ALWAYS_US
        self.is_new = True
        self.replans = 0

    # -- who asks ----------------------------------------------------------------------------------

    def join(self, shape: Shape) -> None:
        self._shapes[shape] += 1
        if self._shapes[shape] == 1:
            self._numbers[shape] = self._next
            if self._weave is not None:
                self._weave.add(self._next, shape)
            self._next += 1
            self._is_changed, self._grain_us = True, 0

    def leave(self, shape: Shape) -> None:
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]
            number = self._numbers.pop(shape)
            if self._weave is not None:
                self._weave.drop(number)
            self._is_changed, self._grain_us = True, 0

    def __len__(self) -> int:
        return len(self._shapes)

    @property
    def grain_us(self) -> int:
        """Panes need not be narrower than this."""
        if not self._grain_us:
            self._grain_us = grain_of(list(self._shapes))
        return self._grain_us

    @property
    def nbytes(self) -> int:
        held = sum(b.nbytes for panes in self._open.values() for b in panes)
        return held + sum(k.nbytes for k in self._keepers.values())

    @property
    def operator(self) -> str:
        """What runs: so many trees, or a table."""
        keepers = list(self._keepers.values())
        return TABLE if keepers and isinstance(keepers[0], Table) else f"{len(keepers)} trees"

    # -- planning ----------------------------------------------------------------------------------

    def settle(self) -> list[Keeper[Bundle]]:
        """Bring the trees in line with the windows; those that are missing their history."""
        self._plan()
        if not self._is_changed:
            return []
        self._is_changed = False
        self.replans += 1
        before, self._keepers, self._keeper_of = list(self._keepers.values()), {}, {}
        missing = []
        for shapes in self._arranged():
            keeper = next((k for k in before if self._suits(k, shapes)), None)
            if keeper is None:
                keeper = self._made(shapes)
                missing.append(keeper)
            else:
                before.remove(keeper)
            keeper.aim(shapes)
            self._keepers[id(keeper)] = keeper
            self._keeper_of.update(dict.fromkeys(shapes, keeper))
        return missing

    def _plan(self) -> None:
        """A plan for these windows: the one there is, one that has been made beside, or one from
        scratch."""
        rate, weights = self._density / self.grain_us, WEIGHTS[self._kind]
        numbered = {number: shape for shape, number in self._numbers.items()}
        wanted = (self.grain_us, self._density)
        if self._weave is None:
            self._weave, self._planned = OnlineWeave.of(numbered, rate, weights), wanted
        elif wanted != self._planned:
            self._planned = wanted
            self._begin(len(numbered), OnlineWeave.of, numbered, rate, weights)
        elif self._coming is None and self._weave.is_due():
            self._begin(len(numbered), rebuild, self._weave.snapshot())
        if self._coming is not None and self._coming.done():
            self._take_over(self._coming.result(), numbered)
            self._coming = None

    def _begin(self, count: int, make: Callable[..., OnlineWeave | Rebuilt], *args: object) -> None:
        if count > INLINE_MAX:
            self._coming = self._executor.submit(make, *args)
        else:
            self._coming = Future()
            self._coming.set_result(make(*args))

    def _take_over(self, made: OnlineWeave | Rebuilt, numbered: Mapping[int, Shape]) -> None:
        """Windows that came or went while the plan was made do so again."""
        assert self._weave is not None
        if isinstance(made, Rebuilt):
            self._weave.swap(made)
        else:
            for number in [n for tree in made.trees() for n in tree if n not in numbered]:
                made.drop(number)
            known = {n for tree in made.trees() for n in tree}
            for number in [n for n in numbered if n not in known]:
                made.add(number, numbered[number])
            self._weave = made
        self._is_changed = True

    def _arranged(self) -> list[list[Shape]]:
        """Which windows share a tree; all in one list if a table is to keep them."""
        assert self._weave is not None
        named = {number: shape for shape, number in self._numbers.items()}
        trees = [[named[n] for n in tree] for tree in self._weave.trees()]
        self._as_table = self._is_table(trees)
        return [list(self._shapes)] if self._as_table else trees

    def _is_table(self, trees: Sequence[Sequence[Shape]]) -> bool:
        """Whether the table is cheaper than these trees, clearly so if it is not there yet."""
        cost = table_cost(list(self._shapes), self._kind, self._density)
        others = trees_cost(trees, self._kind, self._density / self.grain_us)
        was = next((isinstance(k, Table) for k in self._keepers.values()), None)
        return (
            cost < others
            if was is None
            else cost * STICKY < others
            if was
            else cost < STICKY * others
        )

    def _suits(self, keeper: Keeper[Bundle], shapes: Sequence[Shape]) -> bool:
        """Whether an old keeper can go on for these windows."""
        return isinstance(keeper, Table) == self._as_table and keeper.serves(
            shapes, self._needed_from(shapes)
        )

    def _made(self, shapes: Sequence[Shape]) -> Keeper[Bundle]:
        held_from = self._needed_from(shapes)
        return Table(shapes, held_from) if self._as_table else Tree(shapes, held_from)

    def _needed_from(self, shapes: Iterable[Shape]) -> int:
        """Windows that end after what is closed begin here or later."""
        return (
            ALWAYS_US
            if self.closed_us == ALWAYS_US
            else self.closed_us - max(s.range_us for s in shapes) + 1
        )

    # -- panes -------------------------------------------------------------------------------------

    def begin(self, watermark_us: int | None) -> None:
        """A sketch store that is new: everything before the watermark is closed."""
        self._open.clear()
        self._keepers, self._keeper_of, self._is_changed, self.is_new = {}, {}, True, False
        self.closed_us = ALWAYS_US if watermark_us is None else self._floor(watermark_us)

    @property
    def is_tangled(self) -> bool:
        """Wide panes reach into what was closed by narrow ones: history must not be fed to some
        trees only."""
        return any(time < self.closed_us for time in self._open)

    def add(self, times: Ints, bundles: Sequence[Bundle]) -> None:
        """Panes of a round, open ones."""
        for time, bundle in zip(times.tolist(), bundles, strict=True):
            self._open.setdefault(time, []).append(bundle)

    @property
    def keepers(self) -> list[Keeper[Bundle]]:
        return list(self._keepers.values())

    def feed(self, keepers: Sequence[Keeper[Bundle]], panes: Mapping[int, list[Bundle]]) -> None:
        """Closed panes of the log, for keepers that are missing them."""
        times, bundles = _merged(panes)
        for keeper in keepers:
            keeper.take(times, bundles)

    def close(self, watermark_us: int) -> None:
        """Hand the panes that the watermark has passed to every keeper."""
        through = max(self.closed_us, self._floor(watermark_us))
        due = {time: self._open.pop(time) for time in sorted(t for t in self._open if t < through)}
        times, bundles = _merged(self._widened(due))
        for keeper in self._keepers.values():
            keeper.take(times, bundles)
        if self.closed_us != ALWAYS_US:
            self._count(len(bundles), through - self.closed_us)
        self.closed_us = through

    def forget(self) -> None:
        """Let go of what no window can need."""
        if self.closed_us == ALWAYS_US:
            return
        ranges: dict[int, int] = {}
        for shape, keeper in self._keeper_of.items():
            ranges[id(keeper)] = max(ranges.get(id(keeper), 0), shape.range_us)
        for key, keeper in self._keepers.items():
            keeper.forget(self.closed_us - ranges[key] + 1)

    def window(self, shape: Shape, end_us: int) -> Bundle | None:
        """All of one window, merged; None if there is nothing in it."""
        parts = self._keeper_of[shape].parts(end_us - shape.range_us, end_us)
        return parts[0].merge(parts[1:]) if parts else None

    def _floor(self, time_us: int) -> int:
        return time_us // self.grain_us * self.grain_us

    def _widened(self, due: Mapping[int, list[Bundle]]) -> dict[int, list[Bundle]]:
        """Panes as wide as these windows allow, however narrow Spark's are; none begins in what was
        closed before, by narrower panes."""
        wide: dict[int, list[Bundle]] = {}
        for time, bundles in due.items():
            wide.setdefault(max(self._floor(time), self.closed_us), []).extend(bundles)
        return wide

    def _count(self, panes: int, passed_us: int) -> None:
        """How many panes have rows: trees are planned by it, anew when it has clearly changed."""
        self._counted[0] += panes
        self._counted[1] += passed_us // self.grain_us
        if self._counted[1] >= DENSITY_PANES:
            seen = max(min(1.0, self._counted[0] / self._counted[1]), 1 / DENSITY_PANES)
            if not 1 / DENSITY_FACTOR < seen / self._density < DENSITY_FACTOR:
                self._density = seen
            self._counted = [0, 0]


def _merged(panes: Mapping[int, list[Bundle]]) -> tuple[Ints, list[Bundle]]:
    """One bundle a pane, by time."""
    times = sorted(panes)
    return np.array(times, np.int64), [panes[t][0].merge(panes[t][1:]) for t in times]
