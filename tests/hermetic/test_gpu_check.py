"""The GPU check's logic, on a CPU with stand-in processes: what ends how and when, and the file."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

import gpu_cells
import gpu_check
import gpu_machine
import gpu_parts
import gpu_peak
import gpu_results
from gpu_budget import Budget
from gpu_children import KEPT_BYTES, Outcome, run_child
from gpu_parts import PARTS, SHARES, Run

ROOT = Path(__file__).parents[2]
MACHINE = {"device": "cpu", "device_name": "a processor", "versions": {"torch": "2"}}
MACHINE |= {"source_commit": None}
FOUND = {
    "machine": MACHINE,
    "cannot_run": dict.fromkeys(PARTS),
    "model": {"directory": "/somewhere/random-weights-0", "random_weights": True},
}


def shell(script: str, part="notebooks", name="one", **more) -> Run:
    return Run(part, name, ("/bin/sh", "-c", script), **more)


def end_of(script: str, limit_s=10.0, stop=None) -> Outcome:
    command = ("/bin/sh", "-c", script)
    return run_child(command, limit_s, Path.cwd(), os.environ, stop or threading.Event())


# --- one process ----------------------------------------------------------------------------------


def test_a_process_passes_or_fails_by_its_exit_code_and_leaves_its_last_words():
    assert end_of("echo soup; echo bread >&2").said == ["soup", "bread"]
    assert end_of("true").state == "passed"
    failed = end_of("echo no oven; exit 7")
    assert (failed.state, failed.exit_code, failed.said) == ("failed", 7, ["no oven"])
    assert end_of("kill -9 $$").exit_code == -signal.SIGKILL


def test_a_program_that_is_not_there_has_failed_in_a_line():
    outcome = run_child(("/no/such/program",), 5, Path.cwd(), {}, threading.Event())
    assert outcome.state == "failed"
    assert outcome.said == ["/no/such/program cannot be started: No such file or directory"]


def is_alive(pid: int) -> bool:
    """Whether a process is still there soon after it was ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state in "ZX":  # it has ended, and nobody has asked how
            return False
        time.sleep(0.01)
    return True


def test_a_process_that_hangs_is_ended_with_all_that_it_started():
    outcome = end_of("sleep 60 & echo $!; trap '' TERM; wait", limit_s=0.3)
    assert outcome.state == "timed out"
    assert not is_alive(int(outcome.said[0]))


def test_what_a_process_left_running_is_ended_with_it():
    outcome = end_of("sleep 60 & echo $!")
    assert outcome.state == "passed"
    assert not is_alive(int(outcome.said[0]))


def test_a_process_is_ended_when_the_check_is_stopped():
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert end_of("exec sleep 60", stop=stop).state == "interrupted"


def test_rubbish_of_any_size_is_kept_short_and_readable():
    outcome = end_of(
        "head -c 3000000 /dev/zero; printf '\\377\\033[31mred\\033[0m\\r\\n\\007end\\n'"
    )
    assert outcome.state == "passed"
    assert outcome.said == ["�red", "end"]
    long = end_of("head -c 90000 /dev/zero | tr '\\0' x; echo")
    assert sum(map(len, long.said)) <= KEPT_BYTES
    json.dumps(outcome.said).encode("utf-8")


# --- the time -------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_each_part_gets_its_share_and_what_the_one_before_left():
    clock = Clock()
    budget = Budget(400, PARTS, SHARES, clock)
    assert budget.limit_s("tests") == pytest.approx(400 * SHARES["tests"])
    clock.now += 10
    share = SHARES["bench"] / (SHARES["bench"] + SHARES["notebooks"])
    assert budget.limit_s("bench") == pytest.approx(390 * share)
    clock.now += 390 * share
    assert budget.limit_s("notebooks") == pytest.approx(390 * (1 - share))
    clock.now = 499.5
    assert budget.limit_s("notebooks") == 0


