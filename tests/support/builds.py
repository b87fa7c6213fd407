"""Corpora, collections and instrumented encoders for tests of builds."""

import hashlib
import json
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import akin
from indexer.catalog.catalog import Catalog
from indexer.collection.build import BuildReport, build
from indexer.collection.changes import publish_pending
from indexer.collection.growth import BOUNDS, Bounds
from indexer.corpus.rows import RawPaper, to_paper
from indexer.encoding.arguments import BuildArguments
from indexer.encoding.parts import Encode
from indexer.files.data_folder import CATALOG_FILE, DataFolder
from indexer.snapshot.folder import current_generation, read_manifest
from models.annotator import Annotator, load_annotator
from models.encoder import Encoder
from models.errors import EncoderError
from models.facets import FacetTagger
from models.functions import FunctionEncoder
from models.types import EncodedPaper, EncoderSpec, Paper
from tests.support.annotators import KeywordTagger, hashing_annotator

DEMO_CORPUS = Path(akin.__file__).parent / "demo" / "papers.jsonl"
ROOT = Path(akin.__file__).parents[1]
WHALES = {"id": "whales", "title": "Whales", "abstract": "Whales sing."}


def quiet(stage: str, done: int, total: int | None) -> None:
    """Show no progress."""


def build_quietly(
    corpus: Path,
    data: Path,
    encoder: Encoder,
    *,
    tagger: FacetTagger | None = None,
    functions: FunctionEncoder | None = None,
    replace: bool = False,
    bounds: Bounds = BOUNDS,
    encode: Encode | None = None,
    **arguments: object,
) -> BuildReport:
    """Index one corpus without showing progress; facets are by keywords unless a tagger is given."""
    annotator = Annotator(encoder, tagger=tagger or KeywordTagger(), functions=functions)
    given = BuildArguments(**{"encoder": encoder.spec.name, "device": "cpu", **arguments})  # type: ignore[arg-type]  # keywords pass through
    return build(
        [corpus],
        data,
        annotator,
        arguments=given,
        on_progress=quiet,
        replace=replace,
        bounds=bounds,
        encode=None if encode is None else nullcontext(encode),
    )


def write_corpus(path: Path, papers: Sequence[dict[str, object]]) -> Path:
    """Write papers as JSON lines and return the path."""
    path.write_text("".join(json.dumps(paper) + "\n" for paper in papers), encoding="utf-8")
    return path


def papers_in(catalog: Catalog) -> dict[str, Paper]:
    """Return the papers of a catalog by id, in the order in which their current versions were added."""
    return {
        paper.id: paper
        for paper in catalog.versions(
            each.content_hash for each in catalog.current(up_to=catalog.last_change())
        )
    }


def paper_in(catalog: Catalog, paper_id: str) -> Paper:
    """Return the current version of a paper; raises KeyError if there is none."""
    return next(catalog.versions([catalog.current_hashes([paper_id])[paper_id]]))


def many_papers(n: int) -> list[dict[str, object]]:
    """Return ``n`` papers, made from the demo corpus by rotating the sentences of its papers."""
    demo = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
    papers = []
    for i in range(n):
        paper = demo[i % len(demo)]
        turn = i // len(demo) % len(paper["abstract"])
        sentences = paper["abstract"][turn:] + paper["abstract"][:turn]
        papers.append(
            {"id": f"p{i}", "title": f"{paper['title']} {i}", "abstract": sentences, "year": 2000 + i % 20}
        )
    return papers


def published_files(data: Path) -> dict[str, bytes]:
    """Return the content of every file of the served generation except the manifest, which has the time."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in files_of(data, current_generation(data))
        if path.name != "manifest.json"
    }


def files_of(data: Path, generation: str) -> list[Path]:
    """Return every file of a generation, including those of its segments."""
    folders = [DataFolder(data).segment(entry.name) for entry in read_manifest(data, generation).segments]
    return sorted(
        path for folder in [*folders, DataFolder(data).snapshot(generation)] for path in folder.iterdir()
    )


def collection(
    folder: Path, *, n_papers: int = 60, catalog: str | None = None, annotator: Annotator | None = None
) -> Path:
    """Build a collection with the default annotator of services, or with ``annotator``."""
    build(
        [write_corpus(folder / "c.jsonl", many_papers(n_papers))],
        folder / "data",
        annotator or load_annotator("hashing"),
        arguments=BuildArguments("hashing", device="cpu"),
        on_progress=quiet,
        catalog=catalog,
    )
    return folder / "data"


def written_before(data: Path, *fields: str) -> None:
    """Make a collection look like one of older versions: without ``fields``, and only a name in CURRENT."""
    (data / "CURRENT").write_text((data / "CURRENT").read_text().split()[-1] + "\n")
    for name in DataFolder(data).generations():
        path = DataFolder(data).manifest(name)
        content = json.loads(path.read_bytes())
        for field in ("sha256", *fields):
            del content[field]
        sha256 = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps({**content, "sha256": sha256}, indent=1, sort_keys=True))


def renumbered(data: Path, number: str) -> None:
    """Rename the one generation and the one segment of a collection to ``number``."""
    (old,) = DataFolder(data).generations()
    content = json.loads(DataFolder(data).manifest(old).read_bytes())
    (segment,) = content["segments"]
    DataFolder(data).segment(segment["name"]).rename(DataFolder(data).segment(number))
    DataFolder(data).snapshot(old).rename(DataFolder(data).snapshot(number))
    del content["sha256"]
    renamed = {**content, "generation": number, "segments": [{**segment, "name": number}]}
    sha256 = hashlib.sha256(json.dumps(renamed, sort_keys=True).encode()).hexdigest()
    path = DataFolder(data).manifest(number)
    path.write_text(json.dumps({**renamed, "sha256": sha256}, indent=1, sort_keys=True))
    (data / "CURRENT").write_text(f"{number}\n")  # as older versions wrote it


class Counting:
    """An encoder that counts papers and can raise KeyboardInterrupt after ``stop_after`` of them."""

    def __init__(self, encoder: Encoder, stop_after: int | None = None) -> None:
        self._encoder = encoder
        self._stop_after = stop_after
        self.n_encoded = 0

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the wrapped encoder."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode with the wrapped encoder."""
        self.n_encoded += len(papers)
        if self._stop_after is not None and self.n_encoded > self._stop_after:
            raise KeyboardInterrupt
        return self._encoder.encode(papers, layers=layers)


class Refusing:
    """An encoder that fails on papers with ``word`` in the abstract, and counts the papers it receives."""

    def __init__(
        self, encoder: Encoder, word: str = "POISON", *, kind: type[BaseException] = EncoderError
    ) -> None:
        self._encoder = encoder
        self._kind = kind
        self.word = word
        self.n_given = 0

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the wrapped encoder."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode with the wrapped encoder; raises an error of ``kind``, which names no paper."""
        self.n_given += len(papers)
        if any(self.word in paper.abstract for paper in papers):
            raise self._kind("a sequence cannot be encoded")
        return self._encoder.encode(papers, layers=layers)


def add_papers(data: Path, *papers: tuple[str, str, str]) -> None:
    """Add papers, each an id, a title and an abstract, and publish them."""
    given = [RawPaper(id=each[0], title=each[1], abstract=each[2]) for each in papers]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([*map(to_paper, given)])
        publish_pending(data, hashing_annotator(), catalog, on_progress=quiet, keep=3)


@contextmanager
def small_files(most_bytes: int) -> Iterator[None]:
    """Limit the size of files that this process writes."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
