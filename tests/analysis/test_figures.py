"""Figures: what is drawn is what was recorded, and it can be read."""

import doctest
import io
import itertools
import math
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from PIL import Image

from geocont_jax.analysis import figures, figures_style
from geocont_jax.analysis.curves import over_training
from geocont_jax.analysis.figures import (
    DRAWINGS,
    MATRIX,
    NO_RUN,
    NO_VALUE,
    TRANSFER,
    WEIGHT,
    distance_figure,
    draw_figures,
    drift_figure,
    layers_figure,
    movement_figure,
    over_distance,
    transfer_figure,
    v1_figure,
)
from geocont_jax.analysis.figures_style import COLOURS, DASHES, MARKERS, MAX_PANELS, line_style, new_figure, png, style
from geocont_jax.analysis.labels import MAX_LINES
from geocont_jax.analysis.matched import matched, ratio_grid
from geocont_jax.analysis.statistics import describe
from geocont_jax.geometry.null import chance_level
from tests.analysis.full_records import SWEEPS, full_records
from tests.analysis.records import sweep_records

THREE = {"activation": ["identity", "radial", "relu"]}
CHANCE = f"chance ({chance_level(256):.3f})"


def lines_of(axis):
    """Return the lines with data by label; the chance level has none."""
    return {line.get_label(): line for line in axis.get_lines() if not line.get_label().startswith(("_", "chance"))}


def band_edges(band):
    """Return x and the lower and upper edge of a band."""
    (path,) = band.get_paths()
    points = {}
    for x, y in path.vertices:
        points.setdefault(x, []).append(y)
    x = np.array(sorted(points))
    return x, np.array([min(points[key]) for key in x]), np.array([max(points[key]) for key in x])


def bands_of(axis):
    return [item for item in axis.collections if isinstance(item, PolyCollection)]


def legend_labels(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def shown_texts(figure):
    """Return every text of a figure that was drawn, with its box: labels of ticks only inside the axes' limits."""
    renderer = figure.canvas.get_renderer()
    hidden = set()
    for axis in figure.axes:
        for side in (axis.xaxis, axis.yaxis):
            low, high = sorted(side.get_view_interval())
            ticks = [*side.get_major_ticks(), *side.get_minor_ticks()]
            hidden |= {
                label
                for tick in ticks
                for label in (tick.label1, tick.label2)
                if not low <= tick.get_loc() <= high or not label.get_visible() or not tick.get_visible()
            }
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts if text not in hidden]


def drawn(drawing, records):
    with style():
        return drawing.draw(records)


def test_examples():
    assert doctest.testmod(figures).failed == 0
    assert doctest.testmod(figures_style).failed == 0


def test_v1_over_training_is_mean_and_interval_over_seeds():
    records = full_records(THREE, depth=5)
    (axis,) = v1_figure(records).axes
    lines, bands = lines_of(axis), bands_of(axis)
    assert list(lines) == ["identity", "radial", "relu"]
    assert len(bands) == 3
    for i, (line, band) in enumerate(zip(lines.values(), bands, strict=True)):
        runs = records[WEIGHT].values[3 * i : 3 * i + 3].astype(float).mean(axis=2)
        points = [describe(runs[:, record]) for record in range(5)]
        np.testing.assert_array_equal(line.get_xdata(), range(5))
        np.testing.assert_allclose(line.get_ydata(), [point.mean for point in points], rtol=1e-12)
        x, low, high = band_edges(band)
        np.testing.assert_array_equal(x, range(5))
        np.testing.assert_allclose(low, [point.ci95_low for point in points], rtol=1e-12)
        np.testing.assert_allclose(high, [point.ci95_high for point in points], rtol=1e-12)
        assert to_rgb(band.get_facecolor()[0][:3]) == to_rgb(line.get_color())


def test_the_legend_names_the_variants_and_chance():
    figure = v1_figure(full_records(THREE, depth=5))
    assert legend_labels(figure) == ["identity", "radial", "relu", CHANCE]


def test_chance_is_a_line_at_its_level():
    (axis,) = v1_figure(full_records(THREE, depth=5)).axes
    (chance,) = [line for line in axis.get_lines() if line.get_label() == CHANCE]
    assert list(chance.get_ydata()) == [chance_level(256)] * 2


def test_every_width_has_its_chance_level():
    records = full_records({"width": [64, 256]}, depth=5, dimension="width")
    assert legend_labels(v1_figure(records)) == [
        "width=64",
        "width=256",
        f"chance ({chance_level(64):.3f})",
        CHANCE,
    ]


def test_a_single_seed_has_lines_and_no_band():
    for figure in draw_figures(full_records(THREE, seeds=(0,), depth=5)).values():
        assert all(not bands_of(axis) for axis in figure.axes)
        assert any(axis.get_lines() or axis.images for axis in figure.axes)


