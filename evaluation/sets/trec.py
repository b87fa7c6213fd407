"""Any test collection in TREC's format: a corpus, topics, and judgements."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from evaluation.collection import Collection, EvalQuery
from evaluation.sets.files import json_lines, locate, read_qrels, text_lines
from evaluation.sets.papers import absent_papers, notes_on, notes_on_rows, require_judged, text_of, text_query
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.records import JsonObject
from indexer.corpus.source import read_head
from models.errors import BrokenRowError, CorpusFormatError, InputError
from models.types import Facet, Paper, Unit
from service.search.aspect import Aspect, select_sentences

# TREC's classic topics are not XML: their tags are seldom closed.
_CLASSIC_BEGIN = re.compile(r"<top>", re.IGNORECASE)
_CLASSIC_END = re.compile(r"</top>", re.IGNORECASE)
_CLASSIC_NUMBER = re.compile(r"<num>\s*+(?:Number:\s*+)?([^\s<]++)", re.IGNORECASE)
_CLASSIC_TITLE = re.compile(r"<title>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)


class _Topic(NamedTuple):
    """A query of a topics file: a text, or a paper of the corpus with its selected sentences."""

    id: str
    text: str
    paper_id: str = ""
    sentences: tuple[int, ...] | None = None
    facet: str | None = None


class TrecSet:
    """``corpus.*`` in any corpus format, ``topics.*`` and ``qrels.*``; paper ids are those of the corpus.

    Topics are TREC's XML (``query``, else ``title``) or its classic ``<top>`` blocks (``title``), lines of
    ``id<TAB>text``, or JSON lines with ``id`` and either ``query`` or ``paper_id``. A paper may have
    ``sentences`` (numbers from 0) or a ``facet``, which selects its labelled sentences; with both, the facet
    only groups the figures. Topics without judgements are left out.
    """

    publisher = "you, or any of TREC's tracks (trec.nist.gov)"
    layout = """
<folder>/
  corpus.*     a corpus file that `akin index` reads; any file may be gzipped (.gz)
  topics.*     topics.xml, topics.txt, topics.tsv or topics.jsonl
  qrels.*      topic iteration paper-id grade, separated by white space
