"""Reports a device that stalls instead of sleeping with it.

A deadlock inside a device program shows in one way only: a call does not return and the process uses no
processor time. (On an accelerator the host may rightly sleep, so there only a very long silence counts.)
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType

IDLE_SHARE = 0.01
CHECKS = 10


class Watchdog:
    """Calls `on_stall(seconds)` once when a call is in flight for `patience` seconds without a sign of work.

    Use as a context manager around the work, with `call_begins` and `call_ends` around each device call. With
    `watch_processor` a stall is `patience` seconds with under 1 % of one core used; without, that long in a call.
    """

    def __init__(self, on_stall: Callable[[float], None], patience: float, watch_processor: bool) -> None:
        self._on_stall = on_stall
        self._patience = patience
        self._watch_processor = watch_processor
        self._in_call = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="geocont-watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def call_begins(self) -> None:
        """A device call is in flight from now on."""
        self._in_call = True

    def call_ends(self) -> None:
        """The device call has returned."""
        self._in_call = False

    def _watch(self) -> None:
        interval = self._patience / CHECKS
        idle, processor = 0, time.process_time()
        while not self._over.wait(interval):
            used = time.process_time()
            works = self._watch_processor and used - processor > IDLE_SHARE * interval
            # Counted in checks, not by the clock: a process that was suspended meanwhile has not stalled.
            idle = 0 if works or not self._in_call else idle + 1
            processor = used
            if idle == CHECKS:
                self._on_stall(self._patience)
                return
