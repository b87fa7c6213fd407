"""A full text with the places of its citations, and the sentences that cite."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from models.text.sentences import split_sentences
from models.training.pairs.citing import Citation
from models.types import Paper

DOI = "doi:"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text and its citations in order: the offset of each, and the key of the cited paper.

    A citation without a key has its offset in the file instead, so that it counts as a paper of its own.
    """

    text: str
    places: tuple[tuple[int, str | int], ...]


@dataclass(frozen=True, slots=True)
class FullText:
    """The paragraphs of the paper ``name``, with its ``title`` and ``doi``, if known.

    ``cited`` has, for each key, the names of the cited paper, the best first; none if it is unknown.
    """

    name: str
    paragraphs: Iterable[Paragraph]
    cited: Mapping[str, tuple[str, ...]]
    title: str = ""
    doi: str | None = None


def names_of(papers: Mapping[str, Paper]) -> dict[str, str]:
    """Return the id of each paper by its id, and by its DOI after ``doi:``."""
    named = {f"{DOI}{paper.doi.casefold()}": name for name, paper in papers.items() if paper.doi}
    return named | {name: name for name in papers}


def sentences_that_cite(full: FullText, named: Mapping[str, str]) -> Iterator[Citation]:
    """Yield the citing sentences of a full text, in order, with the ids of the cited papers.

    A cited paper has its id in ``named``, or else the best of its names; a paper without any only counts in
    ``n_cited``, and so does the citing paper itself.
    """
    ids = {key: _id_of(names, named) for key, names in full.cited.items()}
    for paragraph in full.paragraphs:
        if not paragraph.places:
            continue
        offsets = [offset for offset, _ in paragraph.places]
        for sentence in split_sentences(paragraph.text):
            first, end = bisect_left(offsets, sentence.start), bisect_left(offsets, sentence.end)
            keys = dict.fromkeys(key for _, key in paragraph.places[first:end])
            if keys:
                found = dict.fromkeys(ids.get(key) for key in keys if isinstance(key, str))
                cited = tuple(one for one in found if one is not None and one != full.name)
                context = " ".join(sentence.text.split())
                yield Citation(full.name, context, cited, len(keys), full.title, full.doi)


def _id_of(names: tuple[str, ...], named: Mapping[str, str]) -> str | None:
    return next((named[one] for one in names if one in named), names[0] if names else None)
