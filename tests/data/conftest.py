"""What the tests of this room share: real data that lie beside the checkout, and small npz files."""

from pathlib import Path

import numpy as np
import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data():
    if not SHARED.is_dir():
        pytest.skip("the shared data are not on this machine")
    return SHARED


@pytest.fixture(scope="session")
def full_mnist(shared_data):
    with np.load(shared_data / "mnist.npz") as arrays:
        return dict(arrays)


@pytest.fixture
def small_arrays():
    """Six training and four test images of 2 by 3 pixels, of three classes."""
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (6, 2, 3), dtype=np.uint8),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": rng.integers(0, 256, (4, 2, 3), dtype=np.uint8),
        "y_test": np.array([2, 1, 0, 0]),
    }
