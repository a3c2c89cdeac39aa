"""What a process may still take: the system's memory, or less in a container."""

import resource

import numpy as np
import pytest

from geocont_jax.engine.host_memory import UNKNOWN_FREE, free_bytes, peak_resident_bytes, resident_bytes

GIB = 2**30


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def machine(tmp_path):
    write(tmp_path, {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {8 * GIB // 1024} kB\n"})
    return tmp_path


def test_without_a_container_it_is_what_the_system_has(machine):
    write(machine, {"proc/self/cgroup": "0::/user.slice\n", "sys/fs/cgroup/user.slice/memory.max": "max\n"})
    assert free_bytes(machine) == 8 * GIB


@pytest.mark.parametrize("place", ["a/b", "a", "."])
def test_the_fullest_group_around_the_process_counts_less_what_it_can_drop(machine, place):
    group = f"sys/fs/cgroup/{place}"
    write(
        machine,
        {
            "proc/self/cgroup": "0::/a/b\n",
            f"{group}/memory.max": f"{3 * GIB}\n",
            f"{group}/memory.current": f"{2 * GIB}\n",
            f"{group}/memory.stat": f"anon 7\ninactive_file {GIB // 2}\n",
        },
    )
    assert free_bytes(machine) == 1.5 * GIB


def test_the_first_version_of_control_groups_has_other_files(machine):
    group = "sys/fs/cgroup/memory/docker/x"
    write(
        machine,
        {
            "proc/self/cgroup": "7:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n",
            f"{group}/memory.limit_in_bytes": f"{2 * GIB}\n",
            f"{group}/memory.usage_in_bytes": f"{GIB}\n",
            f"{group}/memory.stat": "total_inactive_file 0\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
            "sys/fs/cgroup/memory/memory.stat": "cache 1\n",
        },
    )
    assert free_bytes(machine) == GIB


def test_a_full_group_leaves_nothing(machine):
    group = "sys/fs/cgroup"
    files = {"memory.max": "10", "memory.current": "20", "memory.stat": "inactive_file 3"}
    write(machine, {"proc/self/cgroup": "0::/\n"} | {f"{group}/{name}": text for name, text in files.items()})
    assert free_bytes(machine) == 0


def test_a_system_that_says_nothing_is_taken_for_a_small_one(tmp_path):
    assert free_bytes(tmp_path) == UNKNOWN_FREE


def test_the_process_holds_what_it_touched_and_its_peak_is_what_the_system_counts():
    before = resident_bytes()
    touched = np.ones(2**23)  # 64 MiB
    assert resident_bytes() - before > 0.9 * touched.nbytes
    assert peak_resident_bytes() >= resident_bytes()
    assert abs(peak_resident_bytes() / (1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) - 1) < 0.01
