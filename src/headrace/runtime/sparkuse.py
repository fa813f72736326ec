"""The Spark in use: made when it is first needed, found dead, made anew.

Spark's Java is a process of its own, which may be killed or run out of memory at any moment.
PySpark does not notice: it keeps the dead gateway, and every later call ends in some network error.
A session of ours is then forgotten and made again; one that was given belongs to whoever gave it,
and is only reported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import TYPE_CHECKING, Any

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.runtime.scratch import Scratch
from headrace.runtime.spark_log import SparkLog, debugging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GONE, NO_START, WORKER_GONE = "SPARK_GONE", "SPARK_START", "WORKER_GONE"
ENDS_S = 1.0  # a process closes its sockets some time before it has ended


def is_cut_off(error: BaseException) -> bool:
    """Whether Java did not answer.  One that dies under a call is told by py4j as an error without
    a cause in Java."""
    from py4j.protocol import Py4JError, Py4JJavaError

    is_calls = isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    return is_calls or isinstance(error, ConnectionError | EOFError)


def is_sparks(error: BaseException | None) -> bool:
    """Whether Spark, Java or what they run was the cause: then they have said more of it."""
    while error is not None:
        if isinstance(error, HeadraceError) and error.code in (GONE, NO_START, WORKER_GONE):
            return True
        if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
            return True
        error = error.__cause__ or error.__context__
    return False


class Gateway:
    """The Java process behind a session, as it was when the session was made: PySpark knows only
    the newest."""

    def __init__(self, session: SparkSession | None = None) -> None:
        from pyspark import SparkContext

        self._context = (
            SparkContext._active_spark_context if session is None else session.sparkContext
        )
        self._gateway: Any = SparkContext._gateway

    @property
    def _process(self) -> Popen[bytes] | None:
        """None where another program started it, which then is the one to look after it."""
        return None if self._gateway is None else self._gateway.__dict__.get("proc")

    def is_alive(self) -> bool:
        """Whether the process runs; costs next to nothing."""
        process = self._process
        return process is None or process.poll() is None

    def has_ended(self, error: BaseException) -> bool:
        """Whether the process is gone, or its Spark was stopped, and that is what the error comes
        of."""
        process, cut_off = self._process, is_cut_off(error)
        if process is None:
            return cut_off or self._is_stopped()
        with suppress(TimeoutExpired):
            process.wait(ENDS_S if cut_off or isinstance(error, OSError | ValueError) else 0)
        return process.poll() is not None or self._is_stopped()

    def _is_stopped(self) -> bool:
        if self._context is None:
            return False
        try:
            java = self._context._jsc
            return java is None or bool(java.sc().isStopped())
        except Exception:  # noqa: BLE001 - whatever Spark says to this question, it does not run
            return True

    def forget(self) -> None:
        """Let PySpark make another process.  Only this one is forgotten: somebody may have made the
        next already."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession, SQLContext

        gateway = self._gateway
        with SparkContext._lock:
            if SparkContext._gateway is not gateway:
                return
            context = SparkContext._active_spark_context
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = SparkSession._activeSession = None
            SQLContext._instantiatedContext = None
        with suppress(Exception):
            if gateway is not None:
                gateway.shutdown_callback_server(raise_exception=False)
        if context is not None:
            context._jsc = None
            with suppress(Exception):
                context._accumulatorServer.shutdown()


