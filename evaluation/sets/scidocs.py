"""SciDocs (Cohan et al., ACL 2020): four ranking tasks, two of classification and one of recommendation."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from evaluation.collection import Collection, EvalQuery, as_in_corpora
from evaluation.sets.files import JsonObject, csv_rows, json_document, locate, read_qrels
from evaluation.sets.papers import PaperText, notes_on, text_of, to_papers
from evaluation.statistics.summary import ALL, Row
from evaluation.systems.vectors import VectorSource
from evaluation.tasks.classification import Examples, classify
from evaluation.tasks.recommendation import Click, EncodePapers, Metadata, recommend
from models.errors import BrokenRowError, CorpusFormatError, InputError
from models.types import Paper, Unit

RANKING_TASKS = ("coview", "coread", "cite", "cocite")
CLASSIFICATION_TASKS = ("mag", "mesh")
_METADATA = tuple(f"paper_metadata_{tasks}.json" for tasks in ("view_cite_read", "mag_mesh", "recomm"))
# Two figures for each ranking task and the recommendation, one for each classification task.
_N_FIGURES = 12
_SPLITS = ("train", "val", "test")


class ScidocsSet:
    """SciDocs: ``load`` reads the ranking tasks, ``evaluate`` measures the others; all on the test side.

    A ranking query has about 5 positive and 25 random candidates; its task is its facet. nDCG and MAP are
    trec_eval's (semantics 4.2). Papers without metadata are left out.
    """

    publisher = "Allen AI (github.com/allenai/scidocs; its README has the command that fetches the data)"
    layout = """
<folder>/
  paper_metadata_view_cite_read.json, paper_metadata_mag_mesh.json, paper_metadata_recomm.json
                                       {paper id: {"title", "abstract", ...}}
  coview/, coread/, cite/, cocite/     test.qrel: query 0 paper grade
  mag/, mesh/                          train.csv, test.csv: paper id, class label, with a header
  recomm/                              train.csv, val.csv, test.csv: query, clicked, "shown,shown,...",
                                       with a header; propensity_scores.json: {"scores": [...]}
"""

    def load(self, path: Path) -> Collection:
        """Read the ranking tasks; raises CollectionMissingError, BrokenRowError or CorpusFormatError."""
        judgements = {task: locate(self, path, f"{task}/test.qrel") for task in RANKING_TASKS}
        metadata = json_document(locate(self, path, _METADATA[0]))
        of_task = {task: read_qrels(file) for task, file in judgements.items()}
        judged = {
            paper: None
            for qrels in of_task.values()
            for query, grades in qrels.items()
            for paper in (query, *grades)
        }
        papers, blank = to_papers(_texts(metadata, judged))
        queries, qrels, n_lost = [], {}, 0
        for task, grades_of in of_task.items():
            for paper_id, grades in grades_of.items():
                if paper_id not in papers:
                    continue
                pool = tuple(other for other in grades if other != paper_id and other in papers)
                if not pool:
                    n_lost += 1
                    continue
                query = EvalQuery(f"{task}:{paper_id}", papers[paper_id], pool, paper_id, facet=task)
                queries.append(query)
                qrels[query.id] = {other: grade for other, grade in grades.items() if other != paper_id}
        return Collection(
            name="scidocs",
            papers=papers,
            queries=tuple(queries),
            qrels=qrels,
            relevant_from=1,
            measures=("nDCG", "MAP"),
            notes=notes_on(blank, judged - papers.keys() - set(blank), without_candidates=n_lost),
        )

    def used_papers(self, path: Path) -> Iterator[Paper]:
        """Yield the papers of all tasks, those of ``evaluate`` too; raises what ``load`` raises."""
        for file in [locate(self, path, name) for name in _METADATA]:
            metadata = json_document(file)
            yield from as_in_corpora(to_papers(_texts(metadata, metadata))[0].values(), ("", "s2:"))

    def evaluate(self, path: Path, encode: EncodePapers, *, system: str) -> list[Row]:
        """Measure classification (``mag``, ``mesh``) and recommendation (``recomm``), one vector per paper.

        ``encode`` returns the vectors of papers, row by row. A paper without metadata has the zero vector, as
        in the suite. Raises what ``load`` raises.
        """
        files = [locate(self, path, f"{t}/{s}.csv") for t in CLASSIFICATION_TASKS for s in ("train", "test")]
        clicks = {split: locate(self, path, f"recomm/{split}.csv") for split in _SPLITS}
        scores = locate(self, path, "recomm/propensity_scores.json")
        mag_mesh, recomm = (locate(self, path, name) for name in _METADATA[1:])

        examples = [_examples(file) for file in files]
        metadata = json_document(mag_mesh)
        papers, _ = to_papers(_texts(metadata, (paper for sides in examples for paper in sides.papers)))
        rows: list[Row] = []
        for task, train, test in zip(CLASSIFICATION_TASKS, examples[::2], examples[1::2], strict=True):
            rows.append(classify(task, train, test, papers, encode, system=system))

        metadata = json_document(recomm)
        shown = {split: _clicks(file) for split, file in clicks.items()}
        wanted = (p for side in shown.values() for click in side for p in (click.query, *click.shown))
        papers, _ = to_papers(_texts(metadata, wanted))
        features = {paper_id: _metadata(record) for paper_id, record in metadata.items()}
        rows += recommend(shown, features, _propensities(scores), papers, encode, system=system)
        return rows

    def figures(
        self, path: Path, sources: Sequence[VectorSource], ranked: Sequence[Row], *, functions: Sequence[Path]
    ) -> Iterator[Row]:
        """Yield ``evaluate`` for each encoder's document vectors, and SPECTER's "Avg" over all seven tasks.

        Raises InputError for vectors of a snapshot, which has no document vectors for sentence encoders.
        """
        for source in sources:
            if source.snapshot is not None and source.encoder.spec.unit is Unit.SENTENCE:
                raise InputError(
                    "SciDocs needs document vectors, which a snapshot does not have; leave out --data."
                )
            system = f"{source.name}:document"
            rows = self.evaluate(path, partial(_documents, source), system=system)
            yield from (*rows, *average([*ranked, *rows], system))


def average(rows: Sequence[Row], system: str) -> Iterator[Row]:
    """Yield the mean of a system's twelve figures (Cohan et al., table 1) if it has them all; no interval."""
    tasks = (*RANKING_TASKS, *CLASSIFICATION_TASKS, "recomm")
    own = [row.value for row in rows if row.system == system and row.facet in tasks and row.fold == ALL]
    if len(own) == _N_FIGURES:
        mean = sum(own) / len(own)
        yield Row("scidocs", system, ALL, ALL, "Avg", mean, math.nan, math.nan, len(own))


