"""Transformers in 8-bit integers, computed by OpenVINO on the CPU."""

import warnings
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float32, Int64
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from models.encoders.loading import quiet_transformers
from models.errors import EncoderError
from models.extras import needed
from models.interruption import check_interruption

# Inputs of a token that share a scale. Measured: docs/decisions/models/number-formats.md.
_GROUP: Final = 128
_MAX_LEVEL: Final = 127  # -128 is not used, so that rounding is symmetric
# With 1 or 2 papers the exported graph could take the number for a constant.
_EXAMPLE: Final = (3, 8)


class Int8Model:
    """The states of ``model``, computed with 8-bit matrix products; everything else is in float32.

    Weights have a scale per output, inputs one per token and 128 of its numbers. Rounding depends a little on
    the other papers of a batch: they change the last digit of a sum, which can then round to the next
    integer. ``model`` is not needed any more. Several threads may use it at once. Raises MissingPackageError
    without OpenVINO, EncoderError for an architecture that it cannot read.
    """

    device: Final = torch.device("cpu")

    def __init__(self, model: PreTrainedModel) -> None:
        self.config = model.config
        with needed("--precision int8", extra="int8"):
            import openvino  # noqa: PLC0415 - an optional package
        try:
            graph = _graph_of(model)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise EncoderError(
                f"OpenVINO cannot read a model of type {model.config.model_type!r} ({error}); use auto, "
                "bfloat16 or float32."
            ) from error
        _round_weights(graph)
        settings = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": "f32",  # else bfloat16 where the processor has it
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": _GROUP,
        }
        self._compiled = openvino.Core().compile_model(graph, "CPU", settings)

    def __call__(
        self,
        *,
        input_ids: Int64[torch.Tensor, "n_batch longest"],
        attention_mask: Int64[torch.Tensor, "n_batch longest"],
        **_: object,
    ) -> BaseModelOutput:
        """Return the states of all layers, whatever else is asked for; raises RuntimeError if it fails."""
        check_interruption()
        request = self._compiled.create_infer_request()
        states = request.infer([input_ids.numpy(), attention_mask.numpy()])
        last, *hidden = (torch.from_numpy(states[number]) for number in range(len(states)))
        return BaseModelOutput(last_hidden_state=last, hidden_states=tuple(hidden))


class _States(torch.nn.Module):
    """A model that returns its last state, then those of all layers."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        states = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=True, return_dict=True)
        return states.last_hidden_state, *states.hidden_states


def _graph_of(model: PreTrainedModel) -> Any:
    """Return the model as an OpenVINO graph.

    OpenVINO's own ``convert_model`` does the same, but reports each use to its makers.
    """
    from openvino.frontend import FrontEndManager  # noqa: PLC0415 - an optional package
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder  # noqa: PLC0415

    example = torch.ones(_EXAMPLE, dtype=torch.long)
    with quiet_transformers(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing
        traced = TorchScriptPythonDecoder(_States(model), example_input=(example, example))
    reader = FrontEndManager().load_by_framework("pytorch")
    return reader.convert(reader.load(traced))


def _round_weights(graph: Any) -> None:
    """Replace the constant weights of matrix products by 8-bit integers and a scale per output."""
    from openvino import opset13 as ops  # noqa: PLC0415 - an optional package

    for product in graph.get_ordered_ops():
        if product.get_type_name() != "MatMul":
            continue
        weights = product.input_value(1).get_node()
        if weights.get_type_name() != "Constant":  # such as the keys of attention
            continue
        attributes = product.get_attributes()
        rows = weights.data if attributes["transpose_b"] else weights.data.T
        integers, scales = rounded(rows)
        widened = ops.multiply(ops.convert(ops.constant(integers), "f32"), ops.constant(scales))
        rounded_product = ops.matmul(product.input_value(0), widened, attributes["transpose_a"], True)
        product.output(0).replace(rounded_product.output(0))


def rounded(
    rows: Float32[np.ndarray, "n_rows n"],
) -> tuple[np.ndarray, Float32[np.ndarray, "n_rows 1"]]:
    """Return ``rows`` as 8-bit integers, and the scale of each row."""
    scales = np.abs(rows).max(axis=1, keepdims=True) / np.float32(_MAX_LEVEL)
    scales[scales == 0] = 1
    return np.rint(rows / scales).astype(np.int8), scales
