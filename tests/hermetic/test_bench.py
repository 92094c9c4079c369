"""The ladder as a command: same work for all, taking turns, medians, and a result of one form."""

import contextlib
import copy
import json
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import torch
from tests.tiny import tiny_model

from inside_generate import InsideGenerateError, __main__, bench, encode, engines
from inside_generate.ceilings import Ceilings
from inside_generate.engines import EngineError, EngineRun
from inside_generate.ladder import Dynamic, RungUnavailable, forced, free, measuring, rungs
from inside_generate.ladder.agreement import FreeRun
from inside_generate.ladder.contestants import in_turn
from inside_generate.ladder.library import Stamps, answer_of_generate
from inside_generate.ladder.results import RECORDED, ratios, recorded, schema

CEILINGS = Ceilings("cpu", "float32", {"sum": 10.0, "dot": 12.5}, {"A B, 1024": 100.0})
OURS = ["no_cache", "dynamic", "static", "compiled", "int8"]
NAN = float("nan")


@pytest.fixture
def inputs(tokenizer):
    return encode(tokenizer, "soup")


def times(ttft_s, *steps):
    return FreeRun(tuple(range(len(steps) + 1)), (ttft_s, *steps))


# --- the same work --------------------------------------------------------------------------------


def test_both_loops_make_the_same_number_of_forwards(inputs, forwards):
    model = tiny_model()
    calls = forwards(model)
    ours = free(Dynamic(model), inputs, 6, float)
    shapes = [call.input_ids.shape for call in calls]
    calls.clear()
    theirs = answer_of_generate(model, inputs, 6)
    assert shapes == [call.input_ids.shape for call in calls]
    assert len(shapes) == len(theirs.seconds) == 6
    assert ours.ids == theirs.ids


def test_generate_is_asked_without_the_checkpoints_penalty_sampling_and_eos(inputs):
    plain = answer_of_generate(tiny_model(), inputs, 6)
    changed = tiny_model(generation={"repetition_penalty": 9.0, "eos_token_id": list(range(352))})
    changed.generation_config.do_sample = True
    own = changed.generation_config
    assert answer_of_generate(changed, inputs, 6).ids == plain.ids
    assert changed.generation_config is own
    assert (own.repetition_penalty, own.do_sample) == (9.0, True)


def test_the_models_own_config_is_back_after_a_failure(inputs, monkeypatch):
    model = tiny_model()
    own = model.generation_config
    monkeypatch.setattr(model, "generate", lambda **_: pytest.fail("broken"))
    with pytest.raises(pytest.fail.Exception):
        answer_of_generate(model, inputs, 6)
    assert model.generation_config is own


def test_stamps_count_the_prompt_as_no_token_and_the_first_token_apart():
    stamps = Stamps(torch.device("cpu"))
    now = iter([1.0, 4.0, 5.0, 7.0])
    stamps.clock = lambda: next(now)
    stamps.start()
    stamps.put(torch.zeros(1, 9))  # generate() hands out the prompt first
    for token in (7, 8, 9):
        stamps.put(torch.tensor([token]))
    assert stamps.run() == FreeRun((7, 8, 9), (3.0, 1.0, 2.0))


# --- taking turns ---------------------------------------------------------------------------------


def test_the_loops_take_turns_at_going_first():
    order = []

    def asked(name):
        return lambda: order.append(name) or times(1, 1)

    runs = list(in_turn({name: asked(name) for name in "abc"}, 3))
    assert "".join(order) == "abc" + "abc" + "cba" + "abc"  # the first one warms up
    assert [set(found) for found in runs] == [set("abc")] * 3


def test_whoever_fails_is_out_from_then_on_and_the_others_go_on():
    not_run, said, calls = {}, [], iter([1, 1, "gone", 1])

    def failing():
        if next(calls) == "gone":
            raise EngineError("vllm ended with exit code 9")
        return times(1, 1)

    guard = measuring.failures_into(not_run, said.append)
    runs = list(in_turn({"dynamic": lambda: times(1, 1), "vllm": failing}, 3, guard))
    assert [sorted(found) for found in runs] == [["dynamic", "vllm"], ["dynamic"], ["dynamic"]]
    assert not_run == {"vllm": "vllm ended with exit code 9"}
    assert said == ["vllm: not run: vllm ended with exit code 9"]


@pytest.mark.parametrize("name", ["dynamic", "generate"])
def test_what_all_are_compared_with_must_not_fail(name):
    guard = measuring.failures_into({}, print)
    with pytest.raises(EngineError), guard(name):
        raise EngineError("gone")


