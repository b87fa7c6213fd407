"""The list of commands with a summary of each; listing them imports none of them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: its function or group of subcommands as ``module:name``, and a summary."""

    where: str
    summary: str


_SEARCH: Final = "akin.cli.search"
_COLLECTION: Final = "akin.cli.collection"
_SERVING: Final = "akin.cli.serving"

# The commands by topic, in the order in which help shows them.
PANELS: Final[dict[str, dict[str, CommandEntry]]] = {
    "Search": {
        "search": CommandEntry(
            f"{_SEARCH}.search:search",
            "Find papers similar to a paper or a short text, and see which sentences match.",
        ),
        "recommend": CommandEntry(
            f"{_SEARCH}.recommend:recommend",
            "Find papers similar to several papers or a library file, and unlike others.",
        ),
        "sentences": CommandEntry(
            f"{_SEARCH}.sentences:sentences",
            "Find sentences with the same meaning as one, or with the same rhetorical function.",
        ),
        "papers": CommandEntry(
            f"{_SEARCH}.papers:papers",
            "List or count the papers of a collection, or find one by its title.",
        ),
        "compare": CommandEntry(
            f"{_SEARCH}.compare:compare",
            "Compare two papers side by side: shared sentences, facets and words, and what differs.",
        ),
        "analyze": CommandEntry(
            f"{_SEARCH}.analyze:analyze",
            "Show the facet of each sentence of an abstract. No index is needed.",
        ),
        "watch": CommandEntry(
            f"{_SEARCH}.watch:watch",
            "Show new matches of saved queries: papers added since the query was last marked as seen.",
        ),
        "match": CommandEntry(
            f"{_SEARCH}.match:match",
            "Find reviewers for submissions by their papers, assign them, and explain each assignment.",
        ),
    },
    "Collection": {
        "index": CommandEntry(
            f"{_COLLECTION}.index:index",
            "Add new or changed papers from CORPORA to the collection in --data, or create it.",
        ),
        "delete": CommandEntry(
            f"{_COLLECTION}.maintenance:delete",
            "Delete papers from the collection. Ids that it does not have are reported and skipped.",
        ),
        "purge": CommandEntry(
            f"{_COLLECTION}.maintenance:purge",
            "Delete papers and erase their text from the catalog and every generation (takedowns).",
        ),
        "status": CommandEntry(
            f"{_COLLECTION}.status:status",
            "Show a collection's papers, segments, pending and quarantined papers, generations and disk use.",
        ),
        "reindex": CommandEntry(
            f"{_COLLECTION}.reindex:reindex",
            "Encode every paper again, compare the new answers with the old ones, and switch over.",
        ),
        "compact": CommandEntry(
            f"{_COLLECTION}.maintenance:compact",
            "Merge segments (up to a million vectors each) and remove deleted papers from them.",
        ),
        "tune": CommandEntry(
            f"{_COLLECTION}.tune:tune",
            "Measure the recall of an approximate index and set the search effort that reaches --recall.",
        ),
        "backup": CommandEntry(
            f"{_COLLECTION}.maintenance:backup",
            "Copy the collection and its catalog while they are in use. To restore, use the copy as --data.",
        ),
        "snapshot": CommandEntry(
            f"{_COLLECTION}.snapshots:snapshots",
            "List, verify and roll back the published generations of a collection.",
        ),
        "migrate": CommandEntry(
            f"{_COLLECTION}.maintenance:migrate",
            "Upgrade the catalog of an older version of Akin to the current schema, or change nothing.",
        ),
        "upgrade": CommandEntry(
            f"{_COLLECTION}.maintenance:upgrade",
            "Upgrade a collection of an older version of Akin to the current format, without encoding again.",
        ),
        "embed": CommandEntry(
            f"{_COLLECTION}.index:embed",
            "Print a JSON line for each paper: its sentences, their facets and vectors, and its own vector.",
        ),
    },
    "Serve": {
        "demo": CommandEntry(
            f"{_SERVING}.serve:demo",
            "Index the demo corpus (invented papers) if it is not indexed yet, then serve it.",
        ),
        "serve": CommandEntry(
            f"{_SERVING}.serve:serve",
            "Serve the collection in --data over HTTP. AKIN_* variables set options that are not given.",
        ),
        "worker": CommandEntry(
            f"{_SERVING}.worker:worker",
            "Process queued batches until interrupted; run several workers, on any machines, in parallel.",
        ),
        "keys": CommandEntry(
            f"{_SERVING}.keys:app", "Create, list and revoke the API keys of a data folder."
        ),
        "mcp": CommandEntry(
            f"{_SERVING}.mcp:mcp",
            "Serve search to language models as read-only tools over the Model Context Protocol (MCP).",
        ),
    },
    "Train and measure": {
        "evaluate": CommandEntry(
            "akin.cli.evaluation.evaluate:app",
            "Measure relevance on a test collection, compare runs, or evaluate the candidate stage.",
        ),
        "train": CommandEntry(
            "akin.cli.training.train:app",
            "Train an encoder (akin train CONFIG.toml), a facet tagger or a function encoder.",
        ),
        "convert": CommandEntry(
            "akin.cli.training.convert:convert",
            "Convert a checkpoint to safetensors, the only format Akin loads.",
        ),
    },
}
# Commands that resume after an interruption, and say so.
RESUMED: Final = frozenset({"index", "reindex", "purge", "compact", "backup", "upgrade", "train", "match"})
COMMANDS: Final = {name: each for panel in PANELS.values() for name, each in panel.items()}

# The text shown without a command: the five most common tasks.
FIRST: Final = """\
Akin finds papers similar to one you give it, in the respect you choose.

  Try it on invented papers   akin demo
  Index your own              akin index my.bib --data my-papers
  Search                      akin search --data my-papers --abstract draft.txt --facet method
  Look in a browser           akin serve --data my-papers
  Go on from your library     akin recommend --data my-papers --like my.bib

All commands: akin --help. One of them: akin search --help.
Completion in your shell: akin --install-completion."""
