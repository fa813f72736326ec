"""Pictures of the docs: `make figures` draws them, and their text stays where it belongs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.bench import joins_picture, plain_picture, windows_picture
from headrace.bench.drawing import FONT_PX, Drawing, text_px

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = {
    "panes": windows_picture.picture,
    "plain": plain_picture.picture,
    "stabbing": joins_picture.picture,
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_the_one_in_the_docs(name: str) -> None:
    picture: Callable[[], str] = PICTURES[name]
    assert (DOCS / f"{name}.svg").read_text(encoding="utf-8") == picture(), "run: make figures"


def test_text_that_leaves_its_box_is_refused() -> None:
    drawing = Drawing(200)
    drawing.box((0, 0), (100, 40), ["short", "too"], "#000000")
    for size, lines in (((40, 40), ["not so short"]), ((100, 20), ["two", "lines"])):
        with pytest.raises(ValueError, match="its box"):
            drawing.box((0, 0), size, lines, "#000000")
    with pytest.raises(ValueError, match="the picture"):
        drawing.text(150, 20, "beyond the edge")


def test_what_is_no_svg_is_written_as_text() -> None:
    drawing = Drawing(200)
    drawing.text(0, 20, "a < b & c")
    assert "a &lt; b &amp; c" in drawing.svg(40)


def test_a_window_of_the_picture_is_the_rows_between_its_ends() -> None:
    """Both pieces of every window are there, and the windows end where Spark has them end."""
    windows = windows_picture.windows()
    grain_us = math.gcd(*(window.grain_us for window in windows))
    assert len(windows) == 3
    for window in windows:
        assert (windows_picture.NEWEST + 1) * grain_us % window.slide_us == window.offset_us
        assert window.range_us <= (windows_picture.NEWEST + 1 - windows_picture.FIRST) * grain_us
    assert text_px("MM") > FONT_PX
