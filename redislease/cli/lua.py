"""The scripts, to read and to run by hand."""

from __future__ import annotations

import click

from redislease.cli import options, output
from redislease.cli.session import Session
from redislease.errors import InvalidInput
from redislease.scripts import shipped


def _about(name: str) -> str:
    """The first sentence of a script's header."""
    lines = []
    for line in (shipped().directory / f"{name}.lua").read_text(encoding="utf-8").splitlines():
        text = line.removeprefix("--").strip()
        if not text:
            break
        lines.append(text)
    return " ".join(lines).partition(". ")[0].rstrip(".") + "."


@click.command()
@click.argument("name", required=False)
@options.common
@options.pass_session
def lua(session: Session, name: str | None) -> None:
    """Prints a script as the server gets it.

    Without a name, lists the scripts. By hand: redislease lua stats > stats.lua, then redis-cli --eval stats.lua
    'redislease:{QUEUE}:meta' 'redislease:{QUEUE}:never' , and the arguments that the script's header names.
    """
    names = shipped().names()
    if name is None:
        from redislease.cli import tables

        about = [{"name": one, "about": _about(one)} for one in names]
        session.answer(about, lambda: tables.pairs([(one["name"], one["about"]) for one in about]))
    elif name not in names:
        raise InvalidInput(f"there is no script {name!r}; there are {', '.join(names)}")
    else:
        script = shipped()[name]
        if session.format == "text":
            output.write(script.source.rstrip())
        else:
            session.answer({"name": name, "sha": script.sha, "source": script.source}, str)
