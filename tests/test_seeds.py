"""A run's draws are fresh, and a failing one is repeated by the command it prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RANDOM_TESTS = """
import pytest
from hypothesis import Phase, given, settings, strategies as st

@pytest.mark.parametrize("given", ["it's $HOME", "b"])
def test_draws(seed, given):
    assert seed < 0, f"drew {seed}"

@settings(max_examples=20, phases=[Phase.generate])
@given(number=st.floats(0, 1))
def test_hypothesis_draws(number):
    print(f"took {number}")
    assert number * 1e6 % 1 == 0, "neither 0 nor 1 nor another that every run draws"
"""


def run(folder: Path, *args: str, seed: int | None = None) -> str:
    (folder / "conftest.py").write_text("from tests.conftest import *\nfrom tests.seeds import *\n")
    (folder / "test_random.py").write_text(RANDOM_TESTS)
    env = {name: value for name, value in os.environ.items() if name != "HEADRACE_SEED"}
    env |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"} | (
        {} if seed is None else {"HEADRACE_SEED": str(seed)}
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        *args,
    ]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False
    ).stdout


def draws(output: str) -> set[str]:
    found = re.findall(r"AssertionError: (drew \d+)|^(took \S{9,})", output, re.MULTILINE)
    return {drew or took for drew, took in found}


def printed_seed(output: str) -> int:
    found = re.search(r"^seed: (\d+)", output, re.MULTILINE)
    assert found, output
    return int(found[1])


def commands(output: str) -> dict[str, list[str]]:
    """Of every failing test its own command: what make gives the shell, as the shell gives it to
    pytest."""
    lines = [shlex.split(line) for line in output.splitlines() if line.startswith("make test ")]
    assert {line[2] for line in lines} == {f"SEED={printed_seed(output)}"}
    tests = [shlex.split(line[3].removeprefix("ARGS=").replace("$$", "$")) for line in lines]
    return {test[0].partition("::")[2]: test for test in tests}


def test_every_run_draws_its_own_and_a_failing_test_is_repeated_alone(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert printed_seed(first) != printed_seed(second)
    assert len(draws(first)) >= 3 and not draws(first) & draws(second)
    repeats = commands(first)
    assert set(repeats) == {"test_draws[it's $HOME]", "test_draws[b]", "test_hypothesis_draws"}
    for name in ("test_draws[it's $HOME]", "test_hypothesis_draws"):
        again = draws(run(tmp_path, *repeats[name], seed=printed_seed(first)))
        assert again and again <= draws(first)


def test_a_seed_that_is_no_number_is_told() -> None:
    env = os.environ | {"HEADRACE_SEED": "seven"}
    command = [sys.executable, "-m", "pytest", "-q", "tests/test_seeds.py", "--collect-only"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert "HEADRACE_SEED is a whole number, not 'seven'" in done.stdout + done.stderr
