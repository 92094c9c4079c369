"""What the page of calculators says without a script: its table, its presets, its machines."""

import json
import re
from pathlib import Path

import pytest
from transformers import AutoConfig

import calculators
from inside_generate import kv_cache_bytes
from inside_generate.cache import head_dim, kv_heads, parameter_count, with_kv_heads
from inside_generate.reference import reference_config

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book/calculators.md").read_text("utf-8")
MODELS = calculators.models(ROOT)


def table() -> dict[str, list[str]]:
    """The rows of the page's table by their first cell."""
    rows = re.findall(r"^\|(.*)\|$", PAGE, flags=re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {name: values for name, *values in cells if not name.startswith("--")}


@pytest.mark.parametrize("column", range(len(MODELS)), ids=list(MODELS))
def test_the_table_of_models_holds_the_packages_numbers(column):
    name, fields = list(MODELS.items())[column]
    config = AutoConfig.for_model(**fields)
    heads = config.num_attention_heads
    expected = {
        "size": name,
        "layers": config.num_hidden_layers,
        "query heads": heads,
        "KV heads": kv_heads(config),
        "head size": head_dim(config),
        "cache of a token, bytes": f"{kv_cache_bytes(config, 1):,}",
        "the same as MHA, bytes": f"{kv_cache_bytes(with_kv_heads(config, heads), 1):,}",
        "numbers in the weights": f"{parameter_count(config):,}",
    }
    assert {row: values[column] for row, values in table().items()} == {
        row: str(value) for row, value in expected.items()
    }


def test_the_reference_among_the_presets_is_the_packages_own():
    read = AutoConfig.for_model(**MODELS[calculators.REFERENCE]).to_dict()
    own = reference_config().to_dict()
    assert read | {"_name_or_path": ""} == own | {"_name_or_path": ""}


def test_every_recorded_machine_is_offered_with_its_provenance():
    machines = calculators.data(ROOT)["machines"]
    records = sorted((ROOT / calculators.RESULTS).glob("*.json"))
    assert len(machines) == len(records) >= 1
    for machine, path in zip(machines, records, strict=True):
        record = json.loads(path.read_text("utf-8"))
        assert machine["gb_per_s"] == record["ceilings"]["memory_gb_per_s"]
        assert machine["gflop_per_s"] == record["ceilings"]["matmul_gflop_per_s"]
        for said in (record["date"][:10], record["torch_version"], record["dtype"], path.name):
            assert said in machine["provenance"]


def test_no_text_in_the_data_can_end_the_element_that_holds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(calculators, "data", lambda _: {"models": {"</script><b>": {}}})

    class Page:
        docname = "page"
        srcdir = tmp_path
        metadata = {"page": {}}  # noqa: RUF012 - one page, once

    class Directive(calculators.Calculators):
        env = Page()

        def __init__(self):
            """Nothing that Sphinx would hand over is needed."""

    [node] = Directive().run()
    assert node.astext().count("<") == 2  # of the element itself
    assert "\\u003c/script>" in node.astext()
