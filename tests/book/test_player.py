"""The player on the landing page shows what the recorded runs say, at every step."""

import codecs
import json
from contextlib import closing

import pytest
from tests.book.conftest import HTML, ROOT

import pages
import recordings
from inside_generate import Player
from inside_generate.trace import Trace

NAMES = recordings.wanted(ROOT, pages.documents(ROOT))
PAGE = "book/index.html"

# What the player shows, as plain data.
SEEN = """(which) => {
  const root = document.querySelectorAll('generation-player')[which || 0].shadowRoot;
  const text = (selector) => root.querySelector(selector).textContent;
  const cells = (kind) => root.querySelectorAll(`.strip i.${kind}`).length;
  return {
    place: text('.place'),
    said: text('.said:not(.sizer)'),
    facts: [...root.querySelectorAll('dd')].map((one) => one.textContent),
    strip: ['old', 'new', 'picked', 'to'].map(cells),
    words: text('.cache .words'),
    candidates: [...root.querySelectorAll('.candidates li')].map((row) => [
      row.querySelector('.name').textContent,
      row.querySelector('.number').textContent,
      row.classList.contains('chosen'),
      parseFloat(row.querySelector('.bar').style.width),
    ]),
    note: text('.note:not(.sizer)'),
    done: root.querySelectorAll('.time i:not(.to)').length,
    wide: [...root.querySelectorAll('.time i')].map((bar) => Number(bar.style.flexGrow)),
    clock: text('.clock .words'),
    asked: [...root.querySelectorAll('.question:not(.hidden) p')].map((one) => one.textContent),
    height: document.querySelectorAll('generation-player')[which || 0].offsetHeight,
  };
}"""


def record(name: str) -> dict:
    return json.loads((ROOT / recordings.RECORDED / f"{name}.json").read_text("utf-8"))


@pytest.fixture
def open_page(browser, site):
    """Return a function that opens a page, with options of a browser's context."""
    contexts = []

    def go(address=f"{site}/{PAGE}", **options):
        contexts.append(
            browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        )
        page = contexts[-1].new_page()
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda said: said.type == "error" and page.complaints.append(said.text))
        page.goto(address, wait_until="load")
        return page

    yield go
    for context in contexts:
        with closing(context):
            assert [page.complaints for page in context.pages] == [[]] * len(context.pages)


@pytest.fixture
def page(open_page):
    return open_page()


def without_questions(page) -> None:
    page.uncheck("generation-player .ask input")


def press(page, key: str) -> dict:
    page.keyboard.press(key)
    return page.evaluate(SEEN)


