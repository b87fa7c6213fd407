"""Linear layers that multiply 8-bit integers, for processors that do this exactly and lack bfloat16."""

import torch
from jaxtyping import Float32

from models.errors import EncoderError

_LARGEST = 127  # -128 is not used, so that rounding is symmetric


class Int8Linear(torch.nn.Module):
    """A linear layer on 8-bit integers, with one scale per output for weights and per token for inputs.

    A scale per token, not per batch, makes rounding independent of the other papers in a batch. ``weights``
    are int8 of shape (n_inputs, n_outputs), ``scales`` and ``bias`` float32 of shape (n_outputs,).
    """

    weights: torch.Tensor
    scales: torch.Tensor
    bias: torch.Tensor

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        rounded, scales = _rounded(linear.weight.detach())
        self.register_buffer("weights", rounded.t())  # (n_inputs, n_outputs), as the product requires
        self.register_buffer("scales", scales[:, 0])
        self.register_buffer(
            "bias", torch.zeros(len(scales)) if linear.bias is None else linear.bias.detach()
        )

    def forward(self, inputs: Float32[torch.Tensor, "*batch n_inputs"]) -> torch.Tensor:
        """Return the layer's outputs, float32 of shape (*batch, n_outputs)."""
        rounded, scales = _rounded(inputs.reshape(-1, inputs.shape[-1]))
        products = _products(rounded, self.weights).float().mul_(scales)
        outputs = torch.addcmul(self.bias, products, self.scales, out=products)
        return outputs.view(*inputs.shape[:-1], -1)


def is_exact() -> bool:
    """Return whether 8-bit products are exact on this processor: without VNNI or AMX, large ones saturate."""
    largest = torch.full((2, 64), _LARGEST, dtype=torch.int8)
    return bool((_products(largest, largest.t()) == largest.shape[1] * _LARGEST**2).all())


def multiply_in_int8(model: torch.nn.Module) -> None:
    """Replace the linear layers of ``model`` by ``Int8Linear``; raises EncoderError if that is not exact."""
    if not is_exact():
        raise EncoderError(
            "int8 was requested, but this processor does not multiply 8-bit numbers exactly (those with "
            "AVX-512 VNNI or AMX do); use auto, bfloat16 or float32."
        )
    for name, module in [*model.named_modules()]:
        if isinstance(module, torch.nn.Linear):
            model.set_submodule(name, Int8Linear(module))


def _products(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    return torch._int_mm(rows, columns)  # noqa: SLF001 - torch has no other name for it


def _rounded(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows as 8-bit integers, and the scale of each row, (n_rows, 1)."""
    largest = torch.maximum(rows.amax(dim=1, keepdim=True), -rows.amin(dim=1, keepdim=True))
    scales = largest.div_(_LARGEST)
    return (rows / scales).round_().to(torch.int8), scales
