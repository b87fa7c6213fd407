"""Formatting of answers as short text for language models."""

from collections.abc import Iterable, Iterator, Sequence

from akin.client.responses.papers import AnswerWarning, Paper, PaperSummary, TitlesAnswer
from akin.client.responses.ranked import Query, Recommendation, RecommendationsAnswer, Result, SearchAnswer
from akin.client.responses.sentences import Analysis, FoundSentence, SentenceAnswer
from models.counts import counted

_MAX_AUTHORS = 5
_MAX_WORDS = 6
_MAX_SENTENCES = 20  # of a query
_MAX_MATCHING = 3  # sentences of a result


def of_search(answer: SearchAnswer, *, whole: bool) -> str:
    """Format the sentences of the query that counted, then the papers with the sentences that match.

    For a pasted paper that counts as a ``whole``, only the number of sentences is given: the model has them.
    """
    query = answer.query
    lines = [f"Query: {_named(query.title, query.id)}"]
    if whole and query.id is None:
        lines.append(f"  counts: {counted(len(query.selected), 'sentence')}")
    else:
        lines += _numbered("counts", query, query.selected)
    lines += _numbered("unlike", query, query.unlike)
    return _joined(lines, _ranked(answer.results), answer.detail, answer.warnings)


def of_recommendations(
    answer: RecommendationsAnswer, positive: Sequence[str], negative: Sequence[str]
) -> str:
    """Format the seeds that counted and those that could not, then the papers with matching sentences.

    ``positive`` and ``negative`` are the given names and texts.
    """
    lines = []
    for seed in answer.seeds:
        own = _sentence((negative if seed.negative else positive)[seed.seed])
        named = _named(seed.title, seed.id) if seed.title or seed.id else own
        lines.append(f"{'Unlike' if seed.negative else 'Seed'}: {named}")
    for lost in answer.unresolved:
        of, among = ("negative", negative) if lost.negative else ("positive", positive)
        lines.append(f"Left out: {of} number {lost.seed}, {_sentence(among[lost.seed])}: {lost.why}")
    return _joined(lines, _ranked(answer.results), answer.detail, answer.warnings)


def of_sentences(answer: SentenceAnswer) -> str:
    """Format the sentences found, nearest first, each with its paper."""
    lines = [f"Nearest by {answer.query.by}: {_sentence(answer.query.text)}"]
    return _joined(lines, _found(answer.results), answer.detail, answer.warnings)


def of_analysis(analysis: Analysis) -> str:
    """Format each sentence with its most probable facet and the probability."""
    lines = [
        f"[{n}] {sentence.facet} ({max(sentence.probabilities.values()):.2f}): {_sentence(sentence.text)}"
        for n, sentence in enumerate(analysis.sentences)
    ]
    return _joined([], lines, None, analysis.warnings)


def of_titles(answer: TitlesAnswer) -> str:
    """Format the papers, the best match first."""
    return _joined([], (_head(found.paper) for found in answer.results), answer.detail, ())


def of_paper(paper: Paper) -> str:
    """Format the metadata of a paper, and its abstract sentence by sentence."""
    authors = ", ".join(paper.authors[:_MAX_AUTHORS])
    more = len(paper.authors) - _MAX_AUTHORS
    facts = {
        "authors": f"{authors} and {more} more" if more > 0 else authors,
        "fields": ", ".join(paper.fields),
        "doi": paper.doi,
        "url": paper.url,
    }
    lines = [_head(paper), *(f"{name}: {fact}" for name, fact in facts.items() if fact)]
    lines += [f"[{n}] {each.facet}: {paper.sentence(n)}" for n, each in enumerate(paper.sentences)]
    return "\n".join(lines)


def _numbered(how: str, query: Query, numbers: Sequence[int]) -> list[str]:
    """Return lines with the first of these query sentences, each with its number, and how many follow."""
    lines = [f"  {how} [{n}] {_sentence(query.sentences[n].text)}" for n in numbers[:_MAX_SENTENCES]]
    more = len(numbers) - _MAX_SENTENCES
    return [*lines, f"  and {more:,} more"] if more > 0 else lines


def _ranked(results: Iterable[Result | Recommendation]) -> Iterator[str]:
    for rank, result in enumerate(results, start=1):
        strength = f" | {result.strength.label} match" if result.strength else ""
        yield f"{rank}. {_head(result.paper)} | score {result.score:.3f}{strength}"
        yield from (f"   {share:.0%} {_sentence(text)}" for text, share in result.matching(_MAX_MATCHING))
        if terms := [each.term for each in result.words.terms if each.share > 0]:
            yield f"   shared words: {', '.join(terms[:_MAX_WORDS])}"


def _found(results: Iterable[FoundSentence]) -> Iterator[str]:
    for rank, found in enumerate(results, start=1):
        yield f"{rank}. {_sentence(found.text)}"
        facet = f" ({found.facet})" if found.facet else ""
        yield f"   sentence {found.sentence}{facet} of {_head(found.paper)} | distance {found.distance:.3f}"


def _head(paper: Paper | PaperSummary) -> str:
    about = ", ".join(str(part) for part in (paper.year, paper.venue) if part)
    return f"{paper.title}{f' ({about})' if about else ''} | id {paper.id}"


def _named(title: str, paper_id: str | None) -> str:
    return f"{title} | id {paper_id}" if paper_id else title or "(pasted, without a title)"


def _sentence(text: str) -> str:
    return f"“{text}”"


def _joined(
    lines: Sequence[str], found: Iterable[str], detail: str | None, warnings: Sequence[AnswerWarning]
) -> str:
    ending = [f"Nothing found: {detail}"] if detail else []
    return "\n".join([*lines, *found, *ending, *(f"Warning: {warning.message}" for warning in warnings)])
