"""The suite: its parts by name, in the order in which they are measured."""

from collections.abc import Mapping
from types import MappingProxyType

from evaluation.suite.parts import Candidates, Facets, Items, Part, Ranking, Several
from evaluation.systems.system import TEXT_SYSTEMS, TextSystem
from models.transport import Scorer

# What the service does, and what it is compared with wherever queries are papers.
DEFAULT = "{encoder}:ot:focus:words"
_SCORERS = tuple(str(scorer) for scorer in Scorer)
_WORDS = ("bm25", "tfidf")


def _by_encoder(*suffixes: str) -> tuple[str, ...]:
    return tuple(f"{{encoder}}:{suffix}" for suffix in suffixes)


def _each_scorer(*ways: str) -> tuple[str, ...]:
    """Every scorer with each way to use it, ``*`` standing for the scorer."""
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

SUITE: Mapping[str, Part] = MappingProxyType(
    {
        "csfcube": Ranking(
            "CSFCube: papers akin in background, method or result",
            "csfcube",
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
        "demo": Ranking(
            "The demo grid: the same problem (background) and the same method",
            "demo",
            "demo",
            (
                *("bm25", "bm25-facet"),
                *_each_scorer("*:focus", "*:focus:tagged", "*:focus:words", "*:focus:tagged:words"),
            ),
            ((DEFAULT, "bm25"), ("{encoder}:ot:focus:tagged:words", DEFAULT)),
        ),
        "scifact": Ranking(
            "SciFact: abstracts for claims",
            "scifact",
            "beir",
            _WHOLE,
            (*_ASPIRE, ("{encoder}:single:words", "{encoder}:single"), ("bm25", "{encoder}:ot")),
        ),
        "cocitations": Ranking(
            "Held-out co-citations: the paper that one sentence cites beside the query",
            "cocitations",
            "pairs",
            _WHOLE,
            (*_ASPIRE, ("{encoder}:ot", "{encoder}:document")),
        ),
        "facets": Facets("CSAbstruct: the facet of a sentence", "csabstruct"),
        "functions": Ranking(
            "CSAbstruct: sentences that do the same",
            "csabstruct",
            "functions",
            (),
            (),
        ),
        "relish": Ranking(
            "RELISH: biomedical papers judged by their authors", "relish", "relish", _WHOLE, _ASPIRE
        ),
        "treccovid-rf": Ranking("TRECCOVID-RF", "treccovid", "treccovid-rf", _WHOLE, _ASPIRE),
        "scidocs": Ranking("SciDocs", "scidocs", "scidocs", _WHOLE, _ASPIRE),
        "iclr2022": Ranking("ICLR 2022: papers of one conference", "iclr2022", "iclr2022", _WHOLE, _ASPIRE),
        "doris-mae": Ranking(
            "DORIS-MAE: long questions of several aspects", "doris-mae", "doris-mae", _WHOLE, _ASPIRE
        ),
        "beir": Several("BEIR: each collection in the folder, and their mean", "beir", "beir", _WHOLE),
        "candidates": Candidates("The candidate stage", "collection", ("exact", "hnsw")),
        "items": Items("Known papers, by their titles", "collection"),
    }
)
