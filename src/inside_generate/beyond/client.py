"""A small client for servers that speak OpenAI's chat protocol, and a clock on what they send.

Knows the two requests that are needed (which models, one streamed answer) and what can go wrong on
the way. No key is sent. Where a server comes from is its caller's affair: ``server.py`` starts one.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from inside_generate.beyond.children import check_seconds
from inside_generate.beyond.events import events
from inside_generate.chat import Messages, as_messages
from inside_generate.errors import InsideGenerateError, in_a_line, shortened, shown
from inside_generate.guards import check_sizes

Clock = Callable[[], float]
COUNTS = ("prompt_tokens", "completion_tokens")
MOST_TOKENS = 1 << 32  # what says more does not count
MOST_BYTES = 1_000_000  # of a list of models


@dataclass(frozen=True)
class Answer:
    """One streamed answer: its pieces, and when each arrived, in seconds after the request."""

    pieces: tuple[str, ...]
    arrivals_s: tuple[float, ...]
    finish_reason: str | None  # "stop" or "length", as the server says
    prompt_tokens: int | None  # as the server counts
    completion_tokens: int | None
    sent_s: float = 0.0  # on the clock that was used

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.pieces)

    @property
    def ttft_s(self) -> float:
        """Seconds from the request to the first piece."""
        return self.arrivals_s[0]

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Seconds between one piece and the next: the inter-token latencies."""
        later = self.arrivals_s[1:]
        return tuple(b - a for a, b in zip(self.arrivals_s, later, strict=False))

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first; ``None`` where there is only one."""
        tokens = self.completion_tokens or len(self.pieces)
        return (self.arrivals_s[-1] - self.arrivals_s[0]) / (tokens - 1) if tokens > 1 else None


def models(server: str, timeout_s: float = 10.0) -> list[str]:
    """Return the names of the models that a server offers."""
    check_seconds("timeout_s", timeout_s)
    until = time.monotonic() + timeout_s
    with _reply(server, "GET", "/v1/models", None, timeout_s) as reply:
        data = b""
        for piece in _bytes(reply, until):
            data += piece
            if len(data) > MOST_BYTES:
                break
        found = _json(server, data)
    try:
        names = [str(model["id"]) for model in found["data"]]
    except (KeyError, TypeError):
        raise InsideGenerateError(f"{server} lists no models: {shown(found)}") from None
    if not names:
        raise InsideGenerateError(f"{server} offers no model")
    return names


def ask(
    server: str,
    messages: Messages,
    max_tokens: int = 64,
    *,
    model: str | None = None,
    timeout_s: float = 60.0,
    clock: Clock = time.perf_counter,
) -> Answer:
    """Stream one greedy answer. ``timeout_s`` bounds each silence, and the answer as a whole.

    ``model`` is a name the server offers; ``None`` takes the first. Raises ``InsideGenerateError``
    in one line where the server refuses, fails, falls silent or ends too early.
    """
    check_sizes(1, max_tokens=max_tokens)
    check_seconds("timeout_s", timeout_s)
    request = {
        "model": model or models(server, timeout_s)[0],
        "messages": as_messages(messages),
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    start = clock()
    with _reply(server, "POST", "/v1/chat/completions", request, timeout_s) as reply:
        pieces: list[str] = []
        arrivals: list[float] = []
        last: dict[str, Any] = {}
        for chunk in _chunks(server, reply, timeout_s):
            if text := _text(chunk):
                pieces.append(text)
                arrivals.append(clock() - start)
            last |= _facts(chunk)
    if "finish_reason" not in last:
        raise InsideGenerateError(f"{server} ended the stream before the answer was finished")
    if not pieces:
        raise InsideGenerateError(f"{server} finished an answer without any text")
    counts = {name: last.get(name) for name in COUNTS}
    return Answer(tuple(pieces), tuple(arrivals), last["finish_reason"], **counts, sent_s=start)


# --- the protocol ---------------------------------------------------------------------------------


def _chunks(
    server: str, reply: http.client.HTTPResponse, timeout_s: float
) -> Iterator[dict[str, Any]]:
    """Yield what each event holds; a server's own error in the stream is raised."""
    try:
        for data in events(_bytes(reply, time.monotonic() + timeout_s)):
            if data == "[DONE]":  # some servers say when they are done, others just end
                return
            chunk = _json(server, data)
            if isinstance(chunk, dict) and "error" in chunk:
                raise InsideGenerateError(f"{server} failed: {_reason(chunk)}")
            yield chunk
    except ValueError as error:
        raise InsideGenerateError(f"{server} sent no stream of events: {error}") from error


