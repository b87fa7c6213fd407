"""MkDocs hooks (mkdocs.yml) that add pages made from files outside docs/.

README becomes the first page, the notebook the tutorial; the commands are read from the command line itself.
"""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from akin.cli.app import app
from akin.cli.commands import PANELS

ROOT: Final = Path(__file__).parents[1]
# Files outside docs/ that are pages of the site, with their paths on the site.
_PAGES: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "models/weights/README.md": "weights.md",
}
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)")
_PICTURE: Final = re.compile(r"(src|srcset)=\"([^\"]+)\"")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        target: _moved((ROOT / source).read_text(encoding="utf-8"), source)
        for source, target in _PAGES.items()
    }
    pages["tutorial.md"] = _tutorial((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    pages["reference/commands.md"] = "\n".join(commands_page())
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page of docs/ to files outside it at their pages on the site."""
    if page.file.generated_by:
        return markdown
    return _moved(markdown, f"docs/{page.file.src_uri}")


def _moved(text: str, source: str) -> str:
    """Return the text of a file with links of the site; a link to anything else becomes plain text."""
    here = (ROOT / source).parent
    up = "../" * (0 if source in _PAGES else source.count("/") - 1)

    def on_site(target: str) -> str | None:
        path = (here / target).resolve().relative_to(ROOT).as_posix()
        path = "docs/tutorial.md" if path == "docs/tutorial.ipynb" else path
        if path in _PAGES:
            return up + _PAGES[path]
        return up + path.removeprefix("docs/") if path.startswith("docs/") else None

    def moved(link: re.Match[str]) -> str:
        words, target, anchor = link[1], on_site(link[2]), link[3] or ""
        return words if target is None else f"[{words}]({target}{anchor})"

    text = _PICTURE.sub(lambda each: f'{each[1]}="{on_site(each[2])}"', text)
    return _LINK.sub(moved, text)


def _tutorial(content: str) -> str:
    """Return the cells of the notebook as a page."""
    cells = [("".join(cell["source"]), cell["cell_type"]) for cell in json.loads(content)["cells"]]
    return "\n\n".join(text if kind == "markdown" else f"```python\n{text}\n```" for text, kind in cells)


def commands_page() -> Iterator[str]:
    """Yield every command with its help, its arguments and its options."""
    yield "# Commands\n\n`akin` alone shows the five things people do; shells complete all of them after"
    yield "`akin --install-completion`.\n"
    group = typer.main.get_command(app)
    for title, panel in PANELS.items():
        yield f"\n## {title}\n"
        for name in panel.summaries:
            yield from _command(f"akin {name}", group.get_command(None, name).loaded())  # type: ignore[attr-defined]


def _command(line: str, command: Any) -> Iterator[str]:
    yield f"\n### `{line}`\n\n{_plain(inspect.cleandoc(command.help or ''))}\n"
    named = [each for each in command.params if each.name != "help" and not each.hidden]
    if named:
        yield "| | |\n|---|---|"
    for each in named:
        is_option = each.opts[0].startswith("-")
        argument = each.metavar or each.name.upper()
        shown = ", ".join([*each.opts, *each.secondary_opts]) if is_option else argument
        yield f"| `{shown}` | {' '.join(_said_of(each))} |"
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(f"{line} {name}", inner)


def _said_of(parameter: Any) -> Iterator[str]:
    """Yield the help of a parameter, its values, whether it is required, its default and its variable."""
    yield _plain(" ".join((parameter.help or "").split()))
    least, most = (getattr(parameter.type_descriptor.parameter_info, end) for end in ("min", "max"))
    if least is not None and most is not None:
        yield f"{least} to {most}."
    elif least is not None or most is not None:
        yield f"At least {least}." if most is None else f"At most {most}."
    if parameter.required:
        yield "Required."
    if default := _default(parameter):
        yield f"Default: `{default}`."
    if parameter.envvar:
        yield f"Or in `{parameter.envvar}`."


def _default(parameter: Any) -> str:
    """Return the default value as ``--help`` shows it; "" if there is none, or it is of this machine."""
    if isinstance(parameter.show_default, str):
        return str(parameter.show_default)
    given = getattr(parameter.default, "value", parameter.default)
    if not parameter.show_default or (isinstance(given, Path) and given.is_absolute()):
        return ""
    if isinstance(given, bool):
        return str((parameter.opts if given else parameter.secondary_opts or [""])[0])
    return str(given) if isinstance(given, str | int | float | Path) else ""


def _plain(text: str) -> str:
    """Escape the Markdown characters of a text, except backticks and the text within them."""
    return re.sub(r"([|<*_\[\]])(?=(?:[^`]*`[^`]*`)*[^`]*$)", r"\\\1", text)
