"""The teachers' pages: times add up, each chapter has its notes, links lead there, facts hold."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors.index import slugify

import chapters
from inside_generate import (
    append_one,
    decode_step,
    encode,
    generate,
    greedy,
    kv_cache_bytes,
    logits_bytes,
    prefill,
)
from inside_generate.cache import head_dim, kv_heads, kv_reads
from inside_generate.doctor import verdict
from inside_generate.reference import reference_config

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "book/teaching.md"
PLANS, NOTES, HANDOUT = (ROOT / f"book/teaching/{n}.md" for n in ("plans", "chapters", "handout"))
PAGES = [GUIDE, PLANS, NOTES, HANDOUT]
LESSONS = chapters.notebooks(ROOT)
LENGTHS = {"One hour": 60, "Half a day": 210, "A day": 420}
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROW = re.compile(r"^\| (\d):(\d\d) \| (\d+) \| (.*) \|$", flags=re.MULTILINE)
DO = re.compile(
    r"\*\*Do\*\* in \[[^]]*\]\([./]*notebooks/(\w+)\.ipynb#exercises\): exercises? ([\d, ]+)"
)
EXERCISE = re.compile(r"\*\*Exercise (\d+)\*\* \(\w+, (\d+) minutes\)")


def prose(name: str) -> str:
    return "\n\n".join(c.source for c in LESSONS[name].cells if c.cell_type == "markdown")


def exercises(name: str) -> dict[int, int]:
    """The minutes of each exercise of a chapter."""
    return {int(number): int(minutes) for number, minutes in EXERCISE.findall(prose(name))}


def sections(page: Path) -> dict[str, str]:
    """The text under each second heading of a page."""
    _, *parts = re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


# --- the plans ------------------------------------------------------------------------------------


@pytest.fixture(params=LENGTHS)
def plan(request):
    """A plan's length in minutes, and its rows: start in minutes, minutes, what happens."""
    rows = ROW.findall(sections(PLANS)[request.param])
    rows = [(60 * int(h) + int(m), int(minutes), what) for h, m, minutes, what in rows]
    return LENGTHS[request.param], rows


def test_the_plans_are_those_three():
    assert set(sections(PLANS)) == set(LENGTHS)


def test_the_minutes_of_a_plan_add_up_to_its_length(plan):
    length, rows = plan
    assert rows[0][0] == 0
    assert all(start + minutes == after for (start, minutes, _), (after, *_) in pairwise(rows))
    assert rows[-1][0] + rows[-1][1] == sum(minutes for _, minutes, _ in rows) == length


def test_exercises_get_at_least_the_minutes_that_they_say(plan):
    planned = [(minutes, found) for _, minutes, what in plan[1] for found in DO.findall(what)]
    assert len(planned) == sum("**Do**" in what for *_, what in plan[1]) > 0
    for minutes, (name, numbers) in planned:
        asked = [exercises(name)[int(number)] for number in re.findall(r"\d+", numbers)]
        assert sum(asked) <= minutes, (name, numbers)


def test_nobody_sits_for_more_than_two_hours_and_each_break_says_where_all_must_be(plan):
    length, rows = plan
    pauses = [(s, m, what) for s, m, what in rows if what.startswith(("Break.", "Lunch."))]
    assert all(". All must " in what and "Who " in what for *_, what in pauses)
    borders = [0, *(x for start, minutes, _ in pauses for x in (start, start + minutes)), length]
    assert max(end - start for start, end in zip(borders[::2], borders[1::2], strict=True)) <= 120


def test_a_plan_asks_for_predictions(plan):
    assert sum(what.count("**Ask**") for *_, what in plan[1]) >= 3


# --- the notes ------------------------------------------------------------------------------------


def test_every_chapter_has_its_notes_in_the_order_of_the_book():
    titles = [chapters.title(LESSONS, name, NOTES) for name in LESSONS]
    assert list(sections(NOTES)) == titles


@pytest.mark.parametrize("name", LESSONS)
def test_a_chapters_notes_have_its_minutes_a_quote_questions_and_what_to_skip(name):
    text = sections(NOTES)[chapters.title(LESSONS, name, NOTES)]
    (minutes,) = re.findall(r"\*\*Time\*\*: (\d+) minutes", prose(name))
    total = sum(exercises(name).values())
    line = f"(../../notebooks/{name}.ipynb): {minutes} minutes. Its exercises: {total} minutes."
    assert text.count(line) == 1
    assert re.search(r'^> "', text, flags=re.MULTILINE)
    assert text.count("**Ask**") >= 2
    assert text.count("- **Skip**: ") == 1