def _documents(source: VectorSource, papers: Sequence[Paper]) -> Float32[np.ndarray, "n_papers dim"]:
    encoded = source.of(papers, stage=source.encoder.spec.name, some=True)
    return np.stack([paper.document for paper in encoded])


def _texts(metadata: Mapping[str, object], wanted: Iterable[str]) -> Iterator[PaperText]:
    for paper_id in dict.fromkeys(wanted):
        if record := metadata.get(paper_id):
            yield PaperText(paper_id, text_of(record, "title"), text_of(record, "abstract"))


def _examples(path: Path) -> Examples:
    """Return the papers and labels of a CSV file with these two columns, in this order, under any names."""
    papers, labels = [], []
    for _, row in csv_rows(path):
        if len(row) != 2:
            raise CorpusFormatError(f"{path} has {len(row)} columns; expected paper id and class label.")
        paper_id, label = row.values()
        papers.append(paper_id)
        labels.append(label)
    return Examples(tuple(papers), tuple(labels))


def _clicks(path: Path) -> list[Click]:
    clicks = []
    for number, row in csv_rows(path):
        fields = [*row.values()]
        shown = tuple(fields[2].strip().split(",")) if len(fields) == 3 else ()
        if fields[1:2] == [] or fields[1] not in shown:
            raise BrokenRowError(
                str(path), number, "expected query, clicked, and the shown papers with the clicked one"
            )
        clicks.append(Click(fields[0], fields[1], shown))
    if not clicks:
        raise CorpusFormatError(f"{path} holds no click. Fetch it again.")
    return clicks


def _propensities(path: Path) -> Sequence[float]:
    scores = json_document(path).get("scores")
    if (
        not isinstance(scores, list)
        or not scores
        or not all(isinstance(s, int | float) and s > 0 for s in scores)
    ):
        raise CorpusFormatError(f"{path} has no list of positive numbers under 'scores'. Fetch it again.")
    return [float(score) for score in scores]


def _metadata(record: JsonObject) -> Metadata:
    year = str(record.get("year") or "")
    lists = (frozenset(map(str, record.get(key) or ())) for key in ("authors", "references", "cited_by"))
    authors, references, cited_by = lists
    return Metadata(
        title=text_of(record, "title"),
        year=int(float(year)) if year.replace(".", "", 1).isdigit() else None,
        authors=authors,
        references=references,
        cited_by=cited_by,
    )
