"""A real standalone cluster on this machine: a master and its workers, a process each, which this
process starts and ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pyspark

from tests.jvm import SMALL_JVM

SPARK_HOME = Path(pyspark.__file__).parent
START_S_MAX = 120.0
POLL_S = 0.1
CONF = {
    "spark.executor.memory": "900m",
    "spark.executor.extraJavaOptions": SMALL_JVM,
    "spark.ui.enabled": "false",
}
"""For whoever runs on it; each worker has a core and 1 GB."""


@dataclass
class Cluster:
    """`hidden`: by worker, a folder in whose place it sees another one, empty."""

    folder: Path
    url: str
    hidden: Mapping[int, Path]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self) -> None:
        number = len(self.workers)
        own = self.folder / f"worker{number}"
        before = _hiding(self.hidden[number]) if number in self.hidden else []
        arguments = ["worker.Worker", "-c", "1", "-m", "1g", "-d", str(own), self.url]
        self.workers.append(_start(self.folder, f"worker{number}", before, arguments))

    def kill_worker(self, number: int) -> None:
        """It and its executors, at once."""
        _kill(self.workers[number])


@contextmanager
def standalone(
    folder: Path, workers: int = 2, hidden: Mapping[int, Path] = MappingProxyType({})
) -> Iterator[Cluster]:
    """A master and so many workers."""
    folder.mkdir(parents=True, exist_ok=True)
    master = _start(folder, "master", [], ["master.Master", "--port", "0"])
    made = Cluster(folder, "", hidden)
    try:
        made.url = _said(folder / "master.log", master, r"Starting Spark master at (spark://\S+)")
        for _ in range(workers):
            made.add_worker()
        for number, worker in enumerate(made.workers):
            _said(folder / f"worker{number}.log", worker, r"(Successfully registered with master)")
        yield made
    finally:
        for process in (*made.workers, master):
            _kill(process)


def can_hide() -> bool:
    """Whether a process may have mounts of its own."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    tried = subprocess.run(
        [unshare, "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, check=False
    )
    return tried.returncode == 0


def _hiding(folder: Path) -> list[str]:
    mount = f'mount -t tmpfs -o mode=700 none "{folder}" && exec "$@"'
    return ["unshare", "-m", "sh", "-c", mount, "sh"]


def _start(
    folder: Path, name: str, before: Sequence[str], arguments: Sequence[str]
) -> subprocess.Popen[bytes]:
    what, *rest = arguments
    environment = {
        **{
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))
        },
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "200m",
        "SPARK_DAEMON_JAVA_OPTS": f"{SMALL_JVM} -Dspark.master.rest.enabled=false",
        "SPARK_NO_DAEMONIZE": "1",
    }
    own = ["--host", "127.0.0.1", "--webui-port", "0"]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [
                *before,
                str(SPARK_HOME / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{what}",
                *own,
                *rest,
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,  # executors are of the same group: they end with it
        )


def _said(log: Path, process: subprocess.Popen[bytes], pattern: str) -> str:
    start_s = time.monotonic()
    while time.monotonic() - start_s < START_S_MAX:
        text = log.read_text(errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        assert process.poll() is None, f"{log.name}: {text[-2000:]}"
        time.sleep(POLL_S)
    raise AssertionError(f"{log.name} never said {pattern!r}: {log.read_text()[-2000:]}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment(master: str, conf: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Of a process whose engines run there."""
    return {
        **os.environ,
        "HEADRACE_MASTER": master,
        "HEADRACE_DRIVER_MEMORY": "1g",
        "HEADRACE_SPARK_CONF": "\n".join(f"{k}={v}" for k, v in {**CONF, **conf}.items()) + "\n",
        "PYSPARK_PYTHON": sys.executable,
    }
