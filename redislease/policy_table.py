"""The recovery policy as people read it, from the rows that the scripts act on: `python -m redislease.policy_table`.

The rows are data in `lua/lib/policy.lua`; here are only the words for them.
"""

from __future__ import annotations

import re

from redislease.errors import ConfigurationError
from redislease.scripts import ScriptLibrary, shipped

FILE = "lib/policy.lua"

_WHEN = {
    "completed": "its holder completed it",
    "cancelled": "an operator cancelled it",
    "in_doubt": "it is `non_idempotent`, and an effect may or may not have happened",
    "fatal": "its holder failed it for good (`retry=False`)",
    "same_error_too_often": "it failed with the same error `max_same_error` times in a row",
    "too_many_failures": "it has failed `max_attempts` times",
    "too_many_expirations": "its lease has expired, or reached `max_runtime`, `max_expirations` times",
    "credential_missing": "its credential is missing or blocked",
    "proposed": "its holder proposed an action",
    "failed": "it failed",
    "delayed": "its holder gave it back with a delay",
    "otherwise": "anything else: expired, revoked, given back",
}

_THEN = {
    "completed": "unsettled too, if an effect is open",
    "cancelled": "unsettled too, if an effect is open",
    "reconciling": "a person decides",
    "dead": "a person may requeue it",
    "blocked": "until the credential is unblocked",
    "awaiting_approval": "until a person approves or rejects",
    "scheduled": "after the backoff, or the delay that was given",
    "ready": "at its old place",
}


def _body(table: str, library: ScriptLibrary | None) -> str:
    found = re.search(rf"^local {table} = \{{\n(.*?)^\}}", (library or shipped())._read(FILE), re.MULTILINE | re.DOTALL)
    if not found:
        raise ConfigurationError(f"lua/{FILE} has no table {table}")
    return found[1]


def rules(library: ScriptLibrary | None = None) -> list[tuple[str, str]]:
    """The rows: a condition and the state that follows, the first that applies decides."""
    return re.findall(r"^ +'(\w+)', '(\w+)',$", _body("POLICY", library), re.MULTILINE)


def causes(library: ScriptLibrary | None = None) -> dict[str, str]:
    """How a lease can end, and the counter that this moves; '' for none."""
    return dict(re.findall(r"^ +(\w+) = '(\w*)',$", _body("CAUSES", library), re.MULTILINE))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def markdown(library: ScriptLibrary | None = None) -> str:
    """Both tables, without a newline at the end."""
    lines = [_row("", "when", "the task becomes", ""), "|---|---|---|---|"]
    for number, (condition, state) in enumerate(rules(library), start=1):
        lines.append(_row(str(number), _WHEN[condition], f"`{state}`", _THEN[state]))
    counted: dict[str, list[str]] = {}
    for cause, counter in causes(library).items():
        counted.setdefault(counter, []).append(f"`{cause}`")
    lines += ["", _row("a lease that ended as", "counts as one of its"), "|---|---|"]
    lines += [_row(", ".join(names), f"`{counter}`" if counter else "nothing") for counter, names in counted.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
