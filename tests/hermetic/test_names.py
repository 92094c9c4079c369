"""The package's front door: every name is there, and none costs an import before it is used."""

import subprocess
import sys

import pytest

import inside_generate


@pytest.mark.parametrize("name", inside_generate.__all__)
def test_each_public_name_can_be_imported_and_says_what_it_does(name):
    assert getattr(inside_generate, name).__doc__


@pytest.mark.parametrize(
    "name",
    [
        *("load", "render_chat", "encode", "prefill", "decode_step", "stream", "generate"),
        *("greedy", "Trace", "kv_cache_bytes", "logits_bytes", "weight_bytes"),
    ],
)
def test_the_names_that_others_call_are_public(name):
    assert name in inside_generate.__all__
    assert name in dir(inside_generate)


def test_an_unknown_name_is_the_usual_error():
    with pytest.raises(AttributeError, match="no attribute 'beam_me_up'"):
        _ = inside_generate.beam_me_up


def test_importing_the_package_imports_no_torch():
    code = "import sys, inside_generate; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
