"""The suite: its parts by name, in the order in which they are measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from evaluation.systems.system import TEXT_SYSTEMS, TextSystem
from evaluation.tasks.authors import Authors
from evaluation.tasks.candidates import Candidates
from evaluation.tasks.facets import Facets
from evaluation.tasks.functions import Functions
from evaluation.tasks.known_items import KnownItemTask
from evaluation.tasks.ranking import MultiSetRanking, Ranking
from evaluation.tasks.reviewers import Reviewers
from evaluation.tasks.task import Task
from models.transport import Scorer


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the file: its heading, and a task on ``folder``, or a file, below the suite's folder."""

    what: str
    folder: str
    task: Task


# The service's default, compared with the other systems of collections whose queries are papers.
DEFAULT = "{encoder}:ot:focus:words"
_SCORERS = tuple(str(scorer) for scorer in Scorer)
_WORDS = ("bm25", "tfidf")


def _by_encoder(*suffixes: str) -> tuple[str, ...]:
    return tuple(f"{{encoder}}:{suffix}" for suffix in suffixes)


def _each_scorer(*ways: str) -> tuple[str, ...]:
    """Combine every scorer with each way to use it; ``*`` stands for the scorer."""
    return _by_encoder(*(way.replace("*", scorer) for way in ways for scorer in _SCORERS))


_TEXT = tuple(str(TextSystem(method, facet)) for method in TEXT_SYSTEMS for facet in (False, True))
_WHOLE = (*_WORDS, *_by_encoder("document"), *_each_scorer("*", "*:words"))
_WITH_WORDS = tuple(
    (f"{{encoder}}:{scorer}{way}:words", f"{{encoder}}:{scorer}{way}")
    for way in (":focus", ":focus:tagged")
    for scorer in _SCORERS
)
_ASPIRE = (
    ("{encoder}:ot:words", "bm25"),
    ("{encoder}:ot:words", "{encoder}:ot"),
    ("{encoder}:ot:words", "{encoder}:document"),
)
# A function encoder compared with each untrained layer of its encoder, the last being the encoder's vectors.
_LEADS_OF_TRAINED = tuple(
    (f"{{encoder}}:{view}:functions-{{encoder}}", f"{{encoder}}:{view}{layer}")
    for view in ("context", "alone")
    for layer in ("", *(f":layer{number}" for number in range(6)))
)

SUITE: Mapping[str, Part] = MappingProxyType(
    {
        "csfcube": Part(
            "CSFCube: papers akin in background, method or result",
            "csfcube",
            Ranking(
                "csfcube",
                (
                    *_TEXT,
                    *_by_encoder("document", "ot:same-facet"),
                    *_each_scorer("alone:*", "*", "*:whole", "*:focus", "*:focus:tagged"),
                    *_each_scorer("*:focus:words", "*:focus:tagged:words"),
                ),
                (
                    (DEFAULT, "bm25"),
                    (DEFAULT, "specter (published)"),
                    ("{encoder}:ot:focus:tagged:words", "bm25"),
                    ("{encoder}:ot:focus:tagged:words", "specter (published)"),
                    ("{encoder}:ot:focus:tagged:words", DEFAULT),
                    ("{encoder}:ot", "bm25"),
                    ("bm25", "specter (published)"),
                    ("{encoder}:ot", "{encoder}:alone:ot"),
                    ("{encoder}:ot:focus", "{encoder}:ot"),
                    ("{encoder}:mean_min", "{encoder}:ot"),
                    ("{encoder}:ot:same-facet", "{encoder}:ot"),
                    *_WITH_WORDS,
                ),
            ),
        ),
        "demo": Part(
            "The demo grid: the same problem (background) and the same method",
            "demo",
            Ranking(
                "demo",
                (
                    *("bm25", "bm25-facet"),
                    *_each_scorer("*:focus", "*:focus:tagged", "*:focus:words", "*:focus:tagged:words"),
                ),
                ((DEFAULT, "bm25"), ("{encoder}:ot:focus:tagged:words", DEFAULT)),
            ),
        ),
        "scifact": Part(
            "SciFact: abstracts for claims",
            "scifact",
            Ranking(
                "beir",
                _WHOLE,
                (*_ASPIRE, ("{encoder}:single:words", "{encoder}:single"), ("bm25", "{encoder}:ot")),
            ),
        ),
        "cocitations": Part(
            "Held-out co-citations: the paper that one sentence cites beside the query",
            "cocitations",
            Ranking("pairs", _WHOLE, (*_ASPIRE, ("{encoder}:ot", "{encoder}:document"))),
        ),
        "facets": Part("CSAbstruct: the facet of a sentence", "csabstruct", Facets()),
        "functions": Part(
            "CSAbstruct: sentences that do the same", "csabstruct", Functions(_LEADS_OF_TRAINED)
        ),
        "pubmed-rct": Part(
            "PubMed RCT: sentences that do the same", "pubmed-rct", Functions(_LEADS_OF_TRAINED)
        ),
        "communicative-functions": Part(
            "Sentences labelled with communicative functions",
            "communicative-functions",
            Functions(_LEADS_OF_TRAINED),
        ),
        "relish": Part(
            "RELISH: biomedical papers judged by their authors", "relish", Ranking("relish", _WHOLE, _ASPIRE)
        ),
        "treccovid-rf": Part("TRECCOVID-RF", "treccovid", Ranking("treccovid-rf", _WHOLE, _ASPIRE)),
        "scidocs": Part("SciDocs", "scidocs", Ranking("scidocs", _WHOLE, _ASPIRE)),
        "iclr2022": Part(
            "ICLR 2022: papers of one conference", "iclr2022", Ranking("iclr2022", _WHOLE, _ASPIRE)
        ),
        "doris-mae": Part(
            "DORIS-MAE: long questions of several aspects", "doris-mae", Ranking("doris-mae", _WHOLE, _ASPIRE)
        ),
        "beir": Part(
            "BEIR: each collection in the folder, and their mean",
            "beir",
            MultiSetRanking(Ranking("beir", _WHOLE)),
        ),
        "candidates": Part("The candidate stage", "collection", Candidates(("hnsw",))),
        "items": Part("Known papers, by their titles", "collection", KnownItemTask()),
        "reviewers": Part("Reviewers: papers that researchers rated", "reviewers", Reviewers()),
        "authors": Part(
            "Authors: later papers, by who wrote them",
            "authors.jsonl.gz",
            Authors(split=2019, n_authors=150),
        ),
    }
)
