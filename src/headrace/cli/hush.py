"""Starting Spark without its greetings.

The Java machine writes warnings to the standard error it inherits, which would tear a live display.
While it starts, ours is a scratch file, which it keeps; ours is then put back.  If the start fails,
the end of the scratch file is shown, for that is where Java says why.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TextIO

STDERR = 2
LINES_SHOWN = 12


@contextmanager
def hushed() -> Iterator[TextIO]:
    """Programs started meanwhile do not speak.  Yields the real standard error, for progress."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    with tempfile.TemporaryFile() as scratch, os.fdopen(os.dup(STDERR), "w", buffering=1) as real:
        os.dup2(scratch.fileno(), STDERR)
        try:
            yield real
        except Exception:
            real.write(_end_of(scratch))
            raise
        finally:
            os.dup2(kept, STDERR)
            os.close(kept)


def _end_of(scratch: IO[bytes]) -> str:
    scratch.seek(0)
    lines = scratch.read().decode(errors="replace").splitlines()
    return "".join(line + "\n" for line in lines[-LINES_SHOWN:])
