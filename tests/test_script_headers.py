"""A script's header is its signature: it is compared with the body, with the libraries and with the callers."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from call_samples import CALLS
from lua_globals import REDIS_GLOBALS, globals_of
from servers import Engine

from redislease.commands.call import Call
from redislease.errors import ConfigurationError
from redislease.keys import QueueKeys
from redislease.scripts import Header, ScriptLibrary, parse_header, shipped

NAMES = shipped().names()
LIBRARIES = sorted(path.stem for path in (shipped().directory / "lib").glob("*.lua"))


def text_of(name: str) -> str:
    """A file of `lua/`."""
    return (shipped().directory / f"{name}.lua").read_text(encoding="utf-8")


def body_of(name: str) -> str:
    """Its code, without comments."""
    return re.sub(r"--.*$", "", text_of(name), flags=re.MULTILINE)


def identifiers(code: str) -> set[str]:
    """Every name in code without comments; what stands in quotes does not count."""
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^'\n]*'", "''", code)))


@cache
def definitions_of(library: str) -> frozenset[str]:
    """What a library file defines for others."""
    exports = parse_header(text_of(f"lib/{library}"), name=library).exports
    return frozenset(exports) or top_level_of(library)


@cache
def top_level_of(library: str) -> frozenset[str]:
    """Everything that a library file defines at its top level."""
    found: set[str] = set()
    for functions, variables in re.findall(r"^local (?:function (\w+)|([\w, ]+))", body_of(f"lib/{library}"), re.M):
        found.update(name.strip() for name in (functions or variables).split(",") if name.strip() != "function")
    return frozenset(found)


def header_of(name: str) -> Header:
    """The signature of a script."""
    return shipped()[name].header


@pytest.mark.parametrize("name", NAMES)
def test_a_header_says_what_the_script_does(name: str) -> None:
    lines = text_of(name).splitlines()
    assert re.match(r"-- [A-Z].*[^ ]$", lines[0])
    header = header_of(name)
    assert header.keys == ("meta", "never")
    assert header.returns
    assert header.uses
    end = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    assert lines[end] == "", "an empty line ends the header"
    assert not re.search(r"^-- (KEYS\[|ARGV\[|Returns|Uses)", "\n".join(lines[end:]), re.M)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_named_in_the_body_as_in_the_header(name: str) -> None:
    header, body = header_of(name), body_of(name)
    named = re.findall(r"^local (\w+) = (?:tonumber\()?ARGV\[(\d+)\]\)?(?: .*)?$", body, re.M)
    stated = [(arg, str(number)) for number, arg in enumerate(header.args, start=1)]
    assert [(arg.removeprefix("seen_"), number) for arg, number in named] == stated
    assert sorted(re.findall(r"\bARGV\[(\d+)\]", body)) == sorted(number for _, number in stated), "each once"


GROUP_VALUE = r"ARGV\[first(?: \+ (\d+))?\]"


@pytest.mark.parametrize("name", [name for name in NAMES if header_of(name).group])
def test_the_group_of_the_body_is_that_of_the_header(name: str) -> None:
    header, body = header_of(name), body_of(name)
    first, width = str(len(header.args) + 1), str(len(header.group))
    assert re.findall(r"^local WIDTH = (\d+)$", body, re.M) == ([width] if "WIDTH" in body else [])
    loops = re.findall(r"\bfor (\w+) = (\d+), #ARGV, (\w+) do", body)
    assert loops
    for variable, start, step in loops:
        assert (variable, start, width if step == "WIDTH" else step) == ("first", first, width)
    offsets = {int(offset or 0) for offset in re.findall(GROUP_VALUE, body)}
    assert offsets == set(range(len(header.group))), "every value of the group is read"
    for names, values in re.findall(r"^ *local (\w+(?:, \w+)+) = ((?:ARGV\[first[^]]*\](?:, )?)+)$", body, re.M):
        assert names.split(", ") == [header.group[int(offset or 0)] for offset in re.findall(GROUP_VALUE, values)]
    for arg, offset in re.findall(rf"(?<!, )\b(\w+) = (?:tonumber\()?{GROUP_VALUE}(?!, ARGV)", body):
        assert arg == header.group[int(offset or 0)]
    for length in re.findall(r"#ARGV - (\d+)", body):
        assert int(length) == len(header.args)


@pytest.mark.parametrize("name", [*NAMES, *(f"lib/{library}" for library in LIBRARIES)])
def test_uses_lines_name_what_the_file_uses(name: str) -> None:
    uses = parse_header(text_of(name), name=name).uses
    assert set(uses) <= set(LIBRARIES)
    used = identifiers(body_of(name))
    idle = [library for library in uses if not definitions_of(library) & used]
    assert not idle, "joined and never used"


@pytest.mark.parametrize("name", NAMES)
def test_every_library_that_is_joined_is_used(name: str) -> None:
    files = list(dict.fromkeys(file for file, _ in shipped()[name].origins))
    for position, file in enumerate(files[:-1]):
        later = identifiers("\n".join(body_of(other.removesuffix(".lua")) for other in files[position + 1 :]))
        assert definitions_of(Path(file).stem) & later, f"{file} is joined for nothing"


def test_every_definition_of_a_library_is_used_somewhere() -> None:
    everything = "\n".join(body_of(f"lib/{library}") for library in LIBRARIES) + "\n".join(map(body_of, NAMES))
    code = re.sub(r"'[^'\n]*'", "''", everything)
    idle = [
        f"lib/{library}.lua: {name}"
        for library in LIBRARIES
        for name in sorted(definitions_of(library))
        if len(re.findall(rf"\b{name}\b", code)) < 2
    ]
    assert not idle


@pytest.mark.parametrize("library", LIBRARIES)
def test_exports_are_what_others_use(library: str) -> None:
    exports = parse_header(text_of(f"lib/{library}"), name=library).exports
    assert set(exports) <= top_level_of(library), "exported and not defined"
    others = [f"lib/{other}" for other in LIBRARIES if other != library] + NAMES
    used = set().union(*(identifiers(body_of(other)) for other in others))
    assert set(exports) <= used, "exported and used by nobody else"


def test_libraries_define_different_names() -> None:
    owners: dict[str, str] = {}
    for library in LIBRARIES:
        for name in definitions_of(library):
            assert owners.setdefault(name, library) == library, f"{name} is defined twice"


@pytest.mark.parametrize("name", NAMES)
def test_a_joined_script_compiles_and_needs_nothing_else(name: str) -> None:
    read, written = globals_of(shipped()[name].source)
    assert read <= REDIS_GLOBALS, "a name that no joined file defines"
    assert not written, "a global: some `local` is missing"


RETURNED = re.compile(r"(?:return|finish\(|\breply =)\s*(?:nil, )?\{ '(?P<word>[a-z_]+)'")
HELPERS = re.compile(r"\b(?:answer|claim_reply)\((?:\w+ and )?'(?P<word>[a-z_]+)'(?: or '(?P<other>[a-z_]+)')?")


def words_of(code: str) -> set[str]:
    """The words with which code answers."""
    words = {found["word"] for found in RETURNED.finditer(code)}
    for found in HELPERS.finditer(code):
        words.update(filter(None, (found["word"], found["other"])))
    return words


def stated_words(name: str) -> set[str]:
    """The words of the `Returns` lines."""
    stated: set[str] = set()
    for line in header_of(name).returns:
        stated.update(re.findall(r"(?:^|[(|])([a-z_]+)", line))
        for other in re.findall(r"what (\w+) returns", line):
            stated |= stated_words(other)
    return stated


@pytest.mark.parametrize("name", NAMES)
def test_every_word_of_a_reply_is_in_the_header(name: str) -> None:
    code = body_of(name)
    for library in header_of(name).uses:
        code += body_of(f"lib/{library}")
    assert words_of(code) - {"layout", "ok"} <= stated_words(name)
    assert any(line.startswith("ok") for line in header_of(name).returns)


@pytest.mark.parametrize("name", NAMES)
def test_every_word_of_the_header_is_in_the_script(name: str) -> None:
    source = shipped()[name].source
    for line in header_of(name).returns:
        word = line.split()[0]
        assert f"'{word}'" in source, f"{word!r} is never answered"


# Callers


def test_every_script_has_a_sample_call() -> None:
    assert {call.script for call in CALLS} == set(NAMES), "add one to tests/call_samples.py"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.script)
def test_a_command_binds_the_arguments_of_its_script(call: Call[Any]) -> None:
    script = shipped()[call.script]
    fixed = len(script.header.args) - script.durable
    width = len(script.header.group)
    assert len(call.args) >= fixed
    assert (len(call.args) - fixed) % width == 0 if width else len(call.args) == fixed
    assert all(isinstance(arg, str | bytes | int) and not isinstance(arg, bool) for arg in call.args)


def test_commands_name_scripts_that_exist() -> None:
    commands = Path(shipped().directory).parent / "redislease" / "commands"
    if not commands.is_dir():
        pytest.skip("runs in a checkout")
    for path in commands.glob("*.py"):
        code = path.read_text(encoding="utf-8")
        called = set(re.findall(r'\bCall\(\s*"(\w+)"', code)) | set(re.findall(r'shipped\(\)\["(\w+)"\]', code))
        assert called <= set(NAMES), path.name


@pytest.mark.contract
@pytest.mark.parametrize("name", NAMES)
def test_every_script_loads(engine: Engine, name: str) -> None:
    script = shipped()[name]
    with engine.sync_client() as client:
        sha = client.script_load(script.source)
    assert (sha.decode() if isinstance(sha, bytes) else sha) == script.sha


# Errors


def test_a_bad_header_line_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not in the fixed form"):
        parse_header("-- KEYS[1] meta\n-- ARGV[2] late\n")


@pytest.mark.parametrize(("file", "line"), [("lib/json.lua", 3), ("broken.lua", 6)])
def test_an_error_names_the_file_and_line_of_lua(
    real_engine: Engine, keys: QueueKeys, tmp_path: Path, file: str, line: int
) -> None:
    directory = shutil.copytree(shipped().directory, tmp_path / "lua")
    header = "-- Fails.\n--\n-- KEYS[1]  meta\n-- KEYS[2]  never\n-- Uses queue json\n"
    (directory / "broken.lua").write_text(
        header + "local nothing = KEYS[3] .. ''\n" if file == "broken.lua" else header
    )
    if file == "lib/json.lua":
        (directory / file).write_text("-- Text.\n\nlocal nothing = KEYS[3] .. ''\n")
    script = ScriptLibrary(directory)["broken"]
    with real_engine.sync_client() as client, pytest.raises(Exception, match=r"KEYS|nil") as caught:
        client.eval(script.source, 2, keys.meta, keys.never)
    assert f"(lua/{file}:{line})" in script.locate(str(caught.value))