def test_an_interrupt_is_no_failure_of_whoever_was_at_work():
    with pytest.raises(KeyboardInterrupt), measuring.failures_into({}, print)("vllm"):
        raise KeyboardInterrupt


# --- ratios ---------------------------------------------------------------------------------------


def a_row(name, tpot_ms, exact=True, version=None):
    return {"name": name, "tpot_ms": tpot_ms, "exact": exact, "version": version}


def test_ratios_are_medians_of_the_rounds_own_ratios():
    pairs = [(2, 1), (30, 10), (1, 1)]  # of the medians it would be 2 / 1 as well, of means more
    runs = [
        {"dynamic": times(1, a), "generate": times(1, b), "static": times(1, b / 4)}
        for a, b in pairs
    ]
    found = ratios(runs, [a_row("dynamic", 2), a_row("static", 0.25)])
    assert (found["ratio_to_generate"], found["ratio_to_generate_min_max"]) == (2.0, [1.0, 3.0])
    assert found["best_exact"] == "static"
    assert found["best_exact_over_dynamic"] == 0.125
    assert found["best_exact_over_llama_cpp"] is None
    assert found["best_exact_over_vllm_min_max"] is None


def test_the_best_rung_is_ours_and_exact():
    runs = [dict.fromkeys(("dynamic", "generate", "llama.cpp", "vllm"), times(1, 1))]
    rows = [a_row("dynamic", 9), a_row("int8", 1, exact=False)]
    rows += [a_row(name, 2, version=f"{name} 1") for name in ("llama.cpp", "vllm")]
    found = ratios(runs, [*rows, {"name": "static", "not_run": "why"}])
    assert found["best_exact"] == "dynamic"
    assert found["best_exact_over_llama_cpp"] == 1.0


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "run"),
    [
        (None, [*OURS, "llama.cpp", "llama.cpp Q4", "vllm"]),
        ([], ["dynamic"]),
        (["static"], ["dynamic", "static"]),
        (["static", "static", "no_cache"], ["no_cache", "dynamic", "static"]),
        (["llama.cpp Q4"], ["dynamic", "llama.cpp Q4"]),
    ],
)
def test_dynamic_is_always_in_and_each_rung_is_in_once_in_the_ladders_order(
    monkeypatch, asked, run
):
    monkeypatch.setattr(engines, "installed", lambda: ["llama.cpp", "vllm"], raising=False)
    assert measuring.check_names(asked) == run


