"""Engines at work: what one is asked, what comes back, and that none outlives its use.

No engine is installed here: the worker runs in this Python, and drives scripts of a few lines that
behave, or misbehave, as a whole engine might.
"""

import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from tests.tiny import VOCABULARY, WINDOW, tiny_config

from inside_generate import engines
from inside_generate.engines import EngineError, EngineRun, running, start
from inside_generate.engines import child as engines_child
from inside_generate.engines.kinds import KINDS

WORKER = Path(running.__file__).with_name("worker.py")
BEHAVES = f"""
import sys

print("chatter", flush=True)  # engines are talkative: none of it may pass for an answer

class Engine:
    version = "fake 1"

    def __init__(self, **settings):
        self.settings = settings
        print("loading")

    def answer(self, prompt_ids, new_tokens):
        print("answering")
        return [sum(prompt_ids)] * new_tokens, 0.5, [0.25] * (new_tokens - 1)

    def forced(self, prompt_ids, ids):
        import numpy
        return numpy.full((len(ids), {VOCABULARY}), sum(prompt_ids), dtype="float32")

def load(**settings):
    return Engine(**settings)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder; who drives no engine reads its config alone."""
    path = tmp_path_factory.mktemp("model")
    tiny_config(dtype="bfloat16").save_pretrained(path)
    return path


@pytest.fixture
def drive(monkeypatch, tmp_path):
    """Return a function that has every engine driven by a script."""
    monkeypatch.setattr(running, "installed_package", lambda _: "fake==1")

    def use(script):
        (tmp_path / "driver.py").write_text(script)
        command = [sys.executable, "-I", str(WORKER), str(tmp_path / "driver.py")]
        monkeypatch.setattr(running, "command", lambda _: command)

    return use


def children():
    """The command lines of the processes that this one has started and that still run."""
    family = psutil.Process().children(recursive=True)
    return [p.pid for p in family if p.status() != psutil.STATUS_ZOMBIE]


def error_of(folder, timeout_s=20):
    """Start an engine that must not work: its one line, after which no process is left."""
    before = children()
    with pytest.raises(EngineError) as caught, start("vllm", folder, 1, timeout_s=timeout_s) as it:
        it.answer([1], 2)
    assert children() == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_engine_answers_is_fed_given_ids_and_ends(folder, drive):
    drive(BEHAVES)
    before = children()
    with start("vllm", folder, threads=2) as engine:
        assert (engine.name, engine.version) == ("vllm", "fake 1")
        assert len(children()) == len(before) + 1
        assert engine.memory_bytes() > 1 << 20
        assert engine.answer([1, 2], 3) == EngineRun([3, 3, 3], 0.5, [0.25, 0.25])
        logits = engine.forced([1, 2], [5, 6, 7])
        assert logits.shape == (3, VOCABULARY)
        assert logits.dtype == torch.float32
        assert logits.unique().tolist() == [3]
        assert engine.answer([4], 1) == EngineRun([4], 0.5, [])
    assert children() == before


def test_an_engine_is_told_the_model_its_number_format_the_threads_and_the_room(folder, drive):
    drive(BEHAVES.replace('print("loading")', "self.version = str(sorted(settings.items()))"))
    told = {"context": WINDOW, "dtype": "bfloat16", "folder": str(folder), "threads": 2}
    with start("vllm", folder, threads=2) as engine:
        assert engine.version == str(sorted(told.items()))


def test_what_a_worker_may_use_comes_from_its_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("INSIDE_GENERATE_HOME", str(tmp_path))
    settings = running.surroundings(KINDS["vllm"], 3)
    assert settings["OMP_NUM_THREADS"] == "3"
    assert "LD_PRELOAD" not in settings
    library = tmp_path / "engines/vllm/lib/libiomp5.so"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setenv("LD_PRELOAD", "other.so")
    assert running.surroundings(KINDS["vllm"], 3)["LD_PRELOAD"] == f"{library}:other.so"


