"""What made a task fail, the root cause first; and what to set where a machine is the cause."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError, HomeError
from headrace.runtime.causes import explain_worker, lost_executor, python_cause
from headrace.runtime.faults import explain_failure, is_nobodys, reason_of, told_by_worker
from tests.runtime.scenario import relation_of

RELATION = relation_of(Path("/src"))
WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/pyspark/worker_util.py", line 75, in read_command
    command = serializer.loads(file)
              ^^^^^^^^^^^^^^^^^^^^^^
  File "/x/pyspark/serializers.py", line 483, in loads
    return cloudpickle.loads(obj, encoding=encoding)
{raised}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/worker.py", line 3, in main
    raise RuntimeError
RuntimeError: the second
 SQLSTATE: 39000"""
NO_PROGRAM = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most "
    "recent failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): java.io.IOException: Cannot run "
    'program "/opt/py/bin/python": Exec failed, error: 2 (No such file or directory)\n\tat java.base/java.lang'
)
VERSIONS = (
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot "
    "run with different minor versions."
)


def test_the_error_that_came_first_is_the_reason() -> None:
    text = WORKER.format(raised="pkg.errors.OddError: what came first")
    assert python_cause(text) == ("OddError", "what came first")
    assert reason_of(PySparkException(text)) == "OddError: what came first"
    assert reason_of(PySparkException(WORKER.format(raised="KeyError"))) == "KeyError: "


def test_where_no_worker_speaks_java_does() -> None:
    assert python_cause("java.io.IOException: gone\n\tat a.b") is None


@pytest.mark.parametrize(
    ("text", "what", "value"),
    [
        (
            WORKER.format(raised="ModuleNotFoundError: No module named 'pyarrow'"),
            "lacks a package",
            "pyarrow",
        ),
        (
            WORKER.format(
                raised="pyspark.errors.PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be "
                "installed; however, it was not found."
            ),
            "lacks a package",
            "PyArrow >= 18.0.0",
        ),
        (NO_PROGRAM, "do not find the Python", "/opt/py/bin/python"),
        (
            WORKER.format(raised=f"pyspark.errors.PySparkRuntimeError: {VERSIONS}"),
            "run Python 3.9, this process runs 3.11",
            "the same minor version",
        ),
    ],
)
def test_a_machine_that_cannot_run_it_is_told(text: str, what: str, value: str) -> None:
    error = PySparkException(text)
    told = explain_failure(error, RELATION, 3)
    assert told.code == "WORKER_PYTHON"
    assert what in told.what and value in str(told.value)
    assert "PYSPARK_PYTHON" in told.hint
    assert "An exception was thrown" not in str(told)
    assert is_nobodys(error), "no query is to blame"


def test_an_executor_that_ended_is_told_with_its_reason() -> None:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in "
        "stage 3.0 (TID 9) (10.0.0.7 executor 4): ExecutorLostFailure (executor 4 exited caused by one of the running "
        "tasks) Reason: Command exited with code 137\nDriver stacktrace:"
    )
    told = explain_failure(PySparkException(text), RELATION, 3)
    assert told.code == "WORKER_GONE"
    assert told.value == "executor 4: Command exited with code 137"
    assert lost_executor("executor 4 exited") is None


def test_another_spark_is_told() -> None:
    text = (
        "java.io.InvalidClassException: org.apache.spark.scheduler.Task; local class incompatible"
    )
    told = explain_worker(RuntimeError(text))
    assert told is not None and told.code == "WORKER_SPARK"


def test_a_value_that_looks_like_it_is_a_value() -> None:
    error = PySparkException(
        "[CAST_INVALID_INPUT] The value 'x\nIOException: Cannot run program \"y\"' cannot be cast. SQLSTATE: 22018"
    )
    assert not is_nobodys(error)


def test_a_home_that_is_not_seen_comes_back_as_it_was_told() -> None:
    text = WORKER.format(
        raised="headrace.runtime.on_executor.HomeUnseenError: [HOME_UNSEEN] an executor does not see the home of the "
        "driver\n  got:     /race on m7\n  next:    mount it"
    )
    told = told_by_worker(PySparkException(text))
    assert isinstance(told, HomeError)
    assert (told.code, told.value, told.hint) == ("HOME_UNSEEN", "/race on m7", "mount it")


@pytest.mark.parametrize("unit", ["Traceback (most recent call last):\n", "a.b.", "A" * 50 + "."])
def test_long_texts_take_no_time(unit: str) -> None:
    start_s = perf_counter()
    explain_worker(HeadraceError(unit * 20_000))
    reason_of(PySparkException(unit * 20_000))
    assert perf_counter() - start_s < 5
