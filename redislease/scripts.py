"""Finds, joins and binds the Lua scripts of `lua/`.

A script's header is its signature: what it takes, what it returns and which library files it uses. This module reads
the header, joins the libraries in the order of their `-- Uses` lines, and turns named arguments into the flat list that
Redis wants. No other module opens a Lua file or counts ARGV.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from redislease.errors import ConfigurationError

Arg = str | bytes | int

_HEADER_LINE = re.compile(r"^--( (?P<text>.*))?$")
_KEY = re.compile(r"^KEYS\[(?P<number>[0-9]{1,4})\] +(?P<name>[a-z_]+)( {2,}.*)?$")
_ARG = re.compile(r"^ARGV\[(?P<number>[0-9]{1,4})\] +(?P<name>[a-z_]+)( {2,}.*)?$")
_GROUP = re.compile(r"^ARGV\[(?P<number>[0-9]{1,4})\.\.\.\] +(?P<names>[a-z_]+( [a-z_]+)*)( {2,}.*)?$")
_CONTINUED = " " * 8
_ERROR_LINE = re.compile(r"(?:user_script|@user_script|\[string [^\]]*\]):\s?(?P<line>[0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Header:
    """The signature of a script, as its first comment block states it.

    Attributes:
        keys: Names of KEYS, in order.
        args: Names of the single arguments, in order.
        group: Names of one repeated group of arguments behind them, or empty.
        returns: What the reply holds, as written.
        uses: Library files, in the order in which they are joined.
        exports: Of a library file: what it shows to those behind it; empty for one that holds what they change.
    """

    keys: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()


def parse_header(source: str, *, name: str = "script") -> Header:
    """Reads the first comment block of a Lua file.

    Args:
        source: The file's text.
        name: What to call it in an error.

    Raises:
        ConfigurationError: A line looks like a part of a signature but is not in the fixed form.
    """
    keys: list[str] = []
    args: list[str] = []
    group: tuple[str, ...] = ()
    returns: list[str] = []
    names: dict[str, list[str]] = {"Uses": [], "Exports": []}
    last = ""
    for line in source.splitlines():
        header_line = _HEADER_LINE.match(line)
        if not header_line:
            break
        text = header_line["text"] or ""
        if text.startswith(_CONTINUED) and last == "group":
            group += tuple(text.split())
            continue
        if text.startswith(_CONTINUED) and last == "returns":
            returns[-1] += " " + text.strip()
            continue
        last = ""
        if found := _KEY.match(text):
            _expect(int(found["number"]) == len(keys) + 1, name, line)
            keys.append(found["name"])
        elif found := _ARG.match(text):
            _expect(not group and int(found["number"]) == len(args) + 1, name, line)
            args.append(found["name"])
        elif found := _GROUP.match(text):
            _expect(not group and int(found["number"]) == len(args) + 1, name, line)
            group = tuple(found["names"].split())
            last = "group"
        elif text.startswith("Returns "):
            returns.append(text.removeprefix("Returns ").strip())
            last = "returns"
        elif text.startswith(("Uses ", "Exports ")):
            _expect(bool(re.fullmatch(r"[A-Z][a-z]+( +[A-Za-z_]+)+ *", text)), name, line)
            label, *found_names = text.split()
            names[label].extend(found_names)
        else:
            _expect(not text.startswith(("KEYS", "ARGV", "Returns", "Uses", "Exports")), name, line)
    return Header(tuple(keys), tuple(args), group, tuple(returns), tuple(names["Uses"]), tuple(names["Exports"]))


def _expect(condition: bool, name: str, line: str) -> None:
    if not condition:
        raise ConfigurationError(f"{name}: header line not in the fixed form: {line!r}")


@dataclass(frozen=True, slots=True)
class Script:
    """A joined script, ready to be sent.

    Attributes:
        name: The transition, which is also the file's name.
        source: The joined text.
        sha: Its SHA-1: the version of the script as Redis knows it.
        header: Its signature.
        origins: For each line of `source`, the file and line that it came from.
        durable: Whether it takes `durable` as its first argument, which every writing script does.
        singles: Names of the single arguments behind that.
    """

    name: str
    source: str
    sha: str
    header: Header
    origins: tuple[tuple[str, int], ...] = field(repr=False)
    durable: bool = field(init=False)
    singles: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        durable = self.header.args[:1] == ("durable",)
        object.__setattr__(self, "durable", durable)
        object.__setattr__(self, "singles", self.header.args[durable:])

    def bind(self, groups: Iterable[Iterable[Arg]] = (), /, **named: Arg) -> list[Arg]:
        """Puts named arguments into the order of the header.

        A leading `durable` is left out: whoever sends the call knows whether its reply waits for replicas.

        Args:
            groups: One iterable for each repetition of the header's group, in its order.
            **named: One value for each single argument.

        Raises:
            ConfigurationError: A name is missing or not in the header, or a group has the wrong length.
        """
        try:
            args = [named.pop(name) for name in self.singles] if self.singles else []
        except KeyError as missing:
            raise ConfigurationError(f"{self.name}: no value for {missing}") from None
        if named:
            raise ConfigurationError(f"{self.name}: no such argument: {', '.join(named)}")
        width = len(self.header.group)
        for group in groups:
            before = len(args)
            args.extend(group)
            if len(args) - before != width:
                raise ConfigurationError(f"{self.name}: a group has {len(args) - before} values, not {width}")
        return args

    def locate(self, message: str) -> str:
        """Adds the file and line of `lua/` to an error text that names a line of the joined script."""
        found = _ERROR_LINE.search(message)
        if not found or not 0 < int(found["line"]) <= len(self.origins):
            return message
        file, line = self.origins[int(found["line"]) - 1]
        return f"{message} (lua/{file}:{line})"


def lua_directory() -> Path:
    """Where the Lua files are: inside the installed package, else beside it in a checkout.

    Raises:
        ConfigurationError: They are in neither place.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "lua", package.parent / "lua"):
        if (candidate / "lib").is_dir():
            return candidate
    raise ConfigurationError("the Lua scripts were not installed with the package")