def shape(sizes: list[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def duration(seconds: float) -> list[str]:
    """How it may be rounded: to a unit of its last decimal, whichever way a tie goes."""
    if seconds >= 1:
        return [f"{seconds + nudge:.2f} s" for nudge in (-1e-6, 0, 1e-6)]
    places = 1 if seconds < 0.01 else 0
    return [f"{1000 * seconds + nudge:.{places}f} ms" for nudge in (-1e-3, 0, 1e-3)]


def size(number: int) -> str:
    kib = number / 1024
    nudge = 1e-9  # a tie goes up in the browser
    return f"{kib:g} KiB" if kib < 1024 else f"{kib / 1024 + nudge:.2f} MiB"


def percent(share: float) -> str:
    if share < 0.0005:
        return "<0.1 %"
    return ">99.9 %" if share > 0.9995 else f"{100 * share:.1f} %"


def texts(run: dict) -> list[str]:
    """What the reader has of the answer after each token, signs for the unseen included."""
    spelt = {one["token_id"]: one for one in run["spellings"]}
    decoder = codecs.getincrementaldecoder("utf-8")()
    settled, found = "", []
    for token_id in run["generated_token_ids"]:
        raw, control = bytes.fromhex(spelt[token_id]["utf8"]), spelt[token_id]["control"]
        settled += "" if control else decoder.decode(raw)
        waiting = decoder.getstate()[0]
        plural = "" if len(waiting) == 1 else "s"
        part = f"{waiting.hex(' ').upper()}: {len(waiting)} byte{plural} of an unfinished character"
        found.append(settled + (raw.decode() if control else "") + (part if waiting else ""))
    return found


def test_of_the_recorded_runs_some_end_by_eos_and_some_by_the_limit():
    assert {record(name)["stop_reason"] for name in NAMES} == {"eos", "max_new_tokens"}


@pytest.mark.parametrize("name", NAMES)
def test_every_step_shows_what_the_record_says(page, name):
    run = record(name)
    page.select_option("generation-player select", label=run["prompt"])
    without_questions(page)
    page.focus("generation-player .play")
    length, total = run["prompt_tokens"], run["generated_tokens"]
    heights = {page.evaluate(SEEN)["height"]}
    for step, text in zip(run["steps"], texts(run), strict=True):
        seen, number = press(page, "ArrowRight"), step["number"]
        assert seen["place"] == f"token {number} of {total}"
        assert seen["said"] == f"Answer: {text}"
        phase, given, mask, cache, logits, time = seen["facts"]
        assert phase == step["phase"]
        assert given.startswith(shape(step["input_shape"]))
        assert mask.startswith(f"[1, {step['mask_length']}]")
        each = run["kv_bytes_a_token"]
        assert cache == f"{step['cache_length']} tokens, {size(each * step['cache_length'])}"
        assert logits.startswith(shape(step["logits_shape"]))
        assert time in duration(step["seconds"])
        new = step["input_shape"][1]
        assert seen["strip"] == [
            step["mask_length"] - new,
            new,
            1,
            length + total - step["mask_length"] - 1,
        ]
        check_candidates(seen["candidates"], step)
        assert seen["done"] == number
        heights.add(seen["height"])
    assert seen["said"].startswith(f"Answer: {run['generated_text']}")
    assert ("end-of-sequence" in seen["note"]) == (run["stop_reason"] == "eos")
    limit = f"limit of {run['max_new_tokens']} new tokens"
    assert (limit in seen["note"]) == (run["stop_reason"] != "eos")
    seconds = [step["seconds"] for step in run["steps"]]
    assert seen["wide"] == pytest.approx(seconds, abs=1e-5)
    assert any(f"TTFT {one}" in seen["clock"] for one in duration(seconds[0]))
    tpot = sum(seconds[1:]) / len(seconds[1:])
    assert any(f"TPOT {one}" in seen["clock"] for one in duration(tpot))
    assert len(heights) == 1, "nothing may jump about between steps"


def check_candidates(rows: list, step: dict) -> None:
    """Each row has a number, a sign for the token taken, and a bar as long as its share."""
    for (_, number, chosen, width), one in zip(rows, step["top_k"], strict=True):
        close = [percent(one["probability"] + nudge) for nudge in (-1e-7, 0, 1e-7)]
        assert number in close
        assert chosen == (one["token_id"] == step["token_id"])
        assert width == pytest.approx(100 * one["probability"], rel=1e-3, abs=1e-3)


def test_keys_step_and_jump_within_the_player_and_nowhere_else(page):
    without_questions(page)
    total = record(NAMES[0])["generated_tokens"]
    places = {"ArrowRight": 1, "End": total, "ArrowLeft": total - 1, "Home": 0}
    for key, number in places.items():
        assert press(page, key)["place"] == f"token {number} of {total}"
    page.evaluate("document.activeElement.blur()")
    assert press(page, "End")["place"] == f"token 0 of {total}"


def test_an_arrow_key_on_the_choice_of_prompts_chooses_and_does_not_step(page):
    without_questions(page)
    page.focus("generation-player select")
    assert press(page, "ArrowRight")["place"].startswith("token 0 of")


def test_buttons_and_slider_go_to_the_same_places(page):
    without_questions(page)
    total = record(NAMES[0])["generated_tokens"]
    for name, number in (("forward", 1), ("last", total), ("back", total - 1), ("first", 0)):
        page.click(f"generation-player .{name}")
        assert page.evaluate(SEEN)["place"] == f"token {number} of {total}"
    page.locator("generation-player input[type=range]").fill("3")
    assert page.evaluate(SEEN)["place"] == f"token 3 of {total}"


def test_play_goes_on_by_itself_and_stops_at_the_end(page):
    without_questions(page)
    total = record(NAMES[0])["generated_tokens"]
    page.locator("generation-player input[type=range]").fill(str(total - 2))
    page.click("generation-player .play")
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Play", exact=True).wait_for(timeout=20_000)
    assert page.evaluate(SEEN)["place"] == f"token {total} of {total}"


def test_a_question_is_asked_before_its_step_is_shown(page):
    page.click("generation-player .forward")
    seen = page.evaluate(SEEN)
    assert seen["place"].startswith("before token 1 of ")
    assert seen["asked"] == ["Prefill comes next. Which token will begin the answer?"]
    assert seen["done"] == 0
    assert seen["said"] == "Answer: nothing yet"
    page.locator("generation-player .question:not(.hidden) .answer").first.click()
    after = page.evaluate(SEEN)
    assert after["asked"] == []
    assert after["done"] == 1
    assert after["height"] == seen["height"]
    assert after["note"].startswith(("Right: ", "Not this time. It is: "))
    page.click("generation-player .back")
    page.click("generation-player .forward")
    assert page.evaluate(SEEN)["asked"] == [], "a question is asked once"


def test_questions_can_be_switched_off(page):
    without_questions(page)
    page.click("generation-player .forward")
    assert page.evaluate(SEEN)["place"].startswith("token 1 of")


def test_a_finger_drawn_sideways_steps_and_one_drawn_down_does_not(open_page):
    page = open_page(viewport={"width": 360, "height": 800}, has_touch=True)
    without_questions(page)
    draw = """([x, y]) => {
      const target = document.querySelector('generation-player').shadowRoot.querySelector('.text');
      const touch = (clientX, clientY) => [new Touch({identifier: 1, target, clientX, clientY})];
      const send = (type, changedTouches) =>
        target.dispatchEvent(new TouchEvent(type, {changedTouches, bubbles: true, composed: true}));
      send('touchstart', touch(200, 300));
      send('touchend', touch(200 + x, 300 + y));
    }"""
    for move, place in (((-90, 10), 1), ((-90, 5), 2), ((0, -200), 2), ((80, 0), 1)):
        page.evaluate(draw, move)
        assert page.evaluate(SEEN)["place"].startswith(f"token {place} of")


def test_two_fingers_that_zoom_do_not_step(open_page):
    page = open_page(viewport={"width": 360, "height": 800}, has_touch=True)
    without_questions(page)
    page.click("generation-player .forward")
    page.evaluate("""() => {
      const target = document.querySelector('generation-player').shadowRoot.querySelector('.text');
      const finger = (identifier, clientX) => new Touch({identifier, target, clientX, clientY: 0});
      const send = (type, touches, changedTouches) => target.dispatchEvent(
        new TouchEvent(type, {touches, changedTouches, bubbles: true, composed: true}));
      send('touchstart', [finger(1, 180)], [finger(1, 180)]);
      send('touchstart', [finger(1, 180), finger(2, 200)], [finger(2, 200)]);
      send('touchend', [finger(2, 205)], [finger(1, 60)]);
      send('touchend', [], [finger(2, 205)]);
    }""")
    assert page.evaluate(SEEN)["place"].startswith("token 1 of")


@pytest.mark.parametrize("key", ["ArrowLeft", "Home", "End"])
def test_keys_go_on_after_one_that_took_the_answers_away(page, key):
    page.click("generation-player .forward")
    page.locator("generation-player .question:not(.hidden) .answer").first.focus()
    press(page, key)
    page.evaluate("""() => new Promise((done) =>
      requestAnimationFrame(() => requestAnimationFrame(done)))""")  # what is hidden has no focus
    press(page, "Home")
    assert press(page, "ArrowRight")["place"].startswith("before token 1 of")


def test_two_players_on_a_page_do_not_disturb_each_other(page):
    page.evaluate("""() => {
      const one = document.querySelector('generation-player');
      one.parentNode.append(one.cloneNode(true));
    }""")
    without = page.locator("generation-player .ask input")
    without.first.uncheck()
    page.locator("generation-player .forward").first.click()
    page.locator("generation-player .forward").first.click()
    assert page.evaluate(SEEN, 0)["place"].startswith("token 2 of")
    assert page.evaluate(SEEN, 1)["place"].startswith("token 0 of")
    page.locator("generation-player .forward").last.click()
    assert page.evaluate(SEEN, 1)["place"].startswith("before token 1 of")
    assert page.evaluate(SEEN, 0)["place"].startswith("token 2 of")


def two_in_a_row(folder) -> str:
    """The address of a page with two players; the first brings the script, as a notebook's does."""
    run = record(NAMES[0])
    shown = Player(Trace.from_dict(run), run)._repr_html_()
    (folder / "two.html").write_text(f"<!doctype html><meta charset=utf-8>{shown}{shown}", "utf-8")
    return (folder / "two.html").as_uri()


def test_a_player_comes_alive_below_one_that_brought_the_script(open_page, tmp_path):
    page = open_page(two_in_a_row(tmp_path))
    for which in (0, 1):
        assert page.evaluate(SEEN, which)["place"].startswith("token 0 of")


def test_an_answer_that_is_given_twice_counts_once(open_page, tmp_path):
    page = open_page(two_in_a_row(tmp_path))
    page.locator("generation-player .forward").first.click()
    answer = page.locator("generation-player .question:not(.hidden) .answer").first
    answer.evaluate("(button) => { button.click(); button.click(); }")
    assert page.evaluate(SEEN, 0)["place"].startswith("token 1 of")


def test_without_scripts_each_run_is_a_table(open_page):
    page = open_page(java_script_enabled=False)
    tables = page.locator("generation-player details")
    assert tables.count() == len(NAMES)
    for index, name in enumerate(NAMES):
        assert record(name)["prompt"] in tables.nth(index).locator("summary").inner_text()
        rows = tables.nth(index).locator("tbody tr")
        assert rows.count() == record(name)["generated_tokens"]


def test_on_paper_there_are_tables_and_no_controls(page):
    page.emulate_media(media="print")
    assert not page.locator("generation-player .controls").is_visible()
    assert page.locator("generation-player > details").first.is_visible()


def test_the_player_works_from_a_file(open_page):
    page = open_page((HTML / PAGE).as_uri())
    without_questions(page)
    assert press(page, "ArrowRight")["place"].startswith("token 1 of")


@pytest.mark.parametrize("name", NAMES)
def test_on_a_small_screen_nothing_is_wider_than_it(open_page, name):
    page = open_page(viewport={"width": 360, "height": 800})
    page.select_option("generation-player select", label=record(name)["prompt"])
    without_questions(page)
    page.click("generation-player .last")
    page.click("generation-player .prompt summary")
    assert page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("width", [360, 480, 600])
def test_buttons_and_text_stay_in_their_places_when_something_is_asked(open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    places = page.evaluate("""() => {
      const player = document.querySelector('generation-player');
      return player.runs.map((run, index) => {
        player.open(index);
        const tops = () => ['.controls', '.stage', '.columns'].map(
          (part) => player.shadowRoot.querySelector(part).offsetTop - player.offsetTop).join();
        const found = new Set([tops()]);
        for (const step of run.steps.keys()) {
          player.go(step + 1);
          found.add(tops());
          if (!player.asking) continue;
          player.answer((player.asking.right + 1) % player.asking.answers.length);
          found.add(tops());
        }
        return [...found];
      });
    }""")
    assert [len(found) for found in places] == [1] * len(NAMES)


def test_pages_without_a_player_load_no_script_for_it():
    assert "player.js" in (HTML / PAGE).read_text("utf-8")
    assert "player.js" not in (HTML / "book/models.html").read_text("utf-8")