@pytest.mark.parametrize("name", ["", "Static", "vllm", "x" * 5000])
def test_an_unknown_rung_is_one_line_with_those_there_are(monkeypatch, capsys, name):
    monkeypatch.setattr(engines, "installed", list, raising=False)
    monkeypatch.setattr(bench, "load", lambda *_: pytest.fail("it went on"))
    assert __main__.main(["bench", "--device", "cpu", "--rungs", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "there are: no_cache, dynamic, static, compiled, int8; other engines" in line
    assert len(line) < 350


# --- a whole run, engines made up -----------------------------------------------------------------


class FakeEngine:
    """An engine that answers from the model itself, and says what it is told to."""

    version = "fake 1"

    def __init__(self, name, model, script):
        self.name, self.model, self.script, self.answers = name, model, script, 0

    def answer(self, prompt_ids, new_tokens):
        self.answers += 1
        failure = self.script.get(self.answers)
        if failure is not None:
            raise failure
        run = free(Dynamic(self.model), self._inputs(prompt_ids), new_tokens, iter_clock())
        return EngineRun(list(run.ids), run.ttft_s, list(run.seconds[1:]))

    def forced(self, prompt_ids, ids):
        logits = forced(Dynamic(self.model), self._inputs(prompt_ids), ids)
        return logits + self.script.get("off", 0.0)

    def memory_bytes(self):
        return 3 * 1024**2

    def _inputs(self, prompt_ids):
        ids = torch.tensor([prompt_ids])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def iter_clock():
    now = iter(range(10**6))
    return lambda: 0.001 * next(now)


@pytest.fixture
def world(monkeypatch, tokenizer, tmp_path):
    """A machine with a tiny model of one layer, two engines, and a compiler that does nothing."""
    model = tiny_model(num_hidden_layers=1)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"dtype": "float32"}')
    (folder / "model.safetensors").touch()  # of which a sum is taken
    model.name_or_path = str(folder)
    made = SimpleNamespace(model=model, scripts={}, ended=[], started=[], folder=folder)

    @contextlib.contextmanager
    def start(name, folder, threads, quantised=False):
        made.started.append((name, folder, threads, quantised))
        script = made.scripts.get(f"{name} Q4" if quantised else name, {})
        if "start" in script:
            raise script["start"]
        try:
            yield FakeEngine(name, model, script)
        finally:
            made.ended.append(name)

    monkeypatch.setattr(engines, "installed", lambda: ["llama.cpp", "vllm"], raising=False)
    monkeypatch.setattr(engines, "start", start, raising=False)
    monkeypatch.setattr(bench, "load", lambda *_: (tokenizer, model))
    monkeypatch.setattr(bench, "measure_ceilings", lambda *_: CEILINGS)
    monkeypatch.setattr(rungs, "compiled", lambda step, model: step)
    known = {"model_id": "tiny", "device_name": "made up"}
    real = bench.describe
    monkeypatch.setattr(bench, "describe", lambda model: {**real(model), **known})
    return made


def run(*names, say=lambda _: None, new_tokens=3, rounds=2):
    return bench.run("auto", "cpu", "auto", new_tokens, rounds, list(names) or None, say)


def by_name(result):
    return {rung["name"]: rung for rung in result["rungs"]}


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(schema())
    checker = jsonschema.FormatChecker()
    assert "date-time" in checker.checkers, "rfc3339-validator is missing: dates would pass unseen"
    return jsonschema.Draft202012Validator(schema(), format_checker=checker)


def check_consistent(result):
    """Assert that what follows from other numbers of a result does follow, within rounding."""
    ceilings = result["ceilings"]
    assert ceilings["memory_gb_per_s"] == max(ceilings["memory_ways"].values())
    assert ceilings["matmul_gflop_per_s"] == max(ceilings["matmul_ways"].values())
    long = result["long_prompt"]
    share = long["gflop_per_s"] / ceilings["matmul_gflop_per_s"]
    assert long["matmul_fraction"] == pytest.approx(share, rel=0.01, abs=1e-4)
    names = [rung["name"] for rung in result["rungs"]]
    assert len(set(names)) == len(names)
    measured = {rung["name"]: rung for rung in result["rungs"] if "not_run" not in rung}
    assert measured["dynamic"]["exact"]
    assert measured[result["best_exact"]]["exact"]
    for name, rung in measured.items():
        assert rung["tokens_per_s"] == pytest.approx(1000 / rung["tpot_ms"], rel=0.01), name
        for time in ("ttft_ms", "tpot_ms"):
            low, high = rung[f"{time}_min_max"]
            assert low <= rung[time] <= high, name
        if name == "int8" or name.endswith("Q4"):
            assert not rung["exact"], name
        if rung["exact"]:
            assert rung["largest_difference"] <= rung["tolerance"], name
        if rung["bytes_per_token"] is None:
            assert rung["gb_per_s"] is rung["bandwidth_fraction"] is None, name
            continue
        rate = rung["bytes_per_token"] / rung["tpot_ms"] / 1e6
        assert rung["gb_per_s"] == pytest.approx(rate, rel=0.01, abs=1e-3), name
        share = rate / ceilings["memory_gb_per_s"]
        assert rung["bandwidth_fraction"] == pytest.approx(share, rel=0.01, abs=1e-4), name


def test_a_whole_run_has_every_rung_and_the_form_of_the_schema(world, validator):
    result = run()
    validator.validate(json.loads(bench.last_line(result)))
    check_consistent(result)
    rows = by_name(result)
    assert list(rows) == [*OURS, "llama.cpp", "llama.cpp Q4", "vllm"]
    exact = {name for name, rung in rows.items() if rung["exact"]}
    assert exact == {"no_cache", "dynamic", "static", "compiled", "llama.cpp", "vllm"}
    assert rows["vllm"]["version"] == "fake 1"
    assert rows["vllm"]["memory_mib"] == 3.0
    assert rows["vllm"]["bytes_per_token"] == rows["dynamic"]["bytes_per_token"]
    assert rows["llama.cpp Q4"]["bytes_per_token"] is None
    assert set(result["long_prompt"]["ttft"]) == {"dynamic", "compiled", "llama.cpp", "vllm"}
    assert result["long_prompt"]["tokens"] == 127  # as many as the model has positions, less one
    assert sorted(world.ended) == ["llama.cpp", "llama.cpp", "vllm"]
    assert world.started[1] == ("llama.cpp", world.folder, torch.get_num_threads(), True)
    # What the table and the card say of it.
    text = bench.card(result)
    assert "no_cache     yes" in text
    assert "llama.cpp Q4 no " in text
    assert f"{result['ratio_to_generate']:.3f} of generate()'s TPOT" in text


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"start": EngineError("no room")}, "no room"),
        ({"start": ValueError("threads must be")}, "threads must be"),
        ({"start": KeyError("token_embd")}, "KeyError: 'token_embd'"),
        ({"start": OSError(28, "No space left")}, "OSError: [Errno 28] No space left"),
        ({1: EngineError("gone at once")}, "gone at once"),  # its first call
        ({3: EngineError("gone in the warm-up")}, "gone in the warm-up"),
        ({5: EngineError("gone in round two")}, "gone in round two"),
        ({7: EngineError("gone at the long prompt")}, "gone at the long prompt"),
        ({"off": torch.zeros(1, 3, 4)}, "RuntimeError: "),  # logits of another shape
    ],
)
def test_an_engine_that_fails_at_any_point_is_listed_as_not_run(world, validator, script, reason):
    world.scripts["vllm"] = script
    said = []
    result = run("vllm", say=said.append)
    validator.validate(json.loads(bench.last_line(result)))
    row = by_name(result)["vllm"]
    assert row["not_run"].startswith(reason)
    assert result["best_exact_over_vllm"] is None
    assert "vllm" not in result["long_prompt"]["ttft"]
    assert any(line.startswith(f"vllm: not run: {reason}") for line in said)
    assert f"vllm         not run: {reason}" in bench.card(result)
    assert world.ended == ([] if "start" in script else ["vllm"])


