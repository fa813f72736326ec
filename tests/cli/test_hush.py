"""Programs started while hushed stay silent; if the start fails, their last words are shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.hush import hushed

SPEAK = "import sys; sys.stderr.write('greetings\\n')"


def test_children_are_silent_and_progress_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    with hushed() as stderr:
        subprocess.run([sys.executable, "-c", SPEAK], check=True)
        stderr.write("progress\n")
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "progress\nafterwards\n"


def test_a_failure_shows_what_was_said(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), hushed():
        subprocess.run([sys.executable, "-c", SPEAK], check=True)
        raise RuntimeError("no start")
    assert capfd.readouterr().err == "greetings\n"


def _open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_no_descriptor_is_leaked() -> None:
    before = _open_descriptors()
    for _ in range(5):
        with hushed():
            pass
    assert _open_descriptors() == before
