"""The `headrace` command as a child of a chaos run: `python driver.py DUMP COMMAND…`.

SIGUSR1 writes the stacks of all threads into the file DUMP: where it stands when it hangs.  Its
time of day is moved by what libfaketime's file says, as the JVM's is.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from headrace.cli import main


def move_clock(file: Path, real: Callable[[], float] = time.time) -> None:
    time.time = lambda: real() + int(file.read_text())


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a") as dump:
        faulthandler.register(signal.SIGUSR1, file=dump, all_threads=True)
        if "FAKETIME_TIMESTAMP_FILE" in os.environ:
            move_clock(Path(os.environ["FAKETIME_TIMESTAMP_FILE"]))
        sys.argv = ["headrace", *sys.argv[2:]]
        main()
