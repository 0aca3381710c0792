"""The recovery policy by itself: every combination against the words of the design, and the README's table.

`POLICY` in `lua/lib/policy.lua` is the one table; the README shows it, and here its function runs without a server.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from readme import README

from redislease import limits, policy_table
from redislease.scripts import ScriptLibrary, shipped

lua51 = pytest.importorskip("lupa.lua51")

CAUSES = (
    *("expired", "max_runtime", "failed", "fatal", "released", "returned"),
    *("revoked", "credential", "proposed", "cancelled", "completed"),
)
CLASSES = ("read_only", "idempotent", "non_idempotent")
COUNTED_AS = {
    "expired": "expirations",
    "max_runtime": "expirations",
    "failed": "failures",
    "fatal": "failures",
    "released": "releases",
    "revoked": "releases",
    "credential": "releases",
    "proposed": "releases",
    "returned": "",
    "unstarted": "",
    "cancelled": "",
    "completed": "",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A lease that ends: the task as it is after counting, and how it ends."""

    cause: str
    side_effect: str
    open_effects: int
    failures: int
    expirations: int
    limits: tuple[int | None, int | None]
    same_errors: int
    max_same_error: int
    delay: bool
    credential_blocked: bool

    @property
    def fields(self) -> dict[str, str]:
        """The task's hash; what is not stored has its default."""
        max_attempts, max_expirations = self.limits
        stored = {
            "open_effects": self.open_effects,
            "failures": self.failures,
            "expirations": self.expirations,
            "max_attempts": max_attempts,
            "max_expirations": max_expirations,
            "same_errors": self.same_errors,
            "max_same_error": self.max_same_error,
        }
        return {"side_effect": self.side_effect} | {name: str(value) for name, value in stored.items() if value}

    @property
    def ending(self) -> dict[str, Any]:
        """What the policy is told of the ending."""
        optional = {"delay_ms": 0 if self.delay else None, "credential_blocked": self.credential_blocked or None}
        return {"cause": self.cause} | {name: value for name, value in optional.items() if value is not None}


def designed(case: Case) -> str:
    """The recovery policy in the words and the order of the design."""
    max_attempts = case.limits[0] or limits.MAX_ATTEMPTS
    max_expirations = case.limits[1] or limits.MAX_EXPIRATIONS
    if case.cause in ("completed", "cancelled"):
        return case.cause
    if case.side_effect == "non_idempotent" and case.open_effects > 0:
        return "reconciling"
    if case.cause == "fatal":
        return "dead"
    if case.cause == "failed" and 0 < case.max_same_error <= case.same_errors:
        return "dead"
    if case.failures >= max_attempts or case.expirations >= max_expirations:
        return "dead"
    if case.cause == "credential" or case.credential_blocked:
        return "blocked"
    if case.cause == "proposed":
        return "awaiting_approval"
    if case.cause == "failed" or case.delay:
        return "scheduled"
    return "ready"


def cases(cause: str) -> Iterator[Case]:
    """Every combination around every limit, the default limits and others."""
    for max_attempts, max_expirations in ((None, None), (1, 7), (7, 1)):
        around = [
            (0, (limit or default) - 1, limit or default, (limit or default) + 1)
            for limit, default in ((max_attempts, limits.MAX_ATTEMPTS), (max_expirations, limits.MAX_EXPIRATIONS))
        ]
        for side_effect, open_effects, failures, expirations, same, delay, blocked in itertools.product(
            CLASSES, (0, 1, 3), *around, ((0, 0), (9, 0), (2, 3), (3, 3)), (False, True), (False, True)
        ):
            yield Case(
                cause, side_effect, open_effects, failures, expirations, (max_attempts, max_expirations), *same, delay,
                blocked,
            )  # fmt: skip


@pytest.fixture(scope="module")
def destination() -> Callable[[Case], tuple[str, str]]:
    """The function of the scripts, with as much of a task as it looks at."""
    runtime = lua51.LuaRuntime()
    stub = f"""
        local DEFAULT = {{ max_attempts = {limits.MAX_ATTEMPTS}, max_expirations = {limits.MAX_EXPIRATIONS} }}
        local function number_of(task, field) return tonumber(task.fields[field] or DEFAULT[field] or '0') end
    """
    source = (shipped().directory / policy_table.FILE).read_text(encoding="utf-8")
    function = runtime.execute(f"{stub}\n{source}\nreturn destination")
    table = runtime.table_from
    return lambda case: function(runtime.table(fields=table(case.fields)), table(case.ending))


@pytest.mark.parametrize("cause", CAUSES)
def test_every_combination_goes_where_the_design_says(
    cause: str, destination: Callable[[Case], tuple[str, str]]
) -> None:
    looked_at = set()
    for case in cases(cause):
        to, rule = destination(case)
        assert to == designed(case), case
        assert (rule, to) in policy_table.rules()
        looked_at.add(case)
    assert len(looked_at) > 3_000


def test_every_rule_decides_something(destination: Callable[[Case], tuple[str, str]]) -> None:
    deciding = {destination(case)[1] for cause in CAUSES for case in cases(cause)}
    assert deciding == {condition for condition, _ in policy_table.rules()}


def test_what_counts_as_what() -> None:
    assert policy_table.causes() == COUNTED_AS


def test_the_order_is_the_designed_one() -> None:
    assert policy_table.rules() == [
        ("completed", "completed"),
        ("cancelled", "cancelled"),
        ("in_doubt", "reconciling"),
        ("fatal", "dead"),
        ("same_error_too_often", "dead"),
        ("too_many_failures", "dead"),
        ("too_many_expirations", "dead"),
        ("credential_missing", "blocked"),
        ("proposed", "awaiting_approval"),
        ("failed", "scheduled"),
        ("delayed", "scheduled"),
        ("otherwise", "ready"),
    ]


def test_the_readme_shows_the_table() -> None:
    """Paste what `python -m redislease.policy_table` prints behind `<!-- policy-table -->`."""
    _, mark, behind = README.read_text(encoding="utf-8").partition("<!-- policy-table -->\n")
    assert mark
    assert behind.strip("\n").startswith(policy_table.markdown() + "\n\n")


def test_the_table_follows_the_rows() -> None:
    """Another order of the rows is another table, and a row without words is an error and not a gap."""
    source = (shipped().directory / policy_table.FILE).read_text(encoding="utf-8")
    fatal, doubt = "  'fatal', 'dead',\n", "  'in_doubt', 'reconciling',\n"
    swapped = ScriptLibrary(replace={"policy": source.replace(doubt, "").replace(fatal, fatal + doubt)})
    assert "| 3 | its holder failed it for good" in policy_table.markdown(swapped)
    strange = ScriptLibrary(replace={"policy": source.replace(fatal, "  'strange', 'dead',\n")})
    with pytest.raises(KeyError, match="strange"):
        policy_table.markdown(strange)