def test_the_worker_is_run_by_the_engines_own_python_cut_off_from_the_readers_paths(tmp_path):
    python, isolated, worker, driver = running.command(KINDS["llama.cpp"])
    assert Path(python).is_relative_to(tmp_path / "home/engines/llama.cpp")
    assert isolated == "-I"
    assert Path(worker) == WORKER
    assert Path(driver).is_file()


def test_what_the_worker_cannot_do_is_one_line_and_the_next_request_is_answered(folder, drive):
    drive(BEHAVES.replace('print("answering")', "assert new_tokens != 2, 'not\\n  two'"))
    with start("vllm", folder, 1) as engine:
        with pytest.raises(EngineError, match=r"^vllm: AssertionError: not two$"):
            engine.answer([1], 2)
        assert engine.answer([1], 1).ids == [1]


@pytest.mark.parametrize("threads_and_more", [(0, False), (True, False), (1, True)])
def test_a_wrong_argument_is_refused_before_anything_starts(folder, drive, threads_and_more):
    drive("raise SystemExit")
    with pytest.raises(ValueError), start("vllm", folder, *threads_and_more):
        pass


def test_an_engine_that_is_not_known_or_not_there_is_named_with_what_to_do(folder):
    with pytest.raises(ValueError, match=r"'ollama'; choose llama.cpp or vllm"):
        start("ollama", folder, 1).__enter__()
    with pytest.raises(EngineError, match=r"engines install llama.cpp"):
        start("llama.cpp", folder, 1).__enter__()
    assert engines.installed() == []


def test_a_folder_without_a_config_is_named(tmp_path, drive):
    drive(BEHAVES)
    with pytest.raises(EngineError, match=f"cannot read the config of '{tmp_path}/none'"):
        start("vllm", tmp_path / "none", 1).__enter__()


def test_a_request_that_no_engine_can_meet_does_not_reach_it(folder, drive):
    drive(BEHAVES)
    with start("vllm", folder, 1) as engine:
        for prompt_ids, new_tokens, said in (
            ([], 1, "at least 1"),
            ([1], 0, "at least 1"),
            ([1] * WINDOW, 1, f"room for {WINDOW}"),
            ([VOCABULARY], 1, f"token id {VOCABULARY}"),
            ([-1], 1, "token id -1"),
            ("abc", 1, "row of ids"),
        ):
            with pytest.raises(ValueError, match=said):
                engine.answer(prompt_ids, new_tokens)
        for ids in ([], [VOCABULARY], [1] * WINDOW):
            with pytest.raises(ValueError):
                engine.forced([1], ids)


@pytest.mark.parametrize(
    "where", ['print("loading")', 'print("answering")', "class Engine:\n    pass\n"]
)
def test_a_death_is_told_with_its_exit_code_and_last_words(folder, drive, where):
    death = "sys.stderr.write('first\\nno   memory\\n\\n'); sys.stderr.flush()\n"
    death += "import os; os._exit(3)"
    script = BEHAVES.replace("class Engine:", "class Engine:\n    pass\n\nclass Engine:", 1)
    indent = " " * 8 if "print" in where else ""
    drive(script.replace(where, death.replace("\n", "\n" + indent) + "\n" + indent))
    assert error_of(folder) == "vllm ended with exit code 3; its last line: no memory"


def test_an_engine_that_hangs_while_it_loads_is_given_up_and_ended(folder, drive):
    drive(BEHAVES.replace('print("loading")', "import time; time.sleep(60)"))
    assert error_of(folder, timeout_s=0.2).startswith("vllm gave no answer within 0.2 s")


def test_an_engine_that_hangs_later_is_ended_and_stays_so(folder, drive):
    drive(BEHAVES.replace('print("answering")', "import time; time.sleep(60)"))
    before = children()
    with start("vllm", folder, 1) as engine:
        engine._timeout_s = 0.1
        with pytest.raises(EngineError, match=r"vllm gave no answer within 0.1 s"):
            engine.answer([1], 2)
        assert children() == before
        with pytest.raises(EngineError, match="vllm ended with exit code -9"):
            engine.answer([1], 2)


