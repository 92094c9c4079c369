"""The compiled rungs, with a compiler that hands back what it was given: one program, made once."""

from types import SimpleNamespace

import pytest
import torch
from tests.tiny import random_inputs

from inside_generate.ladder import Compiled, Dynamic, Int8, RungUnavailable, forced, free
from inside_generate.ladder.compiling import compiled, gist, is_compilers_error
from inside_generate.ladder.rows import ROWS_AT_ONCE

# What the compiler warns of while it works is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore")

IDS = (5, 17, 300, 42, 7, 7, 211, 64)


def clock():
    return 0.0


@pytest.fixture
def programs(monkeypatch):
    """The list of programs that the compiler is handed; each then runs as it is."""
    found, compile_ = [], torch.compile

    def keep(program, inputs):
        found.append(program)
        return program

    def as_it_is(step, **settings):
        assert settings["fullgraph"], "a step in pieces would pass unseen"
        return compile_(step, backend=keep, **settings)

    monkeypatch.setattr(torch, "compile", as_it_is)
    yield found
    torch.compiler.reset()


def same_as_the_loop(rung, model, length, seed=0):
    inputs = random_inputs(length, seed)
    loop = forced(Dynamic(model), inputs, IDS)
    torch.testing.assert_close(forced(rung, inputs, IDS), loop, atol=1e-3, rtol=0)


def nodes(program):
    """The nodes of a program and of its parts."""
    parts = [part for part in program.modules() if isinstance(part, torch.fx.GraphModule)]
    return [node for part in parts for node in part.graph.nodes]


def test_a_step_is_one_program_made_once_for_all_steps_runs_and_lengths(model, programs):
    rung = Compiled(model, 40)
    assert programs == []
    same_as_the_loop(rung, model, 12)
    with torch.compiler.set_stance("fail_on_recompile"):
        for length, seed in ((12, 1), (3, 2), (32, 3), (1, 4)):
            same_as_the_loop(rung, model, length, seed)
        run = free(rung, random_inputs(12), 28, clock)
    assert run.ids == free(Dynamic(model), random_inputs(12), 28, clock).ids
    assert not any("forward" in vars(module) for module in model.modules())  # left alone
    (program,) = programs
    called = nodes(program)
    assert not [node for node in called if node.target is torch._C._nn.linear]
    # Seven products in a layer, of which the second is the first one's repeat, and the last one.
    written_out = [n for n in called if n.target is torch.cat and len(n.args[0]) == ROWS_AT_ONCE]
    assert len(written_out) == 7 + 1


def plus_one(x):
    return x + 1


NO_MODEL = SimpleNamespace(device=torch.device("cpu"), base_model=None)


def test_as_many_steps_as_one_likes_are_compiled_in_one_process(programs):
    steps = [compiled(plus_one, NO_MODEL) for _ in range(12)]  # the compiler's own limit is 8
    for size, step in enumerate(steps):
        assert step(torch.zeros(size + 2)).tolist() == [1.0] * (size + 2)
    assert len(programs) == 12


def test_a_step_that_would_have_to_be_compiled_again_raises_and_is_not(programs):
    """A number that Python counts, such as the place in a sliding window, would do that."""
    step = compiled(plus_one, NO_MODEL)
    step(torch.zeros(2))
    with pytest.raises(Exception, match="fullgraph") as caught:
        step(torch.zeros(3))
    assert is_compilers_error(caught.value)
    assert gist(caught.value) == "it would have to be compiled again, for the next token"
    assert len(programs) == 1


# --- where it cannot be compiled ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Compiled, Int8])
def test_without_a_compiler_the_rung_is_unavailable_and_says_what_to_type(model, monkeypatch, kind):
    from torch._inductor.exc import InvalidCxxCompiler

    compile_ = torch.compile

    def missing(program, inputs):
        raise InvalidCxxCompiler

    rung = kind(model, 40)
    rung.start(random_inputs(12))
    monkeypatch.setattr(torch, "compile", lambda s, **k: compile_(s, backend=missing, **k))
    rung.run = compiled(lambda _, token_ids, *others: token_ids + 1, NO_MODEL)
    with pytest.raises(RungUnavailable) as caught:
        rung.step(torch.tensor([[5]]))
    line = str(caught.value)
    assert line.startswith("the step cannot be compiled here: ")
    assert "No working C++ compiler" in line
    assert "type `python -m inside_generate doctor`" in line
    assert "\n" not in line


def test_an_error_that_is_not_the_compilers_is_not_taken_for_one(model, monkeypatch):
    def broken(*_):
        raise RuntimeError("out of memory")

    rung = Compiled(model, 40)
    rung.start(random_inputs(12))
    rung.run = broken
    with pytest.raises(RuntimeError, match="out of memory"):
        rung.step(torch.tensor([[5]]))


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "CppCompileError: C++ compile error\n\nOutput:\n/a/b.h:1:2: fatal error: Python.h: No "
            "such file or directory\n",
            "/a/b.h:1:2: fatal error: Python.h: No such file or directory; type "
            "`python -m inside_generate doctor`",
        ),
        ("\n  first  line\nsecond", "first line"),
        ("x" * 1000, "x" * 300 + "…"),
        ("", "SimpleError"),
    ],
)
def test_a_compilers_long_message_becomes_the_line_that_tells(message, line):
    assert gist(type("SimpleError", (Exception,), {})(message)) == line


# --- on a GPU -------------------------------------------------------------------------------------


def test_on_a_gpu_what_a_step_returns_is_kept_from_the_next_run_of_the_graph(monkeypatch):
    memory, marks, asked = torch.zeros(1, 3), [], {}

    def graph(*arguments):
        memory.add_(1)
        return memory

    def compile_(step, **settings):
        asked.update(settings)
        return graph

    monkeypatch.setattr(torch, "compile", compile_)
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: marks.append(1))
    run = compiled(graph, SimpleNamespace(device=torch.device("cuda")))
    first, second = run(), run()
    assert (first.tolist(), second.tolist(), len(marks)) == ([[1.0] * 3], [[2.0] * 3], 2)
    assert asked["options"]["triton.cudagraphs"]
    assert asked["fullgraph"]
