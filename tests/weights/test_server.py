"""The library's own server, on real weights: our answers, several at once, nothing left behind."""

import psutil
import pytest

from inside_generate import InsideGenerateError, generate, load
from inside_generate.beyond.client import ask, models
from inside_generate.beyond.load import under_load
from inside_generate.beyond.server import ADDRESS, answers, serving
from inside_generate.checkpoints import CHECKPOINTS, SMALL, fetch_command
from inside_generate.finding import on_disk

PROMPTS = ["What's for lunch today?", "Why is the sky blue?"]
TOKENS = 8


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) - before == set()


@pytest.fixture(scope="module")
def small():
    directory = on_disk(CHECKPOINTS[SMALL])
    if directory is None:
        pytest.skip(f"no {SMALL} on this disk; type `{fetch_command(SMALL)}`")
    return directory


def test_a_server_gives_our_answers_alone_and_together_and_is_gone_afterwards(small):
    tokenizer, model = load(small, device="cpu", dtype="float32")
    traces = [generate(model, tokenizer, text, max_new_tokens=TOKENS) for text in PROMPTS]
    room = max(len(trace.prompt_ids) for trace in traces) + TOKENS
    with serving(small, blocks=2, block_tokens=room, start_s=120) as server:
        for prompt, trace in zip(PROMPTS, traces, strict=True):
            found = ask(server.url, prompt, TOKENS)
            assert found.text == trace.text
            assert found.prompt_tokens == len(trace.prompt_ids)
            assert found.completion_tokens == len(trace.generated_ids)
            assert len(found.pieces) > 1  # they came one by one
        check_queue(under_load(server.url, PROMPTS[:1] * 3, TOKENS), traces[0])
        with pytest.raises(InsideGenerateError, match=r"answered 4\d\d: .*pinned"):
            ask(server.url, "soup?", TOKENS, model="another")
    assert not answers(server.url)
    with pytest.raises(InsideGenerateError, match="no answer"):
        models(server.url)


def check_queue(load, trace):
    """Three asked, and two have memory: they run together, and the third waits for an end."""
    assert [answer.text for answer in load.answers] == [trace.text] * 3
    begun = sorted(answer.sent_s + answer.arrivals_s[0] for answer in load.answers)
    ended = sorted(answer.sent_s + answer.arrivals_s[-1] for answer in load.answers)
    assert begun[1] < ended[0] < begun[2]


def test_a_server_that_cannot_load_its_model_says_so_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with (
        pytest.raises(
            InsideGenerateError, match=r"^the server ended before it was ready: "
        ) as said,
        serving(tmp_path, blocks=2, block_tokens=64, start_s=120),
    ):
        pytest.fail("it must not come up")
    assert "\n" not in str(said.value)