"""

    def load(self, path: Path) -> Collection:
        """Read the collection; raises CollectionMissingError, BrokenRowError or another InputError."""
        corpus, topics, judgements = (_only(self, path, stem) for stem in ("corpus", "topics", "qrels"))
        report = CorpusReport()
        papers = {paper.id: paper for paper in read_corpus(corpus, report=report)}
        qrels = read_qrels(judgements)
        read = _topics(topics)
        require_judged([topic.id for topic in read], qrels, topics)
        left_out = notes_on_rows(report, corpus)
        queries = tuple(_queries((topic for topic in read if topic.id in qrels), papers, topics, left_out))
        n_absent = len(qrels) - len(queries)
        qrels = {query.id: qrels[query.id] for query in queries}
        absent = absent_papers(qrels, papers, judgements)
        return Collection(
            name=f"trec/{path.resolve().name}",
            papers=papers,
            queries=queries,
            qrels=qrels,
            relevant_from=1,
            measures=("nDCG@10", "MAP", "P@20", "R@100"),
            notes=(*left_out, *notes_on((), absent, queries_absent=n_absent)),
        )


def _only(reader: TrecSet, folder: Path, stem: str) -> Path:
    """Return the only file named ``stem.*``; raises InputError if there are several."""
    found = sorted(folder.glob(f"{stem}.*")) if folder.is_dir() else []
    if len(found) > 1:
        raise InputError(f"{folder} holds {', '.join(p.name for p in found)}; keep one file {stem}.*.")
    return found[0] if found else locate(reader, folder, f"{stem}.*")


def _queries(
    topics: Iterable[_Topic], papers: Mapping[str, Paper], path: Path, left_out: Sequence[str]
) -> Iterator[EvalQuery]:
    for topic in topics:
        try:
            query = _query(topic, papers, left_out)
        except InputError as error:
            raise InputError(f"{path}: topic {topic.id!r}: {error}") from error
        yield query


def _query(topic: _Topic, papers: Mapping[str, Paper], left_out: Sequence[str]) -> EvalQuery:
    if not topic.paper_id:
        text = text_query(f"query:{topic.id}", topic.text)
        return EvalQuery(id=topic.id, paper=text, pool=(), cluster=topic.id, is_text=True)
    if topic.paper_id not in papers:
        raise InputError(" ".join([f"The paper {topic.paper_id!r} is not in the corpus.", *left_out]))
    paper = papers[topic.paper_id]
    selected = None
    if topic.sentences is not None or topic.facet is not None:
        facets = () if topic.facet is None or topic.sentences is not None else (Facet(topic.facet),)
        aspect = Aspect(sentences=topic.sentences, facets=facets)
        selected = select_sentences(aspect, paper, n_vectors=len(paper.sentences), unit=Unit.SENTENCE).like
    by_number = topic.sentences is not None
    facet = topic.facet or "all"
    return EvalQuery(topic.id, paper, (), paper.id, selected=selected, facet=facet, by_number=by_number)


def _topics(path: Path) -> list[_Topic]:
    """Read the topics of a file of any known format; raises InputError if two topics have the same id."""
    head = read_head(path).lstrip()
    if head.startswith("{"):
        topics = [_json_topic(record, path, number) for number, record in json_lines(path)]
    elif head.startswith("<"):
        text = "".join(line for _, line in text_lines(path))
        topics = list(_classic_topics(text, path) if _CLASSIC_BEGIN.search(text) else _xml_topics(text, path))
    else:
        topics = list(_table_topics(path))
    if len({topic.id for topic in topics}) < len(topics):
        raise InputError(f"{path}: two topics have the same id; give each its own.")
    return topics


def _json_topic(record: JsonObject, path: Path, line: int) -> _Topic:
    topic_id, text, paper_id = (str(record.get(key) or "") for key in ("id", "query", "paper_id"))
    if record.get("id") == 0:
        topic_id = "0"
    facet, sentences = text_of(record, "facet") or None, record.get("sentences")
    if not topic_id or bool(text) == bool(paper_id):
        raise BrokenRowError(str(path), line, "a topic needs an id, and either a query or a paper_id")
    if facet is not None and sentences is None and facet not in set(Facet):
        raise BrokenRowError(str(path), line, f"unknown facet {facet!r}; known: {', '.join(Facet)}")
    if sentences is not None and not (isinstance(sentences, list) and all(type(s) is int for s in sentences)):
        raise BrokenRowError(str(path), line, "sentences is not a list of numbers")
    return _Topic(topic_id, text, paper_id, None if sentences is None else tuple(sentences), facet)


def _table_topics(path: Path) -> Iterator[_Topic]:
    for number, line in text_lines(path):
        topic_id, tab, text = line.strip().partition("\t")
        if tab:
            yield _Topic(topic_id.strip(), text)
        elif topic_id:
            raise BrokenRowError(str(path), number, "no tab between id and text")


def _classic_topics(text: str, path: Path) -> Iterator[_Topic]:
    for begun in _CLASSIC_BEGIN.split(text)[1:]:
        block = _CLASSIC_END.split(begun, maxsplit=1)[0]
        number, title = _CLASSIC_NUMBER.search(block), _CLASSIC_TITLE.search(block)
        if number is None or title is None:
            raise CorpusFormatError(f"{path}: a topic has no <num> or no <title>: {block.strip()[:60]!r}.")
        yield _Topic(number[1], title[1])


def _xml_topics(text: str, path: Path) -> Iterator[_Topic]:
    try:
        root = fromstring(text)
    except (ParseError, DefusedXmlException) as error:
        raise CorpusFormatError(f"{path} is not XML with topics ({error}). Fetch it again.") from error
    for topic in root.iter("topic"):
        query = topic.findtext("query") or topic.findtext("title")
        if not topic.get("number") or not query:
            raise CorpusFormatError(f"{path}: a <topic> lacks its number, or both <query> and <title>.")
        yield _Topic(str(topic.get("number")), query)
