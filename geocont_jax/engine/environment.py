"""The process and its devices: what must be set before JAX starts, and what is said about it afterwards."""

import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from geocont_jax.errors import InputError

PACKAGES = (
    "geocont_jax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "scipy",
    "xarray",
    "zarr",
)

THREAD_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NPROC", "XLA_FLAGS")


def available_cores() -> int:
    """Return how many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare_process(num_devices: int | None = None) -> None:
    """Make ready for a sweep on this machine's processors; call before anything touches a JAX device.

    One CPU device per core unless `num_devices` says how many (a core likes one run at a time), one thread each for
    a matrix product where there are several devices (helping each other costs them a sixth of their speed), one BLAS
    thread each (threaded LAPACK on small matrices was seen 21 times slower), and a pool of one thread per core (with
    more, device programs are moved from core to core, away from what is in its cache). What the user has set stays as
    it is. The commands call this themselves; in a notebook call it in the first cell, later it can no longer add
    devices.
    """
    cores = available_cores()
    num_devices = cores if num_devices is None else num_devices
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("NPROC", str(cores))
    if num_devices > 1:
        _set_xla_flag("xla_cpu_multi_thread_eigen", "false")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

    import jax

    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        try:
            jax.config.update("jax_num_cpu_devices", num_devices)
        except RuntimeError:
            return  # the devices are there already; the sweep uses what it finds


def _set_xla_flag(name: str, value: str) -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    if name not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{name}={value}".strip()


def keep_compiled_programs() -> None:
    """Let JAX keep compiled programs on disk, so that the next start is quick; call before JAX is imported.

    What the user has set (JAX_COMPILATION_CACHE_DIR) stays as it is.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "geocont_jax"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))


def keep_freed_memory() -> None:
    """Let glibc keep the memory of large arrays that are freed for the next ones, instead of giving it back.

    Touching new pages took a tenth of the time of an analysis, whose arrays are megabytes that live for milliseconds.
    Does nothing where there is no glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    m_mmap_threshold, m_top_pad, m_trim_threshold = -3, -2, -1  # malloc.h
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(m_mmap_threshold, 2**30)
        mallopt(m_trim_threshold, 2**31 - 1)
        mallopt(m_top_pad, 2**26)


def use_float64() -> None:
    """Let JAX compute in float64 where arrays are; call before anything is compiled."""
    import jax

    jax.config.update("jax_enable_x64", True)


def limit_blas_threads() -> None:
    """Keep BLAS to one thread even where it was loaded before `prepare_process` could say so."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1, user_api="blas")


def require_backend(kind: str) -> None:
    """Refuse to go on where JAX found another kind of device than `kind` ("cpu", "gpu" or "tpu")."""
    import jax

    found = jax.default_backend()
    if found != kind:
        raise InputError(
            f"--require {kind}: JAX found only {found} devices; install jax for {kind} or leave --require out"
        )


def describe_backend() -> str:
    """Return one line that names the backend and its devices."""
    import jax

    devices = jax.devices()
    kind = devices[0].device_kind
    name = _processor_name() if jax.default_backend() == "cpu" else kind
    return f"{jax.default_backend()}, {len(devices)} device{'s' * (len(devices) > 1)} ({name}), jax {jax.__version__}"


def provenance() -> dict[str, Any]:
    """Return what a reader needs to judge a result: versions, machine, threads, commit. An allow-list."""
    import jax

    return {
        "command": " ".join(sys.argv),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor_name(),
        "cores": available_cores(),
        "backend": jax.default_backend(),
        "devices": [device.device_kind for device in jax.devices()],
        "threads": {name: os.environ.get(name) for name in THREAD_SETTINGS},
        "versions": {name: _version(name) for name in PACKAGES},
        "commit": _commit(),
    }


def machine(about: Mapping[str, Any]) -> str:
    """Return the machine that `provenance` tells of, to be read."""
    cores = about.get("cores")
    processor = f"{cores} core{'s' * (cores != 1)} of {about.get('processor')}"
    if about.get("backend") == "cpu":
        return processor
    counts = Counter(about.get("devices", []))
    return ", ".join(f"{count} x {kind}" for kind, count in counts.items()) + f" ({processor})"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the package's git commit, with `+` where its files were changed since; None outside a checkout."""
    source = Path(__file__).parents[2]
    if not (source / ".git").exists():
        return None
    try:
        commit = _git(source, "rev-parse", "HEAD")
        return commit + ("+" if _git(source, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
