"""The client times what a server streams, and says in one line what is wrong with a server."""

import contextlib
import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from inside_generate import InsideGenerateError
from inside_generate.beyond.client import Answer, ask, models
from inside_generate.beyond.load import Load, median, percentile, under_load
from inside_generate.beyond.server import free_port

MODELS = {"object": "list", "data": [{"id": "small"}, {"id": "large"}]}


def chunk(text=None, reason=None, **more):
    delta = {} if text is None else {"content": text}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}


USAGE = {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
GOOD = [chunk(), chunk("so"), chunk("up"), chunk("."), chunk(reason="stop", **USAGE)]


def stream(*chunks, done=False):
    data = [part if isinstance(part, str) else json.dumps(part) for part in chunks]
    return "".join(f"data: {part}\n\n" for part in [*data, *["[DONE]"] * done]).encode()


@contextmanager
def server(reply=None, status=200, models_reply=MODELS, hold_s=0.0):
    """Serve one reply on a free port of this machine; hand out its address and its requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(200, json.dumps(models_reply).encode())

        def do_POST(self):
            size = int(self.headers["content-length"])
            requests.append((self.path, dict(self.headers), json.loads(self.rfile.read(size))))
            self.answer(status, reply or stream(*GOOD))

        def answer(self, status, body):
            self.send_response(status)
            self.end_headers()
            half = len(body) // 2
            self.wfile.write(body[:half])
            self.wfile.flush()
            time.sleep(hold_s)
            self.wfile.write(body[half:])

        def log_message(self, *words):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}", requests
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def test_a_streamed_answer_has_its_pieces_their_times_and_the_servers_counts():
    ticks = iter([10.0, 10.5, 10.75, 11.0])
    with server() as (url, requests):
        found = ask(url, "soup?", 5, clock=lambda: next(ticks))
    assert (found.text, found.pieces) == ("soup.", ("so", "up", "."))
    assert found.arrivals_s == (0.5, 0.75, 1.0)
    assert (found.ttft_s, found.gaps_s, found.tpot_s) == (0.5, (0.25, 0.25), 0.25)
    assert (found.finish_reason, found.prompt_tokens, found.completion_tokens) == ("stop", 7, 3)
    path, headers, body = requests[0]
    assert path == "/v1/chat/completions"
    assert "Authorization" not in headers  # no key
    assert body["model"] == "small"  # the first that the server offers
    assert body["messages"] == [{"role": "user", "content": "soup?"}]
    assert (body["max_tokens"], body["temperature"], body["stream"]) == (5, 0, True)


def test_tokens_that_came_in_one_piece_are_counted_apart():
    two = Answer(("a b", " c"), (1.0, 4.0), "stop", 7, 4)
    assert two.tpot_s == 1.0
    assert two.gaps_s == (3.0,)
    assert Answer(("a",), (1.0,), "stop", None, None).tpot_s is None


def test_the_word_done_ends_a_stream_and_counts_may_come_last():
    counts = {"choices": [], **USAGE}
    with server(stream(chunk("a"), chunk(reason="length"), counts, done=True)) as (url, _):
        found = ask(url + "/", "soup?", model="large")
    assert (found.text, found.finish_reason, found.completion_tokens) == ("a", "length", 3)


def test_the_models_of_a_server_are_listed():
    with server() as (url, _):
        assert models(url) == ["small", "large"]


WRONG = {
    "an error in the stream": (
        stream(chunk("a"), {"error": "out of blocks"}),
        200,
        "out of blocks",
    ),
    "a nested error": (stream({"error": {"message": "no\nroom"}}), 200, "failed: no room$"),
    "a refusal": (b'{"detail": "unknown field"}', 422, "answered 422: unknown field$"),
    "a refusal in words": (b"worker is dead", 503, "answered 503: worker is dead$"),
    "a stream cut off": (stream(*GOOD[:3]), 200, "ended the stream before"),
    "an event cut off": (stream(*GOOD)[:-1], 200, "ended the stream before"),
    "no text at all": (stream(chunk(reason="stop")), 200, "without any text"),
    "no JSON": (stream("soup"), 200, "something else than JSON: 'soup'"),
    "a list": (stream("[1]"), 200, "something else than JSON"),
    "odd choices": (
        stream({"choices": [5]}, {"choices": 3}, {"usage": 2}),
        200,
        "ended the stream",
    ),
    "odd text": (stream(chunk([1]), {"choices": [{"delta": 4}]}), 200, "ended the stream"),
    "not UTF-8": (b"data: \xff\n\n", 200, "no stream of events: not UTF-8"),
    "a page": (b"<html>hello</html>", 200, "ended the stream"),
    "too deep": (stream("[" * 100_000), 200, "something else than JSON"),
    "a deep refusal": (b"[" * 90_000, 500, "answered 500"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_server_does_wrong_is_said_in_one_line(name):
    reply, status, words = WRONG[name]
    with server(reply, status) as (url, _), pytest.raises(InsideGenerateError, match=words) as said:
        ask(url, "soup?")
    assert "\n" not in str(said.value)
    assert url in str(said.value)


def test_a_server_that_falls_silent_is_not_waited_for():
    with (
        server(hold_s=0.4) as (url, _),
        pytest.raises(InsideGenerateError, match=r"did not finish within 0\.1 s"),
    ):
        ask(url, "soup?", model="small", timeout_s=0.1)


def test_a_server_that_never_answers_is_not_waited_for():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(InsideGenerateError, match=r"did not finish within 0\.1 s"):
            models(url, timeout_s=0.1)


def test_where_no_server_is_that_is_said():
    with pytest.raises(InsideGenerateError, match=r"no answer from http://127.0.0.1:.*refused"):
        models(f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("reply", [{}, {"data": [{}]}, {"data": 3}, {"data": []}])
def test_a_server_without_models_is_said_to_have_none(reply):
    with (
        server(models_reply=reply) as (url, _),
        pytest.raises(InsideGenerateError, match=r"lists no models|offers no model"),
    ):
        ask(url, "soup?")


ADDRESSES = [
    *("", "127.0.0.1:8000", "ftp://x", "http://", "http://x:y", 3),
    *("http://a..b:80", f"http://{'a' * 70}:80", "http://x/ä", "http://x/a b", " http://x"),
    *("http://x\x00:1", "http://x/\r\ny", "http://x:1\n"),
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match=r"looks like http://127.0.0.1:8000, not"):
        models(address)


@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"timeout_s": 0}, {"timeout_s": "1"}, {"messages": []}]
)
def test_a_request_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ValueError, match="not"):
        ask("http://127.0.0.1:9", **{"messages": "soup?", "model": "small", **wrong})


# --- load -----------------------------------------------------------------------------------------


def answers(*arrivals, sent_s=0.0, tokens=2):
    return Answer(("a",) * len(arrivals), arrivals, "stop", 7, tokens, sent_s)


def test_a_load_sums_up_what_its_clients_saw():
    load = Load((answers(3.0, 5.0, sent_s=101.0, tokens=4), answers(1.0, 1.5, 3.0, sent_s=100.0)))
    assert load.clients == 2
    assert load.ttft_s == (1.0, 3.0)
    assert load.gaps_s == (0.5, 1.5, 2.0)
    assert (load.tokens, load.seconds, load.tokens_per_s) == (6, 6.0, 1.0)


def test_all_clients_ask_and_each_asks_its_own():
    with server() as (url, requests):
        load = under_load(url, ["soup?", "bread?", "an apple?"], 4)
    asked = sorted(body["messages"][0]["content"] for _, _, body in requests)
    assert asked == ["an apple?", "bread?", "soup?"]
    assert [answer.text for answer in load.answers] == ["soup."] * 3


@pytest.mark.parametrize(("limits", "asked"), [(4, [4, 4, 4]), ([2, 8, 4], [2, 8, 4])])
def test_clients_share_a_limit_or_each_has_its_own(limits, asked):
    with server() as (url, requests):
        under_load(url, ["0", "1", "2"], limits)
    found = {body["messages"][0]["content"]: body["max_tokens"] for _, _, body in requests}
    assert found == {str(number): limit for number, limit in enumerate(asked)}


@pytest.mark.parametrize("limits", [[4], [4, 4, 4], [4, 0], 0, "44", None])
def test_limits_that_fit_no_clients_are_refused_before_anything_is_asked(limits):
    with server() as (url, requests), pytest.raises(ValueError, match=r"limits|max_tokens"):
        under_load(url, ["soup?"] * 2, limits)
    assert requests == []


def test_the_error_of_one_client_is_not_lost():
    with (
        server(b"busy", 503) as (url, _),
        pytest.raises(InsideGenerateError, match="answered 503: busy"),
    ):
        under_load(url, ["soup?"] * 2, 4)
    assert not [one for one in threading.enumerate() if "ThreadPool" in one.name]


@pytest.mark.parametrize("many", [0, 65])
def test_a_load_is_bounded(many):
    with pytest.raises(ValueError, match="clients"):
        under_load("http://127.0.0.1:9", ["soup?"] * many, 4)


def test_a_percentile_is_one_of_the_values():
    times = [0.4, 0.1, 0.3, 0.2]
    assert [percentile(times, share) for share in (0, 0.25, 0.5, 0.51, 0.95, 1)] == [
        *(0.1, 0.1, 0.2, 0.3, 0.4, 0.4)
    ]
    assert median(times) == 0.25


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1], 1.5), ([1], -0.1), (["x"], 0.5)])
def test_a_percentile_of_nothing_is_refused(values, share):
    with pytest.raises(ValueError, match=r"values|share"):
        percentile(values, share)


def test_a_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(ValueError, match="no name and no password") as said:
        models("http://me:secret@127.0.0.1:1")
    assert "secret" not in str(said.value)


@pytest.mark.parametrize("count", [10**400, -5, 0, True, 2.5, "3"])
def test_a_count_of_tokens_that_cannot_be_is_none(count):
    odd = {"usage": {"completion_tokens": count}}
    with server(stream(chunk("a"), chunk("b", reason="stop", **odd))) as (url, _):
        found = ask(url, "soup?")
    assert found.completion_tokens is None
    assert Load((found,)).tokens == 2


def test_a_load_on_a_server_without_models_says_so():
    with (
        server(models_reply={"data": []}) as (url, _),
        pytest.raises(InsideGenerateError, match="offers no model"),
    ):
        under_load(url, ["soup?"], 3)


def test_a_list_of_models_that_never_ends_is_not_waited_for():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def drip():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    connection.sendall(b" ")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(InsideGenerateError, match=r"did not finish within 0\.2 s"):
            models(url, 0.2)
        thread.join()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "5", None])
def test_a_list_of_models_is_not_waited_for_without_a_limit(seconds):
    with pytest.raises(ValueError, match="timeout_s must be a number of seconds above 0"):
        models("http://127.0.0.1:1", seconds)
