"""How the code is laid out: what a reader has to hold in mind at once has a limit."""

from __future__ import annotations

from pathlib import Path

import headrace

SOURCES = Path(headrace.__file__).parent
LINES_MAX = 400


def test_no_module_is_past_400_lines() -> None:
    long = {
        path.relative_to(SOURCES).as_posix(): lines
        for path in SOURCES.rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert not long, "split them by idea"