class ScriptLibrary:
    """The scripts of one directory, joined on first use.

    Args:
        directory: Where they are; the shipped ones by default.
        replace: Library files to replace by another text. Tests use it to swap the clock; nothing else does.
    """

    def __init__(self, directory: Path | None = None, *, replace: Mapping[str, str] | None = None) -> None:
        self.directory = directory or lua_directory()
        self._replace = dict(replace or {})
        self._joined: dict[str, Script] = {}

    def names(self) -> list[str]:
        """The names of all scripts."""
        return sorted(path.stem for path in self.directory.glob("*.lua"))

    def __getitem__(self, name: str) -> Script:
        if name not in self._joined:
            self._joined[name] = self._join(name)
        return self._joined[name]

    def _read(self, relative: str) -> str:
        library = Path(relative).stem
        if relative.startswith("lib/") and library in self._replace:
            return self._replace[library]
        try:
            return (self.directory / relative).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ConfigurationError(f"there is no Lua file {relative}") from None

    def _join(self, name: str) -> Script:
        if not re.fullmatch(r"[a-z_]+", name):
            raise ConfigurationError(f"there is no script named {name!r}")
        body = self._read(f"{name}.lua")
        header = parse_header(body, name=name)
        lines: list[str] = []
        origins: list[tuple[str, int]] = []

        def add(file: str, text: str, first: int = 1) -> None:
            for number, line in enumerate(text.splitlines(), start=first):
                lines.append(line)
                origins.append((file, number))

        for library in self._order(header.uses):
            file = f"lib/{library}.lua"
            text = self._read(file)
            opening, closing = _scope(parse_header(text, name=library).exports)
            add(file, opening)
            add(file, text)
            add(file, closing, first=len(text.splitlines()))
        add(f"{name}.lua", body)
        source = "\n".join(lines) + "\n"
        sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        return Script(name, source, sha, header, tuple(origins))

    def _order(self, uses: Iterable[str]) -> list[str]:
        """Library files so that each stands behind what it uses itself."""
        ordered: list[str] = []
        open_files: list[str] = []

        def visit(library: str) -> None:
            if library in ordered:
                return
            if library in open_files:
                raise ConfigurationError(f"lua/lib: {' uses '.join([*open_files, library])}")
            open_files.append(library)
            for needed in parse_header(self._read(f"lib/{library}.lua"), name=library).uses:
                visit(needed)
            open_files.pop()
            ordered.append(library)

        for library in uses:
            visit(library)
        return ordered


def _scope(exports: Sequence[str]) -> tuple[str, str]:
    """What stands around a library file so that only its exports are seen behind it.

    The chunk of a script runs on every call, and making a function costs a walk over all variables of the chunk that
    functions made before it have kept. A file in a function of its own keeps its variables off that list.
    """
    if not exports:
        return "", ""
    names = ", ".join(exports)
    return f"local {names} = (function()", f"return {names} end)()"


@cache
def shipped() -> ScriptLibrary:
    """The scripts that come with the package."""
    return ScriptLibrary()


def defaults_table(name: str, *, library: ScriptLibrary | None = None) -> dict[str, Any]:
    """A table of `lua/lib/defaults.lua` as Python values, so that tests can compare both sides."""
    source = (library or shipped())._read("lib/defaults.lua")
    body = re.search(rf"^local {name} = \{{(.*?)^\}}", source, re.MULTILINE | re.DOTALL)
    if not body:
        raise ConfigurationError(f"lua/lib/defaults.lua has no table {name}")
    return {key: int(value) for key, value in re.findall(r"^\s*([a-z_]+) = (\d+),", body[1], re.MULTILINE)}
