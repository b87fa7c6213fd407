"""The commands, each with what it does in a line, so that all can be listed without loading any."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Listed:
    """A command: where its function or its subcommands are, as ``module:name``, and what it does."""

    where: str
    summary: str


_SEARCH: Final = "akin.cli.search"
_COLLECTION: Final = "akin.cli.collection"

# By what they are about, in the order in which help shows them.
PANELS: Final[dict[str, dict[str, Listed]]] = {
    "Search": {
        "search": Listed(
            f"{_SEARCH}.searching:search",
            "Find papers similar to one, or to a short text, and see which of their sentences match.",
        ),
        "recommend": Listed(
            f"{_SEARCH}.recommending:recommend",
            "Find papers similar to several, named or in a library file, and unlike others.",
        ),
        "sentences": Listed(
            f"{_SEARCH}.sentences:sentences",
            "Find sentences that say the same as one or, whatever their topic, do the same.",
        ),
        "papers": Listed(
            f"{_SEARCH}.papers:papers",
            "List the papers of a collection in the order in which they came, count them, or find one by its "
            "title.",
        ),
        "compare": Listed(
            f"{_SEARCH}.comparing:compare",
            "Show two papers side by side: what they share, by sentence, facet and words, and what not.",
        ),
        "analyze": Listed(
            f"{_SEARCH}.analyzing:analyze",
            "Show what each sentence of an abstract does; nothing needs to be indexed.",
        ),
        "watch": Listed(
            f"{_SEARCH}.watching:watch",
            "Show what is new to each saved query, or to those named: papers added since that match.",
        ),
        "match": Listed(
            f"{_SEARCH}.matching:match",
            "Find reviewers for submissions by what they have written, assign them, and say why.",
        ),
    },
    "Collection": {
        "index": Listed(
            f"{_COLLECTION}.indexing:index",
            "Add the papers of CORPORA that are new or changed to the collection in --data, or begin one.",
        ),
        "delete": Listed(
            f"{_COLLECTION}.maintenance:delete",
            "Delete papers: no later answer holds them. Ids that are not there are named and passed over.",
        ),
        "purge": Listed(
            f"{_COLLECTION}.maintenance:purge",
            "Delete papers and remove their text from the catalog and every generation; for takedowns.",
        ),
        "status": Listed(
            f"{_COLLECTION}.status:status",
            "Show papers, segments, what waits, what is in quarantine, generations and disk of a collection.",
        ),
        "reindex": Listed(
            f"{_COLLECTION}.reindexing:reindex",
            "Encode every paper of the collection anew, compare the answers with the old ones', and swap.",
        ),
        "compact": Listed(
            f"{_COLLECTION}.maintenance:compact",
            "Merge all segments, into few of up to a million vectors each, and drop what is deleted.",
        ),
        "tune": Listed(
            f"{_COLLECTION}.tuning:tune",
            "Measure what a collection's approximate index finds, and search it as hard as --recall takes.",
        ),
        "backup": Listed(
            f"{_COLLECTION}.maintenance:backup",
            "Copy what is served and its catalog, also while both are written to; start on it to restore.",
        ),
        "snapshot": Listed(
            f"{_COLLECTION}.maintenance:snapshots",
            "List, verify and roll back the published generations of a data folder.",
        ),
        "migrate": Listed(
            f"{_COLLECTION}.maintenance:migrate",
            "Bring the catalog of an older version of Akin to this one's schema, wholly or not at all.",
        ),
        "upgrade": Listed(
            f"{_COLLECTION}.maintenance:upgrade",
            "Bring a collection of an older version of Akin to this one's form; nothing is encoded anew.",
        ),
        "embed": Listed(
            f"{_COLLECTION}.indexing:embed",
            "Print a JSON line for each paper: its sentences, their facets and vectors, and the paper's.",
        ),
    },
    "Serve": {
        "demo": Listed(
            f"{_COLLECTION}.serving:demo",
            "Index the demo corpus (invented papers) unless it is there already, then serve it.",
        ),
        "serve": Listed(
            f"{_COLLECTION}.serving:serve",
            "Serve the current generation of --data over HTTP; AKIN_* variables set what is not given.",
        ),
        "worker": Listed(
            f"{_COLLECTION}.worker:worker",
            "Work off the batches of --data until interrupted; several may, on this machine and others.",
        ),
        "keys": Listed(f"{_COLLECTION}.keys:app", "Create, list and revoke the API keys of a data folder."),
        "mcp": Listed(
            f"{_SEARCH}.mcp:mcp",
            "Give language models the search: read-only tools over the Model Context Protocol.",
        ),
    },
    "Train and measure": {
        "evaluate": Listed(
            "akin.cli.evaluation.evaluate:app",
            "Measure relevance: on a test collection, between two runs, or of the candidate stage.",
        ),
        "train": Listed(
            "akin.cli.training.train:app",
            "Train an encoder (akin train CONFIG.toml), or the small models that read one.",
        ),
        "convert": Listed(
            "akin.cli.training.conversion:convert",
            "Convert a checkpoint to safetensors, the only format Akin loads.",
        ),
    },
}
COMMANDS: Final = {name: each for panel in PANELS.values() for name, each in panel.items()}

# What is shown where no command is given: the five things that people do.
FIRST: Final = """\
Akin finds papers similar to one you give it, in the respect you choose.

  Try it on invented papers   akin demo
  Index your own              akin index my.bib --data my-papers
  Search                      akin search --data my-papers --abstract draft.txt --facet method
  Look in a browser           akin serve --data my-papers
  Go on from your library     akin recommend --data my-papers --like my.bib

All commands: akin --help. One of them: akin search --help.
Completion in your shell: akin --install-completion."""
