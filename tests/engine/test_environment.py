"""What is set before JAX starts: devices and threads, with what the user has set left as it is."""

import os
import subprocess
import sys

import pytest

from geocont_jax.engine.environment import available_cores

SCRIPT = """
import os, sys
from geocont_jax.engine.environment import prepare_process
prepare_process(*map(int, sys.argv[1:]))
import jax
print(jax.device_count(), os.environ["NPROC"], os.environ.get("XLA_FLAGS", "none"))
"""


def prepared(*arguments, **environment):
    base = {name: value for name, value in os.environ.items() if name not in {"NPROC", "XLA_FLAGS"}}
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    done = subprocess.run(command, env=base | environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_several_devices_do_not_help_each_other():
    assert prepared(3) == ["3", str(available_cores()), "--xla_cpu_multi_thread_eigen=false"]


def test_a_single_device_has_all_cores():
    assert prepared(1) == ["1", str(available_cores()), "none"]


@pytest.mark.parametrize("flags", ["--xla_cpu_multi_thread_eigen=true", "--xla_cpu_enable_fast_math=false"])
def test_what_the_user_has_set_stays(flags):
    found = prepared(2, NPROC="7", XLA_FLAGS=flags)
    added = [] if "eigen" in flags else ["--xla_cpu_multi_thread_eigen=false"]
    assert found == ["2", "7", flags, *added]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_freed_memory_is_kept():
    """Of two hundred arrays of 40 MB, made and thrown away in turn, only the first touches new pages."""
    code = (
        "import resource, sys, numpy as np\n"
        "from geocont_jax.engine.environment import keep_freed_memory\n"
        "sys.argv[1] == 'kept' and keep_freed_memory()\n"
        "for _ in range(200): np.ones(5_000_000)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"
    )
    faults = [
        int(subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True, check=True).stdout)
        for how in ("kept", "given back")
    ]
    assert faults[0] < faults[1] / 2
