"""The measurement of the loop beside generate(): same work on both sides, counted right."""

import json

import pytest
import torch
from tests.tiny import tiny_model

from inside_generate import bench, encode
from inside_generate.bench import Stamps, Times


@pytest.fixture
def inputs(tokenizer):
    return encode(tokenizer, "soup")


class Ticks:
    """A clock that moves on by itself: one unit a look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def test_both_loops_make_the_same_number_of_forwards(tokenizer, inputs, forwards):
    model = tiny_model()
    calls = forwards(model)
    bench.time_loop(model, tokenizer, inputs, 6)
    ours = [call.input_ids.shape for call in calls]
    calls.clear()
    bench.time_generate(model, inputs, 6)
    assert ours == [call.input_ids.shape for call in calls]
    assert len(ours) == 6


def test_neither_loop_stops_at_an_eos(tokenizer, inputs):
    model = tiny_model()
    every_id = list(range(model.config.vocab_size))
    model.generation_config.eos_token_id = every_id
    for run in (
        lambda: bench.time_loop(model, tokenizer, inputs, 4),
        lambda: bench.time_generate(model, inputs, 4),
    ):
        assert run().tpot_s > 0  # a run of one token has none


def test_generate_is_measured_without_the_checkpoints_penalty_and_sampling(inputs):
    plain, changed = tiny_model(), tiny_model(generation={"repetition_penalty": 9.0})
    changed.generation_config.do_sample = True
    ids = {}
    for name, model in {"plain": plain, "changed": changed}.items():
        stream: list[int] = []
        original = Stamps.put

        def put(self, value, stream=stream, original=original):
            stream.extend(value.flatten().tolist())
            original(self, value)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stamps, "put", put)
            bench.time_generate(model, inputs, 6)
        ids[name] = stream
    assert ids["plain"] == ids["changed"]
    assert changed.generation_config.repetition_penalty == 9.0, "the model's own config was changed"


def test_stamps_count_the_first_token_apart():
    stamps = Stamps(torch.device("cpu"))
    stamps.clock = Ticks()
    stamps.start_s = stamps.clock()  # 1
    stamps.put(torch.zeros(1, 9))  # generate() hands out the prompt first: not a token
    for _ in range(3):
        stamps.put(torch.zeros(1))  # 2, 3, 4
    assert stamps.times() == Times(ttft_s=1.0, tpot_s=1.0)


def test_a_single_token_has_no_time_per_token():
    stamps = Stamps(torch.device("cpu"))
    stamps.mark()
    with pytest.raises(ValueError, match="at least 2 tokens"):
        stamps.times()


def test_the_loops_take_turns_at_going_first(tokenizer, inputs, monkeypatch):
    order = []
    monkeypatch.setattr(bench, "time_loop", lambda *_: order.append("loop") or Times(1, 1))
    monkeypatch.setattr(bench, "time_generate", lambda *_: order.append("generate") or Times(1, 1))
    list(bench.timed_pairs(None, tokenizer, inputs, 4, 2))
    assert order == ["loop", "generate", "loop", "generate", "generate", "loop"]


def test_the_result_is_one_line_of_json_with_medians_and_spread(tokenizer, monkeypatch):
    model = tiny_model()
    monkeypatch.setattr(bench, "load", lambda *_: (tokenizer, model))
    pairs = iter([(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)])

    def fake_pairs(*_):
        for ours, library in pairs:
            yield {"dynamic": Times(0.5, ours), "generate": Times(0.5, library)}

    monkeypatch.setattr(bench, "timed_pairs", fake_pairs)
    lines = []
    result = bench.run("auto", "cpu", "auto", 4, 3, lines.append)
    text = bench.last_line(result)
    assert "\n" not in text
    read = json.loads(text)
    assert read["ratio_to_generate"] == 2.0
    assert read["ratio_to_generate_min_max"] == [1.0, 3.0]
    (rung,) = read["rungs"]
    assert (rung["name"], rung["ttft_ms"], rung["tpot_ms"]) == ("dynamic", 500.0, 2000.0)
    assert rung["tokens_per_s"] == 0.5
    assert len(lines) == 3
    assert "2.000" in bench.card(result)