def test_no_process_of_a_part_gets_all_that_is_left_while_others_wait():
    clock = Clock()
    budget = Budget(100, ["notebooks"] * 3, SHARES, clock)
    assert budget.limit_s("notebooks") == pytest.approx(70)
    clock.now += 70
    assert budget.limit_s("notebooks") == pytest.approx(21)
    clock.now += 21
    assert budget.limit_s("notebooks") == pytest.approx(9)


# --- the check ------------------------------------------------------------------------------------


def check_of(tmp_path, *runs, seconds=20.0, jobs=1):
    """Run a check of these processes; return the file's content and the lines said."""
    file, bench, said = tmp_path / "out/results.json", tmp_path / "bench.json", []
    results = gpu_results.new_results(8, FOUND, runs)
    under_way = gpu_check.Check(runs, results, file, bench, said.append)
    under_way.run_all(tmp_path, os.environ, seconds, jobs)
    return json.loads(file.read_text("utf-8")), said


def states(results) -> dict[str, str]:
    return {record["name"]: record["state"] for record in results["runs"]}


def test_a_check_of_parts_that_pass_has_passed_and_says_what_ran_where(tmp_path):
    tests = shell("echo === 3 passed, 2 skipped in 1s ===", "tests", "tests")
    ladder = shell('echo \'{"rungs": [{"name": "dynamic"}]}\' > bench.json', "bench", "bench")
    left_out = Run("notebooks", "two", left_out="random weights")
    results, said = check_of(tmp_path, tests, ladder, shell("true"), left_out)
    wanted = {"tests": "passed", "bench": "passed", "one": "passed", "two": "skipped"}
    assert states(results) == wanted
    assert (results["passed"], results["finished"]) == (True, True)
    assert results["bench"] == {"rungs": [{"name": "dynamic"}]}
    assert results["machine"] == MACHINE
    assert results["model"] == {"directory": "random-weights-0", "random_weights": True}
    assert said[0] == "tests, tests: passed in 0 s"


def test_one_failure_fails_the_check_and_stops_nothing(tmp_path):
    runs = [shell("echo no; exit 1", name="bad"), shell("true", name="good")]
    results, said = check_of(tmp_path, *runs)
    assert states(results) == {"bad": "failed", "good": "passed"}
    assert not results["passed"]
    assert said[0] == "notebooks, bad: failed in 0 s: no"


def test_a_hanging_process_is_timed_out_and_leaves_time_to_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_budget.SHORTEST_S", 0.05)
    runs = [shell("exec sleep 60", name="hangs"), *(shell("true", name=x) for x in "abc")]
    results, _ = check_of(tmp_path, *runs, seconds=1.5)
    assert states(results) == {"hangs": "timed out", "a": "passed", "b": "passed", "c": "passed"}
    assert not results["passed"]


def test_what_there_was_no_time_for_is_marked_not_reached(tmp_path):
    results, said = check_of(tmp_path, shell("true"), seconds=0.5)
    assert states(results) == {"one": "not reached"}
    assert not results["passed"]
    assert said == ["notebooks, one: not reached: the time was up"]


def test_the_file_is_whole_while_a_process_runs(tmp_path):
    look = f"cp {tmp_path}/out/results.json {tmp_path}/seen.json"
    check_of(tmp_path, shell("true", name="a"), shell(look, name="b"), shell("true", name="c"))
    seen = json.loads((tmp_path / "seen.json").read_text("utf-8"))
    assert states(seen) == {"a": "passed", "b": "running", "c": "not reached"}
    assert (seen["finished"], seen["passed"]) == (False, False)


def test_what_may_run_together_does_and_what_must_be_alone_is_alone(tmp_path):
    meet = "touch $0; for i in 1 2 3 4 5 6 7 8; do [ -e $1 ] && exit 0; sleep 0.1; done; exit 1"
    together = [
        Run("notebooks", a, ("/bin/sh", "-c", meet, a, b), alone=False) for a, b in ("xy", "yx")
    ]
    assert states(check_of(tmp_path, *together, jobs=2)[0]) == {"x": "passed", "y": "passed"}
    alone = [shell("mkdir room && sleep 0.1 && rmdir room", name=name) for name in "xy"]
    assert states(check_of(tmp_path, *alone, jobs=2)[0]) == {"x": "passed", "y": "passed"}


