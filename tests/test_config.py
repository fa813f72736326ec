"""Settings: each is told in the docs."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from headrace.config import Config

TABLE = [
    line
    for line in (Path(__file__).parents[1] / "docs/rounds.md").read_text().splitlines()
    if line[:1] == "|"
]


@pytest.mark.parametrize("name", [field.name for field in fields(Config)])
def test_every_setting_is_in_the_table(name: str) -> None:
    assert any(f"`{name}`" in line.split("|")[1] for line in TABLE)


def test_the_table_has_no_other() -> None:
    told = {word.strip("` ") for line in TABLE[2:] for word in line.split("|")[1].split(",")}
    assert told == {field.name for field in fields(Config)}