def test_a_rung_that_cannot_be_compiled_is_listed_as_not_run(world, monkeypatch, validator):
    def refuse(*_):
        raise RungUnavailable("no compiler here")

    monkeypatch.setattr(rungs, "compiled", lambda step, model: refuse)
    result = run("static", "compiled", "int8")
    validator.validate(json.loads(bench.last_line(result)))
    rows = by_name(result)
    assert rows["compiled"] == {"name": "compiled", "not_run": "no compiler here"}
    assert "not_run" in rows["int8"]
    assert rows["static"]["exact"]


def test_engines_take_part_only_on_the_loops_device(world, monkeypatch):
    """A time on one device says nothing of the other's ceilings."""
    monkeypatch.setattr(engines, "device_of", {"llama.cpp": "cpu", "vllm": "cuda"}.get)
    rows = by_name(run("llama.cpp", "vllm"))
    assert rows["vllm"] == {
        "name": "vllm",
        "not_run": "vllm computes on cuda here, and the loop on cpu; to compare the two type "
        "--device cuda",
    }
    assert [name for name, *_ in world.started] == ["llama.cpp"]


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_engines_take_part_only_in_the_format_of_the_stored_weights(world, key):
    (world.folder / "config.json").write_text(json.dumps({key: "bfloat16"}))
    result = run("llama.cpp", "llama.cpp Q4", "vllm", "static")
    rows = by_name(result)
    for name in ("llama.cpp", "llama.cpp Q4", "vllm"):
        assert "in bfloat16, and the loop computes in float32" in rows[name]["not_run"]
        assert "type --dtype bfloat16" in rows[name]["not_run"]
    assert world.started == []
    assert rows["static"]["exact"]


def test_other_weights_are_not_called_exact_however_near_they_come(world):
    assert by_name(run("llama.cpp Q4"))["llama.cpp Q4"]["largest_difference"] == 0.0


def test_a_logit_that_is_no_number_is_null_in_the_result(world, validator):
    world.scripts["vllm"] = {"off": NAN}
    result = run("vllm")
    validator.validate(json.loads(bench.last_line(result)))
    row = by_name(result)["vllm"]
    assert (row["exact"], row["largest_difference"], row["largest_of_all"]) == (False, None, None)


def test_a_model_whose_own_logits_are_no_numbers_is_one_line(world):
    with torch.no_grad():
        world.model.lm_head.weight[0, 0] = NAN
    with pytest.raises(InsideGenerateError, match=r"no numbers in torch\.float32"):
        run("static")


def test_what_does_not_fit_into_the_window_is_said_before_anything_is_measured(world, monkeypatch):
    monkeypatch.setattr(bench, "measure_ceilings", lambda *_: pytest.fail("it went on"))
    with pytest.raises(ValueError, match="but the model has 128"):
        run("static", new_tokens=100)
    for wrong in ({"new_tokens": 1}, {"rounds": 0}):
        with pytest.raises(ValueError, match="must be a whole number of at least"):
            run("static", **wrong)


