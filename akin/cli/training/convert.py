"""``akin convert``: conversion of checkpoints to safetensors, the only format that Akin loads."""

from pathlib import Path
from typing import Annotated

import typer

from akin.cli.consoles import stdout


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder with pytorch_model.bin, or ASPIRE's model_cur_best.pt.",
            exists=True,
            file_okay=False,
        ),
    ],
    target: Annotated[Path, typer.Argument(help="The folder to write to.", file_okay=False)],
    like: Annotated[str, typer.Option(help="Pool as this named checkpoint does, e.g. specter.")] = "",
) -> None:
    """Convert a checkpoint to safetensors, the only format Akin loads."""
    # Imported here because it imports torch, which the list of commands does not need.
    from models.checkpoints.conversion import convert_checkpoint

    done = convert_checkpoint(source, target, like=like or None)
    stdout.print(f"Converted {done.n_tensors} tensors. Use it with: --encoder {target}", soft_wrap=True)
