"""Panels of curves, drawn to one picture and kept as numbers beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.bench.report import Plot

COLOURS = ("#2f8f5b", "#c07a2c", "#4a6fa5", "#a5484a", "#7a5aa5", "#777777", "#b39b2d", "#3a9aa5")
STYLES = {"paper": "-", "constant": "--", "ours": ":"}


@dataclass(frozen=True, slots=True)
class Curve:
    """Points by x.  Curves of one `colour` belong together; `style` says which way of execution
    they show."""

    name: str
    points: dict[float, float]
    colour: int = 0
    style: str = "paper"


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    x: str
    y: str
    curves: list[Curve] = field(default_factory=list)
    log_x: bool = False
    log_y: bool = False


def pyplot() -> Any | None:
    """matplotlib's, which draws into files only; None where the extra `bench` is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return None
    mpl.use("Agg")
    from matplotlib import pyplot as drawing

    return drawing


def draw(panels: Sequence[Panel], folder: Path, name: str, key: str) -> Plot:
    """A JSON file of that name with the numbers; and where matplotlib is there, a picture of them,
    three panels a row with the key above them."""
    folder.mkdir(exist_ok=True)
    kept = {panel.title: {curve.name: curve.points for curve in panel.curves} for panel in panels}
    (folder / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    drawing = pyplot()
    if drawing is None:
        return Plot(None)
    path = folder / f"{name}.png"
    _draw_panels(drawing, panels, key, path)
    return Plot(path)


def _draw_panels(drawing: Any, panels: Sequence[Panel], key: str, path: Path) -> None:
    rows = -(-len(panels) // 3)
    figure, axes = drawing.subplots(rows, 3, figsize=(15, 4 * rows))
    for place, panel in zip(axes.flat, panels, strict=False):
        _draw_panel(place, panel)
    for place in axes.flat[len(panels) :]:
        place.set_visible(False)
    figure.suptitle(key)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    drawing.close(figure)


def _draw_panel(place: Any, panel: Panel) -> None:
    for curve in panel.curves:
        label = curve.name if curve.style == "paper" else None
        place.plot(
            list(curve.points),
            list(curve.points.values()),
            label=label,
            marker=".",
            color=COLOURS[curve.colour % len(COLOURS)],
            linestyle=STYLES[curve.style],
        )
    place.set_title(panel.title, fontsize=10)
    place.set_xlabel(panel.x)
    place.set_ylabel(panel.y)
    if panel.log_x:
        place.set_xscale("log")
        place.xaxis.set_minor_formatter("")
    if panel.log_y:
        place.set_yscale("log")
    place.spines[["top", "right"]].set_visible(False)
    place.legend(fontsize=7, frameon=False)
