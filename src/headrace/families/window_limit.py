"""How finely a window may be cut.  Pure.

A window of very many panes is too much for whoever runs it: rings keep a state for each pane, and
Spark copies a row into each window it falls in.
"""

from __future__ import annotations

from headrace.config import Config
from headrace.errors import PlanError
from headrace.sql.query import Query


def check_panes(query: Query, config: Config) -> None:
    """Refuse a window of too many panes."""
    if query.window is None:
        return
    panes = query.window.range_us // query.window.grain_us
    if panes > config.panes_max:
        raise PlanError(
            f"the window of {query.name!r} spans too many panes",
            value=f"{panes:,} panes of {query.window}",
            choices=(f"panes_max = {config.panes_max:,}",),
            hint="a shorter range, or a slide and offset that divide it more coarsely",
            code="PANES",
        )
