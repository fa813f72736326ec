"""One version number: `pyproject.toml` has it, everybody else asks."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app

ROOT = Path(__file__).parents[1]


def in_pyproject() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def test_the_package_and_the_command_say_what_pyproject_says() -> None:
    assert headrace.__version__ == in_pyproject()
    assert CliRunner().invoke(app, ["--version"]).stdout == f"headrace {in_pyproject()}\n"


def test_a_tree_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert headrace.__version__ == headrace.NOT_INSTALLED
    assert CliRunner().invoke(app, ["--version"]).stdout == f"headrace {headrace.NOT_INSTALLED}\n"


def test_the_number_is_written_once() -> None:
    quoted = f'"{in_pyproject()}"'
    assert [p for p in (ROOT / "src").rglob("*.py") if quoted in p.read_text("utf-8")] == []
