"""Which attention an engine under FSDP runs, and which tokens of a row it pairs."""

from tuner.architectures import find_architecture
from tuner.trainers.verl.fields.role import EngineContext
from tuner.workload import Attention

_ASKED = "flash_attention_2"  # by every release where no key says otherwise
_OF_TORCH = "sdpa"


def attention_of(context: EngineContext, *, ulysses: int) -> Attention:
    """What attention pairs; other implementations than PyTorch's are taken for FlashAttention, and named.

    A packed row reaches the model with positions that begin anew and without a mask. FlashAttention makes
    sequences of the positions. For PyTorch's own attention transformers makes a mask of blocks of them since
    4.53.1, which its flash kernel does not take; older ones see one causal sequence, so that tokens also
    attend to the sequences before theirs. Padded rows have a mask in all of them. verl shares out the heads of
    FlashAttention alone (Ulysses), and its models with a vision tower call that themselves.

    Source: transformers 4.53.3, 4.57.6, 5.24.0 ``masking_utils.py`` (``_preprocess_mask_arguments``,
    ``sdpa_mask``), ``integrations/sdpa_attention.py``; verl 0.7.1 ``workers/actor/dp_actor.py:244-248``
    (``attention_mask=None``), ``models/transformers/qwen2_vl.py``.
    """
    source = context.source
    name = source.text(f"{context.switches}.attention", default=_ASKED)
    sees = find_architecture(context.model.architecture).tower is not None
    if name != _OF_TORCH or ulysses > 1 or sees:
        return Attention.SEQUENCES
    packed = source.flag(f"{context.switches}.packed", default=source.engine_workers)
    return Attention.CAUSAL_ROWS if packed and source.copy.older_masks else Attention.MASKED_ROWS
