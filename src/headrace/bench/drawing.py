"""Lines, boxes and text of the pictures in docs, as SVG.

Whoever looks at a picture has fonts of their own: a text is taken to be as wide as in DejaVu Sans,
one of the widest, and one that would leave its box or the picture is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

INK, GREY, PAPER = "#333333", "#8a97a6", "#ffffff"
FONT_PX, LINE_PX = 13, 18
CHARACTER_PX = 0.62  # by the size of the font
MARGIN_PX = 6


def text_px(text: str, size_px: float = FONT_PX) -> float:
    """How wide a text is, at the most."""
    return len(text) * size_px * CHARACTER_PX


class Drawing:
    """Shapes, in the order in which they are drawn."""

    def __init__(self, width_px: int) -> None:
        self.width_px = width_px
        self._parts: list[str] = []

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        colour: str,
        width_px: float = 1,
        dashes: str = "",
    ) -> None:
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
        self._parts.append(f'<line {ends} stroke="{colour}" stroke-width="{width_px}"{dashed}/>')

    def arrow(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A line with a tip at its end, which points to the right."""
        (x, y), tip = end, 5
        self.line(start, (x - tip, y), GREY, 1.4)
        points = f"{x:.1f},{y:.1f} {x - 2 * tip:.1f},{y - tip:.1f} {x - 2 * tip:.1f},{y + tip:.1f}"
        self._parts.append(f'<polygon points="{points}" fill="{GREY}"/>')

    def dot(self, x: float, y: float, radius_px: float = 4, colour: str = INK) -> None:
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius_px}" fill="{colour}"/>')

    def text(self, x: float, y: float, text: str, *, bold: bool = False, colour: str = INK) -> None:
        """On one line, from `x` on."""
        if x + text_px(text) > self.width_px:
            raise ValueError(f"it leaves the picture: {text}")
        self._write(x, y, text, "start", colour, bold)

    def box(
        self,
        place: tuple[float, float],
        size: tuple[float, float],
        lines: Sequence[str],
        colour: str,
    ) -> None:
        """A frame with some lines of text in its middle."""
        (x, y), (width, height) = place, size
        longest = max(map(text_px, lines), default=0)
        if longest + MARGIN_PX > width or len(lines) * LINE_PX > height:
            raise ValueError(f"it leaves its box: {lines}")
        frame = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"'
        self._parts.append(
            f'<rect {frame} fill="{colour}" fill-opacity="0.13" stroke="{colour}" stroke-width="1.3"/>'
        )
        first = y + height / 2 - (len(lines) - 1) * LINE_PX / 2 + FONT_PX * 0.35
        for i, line in enumerate(lines):
            self._write(x + width / 2, first + i * LINE_PX, line, "middle", INK, False)

    def svg(self, height_px: float) -> str:
        """The whole picture, on white paper, so that it can be read on a dark page too."""
        paper = f'<rect width="{self.width_px}" height="{height_px:g}" fill="{PAPER}"/>'
        body = "\n".join([paper, *self._parts])
        view = f"0 0 {self.width_px} {height_px:g}"
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}">\n{body}\n</svg>\n'

    def _write(self, x: float, y: float, text: str, anchor: str, colour: str, bold: bool) -> None:
        font = f'font-family="sans-serif" font-size="{FONT_PX}"'
        weight = ' font-weight="bold"' if bold else ""
        placed = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self._parts.append(
            f'<text {placed} {font}{weight} fill="{colour}">{escape(text, quote=False)}</text>'
        )
