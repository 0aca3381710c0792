"""Type checkers see the exact signatures of tasks, and so does the code at run time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel
from servers import missing

from redislease import AsyncLease, ConfigurationError, InvalidInput, Lease, PayloadInvalid, Queue
from redislease.commands.enqueue import EnqueueOptions
from redislease.task import TaskOptions

SAMPLE = Path(__file__).parent / "typed" / "tasks.py"
REVEALED = re.compile(r"[Rr]evealed type is \"(?P<type>.*)\"|Type of \".*\" is \"(?P<other>.*)\"")


def expected() -> list[str]:
    """What the sample says that each `reveal_type` must show."""
    return [
        line.split("  # ", 1)[1]
        for line in SAMPLE.read_text(encoding="utf-8").splitlines()
        if "reveal_type(" in line and not line.startswith('"""')
    ]


def normal(shown: str) -> str:
    """A type as both checkers would put it."""
    shown = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", shown)
    shown = (
        shown.replace("def (", "(").replace("Coroutine[", "CoroutineType[").replace("[[", "[(").replace("], ", "), ")
    )
    shown = re.sub(r"= (?:\.\.\.|\"\")", "=", shown).replace(" =", "=")
    return shown


def revealed(output: str) -> list[str]:
    """The types that a checker printed, in order."""
    return [normal(found["type"] or found["other"]) for found in REVEALED.finditer(output)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="one platform is enough")
def test_mypy_sees_exact_signatures() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", "/dev/null", str(SAMPLE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=SAMPLE.parents[2])
    assert "error:" not in result.stdout, result.stdout
    assert revealed(result.stdout) == [normal(one) for one in expected()]


def test_pyright_sees_exact_signatures() -> None:
    """By basedpyright, which is pyright in a package that brings its own Node and downloads nothing when it runs."""
    if find_spec("basedpyright") is None:
        missing("basedpyright")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", str(SAMPLE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=SAMPLE.parents[2])
    found = json.loads(result.stdout)["generalDiagnostics"]
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    wrong = [one for one in found if one["severity"] == "error"]
    assert not [one for one in wrong if "# type: ignore" not in lines[one["range"]["start"]["line"]]]
    messages = "\n".join(one["message"] for one in found if one["severity"] == "information")
    assert revealed(messages) == [normal(one) for one in expected()]


class Item(BaseModel):
    size: int


@pytest.fixture
def queue(queue_name: str) -> Any:
    """A queue that nobody serves."""
    with Queue(queue_name, redis_url=f"memory://{queue_name}") as opened:
        yield opened


def test_options_are_those_of_enqueue() -> None:
    assert get_type_hints(TaskOptions) == get_type_hints(EnqueueOptions)


def test_arguments_are_checked_before_anything_is_sent(queue: Queue) -> None:
    @queue.task(side_effect="read_only")
    def handler(number: int, item: Item | None = None, *, names: list[str] = []) -> None:  # noqa: B006
        pass

    for args, kwargs in (
        (("7",), {}),
        ((), {}),
        ((1, {"size": "1"}), {}),
        ((1,), {"names": [1]}),
        ((1,), {"other": 1}),
        ((1.0,), {}),
        ((True,), {}),
        ((1, 2, 3), {}),
    ):
        with pytest.raises(PayloadInvalid):
            handler.enqueue(*args, **kwargs)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        handler.options(priority="high")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        handler.options(colour="red")  # type: ignore[call-arg]
    assert queue.stats().states["ready"] == 0
    handler.enqueue(1, Item(size=1), names=["a"])
    assert handler.options(priority=5).enqueue(2).priority == 5
    assert queue.detail(queue.tasks("ready")[1].id).payload == {"number": 1, "item": {"size": 1}, "names": ["a"]}


def test_many_calls_are_one_batch(queue: Queue) -> None:
    @queue.task(side_effect="read_only")
    def handler(number: int, text: str = "") -> None:
        pass

    answers = handler.enqueue_many([(1,), (2, "b"), {"number": 3}])
    assert [queue.detail(one.id).payload for one in answers] == [
        {"number": 1},
        {"number": 2, "text": "b"},
        {"number": 3},
    ]
    with pytest.raises(PayloadInvalid):
        handler.enqueue_many([(1,), ("x",)])


def takes_args(*numbers: int) -> None: ...
def lease_by_keyword(*, lease: Lease) -> None: ...
def lease_second(number: int, lease: Lease) -> None: ...
def wrong_lease(lease: AsyncLease) -> None: ...
async def wrong_async_lease(lease: Lease) -> None: ...
def unreadable(thing: re.Scanner) -> None: ...  # type: ignore[name-defined]
def unknown_annotation(thing: Nothing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    "function",
    [takes_args, lease_by_keyword, lease_second, wrong_lease, wrong_async_lease, unreadable, unknown_annotation],
)
def test_signatures_that_cannot_be_served(queue: Queue, function: Any) -> None:
    with pytest.raises(ConfigurationError):
        queue.add_task(function, side_effect="read_only")


def test_names_are_given_once_and_the_class_always(queue: Queue) -> None:
    queue.add_task(print_size, side_effect="read_only")
    with pytest.raises(ConfigurationError, match="already"):
        queue.add_task(print_size, side_effect="read_only")
    with pytest.raises(ConfigurationError, match="side_effect"):
        queue.add_task(print_size, name="other")  # type: ignore[call-overload]


def print_size(item: Item) -> None: ...


def test_parameters_may_have_any_name(queue: Queue) -> None:
    def handler(
        self: int, model_config: str, json: list[int], _hidden: int = 3, /, *, model_fields: int = 4
    ) -> None: ...

    bound = queue.add_task(handler, name="odd", side_effect="read_only")
    positional, named = bound.signature.arguments(b'{"self":1,"model_config":"c","json":[2],"model_fields":5}')
    assert (positional, named) == ([1, "c", [2], 3], {"model_fields": 5})
