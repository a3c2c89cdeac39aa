"""Grid files that people write: what is read, and the one line that refuses the rest."""

import re
from pathlib import Path

import numpy as np
import pytest

from geocont_jax.errors import InputError
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.settings import Grid

ROOT = Path(__file__).parents[2]
GRIDS = sorted((ROOT / "sweeps").glob("*.yaml"))


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "grid.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(InputError) as caught:
        load_grid(path, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{path.parent}/")


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_grid_in_sweeps_loads(path: Path) -> None:
    assert load_grid(path).name == path.stem


def test_the_quickstart_is_the_contract() -> None:
    grid = load_grid(ROOT / "sweeps/quickstart.yaml")
    assert (grid.model.depth, grid.model.width, grid.model.residual) == (16, 256, True)
    assert list(grid.sweep) == ["model.residual", "model.activation", "model.init_scale"]
    assert grid.sweep["model.init_scale"] == (1.0, 0.3)
    assert list(grid.seeds) == [0, 1, 2]
    assert (grid.training.epochs, grid.training.steps, grid.measure.every) == (4, None, "epoch")


def test_names_and_defaults_without_any_settings(tmp_path: Path) -> None:
    grid = load_grid(write(tmp_path, "name: x"))
    assert grid == Grid(name="x")
    assert grid.training.epochs == 4


# (what is in the file behind `name: x`, the beginning of the message behind the file's name)
REFUSED = [
    # CASES 1: four spellings of one number
    (
        "sweep: {training.learning_rate: [1e-3, 1.0e-3]}",
        "2:40: sweep.training.learning_rate[1]: the value 0.001",
    ),
    (
        "sweep: {training.learning_rate: [1E-3, 1.e-3]}",
        "2:40: sweep.training.learning_rate[1]: the value 0.001",
    ),
    ("sweep: {model.residual: [on, true]}", "2:30: sweep.model.residual[1]: the value true is there"),
    ("sweep: {model.residual: [0, false]}", "2:29: sweep.model.residual[1]: the value false is there"),
    # equal in float32, so the same run twice
    ("sweep: {model.init_scale: [0.1, 0.1000000001]}", "2:33: sweep.model.init_scale[1]: the value 0.1"),
    # CASES 2: by the declared type
    (
        "sweep: {model.activation: [None]}",
        "2:28: sweep.model.activation[0]: 'None' is no name; write identity",
    ),
    (
        "sweep: {model.activation: [relu, null]}",
        "2:34: sweep.model.activation[1]: 'null' is no name; write ident",
    ),
    ("sweep: {model.activation: [~]}", "2:28: sweep.model.activation[0]: '~' is no name; write identity"),
    ("model: {activation: }", "2:9: model.activation: an empty value is no name; write identity"),
    ("model: {activation: on}", "2:21: model.activation: 'on' is unknown; write one of relu, gelu"),
    ("model: {norm: None}", "2:15: model.norm: 'None' is no name; write none"),
    ("model: {bias: 1}", "2:15: model.bias: '1' is not true or false; write true or false"),
    ("No: 1", "2:1: No: unknown key; write one of name, description, model"),
    # CASES 3: duplicate keys, both places
    ("model: {depth: 16}\nmodel: {width: 8}", "3:1: model: given twice, first at grid.yaml:2:1; keep one"),
    ("model: {depth: 16, depth: 3}", "2:20: model.depth: given twice, first at grid.yaml:2:9; keep one"),
    (
        "sweep: {model.width: [8], model.width: [9]}",
        "2:27: sweep.model.width: given twice, first at grid.yaml:2:9",
    ),
    # CASES 4: what is no integer
    ("seeds: [010]", "2:9: seeds[0]: 010 has a leading zero (octal to some readers); write 10"),
    ("seeds: 08", "2:8: seeds: 08 has a leading zero (octal to some readers); write 8"),
    ("seeds: [12:30:45]", "2:9: seeds[0]: 12:30:45 is a time of day"),
    ("seeds: 1_000", "2:8: seeds: 1_000 has an underscore; write 1000"),
    ("seeds: [99999999999999999999999999]", "2:9: seeds[0]: 99999999999999999999999999 is out of range"),
    ("seeds: .nan", "2:8: seeds: '.nan' is not an integer"),
    ("seeds: [.inf]", "2:9: seeds[0]: '.inf' is not an integer"),
    ("seeds: 2001-12-14", "2:8: seeds: 2001-12-14 is a date"),
    (
        "seeds: [4294967296]",
        "2:9: seeds[0]: 4294967296 is out of range; write an integer from 0 to 4294967295",
    ),
    ("seeds: [-1]", "2:9: seeds[0]: -1 is out of range"),
    ("seeds: [true]", "2:9: seeds[0]: 'true' is not an integer"),
    ("seeds: true", "2:8: seeds: 'true' is not an integer"),
    ("seeds: 0", "2:8: seeds: 0 is out of range"),
    ("seeds: []", "2:8: seeds: the list is empty"),
    ("seeds:", "2:1: seeds: an empty value is not an integer"),
    ("seeds: {0: 1}", "2:8: seeds: a mapping where seeds belong"),
    ("seeds: [3, 7, 3]", "2:15: seeds[2]: the value 3 is there already; leave one of them out"),
    ("training: {learning_rate: .nan}", "2:27: training.learning_rate: .nan is not a finite number"),
    ("training: {weight_decay: -.inf}", "2:26: training.weight_decay: -.inf is not a finite number"),
    ("training: {learning_rate: 1e-46}", "2:27: training.learning_rate: 1e-46 becomes 0 in float32"),
    ("sweep: {model.init_scale: [1, 1e39]}", "2:31: sweep.model.init_scale[1]: 1e39 becomes inf in float32"),
    (
        "training: {beta2: 0.999999999}",
        "2:19: training.beta2: 0.999999999 is out of range, rounded to float32",
    ),
    ("training: {beta1: 1}", "2:19: training.beta1: 1 is out of range; write a number >= 0 and < 1"),
    ("training: {momentum: -0.1}", "2:22: training.momentum: -0.1 is out of range"),
    ("model: {init_scale: 0}", "2:21: model.init_scale: 0 is out of range; write a number > 0"),
    ("model: {residual: 1.5}", "2:19: model.residual: 1.5 is out of range; write true, false or a number"),
    ("model: {depth: 16.0}", "2:16: model.depth: '16.0' is not an integer"),
    ("model: {depth: 1}", "2:16: model.depth: 1 is out of range; write an integer from 2"),
    (
        "measure: {every: 0}",
        "2:18: measure.every: 0 is out of range; write an integer from 1 to 2147483647, or epoch",
    ),
    ("training: {steps: 0}", "2:19: training.steps: 0 is out of range"),
    ("data: {batch_size: 12345678901}", "2:20: data.batch_size: 12345678901 is out of range"),
    # CASES 5: unknown keys, and known ones in the wrong place
    ("activatoin: [relu]", "2:1: activatoin: unknown key; did you mean model.activation?"),
    ("sweep: {activatoin: [relu]}", "2:9: sweep.activatoin: unknown key; did you mean model.activation?"),
    ("sweep: {model.widht: [8]}", "2:9: sweep.model.widht: unknown key; did you mean model.width?"),
    ("sweep: {activation: [relu]}", "2:9: sweep.activation: unknown key; write model.activation"),
    ("zip: {training.width: [8]}", "2:7: zip.training.width: unknown key; write model.width"),
    ("model: {activatoin: relu}", "2:9: model.activatoin: unknown key; did you mean activation"),
    ("model: {learning_rate: 1}", "2:9: model.learning_rate: unknown key; write training.learning_rate"),
    ("model: {model.width: 8}", "2:9: model.model.width: unknown key; write width, the section is there"),
    ("model.width: 8", "2:1: model.width: unknown key; write model: {width: ...}"),
    ("width: 8", "2:1: width: unknown key; write model.width"),
    ("modle: {}", "2:1: modle: unknown key; did you mean model?"),
    ("sweep: {seeds: [1]}", "2:9: sweep.seeds: cannot be an axis"),
    ("sweep: {name: [a]}", "2:9: sweep.name: cannot be an axis"),
    ("zip: {description: [a]}", "2:7: zip.description: cannot be an axis"),
    ("sweep: {model.kind: [residual_mlp]}", "2:9: sweep.model.kind: cannot be an axis"),
    ("exclude: [{modell.width: 8}]", "2:12: exclude[0].modell.width: unknown key; write model.width"),
    ("model: {kind: resnet}", "2:15: model.kind: 'resnet' is unknown; write one of residual_mlp"),
    ("training: {optimizer: Adam}", "2:23: training.optimizer: 'Adam' is unknown; did you mean adam"),
    ("data: {name: mnist10}", "2:14: data.name: 'mnist10' is not a data set; did you mean mnist10k?"),
    ("data: {name: 'npz:'}", "2:14: data.name: 'npz:' is not a data set"),
    # CASES 6: what is no grid file
    ("model:\n\tdepth: 16", "3:1: a tab in the indentation; indent with spaces"),
    ("act:relu", "2:1: a line without `key: value`; write a space behind the colon"),
    (
        "model: depth:16",
        "2:8: model: 'depth:16' where lines of `key: value` belong; write a space behind the colon, d",
    ),
    ("---\nname: y", "2:1: a second document starts here; a grid file holds one"),
    ("sweep: {model.width: []}", "2:22: sweep.model.width: the list is empty"),
    ("sweep: {model.width: }", "2:9: sweep.model.width: an empty value where a list belongs"),
    ("sweep: {model.width: 64}", "2:22: sweep.model.width: '64' where a list belongs; write [64]"),
    ("sweep: {model.width: [[64]]}", "2:23: sweep.model.width[0]: a list is not an integer"),
    ("sweep:", "2:1: sweep: an empty value where lines of `key: value` belong"),
    ("sweep: [model.width]", "2:8: sweep: a list where lines of `key: value` belong"),
    ("model: [16]", "2:8: model: a list where lines of `key: value` belong"),
    ("model: {depth: [16]}", "2:16: model.depth: a list is not an integer"),
    ("description: [a]", "2:14: description: a list is not text"),
    ("model: !!map {}", "2:8: model: explicit tag !!map; leave it out"),
    ("model: {depth: !!int 3}", "2:16: model.depth: explicit tag !!int; leave it out"),
    ("model: !mine {}", "2:8: model: explicit tag !mine; leave it out"),
    ("model: {<<: {depth: 3}}", "2:9: model: a merge key (<<); write the settings out"),
    ("model: &m {depth: *m}", "2:19: model.depth: alias *m stands before the end of its anchor"),
    ("model: *m", "2:8: model: alias *m stands before the end of its anchor"),
    ("? [a]\n: b", "2:3: a key that is no plain text"),
    ("description: a: b", "2:15: a second colon in one value; put text that holds ': ' in quotes"),
    ("model: {depth: 16", "2:8: not YAML: "),
    ("description: 'a", "2:14: not YAML: "),
    ('description: "\\ud800"', "2:14: description: half of a surrogate pair"),
    ("description: a\0b", "2:15: the character U+0000 cannot stand in YAML; take it out"),
    ("sweep: " + "[" * 5000, "2:16: sweep[0][0][0][0][0][0][0]: nested too deeply"),
    # settings that exclude each other
    ("training: {epochs: 3, steps: 4}", "2:30: training.steps: training.epochs is given as well; leave one"),
    ("training: {epochs: ~}", "2:11: training: neither epochs nor steps is given"),
    (
        "training: {epochs: 3}\nsweep: {training.steps: [4]}",
        "3:25: sweep.training.steps: training.epochs is given",
    ),
    (
        "training: {steps: 3}\nzip: {training.epochs: [4]}",
        "3:24: zip.training.epochs: training.steps is given as w",
    ),
    (
        "sweep: {training.steps: [4], training.epochs: [4]}",
        "2:47: sweep.training.epochs: training.steps is an axis",
    ),
    # axes
    (
        "sweep: {model.width: [8]}\nzip: {model.width: [8]}",
        "3:20: zip.model.width: is an axis of sweep as well",
    ),
    (
        "zip: {model.width: [8], model.depth: [4, 5]}",
        "2:38: zip.model.depth: has 2 values, but model.width has 1",
    ),
    ("zip: {model.width: [8, 8], model.depth: [4, 4]}", "2:6: zip: items 0 and 1 are the same in every axis"),
    ("exclude: [{model.width: 8}]", "2:25: exclude[0].model.width: is not an axis of this grid"),
    (
        "sweep: {model.width: [8, 9]}\nexclude: [{model.width: 7}]",
        "3:25: exclude[0].model.width: 7 is not a value",
    ),
    (
        "sweep: {model.width: [8, 9]}\nexclude: [{model.width: a}]",
        "3:25: exclude[0].model.width: 'a' is not an int",
    ),
    ("sweep: {model.width: [8, 9]}\nexclude: [{}]", "3:11: exclude[0]: is empty"),
    (
        "sweep: {model.width: [8, 9]}\nexclude: {model.width: 8}",
        "3:10: exclude: a mapping where a list belongs",
    ),
    (
        "sweep: {model.width: [8, 9]}\nexclude: [{model.width: 8}, {model.width: 9}]",
        "3:10: exclude: leaves no cell of the grid",
    ),
    (
        "zip: {model.width: [8, 9], model.depth: [4, 5]}\nexclude: [{model.width: 8, model.depth: 5}]",
        "3:11: exclude[0]: matches no cell",
    ),
]


@pytest.mark.parametrize(("content", "beginning"), REFUSED)
def test_what_is_wrong_is_said_in_one_line_with_its_place(tmp_path: Path, content: str, beginning: str) -> None:
    message = refusal(write(tmp_path, f"name: x\n{content}\n"))
    message = re.sub(re.escape(f"{tmp_path}/"), "", message)
    assert message.startswith(f"grid.yaml:{beginning}")
    assert re.search(r"[;?]", message), "a way out belongs in every message"


# (the whole file, the whole beginning of the message)
NO_GRIDS = [
    ("", "grid.yaml:1:1: the grid is empty"),
    ("# only a comment\n", "grid.yaml:1:1: the grid is empty"),
    ("---\n", "grid.yaml:2:1: the grid is empty"),
    ("{}", "grid.yaml:1:1: the grid is empty"),
    ("relu", "grid.yaml:1:1: 'relu' where lines of `key: value` belong"),
    (
        "act:relu",
        "grid.yaml:1:1: 'act:relu' where lines of `key: value` belong; write a space behind the colon, act: ",
    ),
    ("- name: x", "grid.yaml:1:1: a list where lines of `key: value` belong"),
    ("model: {}", "grid.yaml:1:1: name: is missing; write name: ..."),
    ("nmae: x", "grid.yaml:1:1: nmae: unknown key; did you mean name?"),
    ("name: .x", "grid.yaml:1:7: name: '.x' does not do here; write at most 80 letters"),
    ("name: -x", "grid.yaml:1:7: name: '-x' does not do here"),
    ("name: a/b", "grid.yaml:1:7: name: 'a/b' does not do here"),
    ("name: 'a b'", "grid.yaml:1:7: name: 'a b' does not do here"),
    (f"name: {'a' * 81}", "grid.yaml:1:7: name: 'aaaaaaaa"),
    ("name:", "grid.yaml:1:1: name: an empty value does not do here"),
    ("%YAML 3.0\n---\nname: x", "grid.yaml:1:1: not YAML: "),
    ("name: café".encode("latin-1"), "grid.yaml:1:10: byte 0xe9 is not UTF-8; save the file as UTF-8"),
    ("name: x".encode("utf-16"), "grid.yaml:1:1: byte 0xff is not UTF-8"),
    (b"name: x\n" + b"# \n" * 4_000_000, "grid.yaml: larger than 1,000,000 bytes; give a grid file"),
]


@pytest.mark.parametrize(("content", "beginning"), NO_GRIDS, ids=range(len(NO_GRIDS)))
def test_a_file_that_is_no_grid_is_refused(tmp_path: Path, content: str | bytes, beginning: str) -> None:
    assert refusal(write(tmp_path, content)).startswith(beginning)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.yaml") == "none.yaml: no such file; give the path of a grid file"
    assert "is a folder; give a grid file in it" in refusal(tmp_path)
    assert "cannot be read" in refusal(tmp_path / ("x" * 5000))


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    assert load_grid(write(tmp_path, b"\xef\xbb\xbfname: x\r\nmodel: {depth: 3}\r\n")).model.depth == 3


def test_an_anchor_can_be_used_again(tmp_path: Path) -> None:
    text = "name: x\nzip: {model.width: &sizes [8, 9], model.depth: *sizes}"
    assert load_grid(write(tmp_path, text)).zip["model.depth"] == (8, 9)


def test_many_aliases_do_not_multiply(tmp_path: Path) -> None:
    levels = [f"  - &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    text = "\n".join(["name: x", "exclude:", "  - &a0 [1]", *levels])
    assert "exclude[0]: a list where lines" in refusal(write(tmp_path, text))


@pytest.mark.parametrize(
    ("every_setting", "value"),
    [
        ("model.residual", "off"),
        ("model.bias", "YES"),
        ("training.weight_decay", "0"),
        ("data.dir", "~"),
        ("measure.every", "200"),
        ("measure.every", "epoch"),
        ("data.name", "npz:some file.npz"),
    ],
)
def test_spellings_that_are_read(tmp_path: Path, every_setting: str, value: str) -> None:
    section, name = every_setting.split(".")
    load_grid(write(tmp_path, f"name: x\n{section}: {{{name}: {value}}}"))


def test_seeds_are_a_count_or_values(tmp_path: Path) -> None:
    assert list(load_grid(write(tmp_path, "name: x\nseeds: 3")).seeds) == [0, 1, 2]
    assert list(load_grid(write(tmp_path, "name: x\nseeds: [3]")).seeds) == [3]


def test_a_dict_is_read_like_a_file_and_not_changed() -> None:
    content = {
        "name": "x",
        "model": {"residual": np.True_, "width": np.int64(8)},
        "sweep": {"training.learning_rate": np.array([0.1, 0.01]), "model.depth": range(2, 4)},
        "seeds": range(2),
    }
    before = {key: (dict(value) if isinstance(value, dict) else value) for key, value in content.items()}
    grid = load_grid(content, ["model.width=9", "sweep.model.depth=[5]"])
    assert (grid.model.width, grid.sweep["model.depth"], len(grid.seeds)) == (9, (5,), 2)
    assert grid.sweep["training.learning_rate"] == (0.1, 0.01)
    assert content.keys() == before.keys()
    assert all(content[key] is before[key] or content[key] == before[key] for key in content)
    assert load_grid(content).model.width == 8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "<dict>: the grid is empty"),
        ({"name": 3}, "<dict>: name: 3 is not text"),
        ({1: 2}, "<dict>: the key 1 is not text"),
        ({"name": "x", "model": {"depth": 16.0}}, "<dict>: model.depth: 16.0 is not an integer"),
        (
            {"name": "x", "model": {"activation": None}},
            "<dict>: model.activation: nothing is no name; write identity",
        ),
        ({"name": "x", "sweep": {"model.width": {8, 9}}}, "<dict>: sweep.model.width: a set has no order"),
        (
            {"name": "x", "sweep": {"model.width": iter([8])}},
            "<dict>: sweep.model.width: a list_iterator has no",
        ),
        (
            {"name": "x", "sweep": {"model.width": "89"}},
            "<dict>: sweep.model.width: '89' where a list belongs",
        ),
        ({"name": "x", "description": "\ud800"}, "<dict>: description: '\\ud800' has half of a surrogate pair"),
        ({"name": "x", "seeds": True}, "<dict>: seeds: true is not an integer"),
        ({"name": "x", "seeds": range(0)}, "<dict>: seeds: 0 is out of range"),
        ({"name": "x", "model": 3}, "<dict>: model: 3 where lines of `key: value` belong"),
        (3, "3: not a grid; give a path or a dict"),
    ],
)
def test_a_wrong_dict_is_refused_like_a_file(content: dict, message: str) -> None:
    with pytest.raises(InputError, match="^" + re.escape(message)):
        load_grid(content)


def test_a_dict_that_holds_itself_is_refused() -> None:
    content: dict = {"name": "x"}
    content["model"] = content
    with pytest.raises(InputError, match="nested too deeply"):
        load_grid(content)


def test_a_grid_is_read_again_with_overrides() -> None:
    grid = load_grid({"name": "x", "sweep": {"training.steps": [3, 4]}, "seeds": range(5, 8)})
    assert load_grid(grid) == grid
    assert load_grid(grid, ["model.width=8"]).model.width == 8
    assert grid.model.width == 256
