"""What homes of earlier formats say, in the words of this one.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RUNTIME = (
    "stream",
    "round_id",
    "rows",
    "late",
    "no_time",
    "bad",
    "queries",
    "answers",
    "watermark_us",
    "seconds",
    "process_bytes",
)
_FIGURES = {
    "windows": {
        **{name: name for name in ("cells", "pane_us", "predicates", "keys", "groups")},
        **{name: name for name in ("groupings", "selectivity", "unshared_s")},
        **{name: name for name in ("ring_bytes", "log_bytes", "log_files")},
    },
    "plain": {"plain_s": "seconds"},
    "joins": {"joints": "shapes", "shapes": "shapes", "kept_rows": "kept_rows"}
    | {"standing": "standing"},
}
"""By family: what format 5 called a figure, and what the family does."""


def figures_of_format_5(stats: Mapping[str, Any]) -> dict[str, Any]:
    """The `stats` of a manifest of format 5, where figures of families were fields that all knew:
    the runtime's own, and the figures of each family.  What was not told is left to defaults."""
    load = stats.get("load") or {}
    told = {**stats, **load}
    found = {name: stats[name] for name in _RUNTIME if name in stats}
    if "before_us" in load:
        found["watermark_before_us"] = load["before_us"]
    if "priced" in load:
        found["priced"] = load["priced"]
    figures = {
        family: {new: told[old] for old, new in names.items() if old in told}
        for family, names in _FIGURES.items()
    }
    if "groupings" in told:  # the next round was taken to be cut as this one
        figures["windows"]["next_united"] = told["groupings"] <= 1
    return {**found, "figures": {family: own for family, own in figures.items() if own}}
