r"""A module for multi-token prediction: at most how much it takes, of which nothing is counted.

It is a decoder layer behind a projection of two hidden states, at the end of the last stage; it shares the
embedding and the head, of which a stage without the embedding has a copy. How many modules a model has is
not known here: one is taken, as the released models with such modules have.

Symbols: :math:`N_d` parameters of the module on a rank and :math:`N_e` those of its experts, :math:`R_d` and
:math:`R_e` the ranks that share their optimizer states, :math:`T_f` tokens in flight, :math:`a_k` bytes per
token that its layer keeps, :math:`V` vocabulary, :math:`T_p` tensor parallel size.
"""

from math import ceil

from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron import grid, layers
from tuner.memory.megatron.terms import is_last, tokens_in_flight
from tuner.memory.process.constant import Constant, heuristic
from tuner.model_shape import ModelShape
from tuner.workload import Engine

SYMBOLS = {
    "N_d": "parameters of the module on a rank without its experts",
    "N_e": "parameters of the module's experts on a rank",
    "R_d": "ranks that share the optimizer states of the first",
    "R_e": "ranks that share the optimizer states of the second",
    "b_s": "bytes of optimizer states of a parameter",
    "g": "1 where the module is counted, 0 where it is left out",
}

_MODULE = Constant(
    low=0,
    typical=0,
    high=1,
    source="one module, as DeepSeek-V3, GLM-4.5, MiMo and Qwen3-Next have; left out of what is counted",
)


def module_state_bytes(
    *, g: int, b_c: int, b_r: int, b_s: int, N_d: int, N_e: int, R_d: int, R_e: int
) -> int:
    """Weights, gradients and optimizer states of a module for multi-token prediction, at most.

    Not less where a part of the optimizer is on the host or its main weights are halves.

    Source: Megatron-Core ``transformer/multi_token_prediction.py`` (``MultiTokenPredictionLayer``),
    ``models/gpt/gpt_model.py`` (``mtp_process``: the embedding); verl 0.9.1 ``utils/megatron_utils.py``
    (``check_mtp_config``).
    """
    return g * ((b_c + b_r) * (N_d + N_e) + b_s * (ceil_div(N_d, R_d) + ceil_div(N_e, R_e)))


def module_states(model: ModelShape, engine: Engine, role: str) -> tuple[Term, ...]:
    """The states of the module on the last stage, weights alone where it is not trained."""
    last = engine.parallel.stage is None or is_last(engine)
    if not engine.mtp_module or not last:
        return ()
    trained = role == "actor" and engine.lora is None
    dense, expert = _parameters(model, engine)
    ranks = grid.optimizer_ranks(engine)
    numbers = {
        "b_c": engine.compute_dtype.bytes,
        "b_r": engine.reduce_dtype.bytes if trained else 0,
        "b_s": (4 + 2 * engine.optimizer_dtype.bytes) if trained else 0,
        "N_d": dense,
        "N_e": expert,
        "R_d": ranks[0],
        "R_e": ranks[1],
    }
    return (heuristic(Item.PARAMETERS, f"{role}_mtp_module", module_state_bytes, {"g": _MODULE}, numbers),)


def _parameters(model: ModelShape, engine: Engine) -> tuple[int, int]:
    """Parameters of the module on one rank: those that tensor parallelism divides, and its experts."""
    parallel, layer = engine.parallel, model.layers - 1
    expert = model.expert_parameters if model.is_sparse(layer) else 0
    divided = model.layer_parameters(layer) - expert + 2 * model.hidden**2
    if parallel.pipeline > 1:
        divided += model.embedding_parameters
    norms = 3 * model.norm_parameters + grid.replicated_layer_parameters(model, layer)
    return ceil(divided / parallel.tensor) + norms, ceil(expert / (parallel.expert * parallel.expert_tensor))


def module_activation_bytes(
    *, g: int, T_f: int, v_p: int, T: int, a_k: int, b_c: int, H: int, V: int, T_p: int
) -> int:
    """Activations and logits of a module that is trained, at most.

    What its layer keeps, eight hidden states around its norms and its projection, two more that tensor
    parallelism does not divide while the projection is gathered; and of its logits the bfloat16 ones, their
    softmax in float32, its gradient and that in bfloat16, all beside what the policy's head has.

    Source: Megatron-Core ``transformer/multi_token_prediction.py`` (``_proj_and_transformer_layer``,
    ``process_mtp_loss``); verl 0.9.1 ``models/mcore/mtp_patch.py``.
    """
    saved_bytes = ceil_div(T_f * (a_k + 8 * b_c * H), v_p * T_p)
    return g * (saved_bytes + 2 * T * b_c * H + ceil_div(12 * T * V, T_p))


def module_activations(micro_batch: PassInput) -> Term | None:
    """What the module adds to an update on the last stage, None where there is none."""
    model, engine = micro_batch.model, micro_batch.engine
    if not engine.mtp_trained or not is_last(engine):
        return None
    numbers = {
        "T_f": tokens_in_flight(micro_batch),
        "v_p": engine.parallel.virtual_pipeline,
        "T": micro_batch.tokens,
        "a_k": layers.layer_bytes(model, engine, model.layers - 1),
        "b_c": engine.compute_dtype.bytes,
        "H": model.hidden,
        "V": model.vocab,
        "T_p": engine.parallel.tensor,
    }
    return heuristic(Item.ACTIVATIONS, "mtp_activations", module_activation_bytes, {"g": _MODULE}, numbers)
