"""What made a task fail, out of what Spark says of it: the root, and where it has to do with the
machines, in our words.

Spark quotes the traceback of a Python worker inside the stack of the Java that waited for it; the
error that came first stands first in the one, and last in the other.
"""

from __future__ import annotations

import re

from headrace.errors import HeadraceError

PYTHON_HINT = (
    "set PYSPARK_PYTHON (or --conf spark.pyspark.python=…) to a Python that every machine has at that path, of this "
    "version, with numpy, pyarrow, pandas and numba; Headrace itself is sent along; docs/cluster.md"
)
SPARK_HINT = (
    "install the pyspark here that the cluster runs (pip install 'pyspark==…'), or Headrace's on it"
)
_TRACEBACK = re.compile(r"^[ \t]*Traceback \(most recent call last\):[ \t]*\n", re.M)
# its last line: neither a place in a file nor the text of a line, both of which are indented
_RAISED = re.compile(r"^((?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z_]\w{0,80})(?:: ([^\n]*))?$", re.M)
_NO_PROGRAM = re.compile(r"IOException: Cannot run program \"([^\"\n]{1,200})\"")
_NO_MODULE = re.compile(r"No module named '([\w.]{1,100})'")
_NO_PACKAGE = re.compile(
    r"\[(?:PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION)\] ([^\n]{1,300})"
)
_VERSIONS = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]{0,80}? version: ([\d.]+)[^\n]{0,80}? driver: (\d+\.\d+)"
)
_OTHER_SPARK = re.compile(r"InvalidClassException: (org\.apache\.spark\.[\w.$]+)")
_LOST = re.compile(
    r"ExecutorLostFailure \(executor (\S+) exited[^)]{0,120}\)(?: Reason: ([^\n]{1,300}))?"
)


def python_cause(text: str) -> tuple[str, str] | None:
    """Class and message of the error that a Python worker met first; None if none is told."""
    found = _TRACEBACK.search(text)
    if found is None:
        return None
    raised = _RAISED.search(text, found.end())
    if raised is None:
        return None
    return raised[1].rpartition(".")[2], (raised[2] or "").strip()


def explain_worker(error: BaseException) -> HeadraceError | None:
    """A machine of the cluster that cannot run what it is given, and what to set; None where it is
    something else."""
    text = str(error)
    program, versions, other = (p.search(text) for p in (_NO_PROGRAM, _VERSIONS, _OTHER_SPARK))
    cause = python_cause(text)
    module = None if cause is None else _NO_MODULE.search(f"{cause[0]}: {cause[1]}")
    package = _NO_PACKAGE.search(text)
    if program is not None:
        return _python("the executors do not find the Python they are to run", program[1])
    if versions is not None:
        return _python(
            f"executors run Python {versions[1]}, this process runs {versions[2]}",
            "Spark runs a task only where both are the same minor version",
        )
    if module is not None:
        return _python("Python on the executors lacks a package", module[1])
    if package is not None:
        return _python("Python on the executors lacks a package, or has an old one", package[1])
    if other is not None:
        return HeadraceError(
            "the executors run another version of Spark",
            value=other[1],
            code="WORKER_SPARK",
            hint=SPARK_HINT,
        )
    return None


def lost_executor(text: str) -> str | None:
    """Which executor ended under a task, and why."""
    found = _LOST.search(text)
    if found is None:
        return None
    return f"executor {found[1]}: {(found[2] or 'it does not say why').strip()}"


def _python(what: str, value: str) -> HeadraceError:
    return HeadraceError(what, value=value, code="WORKER_PYTHON", hint=PYTHON_HINT)
