"""What `headrace` exports: all of it is there, explained, and in docs/api.md."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import headrace

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


def test_the_page_has_every_exported_name() -> None:
    shown = re.findall(r"^::: headrace\.(\w+)$", PAGE.read_text("utf-8"), re.M)
    assert sorted(shown) == sorted(headrace.__all__)


@pytest.mark.parametrize("name", headrace.__all__)
def test_every_exported_name_is_explained(name: str) -> None:
    exported = getattr(headrace, name)
    assert exported.__doc__ and not exported.__doc__.startswith(f"{name}(")  # dataclasses' own
    methods = inspect.getmembers(exported, inspect.isfunction)
    assert [
        called
        for called, method in methods
        if not called.startswith("_") and called != "render"
        if method.__module__.startswith("headrace") and not method.__doc__
    ] == []
