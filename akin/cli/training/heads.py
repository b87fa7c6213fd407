"""The facet tagger and the function encoder that ``akin train CONFIG.toml`` trains on its new encoder."""

from functools import cache, partial
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from akin.cli.evaluation.study_scores import facet_tables
from akin.cli.training.card import FUNCTIONS, TAGGER
from akin.cli.training.config import RunConfig
from akin.cli.training.facets import LabelledPapers, read_all_labelled, train_facets
from akin.cli.training.functions import file_of_seed, find_examples, train_functions
from indexer.files.durable import replace_file, storage_errors
from models.encoder import load_encoder
from models.training.facets import TaggerSettings
from models.training.rhetoric.functions import HeadSettings
from models.types import ProgressFn


class Heads:
    """The small models on the trained encoder's layers that ``config`` requests.

    Objectives are checked and training data is read at once, so that such errors are found before the encoder
    is trained; layers and dimensions that it lacks are found afterwards. Raises InputError, StorageError,
    UnknownNameError or MissingPackageError.
    """

    def __init__(self, config: RunConfig, *, on_progress: ProgressFn) -> None:
        self._facets, self._functions, self._seed = config.facets, config.functions, config.steps.seed
        self._labelled, self._found = LabelledPapers(()), None
        if (own := config.functions) is not None:
            self._of_functions = HeadSettings(
                objective=own.objective, dim=own.dim, n_epochs=own.n_epochs, seed=self._seed
            )
        if config.facets is not None:
            self._labelled = read_all_labelled(config.facets.labelled, held_out=config.facets.held_out)
        if own is not None:
            self._found = find_examples(
                own.corpora,
                own.phrases,
                exclude=own.exclude,
                limit=None,
                per_function=own.per_function,
                least_words=own.ngram_words,
                seed=self._seed,
                on_progress=on_progress,
            )
            self._found.require_examples()

    def write(self, folder: Path, *, device: str, on_progress: ProgressFn) -> list[RenderableType]:
        """Train the models that are not yet in the encoder's ``folder``, write them there, return a report.

        ``load_annotator`` finds them there. With several seeds, the function encoder of each is beside
        ``folder``, that of the first one also in it. Raises EncoderError for layers that the encoder lacks.
        """
        tagger, functions = folder / TAGGER, folder / FUNCTIONS
        encoder = cache(partial(load_encoder, str(folder), device=device))  # once, and only if one is trained
        kept = "already exists and stays as it is; delete it to train it again."
        shown: list[RenderableType] = [Text(f"{one} {kept}") for one in (tagger, functions) if one.exists()]
        if self._facets is not None and not tagger.exists():
            settings = TaggerSettings(
                layers=self._facets.layers, n_epochs=self._facets.n_epochs, seed=self._seed
            )
            measured = train_facets(self._labelled, encoder(), settings, out=tagger, on_progress=on_progress)
            shown += [] if measured is None else [facet_tables(measured)]
            shown.append(Text(f"Wrote {tagger}, trained on {len(self._labelled.learnt):,} abstracts."))
        if self._functions is not None and self._found is not None and not functions.exists():
            seeds = self._functions.seeds
            out = functions if seeds == 1 else folder.with_name(f"{folder.name}-{FUNCTIONS}")
            summary = train_functions(
                self._found,
                encoder(),
                self._functions.layers,
                self._of_functions,
                out=out,
                seeds=seeds,
                n_functions=None,
                cache=None,
                on_progress=on_progress,
            )
            shown.append(Text(summary))
            if seeds > 1:
                first = file_of_seed(out, self._seed, seeds=seeds)
                with storage_errors(functions):
                    replace_file(functions, first.read_bytes())
                shown.append(Text(f"Wrote {functions}, a copy of {first}."))
        return shown
