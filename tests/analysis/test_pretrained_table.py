"""The tables, figures and document of pretrained checkpoints, from made-up ones."""

import re

import numpy as np
import pytest

from geocont_jax.analysis.pretrained_document import PAPERS_MODELS, pretrained_document
from geocont_jax.analysis.pretrained_figures import DRAWINGS, draw_pretrained
from geocont_jax.analysis.pretrained_table import format_pretrained, layer_likeness, ordered, pair_rows
from geocont_jax.geometry.null import chance_level, chance_sd
from tests.analysis.checkpoints import checkpoint

COSINES = {"q": (0.5, 0.1), "k": (0.4, 0.1), "v": (0.2, 0.1), "o": (0.1, 0.3), "gate": (0.6, 0.2), "down": (0.1, 0.7)}


def cells(text, name):
    """Return the numbers in a projection's line of the first table."""
    line = next(line for line in text.splitlines() if re.search(rf"(^|  ){name}  ", line))
    return re.findall(r"[-\d.]+\*?", line.split(name, 1)[1].split("  ", 1)[1])


def test_rows_are_grouped_by_what_they_do_with_the_residual_stream():
    dataset = checkpoint(cosines=COSINES)
    assert ordered(dataset) == ["q", "k", "gate", "v", "o", "down"]
    lines = format_pretrained(dataset).splitlines()
    for words, name in {"reads": "q", "value": "v", "writes": "o"}.items():
        assert any(re.match(rf"{words} +{name} ", line) for line in lines)


def test_the_residual_side_is_marked_and_its_chance_and_z_are_told():
    found = cells(format_pretrained(checkpoint(cosines=COSINES, num_layers=6)), "down")
    z = (0.7 - chance_level(64)) / (chance_sd(64) / np.sqrt(5))
    assert found[:6] == ["64", "64", "5", "0.100", "0.700*", f"{chance_level(64):.3f}"]
    assert found[6] == f"{z:.1f}"
    assert cells(format_pretrained(checkpoint(cosines=COSINES)), "q")[3:5] == ["0.500*", "0.100"]


def test_distance_in_depth_and_shared_bases_have_tables():
    text = format_pretrained(checkpoint(cosines=COSINES, num_layers=6))
    apart = text.split("by distance in depth")[1].split("\n\n")[1]
    assert re.search(r"^q +0\.500 +0\.250 +0\.062$", apart, re.MULTILINE)
    kept = text.split("a random one")[1].split("\n\n")[1]
    assert kept.splitlines()[0].split()[:7] == ["projection", "own", "4", "shared", "4", "unrelated", "4"]
    assert re.search(r"^down +0\.50 +0\.40 +0\.15 +0\.05", kept, re.MULTILINE)


def test_like_layers_are_ranked_by_overlap_above_chance():
    dataset = checkpoint(cosines=COSINES, num_layers=6)
    likeness = layer_likeness(dataset)
    np.testing.assert_allclose(likeness, np.linspace(0.1, 0.6, 5) - 16 / 64)
    ranked = format_pretrained(dataset).split("layers most like")[1]
    assert re.findall(r"^(\d), \d", ranked, re.MULTILINE)[:2] == ["4", "3"]
    assert "forward pass" in ranked


def test_a_model_of_one_layer_has_no_pair_and_still_a_table():
    text = format_pretrained(checkpoint(num_layers=1).isel(window=[]))
    assert cells(text, "q")[2:5] == ["0", "-*", "-"]


def test_defects_and_notes_are_told():
    dataset = checkpoint(notes=["8 experts a layer are left out"])
    dataset["weight_defect"][0, 2] = 2
    text = format_pretrained(dataset)
    assert "matrices without a leading direction: 1 degenerate." in text
    assert "note: 8 experts a layer are left out" in text


def test_every_pair_is_a_row_of_the_csv():
    rows = pair_rows(checkpoint(cosines=COSINES, num_layers=4))
    assert len(rows) == 6 * 3
    assert (rows[0]["projection"], rows[0]["layer"], rows[0]["next_layer"], rows[0]["v1_cosine"]) == ("q", 0, 1, 0.5)


def test_figures_draw_what_the_dataset_says():
    figures = draw_pretrained(checkpoint(cosines=COSINES, num_layers=6))
    assert list(figures) == list(DRAWINGS)
    panel = figures["depth"].axes[0]
    np.testing.assert_allclose(panel.lines[0].get_ydata(), 0.5)
    assert panel.get_title() == "q (input)"
    writer = next(axis for axis in figures["layers"].axes if axis.get_title() == "down (output)")
    np.testing.assert_allclose(writer.images[0].get_array()[0], 0.7 ** np.arange(6.0))


def test_what_was_not_measured_is_not_drawn():
    dataset = checkpoint(num_layers=4).drop_vars(["shared_energy", "own_energy", "unrelated_energy", "random_energy"])
    assert "bases" not in draw_pretrained(dataset)
    assert "a random one" not in format_pretrained(dataset)


@pytest.mark.parametrize("models", [1, 2])
def test_the_document_puts_models_side_by_side_beside_the_paper(models):
    datasets = [checkpoint("a", cosines=COSINES), checkpoint("b", cosines={"q": (0.3, 0.2)})][:models]
    text = pretrained_document(datasets, {"a": {"depth": "figures/a.png"}, "b": {}})
    row = next(line for line in text.splitlines() if line.startswith("| q |"))
    assert "0.500 (0.100) / 0.100" in row
    assert row.endswith("| 0.82 |")
    assert ("0.300 (0.100) / 0.200" in row) == (models == 2)
    assert "(figures/a.png)" in text
    assert all(place in text for place in PAPERS_MODELS.values())
