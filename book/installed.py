"""Says in one line what to type where the course's packages are missing.

Imported by the programs that people type, before anything that is not Python's own.
"""

import sys
from importlib.util import find_spec

for package in ("nbformat", "psutil", "inside_generate"):
    if find_spec(package) is None:
        sys.exit(
            f"error: {package} is missing from this Python ({sys.executable}); activate the "
            "environment of the course (. .venv/bin/activate), or install it as README.md says"
        )
