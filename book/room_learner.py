"""One learner in a rehearsal: logs in at the hub's page, gets a server, runs a notebook there.

Speaks to the hub and the server over HTTP and to the kernel over a web socket, as a browser does.
"""

import json
import re
import time
import uuid
from pathlib import Path
from typing import Any

import requests
import websocket

from pages import BookError

SECONDS_TO_START = 120
SECONDS_A_CELL = 300


class Learner:
    """A name, a session of a browser, and a token for the learner's own server."""

    def __init__(self, hub: str, name: str, password: str) -> None:
        self.hub, self.name = hub, name
        self.browser = requests.Session()
        self.browser.trust_env = False  # no proxy stands between us and this machine
        self._log_in(password)
        made = self._hub("POST", f"users/{name}/tokens", {"note": "rehearsal"})
        self.token = str(made.json()["token"])

    def _log_in(self, password: str) -> None:
        page = self.browser.get(f"{self.hub}/hub/login", timeout=30)
        found = re.search(r'name="_xsrf"\s+value="([^"]+)"', page.text)
        form = {
            "username": self.name,
            "password": password,
            "_xsrf": found[1] if found else "",
        }
        done = self.browser.post(
            f"{self.hub}/hub/login", data=form, timeout=30, allow_redirects=False
        )
        if done.status_code != 302:
            raise BookError(f"{self.name} cannot log in: {done.status_code} {done.reason}")

    def _hub(self, method: str, path: str, body: Any = None) -> requests.Response:
        cookies = [one.value for one in self.browser.cookies if one.name == "_xsrf"]
        answer = self.browser.request(
            method,
            f"{self.hub}/hub/api/{path}",
            json=body,
            headers={"X-XSRFToken": str(cookies[0]), "Referer": f"{self.hub}/hub/home"},
            timeout=SECONDS_TO_START,
        )
        return checked(answer)

    def start_server(self) -> float:
        """Start this learner's server; return the seconds until it answered."""
        start = time.perf_counter()
        self._hub("POST", f"users/{self.name}/server")
        while time.perf_counter() - start < SECONDS_TO_START:
            servers = self._hub("GET", f"users/{self.name}").json()["servers"]
            if servers.get("", {}).get("ready"):
                return time.perf_counter() - start
            time.sleep(0.3)
        raise BookError(f"the server of {self.name} did not start")

    def stop_server(self) -> None:
        """Stop this learner's server and all its kernels."""
        self._hub("DELETE", f"users/{self.name}/server")

    def server(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Ask this learner's own server, through the proxy."""
        return checked(
            requests.request(
                method,
                f"{self.hub}/user/{self.name}/{path}",
                json=body,
                headers={"Authorization": f"token {self.token}"},
                timeout=60,
            )
        )

    def run_notebook(self, path: str) -> int:
        """Run all cells of a notebook of this learner's folder; return how many there were.

        BookError with the cell's error. The kernel stays until the server stops.
        """
        notebook = self.server("GET", f"api/contents/{path}?type=notebook").json()["content"]
        cells = [
            "".join(cell["source"])
            for cell in notebook["cells"]
            if cell["cell_type"] == "code"
            and "raises-exception" not in cell["metadata"].get("tags", [])
        ]
        return self.run_cells(path, cells)

    def run_cells(self, path: str, cells: list[str]) -> int:
        """Run cells in the kernel of the notebook `path`, which begins with the first of them."""
        wanted = {"path": path, "name": Path(path).name, "type": "notebook"}
        session = self.server("POST", "api/sessions", wanted | {"kernel": {"name": "python3"}})
        kernel = session.json()["kernel"]["id"]
        address = f"{self.hub.replace('http', 'ws', 1)}/user/{self.name}/api/kernels/{kernel}"
        line = websocket.create_connection(
            f"{address}/channels",
            header=[f"Authorization: token {self.token}"],
            timeout=SECONDS_A_CELL,
            http_no_proxy=["127.0.0.1"],
        )
        try:
            for number, source in enumerate(cells):
                if wrong := run_cell(line, source):
                    raise BookError(f"{self.name}, {path}, code cell {number}: {wrong}")
        except websocket.WebSocketException as error:
            raise BookError(f"{self.name}, {path}: the kernel was lost ({error})") from None
        finally:
            line.close()
        return len(cells)


def checked(answer: requests.Response) -> requests.Response:
    """The answer, unless it is a refusal: then BookError in one line."""
    if not answer.ok:
        raise BookError(f"{answer.request.method} {answer.url}: {answer.status_code}")
    return answer


def run_cell(line: websocket.WebSocket, source: str) -> str | None:
    """Run one cell to its end; return its error as one line, or None."""
    ours = uuid.uuid4().hex
    header = {"msg_id": ours, "msg_type": "execute_request", "username": "", "session": ours}
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False}
    empty: dict[str, Any] = {"parent_header": {}, "metadata": {}, "buffers": []}
    line.send(json.dumps({"header": header, "channel": "shell", "content": content} | empty))
    replied, idle, wrong = False, False, None
    while not (replied and idle):
        said = json.loads(line.recv())
        if said.get("parent_header", {}).get("msg_id") != ours:
            continue
        kind, content = said["header"]["msg_type"], said["content"]
        if kind == "execute_reply":
            replied = True
            if content["status"] != "ok":
                wrong = f"{content.get('ename', content['status'])}: {content.get('evalue', '')}"
        elif kind == "status":
            idle = idle or content["execution_state"] == "idle"
    return wrong
