"""Where the publisher puts the course: its repository, the built site, a JupyterHub.

Knows what these addresses look like and which settings of the book follow from them. All may be
missing; then nothing on the pages leads to them. Given to `book/build.py`, never committed.
"""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from pages import BookError

REPOSITORY = re.compile(r"https://github\.com/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+?)(?:\.git)?/?")
EDITED_BRANCH, LAUNCH_BRANCH = "main", "launch"
COLAB = "https://colab.research.google.com/github"
ON_THE_HUB = "inside-generate"  # where the workshop's hub lays the notebooks, in each home


@dataclass(frozen=True)
class Addresses:
    """Addresses as given, each checked and in one spelling; empty where there is none."""

    repository: str = ""  # https://github.com/OWNER/NAME
    site: str = ""  # ends in a slash
    hub: str = ""  # ends in a slash

    def colab(self, notebook: str) -> str:
        """The link that opens a launch copy on Colab; ``notebook`` is its path in the book."""
        owner_and_name = urlsplit(self.repository).path
        return f"{COLAB}{quote(owner_and_name)}/blob/{LAUNCH_BRANCH}/{quote(notebook)}"

    def on_hub(self, notebook: str) -> str:
        """The link that opens a notebook in a learner's own copy on the hub."""
        return f"{self.hub}hub/user-redirect/lab/tree/{ON_THE_HUB}/{quote(notebook)}"


def read(repository: str, site: str, hub: str) -> Addresses:
    """The addresses as the publisher typed them. BookError for what is none."""
    return Addresses(
        _repository(repository),
        _web("SITE_URL", site, "https://example.org/course/"),
        _web("HUB_URL", hub, "https://hub.example.org"),
    )


def _repository(text: str) -> str:
    if not text:
        return ""
    found = REPOSITORY.fullmatch(text)
    if not found or found[2] in (".", ".."):
        raise BookError(f"REPO_URL must look like https://github.com/OWNER/NAME, not {text!r}")
    return f"https://github.com/{found[1]}/{found[2]}"


def _web(name: str, text: str, example: str) -> str:
    """An address with a host, without user, query or fragment."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        _ = parts.port  # raises where it is no number
    except ValueError:
        plain = False
    if not plain or not re.fullmatch(r"[!-~]+", text) or re.search(r"""[?#"'<>\\]""", text):
        raise BookError(f"{name} must look like {example}, not {text!r}")
    return text.rstrip("/") + "/"


def settings(config: dict[str, Any], addresses: Addresses) -> dict[str, Any]:
    """The book's settings with what follows from the addresses: links, buttons, a base."""
    if addresses.site:
        config["html"]["baseurl"] = addresses.site
    if addresses.repository:
        config["repository"] |= {"url": addresses.repository, "branch": EDITED_BRANCH}
        config["html"] |= {"use_repository_button": True, "use_edit_page_button": True}
    given = {"launch_repository": addresses.repository, "launch_hub": addresses.hub}
    config["sphinx"]["config"] |= {key: value for key, value in given.items() if value}
    return config