def test_many_variants_get_a_panel_each_with_the_others_in_grey():
    records = full_records(SWEEPS["table1"], depth=4)
    figure = v1_figure(records)
    curves = list(over_training(records, WEIGHT).values())
    assert len(figure.axes) == 11
    assert [axis.get_title() for axis in figure.axes[:3]] == ["NoRes+relu", "NoRes+identity", "Res+identity"]
    for axis, own in zip(figure.axes, curves, strict=True):
        (line,) = lines_of(axis).values()
        np.testing.assert_array_equal(line.get_ydata(), own.mean)
        grey = [line for line in axis.get_lines() if line.get_color() == figures_style.CONTEXT]
        assert len(grey) == 11
    assert legend_labels(figure) == ["variant named above", CHANCE, "other variants"]


def test_a_crossing_axis_gives_the_lines_of_each_panel():
    figure = v1_figure(full_records(SWEEPS["init_scale"], depth=4))
    assert [axis.get_title() for axis in figure.axes] == ["identity", "relu"]
    assert all(list(lines_of(axis)) == ["scale=0.1", "scale=0.3", "scale=1", "scale=3"] for axis in figure.axes)
    assert legend_labels(figure) == ["scale=0.1", "scale=0.3", "scale=1", "scale=3", CHANCE]


def test_transfer_draws_each_family_and_the_gap():
    records = full_records(THREE, depth=5)
    figure = transfer_figure(records)
    for i, axis in enumerate(figure.axes):
        lines = lines_of(axis)
        assert list(lines) == list(TRANSFER.values())
        for name, label in TRANSFER.items():
            expected = list(over_training(records, name).values())[i].mean
            np.testing.assert_array_equal(lines[label].get_ydata(), expected)
    low, high = figure.axes[0].get_ylim()
    assert low <= 0 < 1 < high


def test_a_negative_gap_is_not_cut_off():
    records = full_records(THREE, depth=5)
    records.coherence_gap.values[:] = -0.25 + 0.01 * np.arange(9)[:, None, None]
    assert transfer_figure(records).axes[0].get_ylim()[0] < -0.25


def test_without_the_gap_the_families_are_drawn():
    records = full_records(THREE, depth=5).drop_vars("coherence_gap")
    assert legend_labels(transfer_figure(records)) == [*list(TRANSFER.values())[:3], CHANCE]


def test_drift_has_a_line_for_each_layer_coloured_by_depth():
    records = full_records(THREE, depth=5)
    *panels, bar = drift_figure(records).axes
    assert len(panels) == 3
    for i, axis in enumerate(panels):
        assert len(axis.get_lines()) == 5
        for layer, line in enumerate(axis.get_lines()):
            runs = records.weight_v1_drift.values[3 * i : 3 * i + 3, :, layer].astype(float)
            np.testing.assert_allclose(line.get_ydata()[1:], runs[:, 1:].mean(axis=0), rtol=1e-12)
            assert math.isnan(line.get_ydata()[0])
        grey = [np.dot(to_rgb(line.get_color()), (0.299, 0.587, 0.114)) for line in axis.get_lines()]
        assert grey == sorted(grey)
    assert "layer" in bar.get_ylabel()


def test_movement_is_the_matched_comparison():
    records = full_records(THREE, depth=5)
    (axis,) = movement_figure(records).axes
    expected = matched(records, WEIGHT, ratio_grid(records))
    for line, curve in zip(lines_of(axis).values(), expected.values(), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), curve.x)
        np.testing.assert_array_equal(line.get_ydata(), curve.mean)
    assert axis.get_xscale() == "log"


def test_maps_are_means_over_finished_seeds():
    records = full_records(THREE, depth=5, status=["ok"] * 7 + ["diverged", "pending"])
    *panels, _ = layers_figure(records).axes
    for i, (axis, runs) in enumerate(zip(panels, ([0, 1, 2], [3, 4, 5], [6]), strict=True)):
        (image,) = axis.images
        expected = records[MATRIX].values[runs].astype(float).mean(axis=0)
        np.testing.assert_allclose(image.get_array(), expected, rtol=1e-12)
        assert image.norm.vmin == 0
        assert image.norm.vmax == 1
        assert axis.get_title() == list(THREE["activation"])[i]


def test_decay_averages_the_pairs_at_each_distance():
    records = full_records({}, seeds=(0, 1), depth=4)
    records[MATRIX].values[0, 0, 1] = np.nan
    (curve,) = over_distance(records).values()
    assert curve.x.tolist() == [1, 2, 3]
    matrix = records[MATRIX].values.astype(float)
    for k in (1, 2, 3):
        means = [np.nanmean([matrix[run, i, i + k] for i in range(4 - k)]) for run in range(2)]
        assert curve.mean[k - 1] == pytest.approx(np.mean(means), rel=1e-12)
    (axis,) = distance_figure(records).axes
    np.testing.assert_array_equal(lines_of(axis)["base"].get_ydata(), curve.mean)


