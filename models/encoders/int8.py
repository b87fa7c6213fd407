"""Linear layers that multiply 8-bit integers, for processors that do so exactly and lack bfloat16."""

import torch
from jaxtyping import Float32

from models.errors import EncoderError

_LARGEST = 127  # -128 is left out: rounding is symmetric


class Int8Linear(torch.nn.Module):
    """A linear layer with weights rounded to 8 bits by a scale each output, and inputs by a scale each token.

    A scale a token, not a batch: what is rounded does not depend on the other papers of a batch. ``weights``
    are int8 of shape (n_inputs, n_outputs), ``scales`` and ``bias`` float32 of shape (n_outputs,).
    """

    weights: torch.Tensor
    scales: torch.Tensor
    bias: torch.Tensor

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        rounded, scales = _rounded(linear.weight.detach())
        self.register_buffer("weights", rounded.t())  # (n_inputs, n_outputs), as the product wants them
        self.register_buffer("scales", scales[:, 0])
        self.register_buffer(
            "bias", torch.zeros(len(scales)) if linear.bias is None else linear.bias.detach()
        )

    def forward(self, inputs: Float32[torch.Tensor, "*batch n_inputs"]) -> torch.Tensor:
        """The layer's outputs, float32 of shape (*batch, n_outputs)."""
        rounded, scales = _rounded(inputs.reshape(-1, inputs.shape[-1]))
        products = _products(rounded, self.weights).float().mul_(scales)
        outputs = torch.addcmul(self.bias, products, self.scales, out=products)
        return outputs.view(*inputs.shape[:-1], -1)


def is_exact() -> bool:
    """Whether this processor's 8-bit products are exact: without VNNI or AMX large ones saturate."""
    largest = torch.full((2, 64), _LARGEST, dtype=torch.int8)
    return bool((_products(largest, largest.t()) == largest.shape[1] * _LARGEST**2).all())


def multiply_in_int8(model: torch.nn.Module) -> None:
    """Replace every linear layer of ``model`` by its ``Int8Linear``; EncoderError where that is not exact."""
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
    """Rows as 8-bit integers, and the scale of each, (n_rows, 1)."""
    largest = torch.maximum(rows.amax(dim=1, keepdim=True), -rows.amin(dim=1, keepdim=True))
    scales = largest.div_(_LARGEST)
    return (rows / scales).round_().to(torch.int8), scales
