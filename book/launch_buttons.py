"""The buttons that open a notebook elsewhere: a Sphinx extension.

Puts a group of links among the theme's header buttons of each notebook's page, if the publisher
has given an address (`addresses.py`). Without one nothing appears.
"""

from typing import Any

from sphinx.application import Sphinx

from addresses import Addresses

AFTER_THE_THEME = 900


def links(addresses: Addresses, notebook: str) -> list[dict[str, str]]:
    """The theme's descriptions of the links for one notebook, a path below the book's folder."""
    found = []
    if addresses.repository:
        found.append(link("Colab", addresses.colab(notebook)))
    if addresses.hub:
        found.append(link("JupyterHub", addresses.on_hub(notebook)))
    return found


def link(place: str, url: str) -> dict[str, str]:
    """One entry of the group, as the theme's template wants it."""
    return {"type": "link", "text": place, "tooltip": f"Open on {place}", "url": url}


def add_buttons(app: Sphinx, page: str, _: str, context: dict[str, Any], __: Any) -> None:
    """Add the group to a notebook's page."""
    addresses = Addresses(app.config.launch_repository, hub=app.config.launch_hub)
    buttons = links(addresses, f"{page}.ipynb")
    if buttons and context.get("page_source_suffix") == ".ipynb":
        group = {"type": "group", "tooltip": "Open this notebook", "icon": "fas fa-rocket"}
        context["header_buttons"].insert(0, group | {"buttons": buttons, "label": "launch-buttons"})


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the settings, and the buttons after the theme's own."""
    app.add_config_value("launch_repository", "", "html", [str])
    app.add_config_value("launch_hub", "", "html", [str])
    app.connect("html-page-context", add_buttons, priority=AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
