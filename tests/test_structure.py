"""The rules of DESIGN that no single module can see: who imports whom, and what exists only once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import redislease
from redislease.scripts import parse_header, shipped

PACKAGE = Path(redislease.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LUA_FILES = sorted(shipped().directory.rglob("*.lua"))
MAX_LINES = 400

# From the top down; a module imports from its own row and from rows below.
LAYERS = (
    {"cli", "demo", "exec", "__main__"},
    {"worker", "reaper", "metrics", "health"},
    {
        *("queue", "async_queue", "queue_core", "operations", "async_operations"),
        *("task", "signature", "registry", "loop_local"),
        *("lease", "async_lease", "lease_core", "effect", "async_effect", "effect_core"),
        *("heartbeat", "identity", "flow", "flows"),
    },
    {"connection"},
    {"commands"},
    {"scripts", "keys", "policy_table"},
    {"models", "handle", "backoff", "effect_records", "timeline"},
    {"redaction"},
    {"validation", "limits", "encoding", "ids", "errors", "local_clock", "local_process", "moments"},
)
# What the transport knows of commands is the shape of a call; `call` itself sees only scripts.
OF_COMMANDS_FOR_CONNECTION = {"redislease.commands.call"}


def name_of(path: Path) -> str:
    """The dotted name of a module file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}


def layer(module: str) -> int:
    """The row of a module; 0 is the top."""
    unit = module.split(".")[1]
    for number, units in enumerate(LAYERS):
        if unit in units:
            return number
    raise AssertionError(f"redislease.{unit} has no layer: give it one in {Path(__file__).name}")


def imported(tree: ast.AST, *, at_load: bool = False) -> Iterator[str]:
    """The modules of this package that a tree imports, but for what only type checkers see.

    Args:
        tree: A parsed module.
        at_load: Leave out imports inside functions.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if at_load and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in NAMES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in NAMES:
                    yield full
                elif node.module in NAMES:
                    yield node.module
        else:
            yield from imported(node, at_load=at_load)


def parse(path: Path) -> ast.Module:
    """A module as a tree."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@pytest.mark.parametrize("module", [name for name in NAMES if name != "redislease"])
def test_imports_only_point_down(module: str) -> None:
    own = layer(module)
    upward = [
        target
        for target in imported(parse(NAMES[module]))
        if (own > 0 if target == "redislease" else layer(target) < own)
    ]
    assert not upward, f"{module} imports from above itself"


def test_the_transport_knows_only_the_shape_of_a_call() -> None:
    for module, path in NAMES.items():
        if module.startswith("redislease.connection"):
            commands = {name for name in imported(parse(path)) if name.startswith("redislease.commands")}
            assert commands <= OF_COMMANDS_FOR_CONNECTION, module


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: set(imported(parse(path), at_load=True)) - {module} for module, path in NAMES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" imports ".join(cycle.args[1]))


KEY_NAME = re.compile(
    r"redislease:\{|(^|\}):(meta|never|ready|leased|payloads|results|workers|wake|audit)$"
    r"|(^|:)(task|evidence|effects|proposal|approval|idempotency|signal|blocked|worker):$"
)


def strings_in(path: Path) -> Iterator[tuple[int, str]]:
    """The string constants of a module, parts of f-strings included, documentation left out."""
    tree = parse(path)
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def test_only_keys_py_builds_key_names() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}"
        for path in MODULES
        if path.name != "keys.py"
        for line, text in strings_in(path)
        if KEY_NAME.search(text)
    ]
    assert not found


