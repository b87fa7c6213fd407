"""MkDocs hooks (mkdocs.yml) that add pages made from files outside docs/.

README becomes the first page, the notebook the tutorial; the commands are read from the command line itself,
and the HTTP interface from the service's description of it.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from akin.cli.app import app
from akin.cli.commands import PANELS
from akin.cli.help import range_of
from service.app import create_app

ROOT: Final = Path(__file__).parents[1]
# Files outside docs/ that are pages of the site, with their paths on the site.
_PAGES: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "models/weights/README.md": "weights.md",
}
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)")
_OPERATIONS: Final = "<!-- operations -->"  # where docs/reference/http.md has those of the service
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
    """Point the links of a page of docs/ to files outside it at their pages; fill in the operations."""
    if page.file.generated_by:
        return markdown
    if _OPERATIONS in markdown:
        markdown = markdown.replace(_OPERATIONS, "\n".join(http_operations(create_app().openapi())))
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
    if within := range_of(parameter):
        yield f"{within[0].upper()}{within[1:]}."
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


# What the limits of a value count, by their names in JSON Schema.
_LIMITS: Final = {"imum": "", "Length": " characters", "Items": " items"}


def http_operations(api: Mapping[str, Any]) -> Iterator[str]:
    """Yield every operation of an OpenAPI document, by tag, then the errors, then the objects they use."""
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    problems = api["components"]["responses"]
    common = {code for code, _ in _problems(operations[0][1])}
    common.intersection_update(*({code for code, _ in _problems(each)} for _, each in operations))
    yield api["info"]["description"]
    for tag in api["tags"]:
        yield f"\n## {tag['name'][0].upper()}{tag['name'][1:]}\n\n{tag['description']}"
        for line, operation in operations:
            if tag["name"] in operation["tags"]:
                yield from _operation(line, operation, common)
    yield "\n## Errors\n\nEvery operation can answer with those in bold, as a [ProblemOut](#problemout).\n"
    yield "| status | because |\n|---|---|"
    for name, problem in sorted(problems.items()):
        code = name.removeprefix("Problem").partition("-")[0]
        yield f"| {f'**{code}**' if code in common else code} | {_plain(problem['description'])} |"
    yield "\n## Objects\n\nIn bodies and answers. A field without *required* may be left out."
    for name, schema in sorted(api["components"]["schemas"].items()):
        yield from _object(name, schema)


def _operation(line: str, operation: Mapping[str, Any], common: set[str]) -> Iterator[str]:
    yield f"\n### `{line}`\n\n**{operation['summary']}.** {operation['description']}\n"
    scopes = sorted({scope for way in operation["security"] for each in way.values() for scope in each})
    yield f"Scope: {', '.join(f'`{scope}`' for scope in scopes) or 'none, a key is not needed'}.\n"
    if parameters := operation.get("parameters"):
        yield "| parameter | in | value | |\n|---|---|---|---|"
        for each in parameters:
            about = _about(each["schema"], is_required=each["required"])
            yield f"| `{each['name']}` | {each['in']} | {_value(each['schema'])} | {about} |"
        yield ""
    if body := operation.get("requestBody"):
        for media, content in body["content"].items():
            yield f"Body, `{media}`: {_value(content['schema'])}.\n"
    for code, answer in operation["responses"].items():
        if "$ref" not in answer:
            said = "" if answer["description"] == "Successful Response" else f" ({answer['description']})"
            forms = [
                f"{_value(each['schema'])}, `{media}`" for media, each in answer.get("content", {}).items()
            ]
            yield f"Answer {code}{said}: {'; '.join(forms) or 'empty'}.\n"
    if own := [code for code, _ in _problems(operation) if code not in common]:
        yield f"Errors, besides [those of every operation](#errors): {', '.join(own)}."


def _problems(operation: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the answers that are errors, by status."""
    return [(code, each) for code, each in operation["responses"].items() if "$ref" in each]


def _object(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### {name}\n\n{inspect.cleandoc(schema.get('description', ''))}\n"
    if "enum" in schema:
        yield f"{_value(schema)}."
    if fields := schema.get("properties"):
        yield "| field | value | |\n|---|---|---|"
        required = set(schema.get("required", ()))
        for field, value in fields.items():
            yield f"| `{field}` | {_value(value)} | {_about(value, is_required=field in required)} |"


def _value(schema: Mapping[str, Any]) -> str:
    """Return the kind of value that a schema describes, with links to objects."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if inner := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(map(_value, inner))
    if values := [schema["const"]] if "const" in schema else schema.get("enum"):
        return f"{'one of ' * (len(values) > 1)}{', '.join(f'`{each}`' for each in values)}"
    kind = str(schema.get("format", schema.get("type", "any value")))
    limits = f" ({', '.join(_limits(schema))})" if any(_limits(schema)) else ""
    if kind == "array":
        return f"list{limits} of {_value(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_value(schema['additionalProperties'])}"
    return kind + limits


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the range of a number, of the length of a text, or of the number of items in a list."""
    for name, counted in _LIMITS.items():
        least, most = schema.get(f"min{name}"), schema.get(f"max{name}")
        if least is not None and most is not None:
            yield f"{least:.15g} to {most:.15g}{counted}"
        elif least is not None or most is not None:
            yield f"at least {least:.15g}{counted}" if most is None else f"at most {most:.15g}{counted}"
    if "exclusiveMinimum" in schema:
        yield f"more than {schema['exclusiveMinimum']:.15g}"
    if "exclusiveMaximum" in schema:
        yield f"less than {schema['exclusiveMaximum']:.15g}"


def _about(schema: Mapping[str, Any], *, is_required: bool) -> str:
    """Return the description of a parameter or a field, whether it is required, and its default."""
    said = [_plain(" ".join(schema.get("description", "").split())), "*Required.*" * is_required]
    default = schema.get("default")
    if default not in (None, "", [], {}) and not isinstance(default, dict):
        said.append(f"Default: `{json.dumps(default)}`.")
    return " ".join(each for each in said if each)
