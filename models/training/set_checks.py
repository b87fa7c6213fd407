"""Checks that the sets of a run fit its objectives, made before training instead of hours into it."""

import itertools
from collections.abc import Sequence

from models.errors import InputError
from models.training.examples import Example, TrainingSet, belong
from models.training.objectives.aspire_ts import TextualSupervision
from models.training.objectives.aspire_ts_ot import SupervisedTransport
from models.training.objectives.batch import RetrievalObjective
from models.training.pairs.leaks import n_shared

_ALIGNED = (TextualSupervision, SupervisedTransport)
# The pairs of examples to check: if none of this many gives a negative, a run is not worth it.
_MAX_PAIRS = 1_000_000


def require_learnable(
    sets: Sequence[TrainingSet], objectives: Sequence[RetrievalObjective], *, batch: int, in_batch: bool
) -> None:
    """Raise InputError if an objective cannot learn from the set at the same place in ``sets``.

    Textual supervision needs aligned sentences in every example; every objective needs at least one batch
    with a negative, without which its loss is 0. ``batch`` is the number of examples; ``in_batch`` means that
    batches mix all sets.
    """
    for own, objective in zip(sets, objectives, strict=True):
        if isinstance(objective, _ALIGNED):
            _require_aligned(own)
        mixed = sets if in_batch else [own]
        if not _has_negative([each for of in mixed for each in of.examples], sets, batch):
            raise InputError(
                f"No batch of {own.name} can have a negative, so there is nothing to learn: give the "
                "examples negatives, or make batches of at least two whose papers do not belong together."
            )


def overlaps(held_out: TrainingSet, sets: Sequence[TrainingSet]) -> tuple[str, ...]:
    """Return a warning for each set with texts of ``held_out``, by title or sentences, whatever their ids.

    ``--held-out`` only keeps them out of the set that they come from; another recipe's set may have them.
    """
    found = ((own.name, n_shared(held_out.texts.values(), own.texts.values())) for own in sets)
    return tuple(
        f"{n_texts:,} of the {len(held_out.texts):,} held-out texts are also in the training set {name}, so "
        "held-out figures are too good; make that set with --leave-out pairs=FOLDER of the held-out set."
        for name, n_texts in found
        if n_texts
    )


def _require_aligned(own: TrainingSet) -> None:
    without = [number for number, each in enumerate(own.examples, start=1) if each.aligned is None]
    if without:
        raise InputError(
            "Textual supervision (ts, ts-ot, abs) needs the aligned sentences of every example; "
            f"{len(without):,} of the {len(own.examples):,} of {own.name} have none, the first is number "
            f"{without[0]}. Make the set with akin train data cocited --align ENCODER (for abs with "
            "--align-by abstracts, too)."
        )


def _has_negative(examples: Sequence[Example], sets: Sequence[TrainingSet], batch: int) -> bool:
    """Return whether an example has an explicit negative, or two examples of a batch give each other one."""

    def are_rivals(a: Example, b: Example) -> bool:
        return not (belong(a.query, b.positive, sets) or belong(b.query, a.positive, sets))

    if any(not belong(each.query, name, sets) for each in examples for name in each.negatives):
        return True
    pairs = itertools.islice(itertools.combinations(examples, 2), _MAX_PAIRS)
    return batch > 1 and any(are_rivals(a, b) for a, b in pairs)