def test_an_interruption_keeps_what_was_done_and_ends_what_runs(tmp_path):
    file = tmp_path / "results.json"
    script = (
        "import os, sys, json, pathlib, gpu_check, gpu_results, gpu_parts\n"
        "from gpu_parts import Run\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "def run(name, script): return Run('notebooks', name, ('/bin/sh', '-c', script))\n"
        "runs = [run('a', 'true'), run('b', 'echo $$ > pid; exec sleep 60'), run('c', 'true')]\n"
        "gpu_check.set_up = lambda *_: json.loads(sys.argv[2])\n"
        "gpu_parts.runs = lambda *_: runs\n"
        "gpu_check.ROOT = root\n"
        "options = ['--parts', 'notebooks', '--output', str(root / 'results.json')]\n"
        "sys.exit(gpu_check.main(options))\n"
    )
    path = os.pathsep.join([str(ROOT / "book"), str(ROOT / "src")])
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), json.dumps(FOUND)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(200):
        if (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text().strip():
            break
        time.sleep(0.05)
    child.terminate()
    _, said = child.communicate(timeout=20)
    assert (child.returncode, said) == (130, "stopped\n")
    assert not is_alive(int((tmp_path / "pid").read_text()))
    results = json.loads(file.read_text("utf-8"))
    assert states(results) == {"a": "passed", "b": "interrupted", "c": "not reached"}
    assert not results["finished"]


# --- what counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        ([("tests", "passed")], True),
        ([("tests", "passed"), ("notebooks", "passed"), ("notebooks", "skipped")], True),
        ([("tests", "passed"), ("notebooks", "skipped")], False),
        ([("notebooks", "passed"), ("notebooks", "failed")], False),
        ([("notebooks", "passed"), ("notebooks", "not reached")], False),
        ([("bench", "timed out")], False),
        ([], False),
    ],
)
def test_passed_means_nothing_went_wrong_and_something_of_each_part_ran(records, verdict):
    records = [{"part": part, "state": state} for part, state in records]
    assert gpu_results.passed(records) is verdict


@pytest.mark.parametrize(
    ("last", "state", "why"),
    [
        ("===== 20 passed, 3 skipped in 9.1s =====", "passed", None),
        ("===== 23 skipped in 0.5s =====", "skipped", "no test ran"),
        ("it said that 4 passed", "skipped", "no test ran"),
        ("===== 23 deselected in 0.5s =====", "skipped", "no test ran"),
    ],
)
def test_tests_that_were_all_skipped_have_not_passed(last, state, why):
    record = gpu_results.entry(Run("tests", "tests"))
    gpu_results.note(record, Outcome("passed", 1.0, 0, [last, "a last word"]))
    assert (record["state"], record["why"]) == (state, why)


def test_a_notebook_that_lacks_a_package_is_skipped_with_that_reason(tmp_path):
    record = gpu_results.entry(Run("notebooks", "one"))
    said = ["Traceback", "it needs matplotlib, which is not installed"]
    gpu_results.note(record, Outcome("failed", 1.0, gpu_cells.MISSING, said))
    assert (record["state"], record["why"]) == ("skipped", said[-1])


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"rungs": ['])
def test_a_ladder_that_left_no_result_or_half_a_one_is_no_mishap(tmp_path, text):
    if text is not None:
        (tmp_path / "bench.json").write_text(text)
    results = gpu_results.new_results(8, FOUND, [Run("bench", "bench")])
    gpu_results.add_bench(results, tmp_path / "bench.json")
    gpu_results.write(results, tmp_path / "results.json")


def test_a_peak_survives_the_resets_in_between(monkeypatch):
    marks = iter([5 * gpu_peak.MIB, 3 * gpu_peak.MIB, gpu_peak.MIB])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: next(marks))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device=None: None)
    peak = gpu_peak.watch()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_peak_memory_stats("cuda:0")
    assert gpu_peak.read(["soup", gpu_peak.line(peak())]) == 5
    assert gpu_peak.read(["soup"]) is None


