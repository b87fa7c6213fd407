"""Corrections of typer's ``--help``, where its layout is misleading."""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import typer

# What options take whose last word does not say it.
_NAMED: Final = {
    "align": "encoder",
    **dict.fromkeys(("ray", "catalog"), "address"),
    **dict.fromkeys(("sentences", "layers"), "numbers"),
    **dict.fromkeys(("save", "datasets"), "name"),
    "abstract": "file",
    "contact": "e-mail",
    "like": "checkpoint",
    "only": "part",
    "out": "set",
    "to": "generation",
    "unlike": "paper",
}


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
    """Show flags without a type, arguments in capitals, and types, ranges and defaults in words.

    The values of an option stand after its help text.
    """
    for param in params:
        if param.type_descriptor.is_choice:
            _present_choice(param)
        if param.metavar is None and param.param_type_name == "argument":
            param.metavar = param.name.upper()
        elif param.metavar is None:
            param.metavar = "" if param.is_flag else _kind(param)
        _present_numbers(param)


def range_of(param: Any) -> str:
    """Return the range of a number in words, "" without one."""
    least, most = param.type_descriptor.parameter_info.min, param.type_descriptor.parameter_info.max
    if least is None or most is None:
        return f"at least {least}" if least is not None else "" if most is None else f"at most {most}"
    return f"{least} to {most:,.0f}" if isinstance(most, float) and most > 1 else f"{least} to {most}"


def _kind(param: Any) -> str:
    """Return what an option takes: a number, a file, or else the last word of its name."""
    kind = param.type_descriptor.annotation
    if kind in (int, float):
        return "<number>"
    if kind == list[Path] or param.type_descriptor.is_path:
        return f"<{param.type_descriptor.path_type}>"
    name = param.opts[0].rpartition("-")[2]
    return f"<{_NAMED.get(name, name)}>"


def _present_numbers(param: Any) -> None:
    """Show ``[0 to 1]`` and ``[default: 0.4]``, not ``[0<=x<=1]`` and ``[default: (0.4)]``; no type twice."""
    if within := range_of(param):
        param._get_number_range_help_str = lambda: within  # noqa: SLF001 - typer has no other way
    if isinstance(param.show_default, str):
        param._get_default_string = lambda **_: param.show_default  # noqa: SLF001 - the same
    if param.param_type_name == "argument":
        param.display_type = lambda _: ""


def _present_choice(param: Any) -> None:
    """Show the option as ``--has-facet <facet>``, unless it has another word, and list its values."""
    param.metavar = param.metavar or f"<{param.opts[0].rpartition('-')[2]}>"
    values = ", ".join(getattr(each, "value", each) for each in param.type_descriptor.choices)
    listed = f"One of {values}."
    if listed not in param.help:
        param.help = f"{param.help} {listed}"