def test_diverged_and_unfinished_runs_are_in_no_figure():
    status = ["ok", "diverged", "pending"] * 3
    records, alone = full_records(THREE, depth=5, status=status), full_records(THREE, seeds=(0,), depth=5)
    found, expected = draw_figures(records), draw_figures(alone)
    assert list(found) == list(expected)
    # The synthetic records of those runs are 123 throughout.
    for name in ("v1", "drift", "layers"):
        assert png(found[name]) == png(expected[name]), name
    for name in ("transfer", "movement", "distance"):
        for axis, other in zip(found[name].axes, expected[name].axes, strict=True):
            for line, same in zip(axis.get_lines(), other.get_lines(), strict=True):
                np.testing.assert_array_equal(line.get_data(), same.get_data())


def remarks(figure):
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def test_a_variant_without_a_finished_run_is_said():
    records = full_records(THREE, depth=5, status=["ok"] * 6 + ["diverged"] * 3)
    found = {name: remarks(figure) for name, figure in draw_figures(records).items()}
    assert found["v1"] == found["movement"] == found["distance"] == [f"{NO_RUN}:\nrelu"]
    assert found["drift"] == found["layers"] == found["transfer"] == [NO_RUN]


def test_a_variant_that_did_not_move_is_said():
    records = full_records(THREE, depth=5)
    records.update_ratio.values[6:] = 1e-9
    assert remarks(movement_figure(records)) == [f"{NO_VALUE}:\nrelu"]


def test_only_figures_with_data_are_drawn():
    full = full_records(THREE, depth=5)
    assert list(draw_figures(full)) == [drawing.name for drawing in DRAWINGS]
    assert list(draw_figures(sweep_records(THREE))) == ["v1", "transfer", "movement"]
    assert draw_figures(full_records(THREE, depth=5, status=["pending"] * 9)) == {}
    without_drift = full.assign(weight_v1_drift=full.weight_v1_drift * np.nan)
    assert "drift" not in draw_figures(without_drift)
    assert list(draw_figures(full.isel(record=[-1]))) == ["layers", "distance"]


def test_training_shorter_than_an_epoch_is_told_in_steps():
    figure = v1_figure(sweep_records(THREE, steps=(0, 1, 2)))
    assert figure.axes[0].get_xlabel() == "training (steps)"


def check_texts(name, figure):
    """Check that no text of a figure that was drawn leaves the page or lies on another."""
    texts = shown_texts(figure)
    assert len(texts) > 4
    page = figure.bbox
    for text, box in texts:
        assert page.x0 <= box.x0, (name, text)
        assert box.x1 <= page.x1, (name, text)
        assert page.y0 <= box.y0, (name, text)
        assert box.y1 <= page.y1, (name, text)
    for (text, box), (other, other_box) in itertools.combinations(texts, 2):
        width = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
        height = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
        # Boxes have a pixel of air around the letters.
        assert min(width, height) <= 1, (name, text, other)


ALL = tuple(drawing.name for drawing in DRAWINGS)


# One panel, a row of panels, a grid with a gap, and as many panels as there can be.
@pytest.mark.parametrize(
    ("sweep", "names"),
    [("one", ALL), ("init_scale", ALL), ("table1", ("v1", "drift")), ("optimizers", ("transfer", "layers"))],
)
def test_files_are_small_and_their_texts_legible(sweep, names):
    records = full_records(SWEEPS[sweep], seeds=(0, 1), depth=16, epochs=10)
    for drawing in DRAWINGS:
        if drawing.name not in names:
            continue
        name, figure = drawing.name, drawn(drawing, records)
        image = png(figure)
        assert len(image) < 200_000, name
        pixels = np.asarray(Image.open(io.BytesIO(image)).convert("L"))
        assert 0.005 < (pixels < 200).mean() < 0.95, name
        check_texts(name, figure)


def test_the_check_of_texts_sees_what_overlaps_or_is_cut():
    with style():
        figure = new_figure(2.0, 2.0)
        figure.subplots().set_xlabel("a label")
        png(figure)
        check_texts("sound", figure)
        for place in ((0.5, 0.05), (0.95, 0.5)):
            text = figure.text(*place, "a remark")
            with pytest.raises(AssertionError):
                check_texts("unsound", figure)
            text.remove()


def test_at_most_so_many_panels():
    records = full_records({"init_scale": [i / 8 for i in range(1, 31)]}, seeds=(0,), depth=3)
    figure = transfer_figure(records)
    assert len(figure.axes) == MAX_PANELS


def test_the_same_records_give_the_same_bytes():
    first, second = (transfer_figure(full_records(THREE, depth=5)) for _ in range(2))
    assert png(first) == png(second)


def test_lines_differ_in_colour_dashes_and_marker():
    looks = [line_style(number) for number in range(MAX_LINES)]
    for key in ("color", "linestyle", "marker"):
        assert len({str(look[key]) for look in looks}) == MAX_LINES
    assert min(map(len, (COLOURS, DASHES, MARKERS))) >= MAX_LINES


def test_the_users_settings_stay_and_have_no_say():
    records = full_records(THREE, depth=5)
    expected = png(draw_figures(records)["v1"])
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 9, "axes.grid": True}):
        before = dict(matplotlib.rcParams)
        assert png(draw_figures(records)["v1"]) == expected
        assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_imported():
    code = "import sys, geocont_jax.analysis.figures; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
