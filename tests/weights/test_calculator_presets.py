"""The sizes that the calculators offer are those of the checkpoints themselves."""

import json
from pathlib import Path

import pytest

import calculators
from inside_generate.checkpoints import CHECKPOINTS, fetch_command
from inside_generate.finding import on_disk

ROOT = Path(__file__).parents[2]
MODELS = json.loads((ROOT / calculators.OTHERS).read_text("utf-8"))


@pytest.mark.parametrize("preset", list(MODELS))
def test_a_preset_holds_what_the_checkpoints_own_config_says(preset):
    name = preset.split(",")[0].lower()
    directory = on_disk(CHECKPOINTS[name])
    if directory is None:
        pytest.skip(f"{name} is not on this disk; type `{fetch_command(name)}`")
    own = json.loads((directory / "config.json").read_text("utf-8"))
    sizes = [key for key in MODELS[preset] if key in own or key.startswith(("num_", "hidden"))]
    assert len(sizes) >= 8
    assert {key: own[key] for key in sizes} == {key: MODELS[preset][key] for key in sizes}
