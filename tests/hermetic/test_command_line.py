"""The command line: exit codes, one line for a mistake, nothing loaded before it is found."""

import importlib
import json
import signal
import subprocess
import sys
import warnings

import psutil
import pytest
from transformers.utils import logging

import endings
import room_hub
from inside_generate import __main__ as command_line
from inside_generate import report
from inside_generate.errors import InsideGenerateError
from pages import BookError


def error_line(capsys, *arguments):
    """Type a command that must fail: its one line on stderr."""
    assert command_line.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    return line


def test_cuda_without_cuda_is_one_line_before_anything_is_loaded(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(report, "run", lambda **_: pytest.fail("it went on"))
    assert command_line.main(["run", "--device", "cuda"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "--device cpu" in captured.err


def test_without_a_model_the_line_says_what_to_type(capsys):
    assert "python -m inside_generate fetch" in error_line(capsys, "run")


def test_an_unknown_model_is_named_with_the_known_ones(capsys):
    line = error_line(capsys, "run", "--model", "gpt-9")
    assert "'gpt-9'" in line
    assert "qwen2.5-0.5b-instruct" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--max-new-tokens", "0"], "at least 1, not '0'"),
        (["run", "--max-new-tokens", "1.5"], "not '1.5'"),
        (["bench", "--new-tokens", "1"], "at least 2, not '1'"),
        (["bench", "--rounds", "0"], "at least 1, not '0'"),
        (["bench", "--rungs"], "--rungs"),
        (["run", "--device", "tpu"], "'tpu'"),
        (["run", "--dtype", "int3"], "'int3'"),
        (["run", "--promt", "hi"], "--promt"),
        ([], "command"),
        (["fly"], "'fly'"),
    ],
)
def test_a_bad_argument_is_exit_code_2_and_names_the_value(arguments, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        command_line.main(arguments)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(" --help")
    assert said in line


def test_an_interrupt_ends_without_a_traceback(monkeypatch, capsys):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "run", interrupted)
    assert command_line.main(["run", "--device", "cpu"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_a_refused_value_is_one_line(monkeypatch, capsys):
    def refuse(**_):
        raise ValueError("the prompt is too long:\n9 tokens")

    monkeypatch.setattr(report, "run", refuse)
    assert command_line.main(["run", "--device", "cpu"]) == 2
    assert capsys.readouterr().err == "error: the prompt is too long: 9 tokens\n"


def test_a_refusal_while_a_library_is_being_imported_is_one_line_too(monkeypatch, capsys):
    def refuse(_):
        raise ValueError("Invalid log settings: foo")  # torch, for a TORCH_LOGS that it cannot read

    monkeypatch.setattr("inside_generate.device.choose_device", refuse)
    assert error_line(capsys, "run") == "error: Invalid log settings: foo"


def test_a_deleted_working_folder_is_named_before_a_library_fails_in_it(monkeypatch, capsys):
    def gone():
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(command_line.Path, "cwd", gone)
    assert "the working folder cannot be used" in error_line(capsys, "run")


def test_a_warning_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(report, "run", lambda **_: warnings.warn("two EOS ids", stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert command_line.main(["run", "--device", "cpu"]) == 0
    assert capsys.readouterr().err == "warning: two EOS ids\n"


def test_a_run_leaves_the_libraries_switches_as_they_were(monkeypatch):
    def switches():
        return logging.get_verbosity(), logging.is_progress_bar_enabled()

    before, during = switches(), []
    monkeypatch.setattr(report, "run", lambda **_: during.append(switches()))
    command_line.main(["run", "--device", "cpu"])
    assert during == [(logging.ERROR, False)]
    assert switches() == before


def test_a_missing_package_points_to_doctor(monkeypatch, capsys):
    def broken(**_):
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr(report, "run", broken)
    assert command_line.main(["run", "--device", "cpu"]) == 2
    assert "inside_generate doctor" in capsys.readouterr().err


def test_run_hands_over_what_was_typed(monkeypatch):
    seen = {}
    monkeypatch.setattr(report, "run", lambda **options: seen.update(options))
    typed = {"prompt": "hi", "model": "m", "device": "cpu", "dtype": "float32", "output": "o.json"}
    words = [word for name, value in typed.items() for word in (f"--{name}", value)]
    assert command_line.main(["run", *words, "--max-new-tokens", "3"]) == 0
    assert seen.pop("say") is command_line.say
    assert seen == {**typed, "max_new_tokens": 3}


def test_the_defaults_are_those_of_the_reference_run(monkeypatch):
    seen = {}
    monkeypatch.setattr(report, "run", lambda **options: seen.update(options))
    command_line.main(["run"])
    assert seen["prompt"] == "What's for lunch today?"
    assert seen["max_new_tokens"] == 64
    assert seen["output"] == "fixtures/01_forward.json"


def test_bench_ends_in_one_json_object_and_saves_it(monkeypatch, tmp_path, capsys):
    result = {"model_id": "m"}
    monkeypatch.setattr("inside_generate.bench.run", lambda *_: result)
    monkeypatch.setattr("inside_generate.bench.card", lambda _: "card")
    target = tmp_path / "bench.json"
    assert command_line.main(["bench", "--output", str(target)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result
    assert json.loads(target.read_text(encoding="utf-8")) == result


def test_bench_hands_over_what_was_typed(monkeypatch):
    seen = []
    monkeypatch.setattr("inside_generate.bench.run", lambda *options: seen.append(options) or {})
    monkeypatch.setattr("inside_generate.bench.card", lambda _: "card")
    words = "--model m --device cpu --dtype float32 --new-tokens 9 --rounds 2 --rungs static vllm"
    assert command_line.main(["bench", *words.split()]) == 0
    assert seen == [("m", "cpu", "float32", 9, 2, ["static", "vllm"], command_line.say)]
    command_line.main(["bench"])
    assert seen[1] == ("auto", "auto", "auto", 32, 7, None, command_line.say)


def test_bench_says_what_it_found_where_it_could_not_be_saved(monkeypatch, capsys):
    def full(*_):
        raise InsideGenerateError("the disk is full")

    monkeypatch.setattr("inside_generate.bench.run", lambda *_: {"model_id": "m"})
    monkeypatch.setattr("inside_generate.bench.card", lambda _: "card")
    monkeypatch.setattr("inside_generate.record.write_json", full)
    assert command_line.main(["bench", "--output", "x.json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == 'card\n{"model_id": "m"}\n'
    assert captured.err == "error: the disk is full\n"


def test_fetch_prints_the_folder(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(
        "inside_generate.getting.fetch.fetch", lambda model, source, say: tmp_path / model
    )
    assert command_line.main(["fetch", "--model", "m"]) == 0
    assert capsys.readouterr().out == f"ready: {tmp_path / 'm'}\n"


def test_an_error_of_ours_is_one_line(monkeypatch, capsys):
    def broken(*_):
        raise InsideGenerateError("the disk is full; make room")

    monkeypatch.setattr("inside_generate.getting.fetch.fetch", broken)
    assert command_line.main(["fetch"]) == 2
    assert capsys.readouterr().err == "error: the disk is full; make room\n"


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m inside_generate --help | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""


@pytest.mark.parametrize("target", ["", "/", "/dev/null"])
def test_bench_says_that_it_cannot_write_before_it_measures(monkeypatch, capsys, target):
    monkeypatch.setattr("inside_generate.bench.run", lambda *_: pytest.fail("it went on"))
    assert "--output" in error_line(capsys, "bench", "--output", target)


def test_bench_asks_for_the_device_before_anything_is_loaded(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("inside_generate.bench.run", lambda *_: pytest.fail("it went on"))
    assert "--device cpu" in error_line(capsys, "bench", "--device", "cuda")


def test_a_number_of_any_length_is_one_short_line(capsys):
    with pytest.raises(SystemExit):
        command_line.main(["run", "--max-new-tokens", "9" * 5000])
    assert len(capsys.readouterr().err) < 300


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_request_to_end_is_answered_like_ctrl_c_so_that_nothing_is_left(
    name, monkeypatch, capsys
):
    ended = []

    def work(_):
        try:
            signal.raise_signal(getattr(signal, name))
        finally:
            ended.append(True)

    before = signal.signal(
        getattr(signal, name), lambda *_: pytest.fail("it went past the command")
    )
    try:
        monkeypatch.setattr("inside_generate.doctor.verdict.run", work)
        assert command_line.main(["doctor"]) == 130
        assert capsys.readouterr().err == "stopped\n"
        assert ended == [True]
        assert signal.getsignal(getattr(signal, name)) is not None
        signal.signal(getattr(signal, name), signal.SIG_IGN)
        command_line.main(["doctor"])  # as under nohup
    finally:
        signal.signal(getattr(signal, name), before)


PROGRAMS = ["build", "card", "claims", "mistakes", "offline", "room", "student"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_books_programs_answer_a_mistyped_option_in_one_line(program, monkeypatch, capsys):
    module = importlib.import_module(program)
    monkeypatch.setattr(sys, "argv", [f"book/{program}.py", "--nope"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"error: unrecognized arguments: --nope; for what can be typed see: "
        f"python book/{program}.py --help\n"
    )


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (BookError("no page"), "error: no page", 1),
        (InsideGenerateError("no model"), "error: no model", 1),
        (PermissionError(13, "Permission denied", "a/b"), "error: Permission denied (a/b)", 1),
        (OSError("odd"), "error: odd", 1),
        (KeyboardInterrupt(), "stopped", 130),
    ],
)
def test_the_books_programs_end_with_one_line_whatever_stands_in_the_way(
    error, line, code, monkeypatch, capsys, tmp_path
):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(sys, "argv", ["program"])
    for program, work in [
        ("build", "run_models"),
        ("offline", "pack"),
        ("room", "rehearse"),
        ("student", "edition"),
    ]:
        module = importlib.import_module(program)
        monkeypatch.setattr(module, work, fails)
        monkeypatch.setattr(module, "check_target", lambda _: None, raising=False)
        assert (module.main(), capsys.readouterr().err) == (code, f"{line}\n")


def test_a_request_to_end_lets_the_books_programs_remove_what_is_half_made(capsys):
    ended = []

    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            ended.append(True)

    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("it went past the program"))
    try:
        assert endings.run(work) == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [True]
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize("name", ["nope", "../notebooks/00_the_whole_path", ""])
def test_a_rehearsal_of_no_notebook_is_refused_before_a_server_starts(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["book/room.py", "--notebook", name])
    monkeypatch.setattr("room.rehearse", lambda *_: pytest.fail("it went on"))
    room = importlib.import_module("room")
    assert room.main() == 1
    assert capsys.readouterr().err.startswith(f"error: there is no notebook {name!r}: ")


def test_a_rehearsal_whose_record_cannot_be_written_is_refused_before(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(sys, "argv", ["book/room.py", "--output", str(tmp_path)])
    room = importlib.import_module("room")
    monkeypatch.setattr(room, "rehearse", lambda *_: pytest.fail("it went on"))
    assert room.main() == 1
    assert "it is no plain file" in capsys.readouterr().err


def test_a_hub_that_has_ended_by_itself_is_ended_without_a_word():
    process = psutil.Popen([sys.executable, "-S", "-c", ""])
    process.wait(timeout=30)
    room_hub.end(process)


def test_what_pip_is_told_has_to_be_readable(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["book/offline.py", "--pip-args", "--pre 'x"])
    monkeypatch.setattr("offline.pack", lambda *_: pytest.fail("it went on"))
    assert importlib.import_module("offline").main() == 1
    said = capsys.readouterr().err
    assert said == "error: --pip-args cannot be read (No closing quotation): --pre 'x\n"
