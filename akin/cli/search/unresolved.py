"""Messages about names that the collection does not have: the given name, and papers that it may mean."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from akin.cli.search.query import is_file
from akin.client.responses.ranked import Unresolved
from indexer.corpus.read import without_ending
from models.errors import InputError, PaperNotFoundError, ServiceError

if TYPE_CHECKING:
    from akin.client.client import Client
    from akin.local.collection import Collection

_PATHS = ("/", "./", "../", "~")
_MAX_SHOWN = 80  # characters of a given name


def lost_line(lost: Unresolved, given: str = "") -> str:
    """Return why a seed cannot be used, and the papers that it may mean."""
    return f"{given[:_MAX_SHOWN]!r}: {lost.why}" if given else lost.why


def left_out(answer_lost: Sequence[Unresolved], request: Mapping[str, Any]) -> list[str]:
    """Return a line for each seed or negative of a request that cannot be used, with its given name."""
    names = [_name(request["negatives" if lost.negative else "seeds"][lost.seed]) for lost in answer_lost]
    return [
        f"{lost_line(lost, name)}{f' For a library, give --like {name}.' if is_file(name) else ''}"
        for lost, name in zip(answer_lost, names, strict=True)
    ]


def _name(seed: Mapping[str, Any]) -> str:
    return str(seed.get("paper_id") or seed.get("title") or seed.get("text") or "")


@contextmanager
def naming_lost(collection: "Client | Collection", *papers: Mapping[str, Any]) -> Iterator[None]:
    """Name the given papers and similar titles in the error if the collection lacks them.

    Raises PaperNotFoundError instead of a ServiceError with status 404.
    """
    try:
        yield
    except (PaperNotFoundError, ServiceError) as error:
        if isinstance(error, ServiceError) and error.status != HTTPStatus.NOT_FOUND:
            raise
        seeds: list[Any] = [paper for paper in papers if "paper_id" in paper]
        if not seeds:
            raise
        unresolved = collection.recommend(
            [{"paper_id": each["paper_id"]} for each in seeds], limit=1
        ).unresolved
        if not unresolved:
            raise
        lines = [
            lost_line(lost, _name(seeds[lost.seed]))
            if lost.did_you_mean
            else f"{_name(seeds[lost.seed])[:_MAX_SHOWN]!r}: {error}"
            for lost in unresolved
        ]
        raise PaperNotFoundError("\n".join(lines)) from error


def expect_no_lost_file(given: str) -> None:
    """Raise InputError if a name looks like a file that does not exist, instead of taking it for a title."""
    name = given.rpartition("/")[2]
    is_address = "://" in given
    if not is_address and (given.startswith(_PATHS) or (name != without_ending(name) and " " not in name)):
        raise InputError(
            f"{given[:_MAX_SHOWN]}: no such file; correct its path, or give the id, DOI or title of a paper."
        )