def test_a_module_is_run_as_python_would_and_its_peak_told_however_it_ends(
    monkeypatch, tmp_path, capsys
):
    (tmp_path / "soup.py").write_text("import sys\nprint(__name__, sys.argv[1:])\nsys.exit(7)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["soup", "--hot"])
    monkeypatch.setattr(gpu_peak, "watch", lambda: lambda: 12.5)
    with pytest.raises(SystemExit, match="7"):
        gpu_peak.run_watched("soup")
    said = capsys.readouterr().out.splitlines()
    assert said == ["__main__ ['--hot']", "peak of allocated GPU memory: 12.5 MiB"]


# --- parts and notebooks --------------------------------------------------------------------------


def test_with_random_weights_only_the_lessons_about_time_and_memory_run(tmp_path):
    names = [run.name[:2] for run in gpu_parts.notebook_runs(ROOT, True) if not run.left_out]
    assert {"10", "11", "12"} <= set(names) <= {"10", "11", "12", "18"}
    everything = gpu_parts.notebook_runs(ROOT, False)
    assert len(everything) == len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert [run for run in everything if run.left_out] == []


def test_a_part_that_cannot_run_is_left_out_with_its_reason(tmp_path):
    found = {**FOUND, "cannot_run": {**FOUND["cannot_run"], "tests": "no pytest"}, "model": None}
    (run,) = gpu_parts.runs("tests", ROOT, found, tmp_path)
    assert (run.left_out, run.command) == ("no pytest", ())


def test_the_ladder_is_called_by_its_command_line(tmp_path):
    (run,) = gpu_parts.runs("bench", ROOT, FOUND, tmp_path)
    assert Path(run.command[1]).name == "gpu_peak.py"
    assert run.command[2:4] == ("inside_generate", "bench")
    assert run.command[-6:-1] == (
        "--model",
        "/somewhere/random-weights-0",
        "--device",
        "cpu",
        "--output",
    )


def test_children_compute_with_this_checkout_this_model_and_no_network(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    environment = gpu_parts.environment(ROOT, FOUND)
    folders = environment["PYTHONPATH"].split(os.pathsep)
    assert folders == [str(ROOT / "src"), str(ROOT / "book"), "/elsewhere"]
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["INSIDE_GENERATE_MODEL"].endswith("random-weights-0")
    assert environment["INSIDE_GENERATE_DEVICE"] == "cpu"


def notebook_of(tmp_path, *cells) -> Path:
    file = tmp_path / "lesson.ipynb"
    file.write_text(writes(new_notebook(cells=[new_markdown_cell("# One"), *cells])))
    return file


def tagged(source: str, tag: str):
    return new_code_cell(source, metadata={"tags": [tag]})


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Let a notebook run in this process and leave no trace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr(gpu_cells, "do_without_a_page", lambda: None)
    return tmp_path


def test_a_notebook_runs_cell_after_cell_and_its_widgets_do_not(here):
    cells = [
        new_code_cell("a = 41\ndef f():\n    return a + 1"),
        tagged("import no_such_widgets", "live"),
        tagged("1 / 0", "raises-exception"),
        new_code_cell("import inspect\nassert f() == 42 and 'a + 1' in inspect.getsource(f)"),
    ]
    assert gpu_cells.main(str(notebook_of(here, *cells))) == 0


@pytest.mark.parametrize(
    ("source", "code", "last"),
    [
        ("assert 1 == 2, 'not equal'", 1, "AssertionError: not equal"),
        ("import no_such_package", 3, "it needs no_such_package, which is not installed"),
        ("import inside_generate.no_such", 1, "No module named 'inside_generate.no_such'"),
    ],
)
def test_a_notebook_that_fails_says_where_and_a_missing_package_is_told_apart(
    here, capfd, source, code, last
):
    assert gpu_cells.main(str(notebook_of(here, new_code_cell(source)))) == code
    out, err = capfd.readouterr()
    assert (out + err if code == 1 else out).strip().endswith(last)
    assert source in err


def test_what_jupyter_draws_with_has_a_stand_in(monkeypatch):
    for name in ("no_such_page", "no_such_page.backend"):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    gpu_cells.stand_in("no_such_page.backend", set_formats=lambda *_: "nothing")
    from no_such_page.backend import set_formats

    assert set_formats("svg") == "nothing"


# --- the machine and the command ------------------------------------------------------------------


def test_a_missing_or_broken_package_is_a_reason_and_no_crash(monkeypatch):
    needs = {"tests": ("no_such_package_here",), "bench": ("json",), "notebooks": ("json",)}
    monkeypatch.setattr(gpu_machine, "NEEDS", needs)
    assert "No module named 'no_such_package_here'" in gpu_machine.cannot_run("tests")
    assert gpu_machine.cannot_run("bench") is None


def test_a_library_that_knows_the_cache_by_another_name_is_told_before_all_else(monkeypatch):
    def forward(self, input_ids=None, past_key_values=None):
        pass

    monkeypatch.setattr("transformers.Qwen2ForCausalLM.forward", forward)
    assert "requirements.txt" in gpu_machine.cannot_run("tests")


def test_without_a_model_random_weights_are_taken_and_the_reason_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr("inside_generate.random_checkpoint.random_checkpoint", lambda: tmp_path)
    taken = gpu_machine.take_model("auto")
    assert (taken["directory"], taken["random_weights"]) == (str(tmp_path), True)
    assert "there is no model in" in taken["why"]
    with pytest.raises(Exception, match="unknown model 'no-such'"):
        gpu_machine.take_model("no-such")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--parts", "tests,soup"], "must name some of tests, bench, notebooks, not 'tests,soup'"),
        (["--parts", ","], "must name some of"),
        (["--minutes", "0"], "must be a number from 0.2 to 600, not '0'"),
        (["--minutes", "nan"], "must be a number from 0.2 to 600, not 'nan'"),
        (["--output", "/proc/results.json"], "error: /proc"),
        (["--output", "/"], "error: /: Is a directory"),
    ],
)
def test_bad_arguments_are_answered_in_a_line(capsys, options, said):
    try:
        code = gpu_check.main(options)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_machine_that_cannot_be_looked_at_is_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gpu_machine, "__file__", str(tmp_path / "broken.py"))
    (tmp_path / "broken.py").write_text("print('the driver is on holiday')\nraise SystemExit(1)\n")
    assert gpu_check.main(["--output", str(tmp_path / "r.json")]) == 2
    assert capsys.readouterr().err.endswith("after 0 s: the driver is on holiday\n")
    assert not (tmp_path / "r.json").exists()


