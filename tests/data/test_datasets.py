"""The bundled digits are MNIST's, npz files are read as they are, and broken ones are refused in one line."""

import hashlib
import re
import subprocess
import sys

import numpy as np
import pytest

from geocont_jax.data import datasets
from geocont_jax.data.datasets import LOADERS, check_name, load_images, pixel_moments
from geocont_jax.errors import InputError


def load_npz(folder, arrays):
    np.savez(folder / "data.npz", **arrays)
    return load_images(f"npz:{folder / 'data.npz'}")


def refusal(name, directory=None):
    with pytest.raises(InputError) as caught:
        load_images(name, directory)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture(scope="module")
def bundled():
    return load_images("mnist10k")


def test_the_bundled_digits_have_the_shapes_they_claim(bundled):
    assert (bundled.x_train.shape, bundled.x_test.shape) == ((9_000, 784), (1_000, 784))
    assert (bundled.x_train.dtype, bundled.y_train.dtype) == (np.uint8, np.int32)
    assert (bundled.num_features, bundled.num_classes, bundled.image_shape) == (784, 10, (28, 28, 1))


def test_the_classes_of_the_bundled_digits_are_mixed(bundled):
    # 10 classes of about a tenth each: a class's count in a batch of 1000 has sd 9.5 and is 86 to 113 on average.
    for part in (*np.split(bundled.y_train, 9), bundled.y_test):
        counts = np.bincount(part, minlength=10)
        assert counts.min() > 86 - 5 * 9.5
        assert counts.max() < 113 + 5 * 9.5


def test_the_bundled_digits_all_differ(bundled):
    digits = [image.tobytes() for part in (bundled.x_train, bundled.x_test) for image in part]
    assert len(set(digits)) == len(digits) == 10_000


def test_every_bundled_digit_is_a_training_image_of_mnist_bit_for_bit(bundled, full_mnist):
    labels = {image.tobytes(): label for image, label in zip(full_mnist["x_train"], full_mnist["y_train"], strict=True)}
    images = np.concatenate([bundled.x_train, bundled.x_test])
    found = [labels.get(image.tobytes()) for image in images]
    assert found == np.concatenate([bundled.y_train, bundled.y_test]).tolist()


def test_origin_names_the_bundled_file():
    sha256 = hashlib.sha256(datasets.BUNDLED.read_bytes()).hexdigest()
    origin = datasets.BUNDLED.with_name("ORIGIN.md").read_text()
    assert sha256 == datasets.BUNDLED_SHA256
    assert sha256 in origin
    assert f"{datasets.BUNDLED.stat().st_size:,} bytes" in origin


@pytest.mark.parametrize("content", [None, b"PK not what it was"])
def test_a_damaged_bundled_file_is_named(monkeypatch, tmp_path, content):
    path = tmp_path / "mnist10k.npz"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(datasets, "BUNDLED", path)
    assert refusal("mnist10k") == f"{path}: missing or damaged; install geocont_jax again"


def test_full_mnist_has_its_known_mean_and_deviation(full_mnist, tmp_path):
    data = load_npz(tmp_path, full_mnist)
    assert (round(data.mean, 4), round(data.std, 4)) == (0.1307, 0.3081)
    # Exact sums against float64 ones, whose relative error stays below n eps of pairwise summation by far.
    exact = full_mnist["x_train"].astype(np.float64) / 255
    assert data.mean == pytest.approx(exact.mean(), rel=1e-12)
    assert data.std == pytest.approx(exact.std(), rel=1e-12)


def test_moments_of_constant_pixels_are_exact():
    # 0.1 is no float32 or float64 number: a rounded mean would leave a deviation of 1e-17, which divides.
    for pixels in (np.full((7, 3), 51, np.uint8), np.full((7, 3), 0.1, np.float32)):
        assert pixel_moments(pixels)[1] == 0


def test_an_npz_file_is_read_as_it_is(small_arrays, tmp_path):
    data = load_npz(tmp_path, small_arrays)
    np.testing.assert_array_equal(data.x_train, small_arrays["x_train"].reshape(6, 6))
    np.testing.assert_array_equal(data.y_test, small_arrays["y_test"])
    assert (data.num_classes, data.num_features, data.image_shape) == (3, 6, (2, 3, 1))
    assert data.mean == pytest.approx(small_arrays["x_train"].mean() / 255)
    assert data.std == pytest.approx(small_arrays["x_train"].std() / 255)


@pytest.mark.parametrize(("shape", "image_shape"), [((6,), (6,)), ((2, 3), (2, 3, 1)), ((2, 1, 3), (2, 1, 3))])
def test_image_shape_has_a_channel_unless_stored_flat(small_arrays, tmp_path, shape, image_shape):
    for part in ("x_train", "x_test"):
        small_arrays[part] = small_arrays[part].reshape(-1, *shape)
    assert load_npz(tmp_path, small_arrays).image_shape == image_shape


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_pixels_are_kept_as_float32(small_arrays, tmp_path, dtype):
    for part in ("x_train", "x_test"):
        small_arrays[part] = (small_arrays[part] / 100 - 1).astype(dtype)
    data = load_npz(tmp_path, small_arrays)
    assert data.x_train.dtype == np.float32
    assert data.mean == pytest.approx(data.x_train.astype(np.float64).mean())


