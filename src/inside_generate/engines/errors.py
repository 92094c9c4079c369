"""What goes wrong with an engine, in one line for a person."""

from __future__ import annotations

from inside_generate.errors import InsideGenerateError


class EngineError(InsideGenerateError):
    """An engine is not there, cannot be installed, or did not answer as it should."""
