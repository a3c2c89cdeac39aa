"""The drift angle: closed form, small angles that arccos loses, and directions that do not exist."""

import jax.numpy as jnp
import numpy as np
import pytest

from geocont_jax.geometry.continuity import rotation_angle
from geocont_jax.geometry.spectra import decompose


@pytest.mark.parametrize("degrees", [0.0, 0.01, 1.0, 30.0, 45.0, 89.9, 90.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_planted_angle_is_found_whatever_the_sign(degrees, sign):
    turned = np.radians(degrees)
    reference = np.zeros(64)
    reference[3] = 1.0
    direction = sign * (np.cos(turned) * reference + np.sin(turned) * np.eye(64)[5])
    # float32 entries near 1 are rounded by 6e-8, which is 3.4e-6 degrees.
    found = rotation_angle(jnp.asarray(direction, jnp.float32), jnp.asarray(reference, jnp.float32))
    assert float(found) == pytest.approx(degrees, abs=1e-5)


def test_angles_agree_with_float64_numpy():
    rng = np.random.default_rng(0)
    a, b = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in rng.normal(size=(2, 50, 16)))
    expected = np.degrees(np.arccos(np.abs((a * b).sum(-1))))
    np.testing.assert_allclose(rotation_angle(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)), expected,
                               rtol=1e-5)  # fmt: skip


def test_a_rotated_matrix_has_drifted_by_the_angle_of_the_rotation():
    turned = np.radians(20.0)
    rotation = np.eye(8)
    rotation[:2, :2] = [[np.cos(turned), -np.sin(turned)], [np.sin(turned), np.cos(turned)]]
    before = np.diag(np.arange(8.0, 0.0, -1.0))
    old, new = (decompose(jnp.asarray(m[None], jnp.float32)) for m in (before, rotation @ before @ rotation.T))
    assert float(rotation_angle(new.v1, old.v1)[0]) == pytest.approx(20.0, abs=1e-3)
    assert float(rotation_angle(new.u1, old.u1)[0]) == pytest.approx(20.0, abs=1e-3)


def test_no_direction_has_no_angle():
    matrices = jnp.stack([jnp.zeros((8, 8)), jnp.eye(8), jnp.diag(jnp.arange(8.0, 0.0, -1.0))])
    v1 = decompose(matrices).v1
    sound = jnp.broadcast_to(v1[2], v1.shape)
    assert np.isnan(rotation_angle(v1, sound)).tolist() == [True, True, False]
    assert np.isnan(rotation_angle(sound, v1)).tolist() == [True, True, False]
