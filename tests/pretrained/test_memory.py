"""A model whose files are larger than the memory it may use."""

import subprocess
import sys

import pytest

from tests.pretrained.checkpoint_files import write_safetensors
from tests.pretrained.models import llama_config, llama_tensors

# 80 layers of width 192: 177 MB on disk in four shards, 0.6 MB the largest matrix.
LAYERS, HIDDEN, FFN = 80, 192, 768
MEGABYTE = 2**20

LIMITED = """
import resource, sys
from geocont_jax import analyze
from geocont_jax.engine.environment import prepare_process
prepare_process()

def data():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData"))

# Everything is imported, compiled and drawn once, on a model of two layers; what grows from here on is the model.
small, large, out, allowed = sys.argv[1:]
options = ["--quiet", "--window", "2", "--projections", "q,gate,down", "--out", out]
assert analyze.main([small, "--name", "small", *options]) == 0
limit = data() + int(allowed)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
print(analyze.main([large, "--name", "large", *options]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_DATA")
def test_files_larger_than_the_memory_allowed_are_measured(tmp_path):
    for name, layers, shards in (("small", 2, 1), ("large", LAYERS, 4)):
        tensors = llama_tensors(layers, HIDDEN, FFN)
        write_safetensors(tmp_path / name, tensors, shards=shards, config=llama_config(layers, HIDDEN, FFN))
    size = sum(path.stat().st_size for path in (tmp_path / "large").glob("*.safetensors"))
    allowed = 80 * MEGABYTE
    assert size > 2 * allowed
    arguments = [str(tmp_path / name) for name in ("small", "large", "out")]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments, str(allowed)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "0", done.stderr[-2000:]
