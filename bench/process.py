"""Fresh processes: what must be set before an import (threads, devices, a core) is set for one measurement alone."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
# What this process was given or has set for itself is not what a user's process starts with.
OWN = ("NPROC", "XLA_FLAGS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Failed(Exception):
    """A measurement's process ended with an error; the text is the last line that it wrote."""


def fresh(module: str, request: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Any:
    """Return the answer of `python -m module` to a request; raises Failed."""
    return together(module, [request], environment)[0]


def together(
    module: str, requests: Sequence[Mapping[str, Any]], environment: Mapping[str, str] | None = None
) -> list[Any]:
    """Return the answers of a process per request, which begin to be timed when all are ready; raises Failed."""
    kept = {name: value for name, value in os.environ.items() if name not in OWN} | dict(environment or {})
    with tempfile.TemporaryFile("w+") as errors:
        processes = [_start(module, request, kept, errors) for request in requests]
        try:
            for process in processes:
                _line(process, errors)
            for process in processes:
                _stream(process.stdin).write("go\n")
                _stream(process.stdin).flush()
            return [json.loads(_line(process, errors)) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def request() -> dict[str, Any]:
    """Return what this process was asked for."""
    return json.loads(sys.argv[1])


def when_all_are_ready() -> None:
    """Wait until every process of the measurement is ready to be timed."""
    print("ready", flush=True)
    sys.stdin.readline()


def answer(result: Any) -> None:
    """Hand the result to the process that asked."""
    print(json.dumps(result), flush=True)


def _start(module: str, asked: Mapping[str, Any], environment: Mapping[str, str], errors: IO[str]) -> subprocess.Popen:
    command = [sys.executable, "-m", module, json.dumps(asked)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
    )


def _line(process: subprocess.Popen, errors: IO[str]) -> str:
    line = _stream(process.stdout).readline()
    if line:
        return line
    process.wait()
    errors.seek(0)
    said = errors.read().strip().splitlines() or ["no word"]
    raise Failed(f"{said[-1][:200]} (exit status {process.returncode})")


def _stream(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise Failed("the process has no pipe")
    return stream
