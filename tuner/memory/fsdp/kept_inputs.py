"""What the micro-batches before this one leave on the card until the optimizer's step."""

from tuner.evidence import Evidence
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.ledger.stated_terms import stated
from tuner.memory.ledger.terms import Item, Term

SYMBOLS = {"T_p": "tokens of the earlier micro-batches of a step on this GPU"}


def kept_input_bytes(*, b_c: int, T_p: int, H: int) -> int:
    """Embedded tokens of earlier micro-batches, and their gradients, under LoRA.

    The base weights need no gradient, so PEFT asks for that of the embedding's output. Log-probabilities
    that a micro-batch returns hold its graph until the mini-batch ends, and the graph holds that output
    and the gradient that was accumulated in it. verl 0.9.0 detaches what is returned.

    Source: verl 0.8.0 ``workers/engine/fsdp/transformer_impl.py`` (``forward_step``,
    ``forward_backward_batch``, ``enable_input_require_grads``); what 0.9.0 says there of it.
    """
    return 2 * b_c * T_p * H


def kept_inputs(pass_input: PassInput) -> tuple[Term, ...]:
    """The term of a training pass; empty where nothing is kept."""
    engine = pass_input.engine
    if not engine.keeps_inputs or engine.lora is None or pass_input.micro_batches == 1:
        return ()
    step_tokens = (
        pass_input.micro_batches * pass_input.tokens
        if pass_input.step_tokens is None
        else pass_input.step_tokens
    )
    numbers = {
        "b_c": engine.compute_dtype.bytes,
        "T_p": max(0, step_tokens - pass_input.tokens),
        "H": pass_input.model.hidden,
    }
    term = stated(Item.ACTIVATIONS, "kept_inputs", kept_input_bytes, numbers, evidence=Evidence.MODELLED)
    return (term,)
