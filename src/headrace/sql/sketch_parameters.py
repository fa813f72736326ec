"""Parameters of sketches: what they stand for, and how large they may be.

Whoever runs the query, its memory grows with them, for two rows as for a million."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headrace.sql.syntax import Apply
from headrace.sql.tree import Expr, Literal

if TYPE_CHECKING:
    from headrace.sql.bind_expr import ExpressionBinder

RSD = 0.05
RSD_LEAST = 1e-300  # by less, a division has no result
ACCURACY = 10_000


def number_of(literal: Expr) -> float:
    assert isinstance(literal, Literal)
    return float(str(literal.value))


def precision_of(args: tuple[Expr, ...]) -> int:
    """log2 of the registers Spark takes for `approx_count_distinct` of these arguments."""
    rsd = RSD if len(args) < 2 else max(number_of(args[1]), RSD_LEAST)
    return math.ceil(2.0 * math.log(1.106 / rsd) / math.log(2.0))


def accuracy_of(args: tuple[Expr, ...]) -> int:
    """Of `percentile_approx`: ranks are within 1 / accuracy."""
    return ACCURACY if len(args) < 3 else int(number_of(args[2]))


def check_parameters(
    binder: ExpressionBinder, node: Apply, name: str, args: tuple[Expr, ...]
) -> None:
    """Refuse what would take more than the limits of the config."""
    if name == "approx_count_distinct":
        most, precision = binder.config.sketch_registers_max, precision_of(args)
        if 1 << precision > most:
            least = 1.106 / 2 ** (math.floor(math.log2(max(most, 16))) / 2)
            raise binder.error(
                f"so small an error takes more than sketch_registers_max = {most:,} registers a group",
                node.args[-1],
                value=f"{_power(precision)} registers for an error of {number_of(args[1]) if len(args) > 1 else RSD}",
                hint=f"use an error of {math.ceil(least * 1e5) / 1e5:g} or more, count(DISTINCT …), or raise the limit",
            )
    elif name == "percentile_approx":
        limit, accuracy = binder.config.sketch_accuracy_max, accuracy_of(args)
        if accuracy > limit:
            raise binder.error(
                f"the accuracy is above sketch_accuracy_max = {limit:,}",
                node.args[-1],
                value=accuracy,
                hint="use less accuracy, percentile(…), which is exact, or raise the limit",
            )


def _power(exponent: int) -> str:
    return f"{1 << exponent:,}" if exponent < 64 else f"2^{exponent}"
