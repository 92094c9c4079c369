"""Does everything that the course needs work here, and what is to be typed for what does not?

One screen, and a last line that a participant can send to the teacher of a workshop. What it leaves
to others: the examinations (``checkup``, ``machine``, ``models``, ``notebooks``).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from inside_generate.doctor import checkup, machine, models, notebooks
from inside_generate.doctor.checkup import FAIL, OK, WARN, Check

NEEDED = ("Python", "packages", "libraries", "notebooks", "home", "device", "dtype", "model")
WIDTH = 80
INDENT = " " * 17

__all__ = ["Check", "examine", "format_checks", "run", "verdict"]


def run(say: Callable[[str], None]) -> int:
    """Examine everything, say what was found, and return 0 where all that is needed works."""
    checks = examine()
    say(f"{format_checks(checks)}\n\n{verdict(checks)}")
    return int(any(check.state == FAIL for check in checks))


def examine() -> list[Check]:
    """Return what was found. Network and kernel are asked while torch is being imported."""
    with ThreadPoolExecutor() as pool:
        hub = pool.submit(_trouble, models.hub)
        index = pool.submit(_trouble, models.package_index)
        kernel = pool.submit(_guarded, "notebooks", notebooks.kernel)
        checks = [
            *_guarded("machine", machine.system),
            *_guarded("Python", checkup.python),
            *_guarded("variables", checkup.variables),
            *_guarded("packages", checkup.packages),
            *_guarded("libraries", checkup.libraries),
        ]
        directory = models.directory()
        storage = _guarded("home", _storage, directory)
        if FAIL not in (checks[-1].state, storage[0].state):  # else each would fail for that reason
            checks += _run_time(directory)
        troubles = hub.result(), index.result()
        checks += [*kernel.result(), *storage]
        checks += _guarded("network", models.network, *troubles, directory is not None)
    return [*checks, *_guarded("programs", machine.tools)]


def format_checks(checks: Iterable[Check]) -> str:
    """Return the findings, each with what to type below it."""
    lines = []
    for check in checks:
        head = f"{check.state:<5} {check.name:<10} "
        lines += textwrap.wrap(
            check.finding,
            WIDTH,
            initial_indent=head,
            subsequent_indent=INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if check.remedy:
            lines.append(f"{INDENT}type: {check.remedy}")
    return "\n".join(lines)


def verdict(checks: Iterable[Check]) -> str:
    """Return one line: "ready: …", "ready without …" (what is optional), or "not ready: …"."""
    checks = list(checks)
    failed = [check for check in checks if check.state == FAIL]
    if failed:
        names = ", ".join(dict.fromkeys(check.name for check in failed))
        remedy = next((check.remedy for check in failed if check.remedy), None)
        return f"not ready: {names}" + (f"; begin with: {remedy}" if remedy else "")
    said = {check.name: check.short for check in checks if check.short}
    missing = ", ".join(check.missing for check in checks if check.missing)
    line = (
        f"ready{' without ' * bool(missing)}{missing}: "
        f"{said.get('model')} on {said.get('device')} in {said.get('dtype')}; "
        f"{said.get('machine')}, Python {said.get('Python')}, {said.get('libraries')}"
    )
    warned = ", ".join(dict.fromkeys(check.name for check in checks if check.state == WARN))
    return line + (f"; look at: {warned}" if warned else "")


def _run_time(directory: Path | None) -> list[Check]:
    """Return what concerns a run: device, dtype, model, memory."""
    checks = _guarded("device", machine.device)
    if checks[0].state != FAIL:
        checks += _guarded("dtype", models.dtype)
    checks += _guarded("model", models.model)
    checks += _guarded("models", models.other_models, directory)
    return [*checks, *_guarded("memory", _memory, directory, checks)]


def _memory(directory: Path | None, checks: list[Check]) -> Check:
    short = {check.name: check.short for check in checks if check.short}
    device = short.get("device", "cpu").partition(" ")[0]
    free = (
        machine.gpu_free_bytes(device) if device.startswith("cuda") else machine.available_bytes()
    )
    if directory is None or "dtype" not in short:
        return machine.memory(free, None)
    usual, in_32_bits = (
        models.weights_bytes(directory, dtype) for dtype in (short["dtype"], "float32")
    )
    return machine.memory(free, usual, in_32_bits)


def _storage(directory: Path | None) -> list[Check]:
    """Return what concerns the folder of the models: can it be written, and is there room?"""
    from inside_generate.errors import InsideGenerateError
    from inside_generate.home import home

    try:
        folder = home()
    except InsideGenerateError as error:
        remedy = checkup.setting("INSIDE_GENERATE_HOME", "/a/folder/of/yours")
        return [Check("home", FAIL, str(error), remedy)]
    needed = 0 if directory else models.bytes_to_fetch()
    written = machine.writable(folder, directory is not None)
    room = machine.disk(folder, needed)
    return [room] if written.state == OK else [written, room]


def _trouble(ask: Callable[[], str | None]) -> str | None:
    try:
        return ask()
    except Exception as error:  # a package that the question needs may be missing
        return f"it could not be asked ({checkup.first_line(error)})"


def _guarded(name: str, examine: Callable[..., Check | list[Check]], *values: Any) -> list[Check]:
    """Return the findings. An examination that breaks is a finding itself, not the end."""
    try:
        found = examine(*values)
    except Exception as error:  # the doctor is there for machines on which anything may fail
        remedy = checkup.install_command() if isinstance(error, ImportError) else None
        state = FAIL if name in NEEDED else WARN
        return [Check(name, state, f"could not be examined: {checkup.first_line(error)}", remedy)]
    return found if isinstance(found, list) else [found]
