"""Sign alignment and the path through the layers, against closed forms."""

import numpy as np
import pytest

from geocont_jax.geometry.trajectory import align_signs, trajectory


def arc(num_layers, dimension, span):
    angles = np.linspace(0.0, span, num_layers)
    flat = np.zeros((num_layers, dimension))
    flat[:, 0], flat[:, 1] = np.cos(angles), np.sin(angles)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(dimension, dimension)))[0]
    return flat @ rotation


def test_signs_follow_the_layer_before_and_change_nothing_else():
    path = arc(12, 7, 3.0)  # turns by 3 radians in all: the last points nearly against the first
    flipped = path * np.where(np.arange(12) % 3 == 1, -1.0, 1.0)[:, None]
    np.testing.assert_allclose(align_signs(flipped), path)


def test_a_layer_without_a_direction_is_passed_over():
    path = arc(6, 5, 1.0)
    path[2] = np.nan
    aligned = align_signs(path * np.array([1, 1, 1, -1, 1, -1])[:, None])
    np.testing.assert_allclose(aligned, path)


def test_an_arc_lies_in_its_plane_and_keeps_its_distances():
    path = arc(9, 6, 1.2)
    found = trajectory(path)
    assert found.share.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        np.linalg.norm(np.diff(found.points, axis=0), axis=1), np.linalg.norm(np.diff(path, axis=0), axis=1)
    )


def test_random_directions_fill_no_plane():
    directions = np.random.default_rng(1).normal(size=(30, 200))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert trajectory(directions).share.sum() < 0.2


@pytest.mark.parametrize("defined", [0, 1])
def test_fewer_than_two_directions_have_no_path(defined):
    directions = np.full((4, 3), np.nan)
    directions[:defined] = [1.0, 0.0, 0.0]
    found = trajectory(directions)
    assert np.isnan(found.points).all()
    assert np.isnan(found.share).all()


def test_equal_directions_are_one_point():
    found = trajectory(np.tile([0.6, 0.8], (5, 1)))
    np.testing.assert_allclose(found.points, 0.0, atol=1e-12)
