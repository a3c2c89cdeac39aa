"""Reports a device that stalls instead of sleeping with it.

A deadlock inside a device program shows in one way only: a call does not return and the process uses no
processor time. (On an accelerator the host may rightly sleep, so there only a very long silence counts.)
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType

IDLE_SHARE = 0.01


class Watchdog:
    """Calls `on_stall(seconds)` once when a call is in flight for `patience` seconds without a sign of work.

    Use as a context manager around the work, and `call()` around each device call. With `watch_processor` a
    stall is `patience` seconds with under 1 % of one core used; without, `patience` seconds in one call.
    """

    def __init__(self, on_stall: Callable[[float], None], patience: float, watch_processor: bool) -> None:
        self._on_stall = on_stall
        self._patience = patience
        self._watch_processor = watch_processor
        self._in_call_since: float | None = None
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
        self._in_call_since = time.monotonic()

    def call_ends(self) -> None:
        """The device call has returned."""
        self._in_call_since = None

    def _watch(self) -> None:
        interval = self._patience / 10
        quiet_since, processor = time.monotonic(), time.process_time()
        while not self._over.wait(interval):
            now, used = time.monotonic(), time.process_time()
            began = self._in_call_since
            works = self._watch_processor and used - processor > IDLE_SHARE * interval
            if began is None or works:
                quiet_since = now
            processor = used
            if began is not None and now - max(quiet_since, began) >= self._patience:
                self._on_stall(now - max(quiet_since, began))
                return