class SparkUse:
    """`packages`: what a session of ours has to load, known when it is made; `home`: where its
    temporary files and its log go."""

    def __init__(
        self,
        given: SparkSession | None,
        config: Config,
        packages: Callable[[], Sequence[str]],
        home: Path | None = None,
    ) -> None:
        self._home = home
        self._scratch = None if home is None or given is not None else Scratch(home)
        is_ours = home is not None and given is None
        self.log = SparkLog(home) if is_ours and home is not None and not debugging() else None
        self._given = given
        self._config = config
        self._packages = packages
        self._session: SparkSession | None = None
        self._gateway: Gateway | None = None
        self._making = threading.RLock()
        self._beginning: object | None = None

    @property
    def is_given(self) -> bool:
        return self._given is not None

    @property
    def session(self) -> SparkSession:
        """The session; a dead one of ours is made anew."""
        with self._making:
            if self._session is None or not self.is_alive():
                self.renew()
            assert self._session is not None
            return self._session

    def begin(self, needs_workers: Callable[[], bool]) -> bool:
        """Make a session of ours meanwhile, if there is none, and run a first plan with it: whoever
        asks for the session waits, and is told why it cannot be made.  Whether it is being made."""
        if self._session is not None or self._given is not None:
            return False
        from headrace.runtime import session, warming  # noqa: F401 - not by two threads at once

        if self._beginning is None:
            self._beginning = object()
            asked = (self._beginning, needs_workers)
            # no daemon: a process that ends while Arrow works for one ends by a signal
            threading.Thread(target=self._begin, args=asked, name="headrace-spark").start()
        return True

    def _begin(self, asked: object, needs_workers: Callable[[], bool]) -> None:
        with suppress(Exception):
            from headrace.runtime.warming import warm

            with self._making:
                if asked is not self._beginning:  # closed meanwhile
                    return
                self._beginning = None
                session = self.session
            if threading.main_thread().is_alive():
                warm(session, self._home if needs_workers() else None)

    def is_alive(self) -> bool:
        """False only when there was a Spark, and its process has ended."""
        return self._gateway is None or self._gateway.is_alive()

    def renew(self) -> None:
        """Make a session where there is none that lives."""
        with self._making:
            if self._session is not None and not self.is_alive():
                if self._given is not None:
                    raise self.gone()
                self._forget()
            if self._session is None:
                self._session = self._made()
                self._gateway = Gateway(self._session)

    def _made(self) -> SparkSession:
        from headrace.runtime.quiet import hush
        from headrace.runtime.session import borrow_session, is_here, make_session

        if self.log is not None:
            hush(self.log.path)
        begins = 0 if self.log is None else self.log.size()
        try:
            if self._given is not None:
                return borrow_session(self._given, self._config)
            own = self._scratch if is_here(self._config.master) else None
            scratch = None if own is None else own.make()
            return make_session(self._config, self._packages(), scratch, self.log)
        except HeadraceError:
            raise
        except Exception as error:
            gateway = Gateway()
            if gateway.has_ended(error):
                gateway.forget()
                raise self._not_made(error) from error
            raise HeadraceError(
                "Spark does not start",
                value=(None if self.log is None else self.log.why(begins))
                or f"{type(error).__name__}: {error}",
                code=NO_START,
                hint="`headrace doctor` looks at Java and this machine; HEADRACE_DEBUG=1 shows what Spark says",
            ) from error

    def _not_made(self, error: Exception) -> HeadraceError:
        """Spark stops where no master answers, or when it is killed as it starts."""
        from headrace.runtime.session import is_here

        master = self._config.master
        if self._given is not None or is_here(master):
            return self.gone()
        return HeadraceError(
            "Spark does not start on the cluster",
            value=f"master {master}: {type(error).__name__}",
            code=NO_START,
            hint="see that the master runs, that this is its address as its own page shows it, and that it has the "
            "version of Spark that is installed here; docs/cluster.md",
        )

    def gone(self) -> HeadraceError:
        return spark_gone(self.is_given)

    def explain(self, error: Exception) -> HeadraceError:
        """Whatever came of asking Spark, as one of our errors."""
        if self._gateway is not None and self._gateway.has_ended(error):
            return self.gone()
        return HeadraceError(
            "Spark cannot be asked how the streams are",
            value=f"{type(error).__name__}: {error}",
            code="SPARK",
            hint="stop the engine and start it again: every committed round is safe",
        )

    def close(self) -> None:
        """Let a session of ours go, dead or alive."""
        self._beginning = None
        with self._making:
            session = self._session
            if session is not None and self._given is None and self.is_alive():
                try:
                    session.stop()
                except Exception:  # noqa: BLE001 - it ends while it is stopped: what was to be done is done
                    self._forget()
            elif self._given is None:
                self._forget()
            self._session = self._gateway = None
            if self._scratch is not None:
                self._scratch.remove()
            if self.log is not None:
                self.log.close()

    def _forget(self) -> None:
        if self._gateway is not None:
            self._gateway.forget()
        self._session = self._gateway = None


def spark_gone(is_given: bool = False) -> HeadraceError:
    """Whoever made the session has to make the next."""
    again = (
        "make another session, and open the home with it"
        if is_given
        else ("start again; `restart` in the settings (HEADRACE_RESTART=5) does so by itself")
    )
    return HeadraceError(
        "Spark's Java process has ended, or was stopped",
        code=GONE,
        hint=f"every committed round is safe, the open one is repeated: {again}. If Linux killed it for want of "
        "memory, lower driver_memory or give the machine more",
    )
