"""What sketches of a query will take, before it runs.  Pure."""

from __future__ import annotations

from headrace.config import Config
from headrace.errors import PlanError
from headrace.families.windows.measures import Measure, measures_for, refusal
from headrace.families.windows.sketches.choice import TABLE, Costs, costs_of, held_most
from headrace.families.windows.weave.edges import Shape
from headrace.sql.query import Query


def registers_bytes(measure: Measure, shapes: tuple[Shape, ...], costs: Costs) -> int:
    """Of one group, at most; panes that are not closed yet come on top."""
    trees = [[shapes[n] for n in tree] for tree in costs.trees]
    return held_most(shapes, trees, costs.best == TABLE) << measure.params[0]


def check_registers(query: Query, config: Config) -> None:
    """Refuse registers that one group alone has no room for."""
    assert query.window is not None
    shape = Shape(query.window.range_us, query.window.slide_us, query.window.offset_us)
    for aggregate in query.aggregates:
        if aggregate.op != "approx_count_distinct" or refusal(aggregate) is not None:
            continue
        measure = measures_for(aggregate)[1]
        taken = registers_bytes(measure, (shape,), costs_of((shape,), measure.kind))
        if taken > config.sketch_bytes_max:
            raise PlanError(
                f"the registers of {query.name!r} have no room",
                value=f"{taken:,} bytes a group",
                choices=(f"sketch_bytes_max = {config.sketch_bytes_max:,}",),
                hint="a larger error, a shorter range or a longer slide, or raise the limit",
                code="SKETCH_BYTES",
            )
