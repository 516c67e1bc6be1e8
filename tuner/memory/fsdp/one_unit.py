r"""Units of FSDP that a policy of the user's makes: at most the whole model, of which nothing is counted.

Symbols: :math:`N` parameters of the model.
"""

from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.fsdp import units
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import Constant, heuristic

SYMBOLS = {
    "g": "1 where the whole model is one unit, 0 where units are the decoder's layers",
    "b_u": "bytes of a parameter of a unit that is gathered, with its gradients",
}

_ONE = Constant(low=0, typical=0, high=1, source="between one unit for each layer and one for all of them")


def one_unit_bytes(*, g: int, b_u: int, N: int) -> int:
    """The whole model gathered at once, and in training its gradients until they are reduced, at most.

    Beside what is counted, which has a layer of it: gathered weights, the gradients, what they are joined to
    and its cast.

    Source: verl 0.3.0.post1 to 0.9.1 ``utils/fsdp_utils.py`` (``get_fsdp_wrap_policy``, ``apply_fsdp2``):
    ``min_num_params`` in place of the layers, and no unit below that size.
    """
    return g * b_u * N


def one_unit(pass_input: PassInput, *, training: bool) -> Term | None:
    """What one unit for the whole model may take in a pass, None where the units are known."""
    engine = pass_input.engine
    if not engine.wraps_otherwise or units.works_in_place(engine):
        return None
    gathered = engine.compute_dtype.bytes
    gradients = 2 * gathered + engine.reduce_dtype.bytes if training and engine.trains_all_parameters else 0
    numbers = {"b_u": gathered + gradients, "N": pass_input.model.parameters}
    return heuristic(Item.UNSHARDED, "one_unit", one_unit_bytes, {"g": _ONE}, numbers)