@pytest.mark.parametrize("path", [*MODULES, *LUA_FILES], ids=lambda path: path.name)
def test_files_stay_readable(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_LINES
    if path.suffix == ".py" and lines:
        assert ast.get_docstring(parse(path)) or path.name == "__init__.py", "what is this file for?"


# Lua

READING_COMMANDS = {
    *("EXISTS", "GET", "HGET", "HGETALL", "HMGET", "HLEN", "HEXISTS", "STRLEN", "TIME", "PTTL"),
    *("LINDEX", "LLEN", "LRANGE", "ZCARD", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZSCORE", "ZMSCORE"),
}
CALL = re.compile(r"(?<!function )\b(redis\.p?call|read_or_nil)\(\s*(?P<first>'[A-Z]+'|[^,)]*)")
PASSED_ON = {"queue.lua: ..."}
"""`read_or_nil` passes its arguments on; what it is called with is looked at where it is called."""


def code_of(path: Path) -> list[tuple[int, str]]:
    """The lines of a Lua file with their numbers, without comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(number, re.sub(r"--.*$", "", line)) for number, line in enumerate(lines, start=1)]


def lua_lines(pattern: str, *, but_for: str = "") -> list[str]:
    """Where a pattern occurs in the code of the Lua files."""
    return [
        f"{path.name}:{number}: {line.strip()}"
        for path in LUA_FILES
        if path.name != but_for
        for number, line in code_of(path)
        if re.search(pattern, line)
    ]


def test_only_the_clock_reads_the_time() -> None:
    assert not lua_lines(r"'TIME'", but_for="clock.lua")


def writing_lines(path: Path) -> Iterator[str]:
    """The lines that send a writing command, each behind the name of the file and of its function."""
    function = ""
    for number, line in code_of(path):
        if defined := re.match(r"local function (\w+)", line):
            function = defined[1]
        for call in CALL.finditer(line):
            if call["first"].strip("'") not in READING_COMMANDS and f"{path.name}: {call['first']}" not in PASSED_ON:
                yield f"{path.name} {function}:{number}: {line.strip()}"


def test_only_plan_lua_writes() -> None:
    """And what `commit` calls of `evidence.lua`: functions that are called `write_…` and not exported."""
    writing = [line for path in LUA_FILES if path.name != "plan.lua" for line in writing_lines(path)]
    others = [line for line in writing if not line.startswith("evidence.lua write_")]
    assert not others, "plan it with write(), put(), enter() ..., or it happens before all reads are done"
    evidence = next(path for path in LUA_FILES if path.name == "evidence.lua").read_text(encoding="utf-8")
    assert not [name for name in parse_header(evidence).exports if name.startswith("write_")]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?<![\w.])error\(", "error() differs between engines"),
        (r"\bcjson\b", "cjson rounds numbers beyond 14 digits"),
        (r"math\.random", "the same numbers in every call on Redis 6.2"),
        (r"'(KEYS|SCAN|[HSZ]SCAN)'", "nothing walks over all keys"),
        (r"^#!", "fakeredis knows no shebang"),
        (r"\btostring\((?!reply\.err\))", "exponents at 15 digits: int()"),
        (r"\b(os|io|debug|package)\.|\brequire\b|\bloadstring\b|\bsetmetatable\(_G", "not there in Redis"),
        (r"(?<!math)\.pow\b|\bmath\.mod\b|\btable\.getn\b|\bgoto\b|//", "not the Lua of Redis"),
    ],
)
def test_what_lua_must_not_use(pattern: str, why: str) -> None:
    assert not lua_lines(pattern), why


NUMBERS = r"(now|now_us|fence|sequence|stored_fence|stored_sequence|earliest_due|expires|due|deadline|token \+ \d)"


@pytest.mark.parametrize(
    "pattern",
    [
        rf"\.\.\s*{NUMBERS}\b(?!\s*[(\w])",
        rf"\b{NUMBERS}\s*\.\.",
        r"\.\.\s*(#|tonumber\(|math\.|number_of\()",
        r"\.\.\s*\([^()']*[-+*/][^()']*\)",
    ],
)
def test_numbers_become_text_in_one_way(pattern: str) -> None:
    assert not lua_lines(pattern), "a computed number turns to an exponent at 15 digits: int()"