def test_the_whole_window_can_be_used(world, tokenizer):
    length = encode(tokenizer, bench.PROMPT)["input_ids"].shape[1]
    rows = by_name(run("static", new_tokens=128 - length + 1, rounds=1))
    assert rows["static"]["exact"]


def test_an_interrupt_ends_the_engines_and_is_exit_code_130(world, capsys):
    world.scripts["vllm"] = {4: KeyboardInterrupt()}
    assert (
        __main__.main(["bench", "--device", "cpu", "--new-tokens", "3", "--rungs", "vllm"]) == 130
    )
    assert world.ended == ["vllm"]
    assert capsys.readouterr().err == "stopped\n"


def test_a_reader_that_goes_away_does_not_take_the_file_along(world, monkeypatch, tmp_path):
    def gone(line, end="\n"):
        if line.startswith("model"):  # the card
            raise BrokenPipeError

    monkeypatch.setattr(__main__, "say", gone)
    monkeypatch.setattr(__main__.os, "dup2", lambda *_: None)
    target = tmp_path / "new" / "bench.json"
    words = ["bench", "--device", "cpu", "--new-tokens", "3", "--rounds", "1", "--rungs", "static"]
    assert __main__.main([*words, "--output", str(target)]) == 141
    assert json.loads(target.read_text("utf-8"))["rungs"]


# --- the schema, and what is recorded -------------------------------------------------------------


def walk(form):
    """Every object form of a schema, with where it stands."""
    for name, part in form.get("properties", {}).items():
        yield from walk(part)
        yield name, form
    for part in form.get("$defs", {}).values():
        yield from walk(part)


def test_the_schema_asks_for_every_key_that_it_describes():
    for name, form in walk(schema()):
        if isinstance(form.get("additionalProperties"), bool):
            assert name in form["required"], name
            assert form["additionalProperties"] is False


def test_a_result_that_lacks_a_key_has_another_too_many_or_a_wrong_value_is_not_valid(
    world, validator
):
    result = run("static", "vllm")
    good = json.loads(bench.last_line(result))
    changes = [
        lambda r: r.pop("source_commit"),
        lambda r: r.update(more=1),
        lambda r: r.update(date="yesterday"),
        lambda r: r.update(source_commit="main"),
        lambda r: r.update(device_name=None),
        lambda r: r.update(best_exact="int8"),
        lambda r: r["rungs"][0].pop("exact"),
        lambda r: r["rungs"][0].update(exact=None),
        lambda r: r["rungs"][0].update(tpot_ms=0),
        lambda r: r["rungs"][0].update(not_run="and yet measured"),
        lambda r: r["rungs"].append({"name": "x", "not_run": ""}),
        lambda r: r["long_prompt"]["ttft"].pop("dynamic"),
        lambda r: r["ceilings"]["memory_ways"].update(sum=-1),
    ]
    for change in changes:
        changed = copy.deepcopy(good)
        change(changed)
        assert not validator.is_valid(changed)


def test_a_result_that_contradicts_itself_is_noticed(world):
    good = run("static")
    check_consistent(good)
    for key in ("bandwidth_fraction", "gb_per_s", "tokens_per_s", "tpot_ms"):
        changed = copy.deepcopy(good)
        changed["rungs"][0][key] *= 1.5
        with pytest.raises(AssertionError):
            check_consistent(changed)


@pytest.mark.parametrize("name", sorted(recorded()) or ["none yet"])
def test_each_recorded_result_has_the_form_and_says_where_it_comes_from(name, validator):
    if name == "none yet":
        assert not list(RECORDED.glob("*.json"))
        return
    result = recorded()[name]
    validator.validate(result)
    check_consistent(result)
    assert result["source_commit"], "measured outside the course's checkout: with which code?"
    assert result["model_id"] != "tiny"
    assert Path(result["model_id"]).anchor == "", "the path of a folder says nothing to others"


def test_recorded_results_are_read_by_name_and_none_is_no_error(tmp_path):
    assert recorded(tmp_path / "none") == {}
    (tmp_path / "b.json").write_text('{"x": 1}')
    (tmp_path / "a.json").write_text('{"x": 2}')
    (tmp_path / "read.me").write_text("")
    assert list(recorded(tmp_path).items()) == [("a", {"x": 2}), ("b", {"x": 1})]
