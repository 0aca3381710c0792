"""The redaction hook: what people and exceptions write passes it before anything is sent."""

from __future__ import annotations

import logging
from collections.abc import Callable

from redislease import limits, validation
from redislease.errors import ConfigurationError

_LOG = logging.getLogger("redislease.redaction")

Redact = Callable[[str], str]

WITHHELD = "(withheld)"
"""What is stored of a text that the hook could not handle."""


class Redaction:
    """Applies a queue's hook to error texts, to reasons why an effect was not done, and to notes of progress.

    The hook sees the whole text, before it is cut to its limit. When the hook fails, the report is sent without the
    text: a failure is never lost, and no text is sent that the hook has not passed.

    Args:
        hook: Takes a text and returns what may be stored of it; None stores texts as they are.
    """

    def __init__(self, hook: Redact | None = None) -> None:
        if hook is not None and not callable(hook):
            raise ConfigurationError("redact must be a function that takes a text and returns one")
        self._hook = hook

    def _apply(self, text: Callable[[], str], withheld: str) -> str:
        try:
            whole = text()
            redacted = whole if self._hook is None else self._hook(whole)
            if isinstance(redacted, str):
                return str(redacted)
            problem = f"returned a {type(redacted).__name__}"
        except Exception as failure:  # noqa: BLE001 - whatever it is, it must not cost the report
            problem = f"raised {type(failure).__name__}"
        # Not the failure's own text: it may quote what was to be hidden.
        _LOG.warning("a text was withheld: its redaction %s", problem)
        return withheld

    def error(self, error: str | BaseException) -> str:
        """An error as text, at most 8 KiB; of one that cannot be redacted only the exception's type.

        Raises:
            InvalidInput: It is neither a string nor an exception.
        """
        if isinstance(error, BaseException):
            kind = type(error).__name__
            return validation.error_text(self._apply(lambda: f"{kind}: {error}", kind))
        return validation.error_text(self._apply(lambda: error, WITHHELD) if isinstance(error, str) else error)

    def reason(self, reason: object) -> str:
        """A reason or a note, at most 1 KiB."""
        return validation.cut(self._apply(lambda: str(reason), WITHHELD), limits.NOTE_BYTES)
