"""What reaches a terminal is ours; what Spark and Java say is in the log of the home."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.starting import DATA, write_trades
from headrace.runtime.spark_log import log_path

CODE = "from headrace.cli import main; main()"
STREAM = """
CREATE STREAM trades (symbol STRING, price DOUBLE, qty INT, side STRING, venue STRING, ts TIMESTAMP)
USING parquet OPTIONS (path 'data/trades', time 'ts', late '2 seconds');
"""
QUERIES = """
CREATE QUERY good AS SELECT symbol, sum(qty) AS n FROM trades GROUP BY symbol, window(ts, '1 minute');
CREATE QUERY bad AS SELECT symbol, 1 / (qty - qty) AS n FROM trades;
"""
OURS = re.compile(
    r"$|starting Spark … |(?:good|bad): |the first round|round \d|\d+ rounds?, |answers: |name  |─|"
    r"good  |bad  |[A-Z_]{4,}: |"
    r"\[[A-Z_]+\] |  (?:got|next|choices|log): |nothing new|no answers|\s*n$|\s*\d+$|first \d+ of"
)
CPU_S_MAX = 2.0  # 0.6 s on an idle machine


def headrace(
    folder: Path, *arguments: str, text: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("HEADRACE_DEBUG", "HEADRACE_HOME")}
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        cwd=folder,
        env={**kept, **environment},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def not_ours(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in (done.stdout + done.stderr).splitlines() if not OURS.match(line)]


def test_a_missing_folder_is_told_before_java_is_started(tmp_path: Path) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    java.chmod(0o755)
    (tmp_path / "q.sql").write_text(STREAM + QUERIES)

    def cpu_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before_s = cpu_s()
    done = headrace(tmp_path, "run", "q.sql", JAVA_HOME=str(tmp_path / "java"))
    assert cpu_s() - before_s < CPU_S_MAX
    assert done.returncode == 1
    assert done.stderr.startswith("[SOURCE_GONE] the source folder of 'trades' is not there")
    assert not (tmp_path / "started").exists()
    (tmp_path / DATA).mkdir(parents=True)
    done = headrace(tmp_path, "run", "q.sql", JAVA_HOME=str(tmp_path / "java"))
    assert done.returncode == 1 and (tmp_path / "started").exists(), "else nothing was tested"


def test_one_query_answers_and_one_fails(tmp_path: Path) -> None:
    write_trades(tmp_path / DATA)
    (tmp_path / "q.sql").write_text(STREAM + QUERIES)
    done = headrace(tmp_path, "run", "q.sql")
    assert done.returncode == 0, done.stderr
    assert not_ours(done) == []
    assert "quarantined" in done.stdout
    log = log_path(tmp_path / "race").read_text()
    assert "incubator" in log, "Java's own"
    assert "SparkArithmeticException" in log and "Executor" in log, "failures inside executors"


@pytest.mark.slow
def test_errors_name_the_log(tmp_path: Path) -> None:
    write_trades(tmp_path / DATA)
    (tmp_path / DATA / "part-999999.parquet").write_bytes(b"PAR1 is not all of it")
    (tmp_path / "q.sql").write_text(STREAM + QUERIES)
    done = headrace(tmp_path, "run", "q.sql")
    assert done.returncode == 1
    assert not_ours(done) == []
    assert f"  log:     {log_path(tmp_path / 'race')}\n" in done.stderr
    assert "part-999999.parquet" in log_path(tmp_path / "race").read_text()


@pytest.mark.slow
def test_java_that_does_not_start_is_told_in_its_words(tmp_path: Path) -> None:
    (tmp_path / DATA).mkdir(parents=True)
    (tmp_path / "q.sql").write_text(STREAM + QUERIES)
    done = headrace(tmp_path, "run", "q.sql", HEADRACE_DRIVER_MEMORY="900000g")
    assert done.returncode == 1
    assert not_ours(done) == []
    assert done.stderr.count("[SPARK_START] ") == 1 and "  log:     " in done.stderr
    assert "heap" in done.stderr.lower()


@pytest.mark.slow
def test_the_prompt_is_quiet_too(tmp_path: Path) -> None:
    write_trades(tmp_path / DATA)
    done = headrace(tmp_path, "sql", text=STREAM + "SELECT count(*) AS n FROM trades;")
    assert done.returncode == 0, done.stderr
    assert not_ours(done) == []
    assert log_path(tmp_path / "race").read_text()


@pytest.mark.slow
def test_debugging_shows_all_of_it(tmp_path: Path) -> None:
    write_trades(tmp_path / DATA)
    (tmp_path / "q.sql").write_text(STREAM + QUERIES)
    done = headrace(tmp_path, "run", "q.sql", HEADRACE_DEBUG="1")
    assert "incubator" in done.stdout + done.stderr
    assert not log_path(tmp_path / "race").exists()
