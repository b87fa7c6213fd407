"""The list of commands with a summary of each, and their imports; listing them imports none of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typer import Typer

# The function of a command, or its group of subcommands.
Command = Callable[..., Any] | Typer


@dataclass(frozen=True, slots=True)
class Panel:
    """The commands of a topic: a summary of each by its name, and the function that imports one."""

    summaries: Mapping[str, str]
    load: Callable[[str], Command]


_SEARCH: Final = {
    "search": "Find papers similar to a paper or a short text, and see which sentences match.",
    "recommend": "Find papers similar to several papers or a library file, and unlike others.",
    "sentences": "Find sentences with the same meaning as one, or with the same rhetorical function.",
    "papers": "List or count the papers of a collection, or find one by its title.",
    "compare": "Compare two papers side by side: shared sentences, facets and words, and what differs.",
    "analyze": "Show the facet of each sentence of an abstract. No index is needed.",
    "watch": "Show new matches of saved queries: papers added since the query was last marked as seen.",
    "match": "Find reviewers for submissions by their papers, assign them, and explain each assignment.",
}


def _load_search(name: str) -> Command:
    command: Command
    match name:
        case "search":
            from akin.cli.search.search import search as command
        case "recommend":
            from akin.cli.search.recommend import recommend as command
        case "sentences":
            from akin.cli.search.sentences import sentences as command
        case "papers":
            from akin.cli.search.papers import papers as command
        case "compare":
            from akin.cli.search.compare import compare as command
        case "analyze":
            from akin.cli.search.analyze import analyze as command
        case "watch":
            from akin.cli.search.watch import watch as command
        case "match":
            from akin.cli.search.match import match as command
    return command


_COLLECTION: Final = {
    "index": "Add new or changed papers from CORPORA to the collection in --data, or create it.",
    "delete": "Delete papers from the collection. Ids that it does not have are reported and skipped.",
    "purge": "Delete papers and erase their text from the catalog and every generation (takedowns).",
    "status": (
        "Show a collection's papers, segments, pending and quarantined papers, generations and disk use."
    ),
    "reindex": "Encode every paper again, compare the new answers with the old ones, and switch over.",
    "compact": "Merge segments (up to a million vectors each) and remove deleted papers from them.",
    "tune": "Measure the recall of an approximate index and set the search effort that reaches --recall.",
    "backup": (
        "Copy the collection and its catalog while they are in use. To restore, use the copy as --data."
    ),
    "snapshot": "List, verify and roll back the published generations of a collection.",
    "migrate": "Upgrade the catalog of an older version of Akin to the current schema, or change nothing.",
    "upgrade": (
        "Upgrade a collection of an older version of Akin to the current format, without encoding again."
    ),
    "embed": "Print a JSON line for each paper: its sentences, their facets and vectors, and its own vector.",
}


def _load_collection(name: str) -> Command:  # noqa: C901 - a table
    command: Command
    match name:
        case "index":
            from akin.cli.collection.index import index as command
        case "delete":
            from akin.cli.collection.maintenance import delete as command
        case "purge":
            from akin.cli.collection.maintenance import purge as command
        case "status":
            from akin.cli.collection.status import status as command
        case "reindex":
            from akin.cli.collection.reindex import reindex as command
        case "compact":
            from akin.cli.collection.maintenance import compact as command
        case "tune":
            from akin.cli.collection.tune import tune as command
        case "backup":
            from akin.cli.collection.maintenance import backup as command
        case "snapshot":
            from akin.cli.collection.snapshots import snapshots as command
        case "migrate":
            from akin.cli.collection.maintenance import migrate as command
        case "upgrade":
            from akin.cli.collection.maintenance import upgrade as command
        case "embed":
            from akin.cli.collection.index import embed as command
    return command


_SERVING: Final = {
    "demo": "Index the demo corpus (invented papers) if it is not indexed yet, then serve it.",
    "serve": "Serve the collection in --data over HTTP. AKIN_* variables set options that are not given.",
    "worker": "Process queued batches until interrupted; run several workers, on any machines, in parallel.",
    "keys": "Create, list, renew and revoke the API keys of a data folder.",
    "mcp": "Serve search to language models as read-only tools over the Model Context Protocol (MCP).",
}


def _load_serving(name: str) -> Command:
    command: Command
    match name:
        case "demo":
            from akin.cli.serving.serve import demo as command
        case "serve":
            from akin.cli.serving.serve import serve as command
        case "worker":
            from akin.cli.serving.worker import worker as command
        case "keys":
            from akin.cli.serving.keys import app as command
        case "mcp":
            from akin.cli.serving.mcp import mcp as command
    return command


_TRAINING: Final = {
    "evaluate": "Measure relevance on a test collection, compare runs, or evaluate the candidate stage.",
    "train": "Train an encoder (akin train CONFIG.toml), a facet tagger or a function encoder.",
    "convert": "Convert a checkpoint to safetensors, the only format Akin loads.",
}


def _load_training(name: str) -> Command:
    command: Command
    match name:
        case "evaluate":
            from akin.cli.evaluation.evaluate import app as command
        case "train":
            from akin.cli.training.train import app as command
        case "convert":
            from akin.cli.training.convert import convert as command
    return command


# The commands by topic, in the order in which help shows them.
PANELS: Final = {
    "Search": Panel(_SEARCH, _load_search),
    "Collection": Panel(_COLLECTION, _load_collection),
    "Serve": Panel(_SERVING, _load_serving),
    "Train and measure": Panel(_TRAINING, _load_training),
}
# Commands that resume after an interruption, and say so; a subcommand sets RESUMES in its context's meta.
RESUMED: Final = frozenset({"index", "reindex", "purge", "compact", "backup", "upgrade", "match", "demo"})
RESUMES: Final = "akin.resumes"
COMMANDS: Final = {**_SEARCH, **_COLLECTION, **_SERVING, **_TRAINING}

# The text shown without a command: the five most common tasks.
FIRST: Final = """\
Akin finds papers similar to one you give it, in the respect you choose.

  Try it on invented papers   akin demo
  Index your own              akin index my.bib --data my-papers
  Search                      akin search --data my-papers --abstract draft.txt --facet method
  Look in a browser           akin serve --data my-papers
  Search from your library    akin recommend --data my-papers --like my.bib

All commands: akin --help. One of them: akin search --help.
Completion in your shell: akin --install-completion."""
