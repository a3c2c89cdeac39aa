"""What a command says while it runs: a bar in terminals and notebooks, plain lines elsewhere, all on stderr."""

import sys
import time

from tqdm.auto import tqdm

LINE_SECONDS = 10.0


class Reporter:
    """Says what happens and how far the work is; `quiet` keeps only warnings."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bar: tqdm | None = None
        self._total = self._done = 0
        self._unit = ""
        self._began = self._said = time.monotonic()

    def say(self, line: str) -> None:
        """Say one line now."""
        if not self._quiet:
            self._write(line)

    def warn(self, line: str) -> None:
        """Say one line, also when quiet."""
        self._write(f"warning: {line}")

    def start(self, total: int, unit: str) -> None:
        """Begin to count up to `total` of what `unit` names, in the plural."""
        self._total, self._done, self._unit = total, 0, unit
        if not self._quiet and _has_bar():
            self._bar = tqdm(total=total, unit=unit, unit_scale=True, dynamic_ncols=True, file=sys.stderr)

    def advance(self, number: int) -> None:
        """Count what is done; the clock starts with the first call of this."""
        if not self._done:
            self._began = self._said = time.monotonic()
        self._done += number
        if self._bar is not None:
            self._bar.update(number)
        elif time.monotonic() - self._said >= LINE_SECONDS and self._done < self._total:
            self._said = time.monotonic()
            self.say(self._progress_line())

    def stop(self) -> None:
        """End the count."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _progress_line(self) -> str:
        elapsed = time.monotonic() - self._began
        rate = self._done / elapsed if elapsed > 0 else 0.0
        digits = 0 if rate >= 10 else 1
        left = duration((self._total - self._done) / rate) if rate else "unknown"
        share = 100 * self._done // max(self._total, 1)
        return f"{share:3d} %  {self._done:,} of {self._total:,} {self._unit}, {rate:.{digits}f}/s, {left} left"

    def _write(self, line: str) -> None:
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Return a rough length of time for people.

    >>> duration(42.3), duration(200), duration(9000)
    ('42 s', '3 min 20 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _has_bar() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
