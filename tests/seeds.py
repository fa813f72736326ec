"""Fresh random draws in every run, and one command that repeats them.

A run draws one seed, unless `HEADRACE_SEED` names it. Each test has its own, made of the run's seed
and the test's node id: a test that runs alone draws what it drew among all the others. Hypothesis
draws from it too.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
from collections.abc import Generator

import hypothesis
import pytest

VARIABLE = "HEADRACE_SEED"
LONG_MARKS = ("slow", "nightly")


def run_seed() -> int:
    """The seed of this run. Processes that tests start inherit it."""
    if not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = str(secrets.randbits(32))
    try:
        return int(os.environ[VARIABLE])
    except ValueError:
        raise pytest.UsageError(
            f"{VARIABLE} is a whole number, not {os.environ[VARIABLE]!r}"
        ) from None


def seed_of(run: int, nodeid: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{run} {nodeid}".encode()).digest()[:4], "big")


def command(item: pytest.Item) -> str:
    """What repeats one test with the draws of this run."""
    target = "test-all" if any(item.get_closest_marker(mark) for mark in LONG_MARKS) else "test"
    test = shlex.quote(item.nodeid).replace("$", "$$")  # make reads it first, then a shell
    args = shlex.quote(test) if set(test) & set('"$`\\!') else f'"{test}"'
    return f"make {target} SEED={run_seed()} ARGS={args}"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """For `random.Random(seed)` and `numpy.random.default_rng(seed)`."""
    return seed_of(run_seed(), request.node.nodeid)


def pytest_report_header() -> str:
    return f"seed: {run_seed()} (repeat with SEED={run_seed()})"


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.verbosity < 0:  # `-q` leaves the header out
        reporter.write_line(pytest_report_header())


def pytest_runtest_setup(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and getattr(item.function, "is_hypothesis_test", False):
        hypothesis.seed(seed_of(run_seed(), item.nodeid))(item.function)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("repeat it with", command(item)))
    return report
