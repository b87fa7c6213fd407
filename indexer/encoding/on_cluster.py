"""Encoding on the machines of a cluster: an actor of Ray for each GPU, or else for each processor.

Each writes its parts into the data folder, which must be there under the same path, as one machine would:
what is encoded stays so, whoever is killed.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from indexer.cluster import HARDLY_ANY, connect, machines, placed
from indexer.encoding.parts import PARTS_PER_DEVICE, Part, encode_part, kept_part
from indexer.snapshot.manifest import Manifest
from models.annotator import Annotator
from models.errors import AkinError, EncoderError, StorageError
from models.types import Paper

# How often a part is begun anew whose actor died; Ray starts that anew, on another machine if need be.
_TRIES = 3
_FOLDER_REMEDY = "mount the data folder on every machine of the cluster, under the same path"


class Encoder:
    """What encodes on one GPU or processor."""

    def __init__(self, load: Callable[[], Annotator]) -> None:
        self._annotator = load()

    def pid(self) -> int:
        """The number of its process."""
        return os.getpid()

    def encode(self, into: Path, papers: Sequence[Paper], like: Manifest) -> Path:
        """The folder of the part; raises EncoderError, StorageError."""
        if not into.parent.is_dir():
            raise StorageError(f"{into}: not found on a machine of the cluster; {_FOLDER_REMEDY}.")
        return encode_part(into, papers, self._annotator, like=like, on_progress=lambda n_papers: None).folder


class EncodeOnCluster:
    """Encodes parts on the cluster at ``address``; ``load`` loads the models there, on the device it finds.

    ``device`` is that of the build: with ``cpu`` no GPU is used. Its actors end with its
    context. Raises what ``connect`` raises.
    """

    def __init__(self, address: str, load: Callable[[], Annotator], *, device: str = "auto") -> None:
        self._ray = connect(address)
        resources = {each["NodeID"]: each["Resources"] for each in self._ray.nodes()}
        found = machines(self._ray)
        gpus = [each for each in found for _ in range(int(resources[each].get("GPU", 0)))]
        own = gpus if device != "cpu" else []
        places = own or [each for each in found for _ in range(max(1, int(resources[each]["CPU"])))]
        kind = self._ray.remote(
            num_cpus=HARDLY_ANY, num_gpus=1 if own else 0, max_restarts=-1, max_task_retries=_TRIES
        )(Encoder)
        self.actors = [
            kind.options(scheduling_strategy=placed(self._ray, machine)).remote(load) for machine in places
        ]
        self._n_begun = [0] * len(self.actors)
        self.at_once = PARTS_PER_DEVICE * len(self.actors)

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """Begin with a part, on the actor that has the fewest; raises EncoderError, StorageError."""
        number = min(range(len(self.actors)), key=self._n_begun.__getitem__)
        self._n_begun[number] += 1
        ref = self.actors[number].encode.remote(into.resolve(), papers, like)

        def part() -> Part:
            folder = self._result(ref)
            self._n_begun[number] -= 1
            on_progress(len(papers))
            made = kept_part(into / folder.name)
            if made is None:
                raise StorageError(
                    f"{into}: the files that the cluster encoded are not here; {_FOLDER_REMEDY}."
                )
            return made

        return part

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends all of them."""
        for actor in self.actors:
            self._ray.kill(actor)

    def _result(self, ref: Any) -> Path:
        errors = self._ray.exceptions
        try:
            folder: Path = self._ray.get(ref)
        except errors.RayTaskError as error:
            if isinstance(error.cause, AkinError):
                raise error.cause from error
            raise EncoderError(f"Encoding on the cluster failed: {error.cause!r}") from error
        except errors.RayError as error:
            raise EncoderError(
                f"The cluster failed to encode ({type(error).__name__}); run the same command again to "
                "resume."
            ) from error
        return folder
