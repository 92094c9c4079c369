"""An imitation of the model hub on the loopback address, and a tiny checkpoint for it to serve.

It answers as the real one does to ``HEAD`` and ``GET`` of a file at a commit: small files at
once, with git's sum as their ETag; the weights by way of a redirect to another host, which
knows ranges. It can be told to fail in the ways in which networks and servers fail.
"""

import contextlib
import hashlib
import http.server
import json
import threading
from dataclasses import replace
from importlib import resources
from pathlib import Path

from tests.tiny import tiny_model, tiny_tokenizer

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, WEIGHTS

SHRUNK = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
FACTS = resources.files("inside_generate") / "data" / REFERENCE


def make_reference(folder: Path) -> None:
    """Fill ``folder`` with what the hub has: the reference's own config, but shrunk, and so on."""
    tiny_tokenizer().save_pretrained(folder)
    sizes = {"eos_token_id": 151645, "pad_token_id": None, "bos_token_id": 151643}
    model = tiny_model(tie_word_embeddings=True).bfloat16()
    model.save_pretrained(folder)
    config = json.loads((FACTS / "config.json").read_text("utf-8"))
    keys = (*SHRUNK, "num_key_value_heads", "vocab_size", "max_position_embeddings")
    config |= {key: getattr(model.config, key) for key in keys} | sizes
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "generation_config.json").write_bytes((FACTS / "generation_config.json").read_bytes())
    for name in ("merges.txt", "vocab.json"):  # not read where there is a tokenizer.json
        (folder / name).write_text("{}", encoding="utf-8")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle, which nobody should ask for")
    (folder / "modeling_qwen2.py").write_text("raise SystemExit", encoding="utf-8")


def tiny_reference(folder: Path):
    """The course's own record of the reference, with the size and sum of the tiny weights."""
    weights = (folder / WEIGHTS).read_bytes()
    return replace(
        CHECKPOINTS[REFERENCE],
        size_bytes=len(weights),
        sha256=hashlib.sha256(weights).hexdigest(),
        disk_bytes=10 * len(weights),
    )


def git_sum(content: bytes) -> str:
    """What git calls a file: the SHA-1 of a short head and the content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def addresses(name: str) -> tuple[str, str]:
    """Where a file is to be asked for: of that repository and commit, and on the other host."""
    known = CHECKPOINTS[REFERENCE]
    return f"/{known.model_id}/resolve/{known.revision}/{name}", f"/cdn/{name}"


class Hub(http.server.ThreadingHTTPServer):
    """Serves one repository at one commit until it is closed; keeps a list of what was asked."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.folder = folder
        self.requests: list[tuple[str, str, str]] = []  # method, file, range
        self.missing: set[str] = set()  # files that get a 404
        self.spoiled: set[str] = set()  # files whose bytes are wrong, their length right
        self.cut_at: int | None = None  # close the connection at this byte of the weights,
        self.cuts = 0  # so many times
        self.silent = False  # take the question and say nothing
        self.go = threading.Event()  # cleared, the weights wait
        self.go.set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def asked(self, method: str, name: str) -> list[str]:
        """The ranges with which a file was asked for, in order."""
        return [span for verb, file, span in self.requests if (verb, file) == (method, name)]

    def handle_error(self, request, client_address) -> None:
        """Nothing: a client that has gone away is part of the play."""


class Answer(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: Hub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def log_message(self, *args) -> None:
        """Nothing on stderr."""

    def answer(self) -> None:
        hub, name = self.server, self.path.rpartition("/")[2]
        hub.requests.append((self.command, name, self.headers.get("Range", "")))
        if hub.silent:
            threading.Event().wait(1.0)
            return
        if name in hub.missing or self.path not in addresses(name):
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = (hub.folder / name).read_bytes()
        if name == WEIGHTS and "/resolve/" in self.path:
            self.redirect(name, content)
        else:
            self.send(name, content)

    def redirect(self, name: str, content: bytes) -> None:
        self.send_response(302)
        self.send_header("Location", f"http://localhost:{self.server.server_port}/cdn/{name}")
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("X-Linked-ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", CHECKPOINTS[REFERENCE].revision)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send(self, name: str, content: bytes) -> None:
        hub, start, sum_ = self.server, 0, git_sum(content)
        if name in hub.spoiled:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if span := self.headers.get("Range"):
            start = int(span.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("ETag", f'"{sum_}"')
        self.send_header("X-Repo-Commit", CHECKPOINTS[REFERENCE].revision)
        self.end_headers()
        if self.command == "GET":
            self.send_body(name, content, start)

    def send_body(self, name: str, content: bytes, start: int) -> None:
        hub = self.server
        if name == WEIGHTS:
            hub.go.wait(20)
            if hub.cuts and hub.cut_at is not None:
                hub.cuts -= 1
                self.wfile.write(content[start : max(start, hub.cut_at)])
                self.close_connection = True
                return
        self.wfile.write(content[start:])


@contextlib.contextmanager
def serving(folder: Path):
    """A hub that serves ``folder`` for the length of the block."""
    with Hub(folder) as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield hub
        finally:
            hub.go.set()
            hub.shutdown()
            thread.join()