def _bytes(reply: http.client.HTTPResponse, until: float) -> Iterator[bytes]:
    """Yield bytes as they come, until the server ends or time is up."""
    while piece := reply.read1(65536):
        yield piece
        if time.monotonic() > until:
            raise TimeoutError


def _text(chunk: dict[str, Any]) -> str:
    delta = _choice(chunk).get("delta")
    content = delta.get("content") if isinstance(delta, Mapping) else None
    return content if isinstance(content, str) else ""


def _facts(chunk: dict[str, Any]) -> dict[str, Any]:
    """Return what a chunk says about the whole answer: why it ended, how many tokens it had."""
    reason, usage = _choice(chunk).get("finish_reason"), chunk.get("usage")
    found = usage if isinstance(usage, Mapping) else {}
    counts = {name: found[name] for name in COUNTS if _is_count(found.get(name))}
    return counts | ({"finish_reason": str(reason)} if reason else {})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST_TOKENS


def _choice(chunk: dict[str, Any]) -> Mapping[str, Any]:
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


@contextmanager
def _reply(
    server: str, method: str, path: str, body: Any, timeout_s: float
) -> Iterator[http.client.HTTPResponse]:
    """Send one request; hand out a good reply, and turn whatever goes wrong into one line."""
    connection = _connection(server, timeout_s)
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "accept": "*/*"}
    with closing(connection):
        try:
            connection.request(method, urlsplit(server).path.rstrip("/") + path, data, headers)
            with closing(connection.getresponse()) as reply:
                if reply.status != 200:
                    reason = _reason(_loads(reply.read(100_000)))
                    raise InsideGenerateError(f"{server} answered {reply.status}: {reason}")
                yield reply
        except TimeoutError:
            late = f"{server} did not finish within {timeout_s:g} s"
            raise InsideGenerateError(late) from None
        except (OSError, http.client.HTTPException) as error:
            reason = in_a_line(error)
            raise InsideGenerateError(f"no answer from {server}: {reason}") from error


def _connection(server: str, timeout_s: float) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(server)
        port = parts.port
        (parts.hostname or "").encode("idna")
        is_plain = server.isascii() and server.isprintable() and " " not in server
    except (ValueError, AttributeError):
        parts, port, is_plain = urlsplit(""), None, False
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    if "@" in parts.netloc:  # not shown: it may hold a password
        raise ValueError("a server's address holds no name and no password: no key is sent to it")
    if parts.scheme not in kinds or not parts.hostname or not is_plain:
        raise ValueError(
            f"a server's address looks like http://127.0.0.1:8000, not {shown(server)}"
        )
    return kinds[parts.scheme](parts.hostname, port, timeout=timeout_s)


def _json(server: str, data: str | bytes) -> Any:
    found = _loads(data)
    if not isinstance(found, dict):
        raise InsideGenerateError(f"{server} sent something else than JSON: {shown(data)}")
    return found


def _loads(data: str | bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace") if isinstance(data, bytes) else data


def _reason(found: Any) -> str:
    """Return a server's own words for an error, wherever in its reply they stand."""
    for name in ("error", "message", "detail"):
        if isinstance(found, Mapping) and name in found:
            found = found[name]
    return shortened(str(found)) or "no reason given"