def test_parts_run_in_one_order_however_they_are_named():
    assert gpu_check.parts("notebooks,tests") == ["tests", "notebooks"]


@pytest.mark.parametrize("python", ["", "/opt/python9"])
def test_make_runs_the_check_with_the_python_that_is_named_and_sets_nothing_up(python):
    command = [
        "make",
        "-n",
        "--no-print-directory",
        "gpu-check",
        f"PYTHON={python}",
        "GPU_ARGS=--device cpu",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.endswith(" book/gpu_check.py --device cpu")
    assert line.startswith(python or (".venv/", "python3 "))


def test_what_is_no_plain_file_is_not_replaced_by_the_results(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "results of somebody else")
    for file in (pipe, link):
        with pytest.raises(OSError, match="no plain file"):
            gpu_results.check_target(file)


def test_a_machine_that_takes_too_long_to_look_at_is_one_line_that_says_what_to_type(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(gpu_machine, "__file__", str(tmp_path / "slow.py"))
    monkeypatch.setattr(gpu_check, "SET_UP_S", 0.5)
    (tmp_path / "slow.py").write_text("import time; time.sleep(60)\n")
    assert gpu_check.main(["--output", str(tmp_path / "r.json")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "give it more time with --minutes" in line
    assert "KeyboardInterrupt" not in line
