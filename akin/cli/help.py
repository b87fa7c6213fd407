"""Corrections of typer's ``--help``, where its layout is misleading."""

import inspect
from collections.abc import Iterable
from typing import Any

import typer


def presented(command: Any) -> Any:
    """Correct the help of a command and its subcommands, and return the command.

    Typer shows a flag as ``--help <bool>``, as if it took a value, an argument as ``corpora`` although the
    text says CORPORA, breaks the values of an option within words, and keeps the line breaks of a docstring,
    whatever the width of the terminal.
    """
    present_params([*command.params, command.get_help_option(typer.Context(command))])
    if command.help:
        paragraphs = inspect.cleandoc(command.help).split("\n\n")
        command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    for each in getattr(command, "commands", {}).values():
        presented(each)
    return command


def present_params(params: Iterable[Any]) -> None:
    """Show flags without a type, arguments in capitals, and the values of an option after its help text."""
    for param in params:
        if param.type_descriptor.is_choice:
            _present_choice(param)
        if param.metavar is None and param.param_type_name == "argument":
            param.metavar = param.name.upper()
        elif param.metavar is None and param.is_flag:
            param.metavar = ""


def _present_choice(param: Any) -> None:
    """Show the option as ``--has-facet <facet>``, unless it has another word, and list its values."""
    param.metavar = param.metavar or f"<{param.opts[0].rpartition('-')[2]}>"
    values = ", ".join(getattr(each, "value", each) for each in param.type_descriptor.choices)
    listed = f"One of {values}."
    if listed not in param.help:
        param.help = f"{param.help} {listed}"