@pytest.mark.parametrize("line", ["hello", "[]", '{"ok": 3}', "[" * 9999, '{"ok": {}}\n\udcff'])
def test_a_line_that_is_no_answer_is_shown(folder, monkeypatch, line):
    monkeypatch.setattr(running, "installed_package", lambda _: "fake==1")
    code = f"import os; os.write(1, {line.encode(errors='surrogateescape')!r} + b'\\n'); input()"
    code += "; input()"
    monkeypatch.setattr(running, "command", lambda _: [sys.executable, "-I", "-c", code])
    assert "vllm wrote what is no answer: b'" in error_of(folder)


def test_a_python_that_cannot_be_started_is_named(folder, monkeypatch):
    monkeypatch.setattr(running, "installed_package", lambda _: "fake==1")
    assert "vllm cannot be started" in error_of(folder)


def test_an_answer_of_another_form_is_refused(folder, drive):
    wrong = (
        "[1], 0.5, []",
        "[1, 2], 0.5, []",
        "[1], 0.5, [0.1]",
        "[1, 2], 0.5, [0.1, 0.1]",
        "[1, 2], -1, [0.1]",
        "[1, 2], 0.5, [0.0]",
        "[1, 2], 0.5, [1e-320]",
        "[1, 2], 0.5, [1e308]",
        "[1, 2], float('nan'), [0.1]",
        "[1, 'a'], 0.5, [0.1]",
        "None, 0.5, [0.1]",
        "[1, 2], 0.5, None",
    )
    right = "[sum(prompt_ids)] * new_tokens, 0.5, [0.25] * (new_tokens - 1)"
    drive(
        BEHAVES.replace(right, f"({', '.join(f'({answer})' for answer in wrong)})[prompt_ids[0]]")
    )
    with start("vllm", folder, 1) as engine:
        for number in range(len(wrong)):
            with pytest.raises(EngineError, match="vllm answered with something else than was"):
                engine.answer([number], 2)


def test_logits_of_another_form_are_refused(folder, drive):
    right = f'numpy.full((len(ids), {VOCABULARY}), sum(prompt_ids), dtype="float32")'
    wrong = f"[numpy.ones((2, {VOCABULARY})), numpy.ones((1, {VOCABULARY}), 'f4'), "
    wrong += "numpy.ones((2, 3), 'f4'), numpy.array([None])][prompt_ids[0]]"
    drive(BEHAVES.replace(right, wrong))
    with start("vllm", folder, 1) as engine:
        for number, said in enumerate(("float64", r"\(1, ", r"\(2, 3\)", "")):
            with pytest.raises(EngineError, match=f"something else than was asked.*{said}"):
                engine.forced([number], [2, 3])


def test_what_an_engine_has_started_ends_with_it(folder, drive):
    begin = (
        "import subprocess\n        more = [sys.executable, '-c', 'import time; time.sleep(60)']"
    )
    begin += "\n        self.version = str(subprocess.Popen(more).pid)"
    drive(BEHAVES.replace('print("loading")', begin))
    with start("vllm", folder, 1) as engine:
        pid = int(engine.version)
        assert psutil.Process(pid).is_running()
    for _ in range(200):  # whoever adopts it buries it when it likes
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.01)
    pytest.fail("it still runs")


def test_an_error_of_the_caller_ends_the_engine_too(folder, drive):
    drive(BEHAVES)
    before = children()
    with pytest.raises(KeyboardInterrupt), start("vllm", folder, 1):
        raise KeyboardInterrupt
    assert children() == before


def test_a_second_interruption_while_an_engine_ends_does_not_keep_it_alive(tmp_path, monkeypatch):
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = engines_child.Child("vllm", sleeps, {}, tmp_path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(child.process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        child.end()
    monkeypatch.undo()
    assert child.process.wait(20) != 0
    child.end()