def test_a_home_folder_is_understood(small_arrays, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    np.savez(tmp_path / "mine.npz", **small_arrays)
    assert load_images("npz:~/mine.npz").num_features == 6


def without(part):
    return lambda arrays: arrays.pop(part)


def put(part, change):
    return lambda arrays: arrays.update({part: change(arrays[part])})


def both(change):
    return lambda arrays: arrays.update({part: change(arrays[part]) for part in ("x_train", "x_test")})


BROKEN_ARRAYS = {
    "missing": (without("y_test"), "no array y_test in it"),
    "scalar pixels": (put("x_train", lambda x: x[:, 0, 0]), r"x_train has shape \(6,\)"),
    "two-dimensional labels": (put("y_train", lambda y: y[:, None]), r"y_train has shape \(6, 1\)"),
    "lengths": (put("y_train", lambda y: y[:-1]), "x_train has 6 examples and y_train 5"),
    "float labels": (put("y_test", lambda y: y + 0.5), "y_test .* type float64; .* integers"),
    "negative labels": (put("y_test", lambda y: y - 1), "y_test has labels from -1"),
    "huge labels": (put("y_test", lambda y: y + 2**62), "y_test has labels from 4611686018427387904"),
    "nan": (both(lambda x: np.where(x == x.max(), np.nan, x)), "x_train has entries that are not finite"),
    "too large": (both(lambda x: x * 1e300), "x_train has entries that are not finite"),
    "objects": (put("y_train", lambda y: y.astype(object)), "holds Python objects"),
    "text pixels": (both(lambda x: x.astype(str)), "x_train is of type <U3"),
    "int pixels": (both(lambda x: x.astype(np.int64)), "x_train is of type int64"),
    "no examples": (put("x_test", lambda x: x[:0]), r"x_test has shape \(0, 2, 3\)"),
    "no pixels": (both(lambda x: x[:, :0]), r"x_train has shape \(6, 0, 3\)"),
    "test features": (put("x_test", lambda x: x[:, :1]), "x_train has 6 uint8 features and x_test 3"),
    "test type": (put("x_test", lambda x: x / 255), "6 uint8 features and x_test 6 float32"),
    "constant": (put("x_train", lambda x: x * 0 + 77), "all pixels of x_train are the same"),
    "constant floats": (both(lambda x: x * 0 + 0.1), "all pixels of x_train are the same"),
}


@pytest.mark.parametrize("case", BROKEN_ARRAYS)
def test_broken_arrays_are_refused_by_name(case, small_arrays, tmp_path):
    damage, message = BROKEN_ARRAYS[case]
    damage(small_arrays)
    np.savez(tmp_path / "data.npz", **small_arrays)
    assert re.match(rf"{re.escape(str(tmp_path / 'data.npz'))}: .*{message}", refusal(f"npz:{tmp_path / 'data.npz'}"))


BROKEN_FILES = {
    "empty": (lambda good: b"", "the file is empty"),
    "web page": (lambda good: b"\n<!DOCTYPE html><html>404</html>", "this is a web page"),
    "git-lfs pointer": (lambda good: b"version https://git-lfs.github.com/spec/v1\noid", "git-lfs pointer"),
    "cut short": (lambda good: good[: len(good) // 2], "damaged or cut short"),
    "cut at the end": (lambda good: good[:-5], "damaged or cut short"),
    "bits turned over": (
        lambda good: good[:200] + bytes(255 - b for b in good[200:240]) + good[240:],
        "damaged or cut",
    ),
    "pickle": (lambda good: b"\x80\x04]\x94.", "this is not an npz file"),
    "text": (lambda good: b"0,0,0,1\n", "this is not an npz file"),
    "npy": (lambda good: b"\x93NUMPY" + good[200:], "this is not an npz file"),
}


@pytest.mark.parametrize("case", BROKEN_FILES)
def test_broken_files_are_refused_for_what_they_are(case, small_arrays, tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, **{part: np.repeat(array, 50, axis=0) for part, array in small_arrays.items()})
    damage, message = BROKEN_FILES[case]
    path.write_bytes(damage(path.read_bytes()))
    assert re.match(rf"{re.escape(str(path))}: .*{message}.*x_train, y_train", refusal(f"npz:{path}"))


def test_a_missing_file_is_named_with_the_way_on(tmp_path):
    message = refusal(f"npz:{tmp_path / 'nowhere.npz'}")
    assert message.startswith(f"{tmp_path / 'nowhere.npz'}: no such file")
    assert "mnist10k" in message


def test_names_are_checked_with_a_suggestion():
    assert [check_name(name) for name in (*LOADERS, "npz:a.npz")] == [*LOADERS, "npz:a.npz"]
    with pytest.raises(InputError, match="'mnist10' is not a data set; did you mean mnist10k"):
        check_name("mnist10")
    with pytest.raises(InputError, match=r"'zzz' is not a data set; known: mnist10k, mnist, .*npz:PATH"):
        check_name("zzz")
    assert "known: " in refusal("npz:")


def test_importing_and_reading_the_bundled_digits_is_light_and_silent():
    code = (
        "import sys, geocont_jax.data.datasets as d; d.load_images('mnist10k');"
        "print([m for m in ('jax', 'tensorflow', 'tensorflow_datasets', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
