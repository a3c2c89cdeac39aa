import doctest

import pytest

from geocont_jax.analysis import labels
from geocont_jax.analysis.labels import MAX_LINES, arrange, short_labels, single_panels
from geocont_jax.analysis.settings import variant_cells
from tests.analysis.full_records import SWEEPS
from tests.analysis.records import sweep_records


def cells_of(sweep):
    axes = SWEEPS[sweep]
    return [dict(zip(axes, row, strict=True)) for row in zip(*axes.values(), strict=True)] if axes else [{}]


def numbered(cells):
    return {str(i): cell for i, cell in enumerate(cells)}


def test_examples():
    assert doctest.testmod(labels).failed == 0


@pytest.mark.parametrize("sweep", SWEEPS)
def test_every_variant_has_a_name_of_its_own(sweep):
    found = short_labels(cells_of(sweep))
    assert len(set(found)) == len(cells_of(sweep))
    assert all(found)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([{}], ["base"]),
        ([{"residual": True}, {"residual": False}, {"residual": 0.5}], ["Res", "NoRes", "Res x 0.5"]),
        ([{"norm": "none"}, {"norm": "layernorm"}], ["none", "layernorm"]),
        ([{"activation": "relu", "norm": "none"}, {"activation": "relu", "norm": "rmsnorm"},
          {"activation": "gelu", "norm": "none"}], ["relu", "relu+rmsnorm", "gelu"]),
        ([{"init_scale": 0.1}, {"init_scale": 1.0}, {"init_scale": 1e-12}], ["scale=0.1", "scale=1", "scale=1e-12"]),
        ([{"optimizer": "sgd", "learning_rate": 0.1}, {"optimizer": "adam", "learning_rate": 1e-3}], ["sgd", "adam"]),
        ([{"optimizer": "sgd", "learning_rate": 0.1}, {"optimizer": "sgd", "learning_rate": 0.01}],
         ["lr=0.1", "lr=0.01"]),
        ([{"bias": True, "width": 8}, {"bias": False, "width": 8}], ["bias=true", "bias=false"]),
    ],
    ids=str,
)  # fmt: skip
def test_names_are_short_and_plain(cells, expected):
    assert short_labels(cells) == expected


def test_usual_values_go_unsaid_and_unusual_ones_do_not():
    assert short_labels(cells_of("radial"))[2:] == [
        "radial, scale=0.3",
        "radial, scale=1",
        "radial, c=16, scale=0.3",
        "radial, c=16, scale=1",
    ]


@pytest.mark.parametrize("sweep", SWEEPS)
def test_panels_hold_every_variant_once_and_few_lines(sweep):
    cells = numbered(cells_of(sweep))
    panels = arrange(cells)
    assert sorted(variant for panel in panels for variant, _ in panel.lines) == sorted(cells)
    for panel in panels:
        assert 1 <= len(panel.lines) <= MAX_LINES
        assert len({label for _, label in panel.lines}) == len(panel.lines)
    assert len({panel.title for panel in panels}) == len(panels)


def test_the_axis_that_crosses_the_others_gives_the_lines():
    panels = arrange(numbered(cells_of("optimizers")))
    assert [panel.title for panel in panels][:3] == ["adam", "adam, beta2=0", "sgd"]
    assert all([label for _, label in panel.lines] == ["identity", "relu", "radial"] for panel in panels)
    panels = arrange(numbered(cells_of("init_scale")))
    assert [panel.title for panel in panels] == ["identity", "relu"]
    assert [label for _, label in panels[0].lines] == ["scale=0.1", "scale=0.3", "scale=1", "scale=3"]


def test_without_such_an_axis_every_variant_has_its_panel():
    cells = numbered(cells_of("table1"))
    assert arrange(cells) == single_panels(cells)
    assert [panel.title for panel in arrange(cells)][:3] == ["NoRes+relu", "NoRes+identity", "Res+identity"]


def test_few_variants_share_one_panel_without_a_title():
    (panel,) = arrange(numbered(cells_of("norms")))
    assert panel.title == ""
    assert len(panel.lines) == 6


def test_cells_are_read_from_the_records():
    records = sweep_records({"residual": [True, False], "activation": ["relu", "gelu"]})
    assert list(variant_cells(records).values()) == [
        {"residual": True, "activation": "relu"},
        {"residual": False, "activation": "gelu"},
    ]