# --- links ----------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    if page.suffix == ".ipynb":
        cells = LESSONS[page.stem].cells
        return {slugify(heading) for cell in cells for heading in chapters.headings(cell)}
    pairs = pairwise(MarkdownIt().parse(page.read_text("utf-8")))
    return {slugify(text.content) for opening, text in pairs if opening.type == "heading_open"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_link_leads_to_a_page_and_a_section_that_is_there(page):
    links = LINK.findall(page.read_text("utf-8"))
    for link in links:
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


# --- facts ----------------------------------------------------------------------------------------


def test_the_handouts_loop_is_ten_lines_and_gives_the_ids_of_the_courses_own(model, tokenizer):
    (code,) = re.findall(r"```python\n(.*?)```", HANDOUT.read_text("utf-8"), flags=re.DOTALL)
    assert code.count("\n") == 10
    known = {f.__name__: f for f in (append_one, decode_step, encode, greedy, prefill)}
    known |= {"model": model, "tokenizer": tokenizer, "messages": "What's for lunch?", "limit": 6}
    right = generate(model, tokenizer, known["messages"], max_new_tokens=6, eos_token_ids=())
    for stops in (set(), {right.generated_ids[0]}):
        names = known | {"eos_ids": stops}
        exec(code, names)
        assert names["ids"] == right.generated_ids[: 1 if stops else 6]


def test_the_numbers_of_the_reference_on_the_handout_follow_from_its_config():
    config, text = reference_config(), " ".join(HANDOUT.read_text("utf-8").split())
    said = (
        f"{config.num_hidden_layers} layers, H = {config.num_attention_heads}, "
        f"H_kv = {kv_heads(config)}, D = {head_dim(config)}, V = {config.vocab_size:,}"
    )
    assert said in text
    token, many = kv_cache_bytes(config, 1), kv_cache_bytes(config, 32 * 1024) // 2**20
    assert f"a token adds {token:,} bytes ({token // 1024} KiB) to the cache" in text
    assert f"32K tokens {many} MiB" in text
    assert f"all logits of 1,024 tokens take {logits_bytes(config, 1024) / 2**20} MiB" in text


def test_the_formulas_of_the_handout_are_the_packages():
    text = HANDOUT.read_text("utf-8")
    config, L, T, B = reference_config(), 35, 13, 3
    assert "| 2 · layers · H_kv · D · B · tokens · bytes per number |" in text
    per_token = 2 * config.num_hidden_layers * kv_heads(config) * head_dim(config) * 2
    assert per_token * B * L == kv_cache_bytes(config, L, B, torch.bfloat16)
    assert "| B · L · V · bytes per number |" in text
    assert B * L * config.vocab_size * 2 == logits_bytes(config, L, B, torch.bfloat16)
    assert "| (T − 1) · L + T · (T − 1) / 2 |" in text
    assert kv_reads(L, T) == (T - 1) * L + T * (T - 1) // 2


def test_the_numbers_of_the_notes_follow_from_the_references_config():
    text, config = " ".join(NOTES.read_text("utf-8").split()), reference_config()
    heads, token = config.num_attention_heads, kv_cache_bytes(config, 1)
    asked = (
        f"{config.num_hidden_layers} layers, {kv_heads(config)} KV heads of size {head_dim(config)}"
    )
    assert f"{asked}, 2 bytes a number: how much does one token add? — {token:,} bytes" in text
    times = heads // kv_heads(config)
    assert f"each of the {heads} query heads? — {times} times as much" in text


def test_the_mail_asks_for_what_the_readme_says_is_needed():
    (mail,) = re.findall(r"```text\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    needs = "Python 3.11 or later, about 4 GB of free disk, and 6 GiB of memory"
    assert needs in " ".join(mail.split())
    assert "Python 3.11 or later" in readme
    assert "about 4 GB of disk, and 6 GiB of memory" in readme
    for line in ("pip install -r requirements.txt", "python -m inside_generate fetch"):
        assert f"   {line}\n" in mail
        assert line in readme
    assert max(map(len, mail.splitlines())) <= 72  # no mail program breaks it


def test_the_guide_has_an_answer_to_each_verdict_of_the_doctor():
    text = sections(GUIDE)["The set-up mail"]
    verdicts = text.partition("What the reply tells you")[2]
    for name in (*verdict.NEEDED, "memory", "disk", "network"):
        assert f"`{name}`" in verdicts or f"not ready: {name}`" in verdicts, name
    for beginning in ("`ready: …`", "`ready without …`", "`…; look at: memory`"):
        assert beginning in verdicts
