"""What is said of each way to run out of memory: the first line, and what decides in which direction."""

from tuner.advise.failure import Failure, failed_of, free_share
from tuner.language import N_, _
from tuner.memory.ledger.terms import Item
from tuner.out_of_memory.kinds import ErrorKind
from tuner.render.numbers import size
from tuner.workload.place import FailedWork

_TOKENS = N_(
    "It grows with the tokens of a micro-batch, whatever the model states take: fewer tokens in this phase, "
    "or a form of it that keeps less."
)
_LOGITS = N_(
    "Logits grow with the tokens of a micro-batch times the vocabulary, whatever the GPUs share: fewer "
    "tokens in this phase, a fused head, or entropy in chunks."
)
_STATES = N_(
    "It goes by the model and by how many GPUs share it, whatever the batch: share it among more GPUs, or "
    "offload. AdamW's moments appear in the first update, so that a first step may pass."
)
_AWAKE = N_(
    "The engine takes its share of the card again while the trainer's states lie there: a smaller share, or "
    "states on the host. The moments of the first update are there from the second step on."
)

# What decides, and in which direction it must go: by the kind of error, else by the work.
MEANINGS: dict[ErrorKind | FailedWork, str] = {
    ErrorKind.NO_CACHE: N_(
        "Weights and the trial run fill the engine's share of the card. Raise the share, or divide the "
        "weights among more GPUs; a smaller share makes it worse."
    ),
    ErrorKind.SHORT_CACHE: N_(
        "The engine is to be ready for its longest sequence. Raise its share of the card, or build it for "
        "prompt and response alone; a smaller share makes it worse."
    ),
    ErrorKind.NOT_FREE: N_(
        "The engine asks for its whole share when it starts. Lower the share, or free what holds the card."
    ),
    ErrorKind.SAMPLER: N_("The engine tries as many sequences at once as it may run: let it run fewer."),
    ErrorKind.MAPPING: _AWAKE,
    ErrorKind.SERVING: N_(
        "More tokens at once than the engine kept room for: a smaller share for its cache leaves more, and "
        "so do fewer sequences."
    ),
    ErrorKind.NCCL: N_(
        "NCCL asks the driver for buffers, and PyTorch gives nothing of its cache back for that: leave more "
        "of the card free in this phase."
    ),
    ErrorKind.HOST: N_(
        "The memory of a node ran out, not that of a GPU: offloaded states, copies of weights and the "
        "processes of data and rewards. Offload less, or take nodes with more."
    ),
    ErrorKind.KILLED: N_(
        "A process was killed. Where dmesg on its node says that memory ran out, it is the node's: offload "
        "less. Else the first error above this one tells why."
    ),
    FailedWork.LOGITS: _LOGITS,
    FailedWork.ENTROPY: N_(
        "It is computed in float32 for all tokens of a micro-batch at once, unless in chunks: tokens x "
        "vocabulary x 4 bytes. Fewer tokens in this phase, a fused head, or chunks where this phase has them."
    ),
    FailedWork.ATTENTION: N_(
        "Attention scores grow with the square of a sequence's tokens where attention is not flash "
        "attention: switch the kind of attention, else shorten or share sequences."
    ),
    FailedWork.LAYER: _TOKENS,
    FailedWork.BACKWARD: _TOKENS,
    FailedWork.GATHERING: _STATES,
    FailedWork.GRADIENTS: _STATES,
    FailedWork.OPTIMIZER: _STATES,
    FailedWork.LOADING: _STATES,
    FailedWork.BUILDING: _STATES,
    FailedWork.TRIAL_RUN: N_(
        "The engine tries its fullest step: fewer tokens and sequences in a step, or more free of the card."
    ),
    FailedWork.GRAPHS: N_("Each captured size takes memory beside the share: capture fewer sizes, or none."),
    FailedWork.CACHE: _AWAKE,
    FailedWork.ENGINE_WEIGHTS: _AWAKE,
    FailedWork.SYNC: N_(
        "Whole weights travel beside what lies on the card: a smaller bucket, or less of the trainer's "
        "states there."
    ),
    FailedWork.SAVING: N_("States are gathered to be written: write them in shards, or on the host."),
}

WORK = {
    FailedWork.LOGITS: N_("the output head"),
    FailedWork.ENTROPY: N_("entropy, cross entropy or softmax of the logits"),
    FailedWork.ATTENTION: N_("attention"),
    FailedWork.LAYER: N_("a decoder layer"),
    FailedWork.BACKWARD: N_("a backward pass"),
    FailedWork.GATHERING: N_("weights that are gathered from their shards"),
    FailedWork.GRADIENTS: N_("gradients that are summed or clipped"),
    FailedWork.OPTIMIZER: N_("the optimizer step"),
    FailedWork.LOADING: N_("offloaded states on their way back to the card"),
    FailedWork.BUILDING: N_("a model that is being built"),
    FailedWork.TRIAL_RUN: N_("the trial run of a rollout engine that starts"),
    FailedWork.GRAPHS: N_("the capture of CUDA graphs"),
    FailedWork.CACHE: N_("the KV cache of the rollout engine"),
    FailedWork.ENGINE_WEIGHTS: N_("the weights of the rollout engine"),
    FailedWork.SYNC: N_("the weights on their way to the rollout engine"),
    FailedWork.SAVING: N_("a checkpoint that is written"),
}

_OF_ITEMS = {
    Item.LOGITS: FailedWork.LOGITS,
    Item.ACTIVATIONS: FailedWork.LAYER,
    Item.UNSHARDED: FailedWork.GATHERING,
    Item.OPTIMIZER: FailedWork.OPTIMIZER,
    Item.PARAMETERS: FailedWork.OPTIMIZER,
    Item.GRADIENTS: FailedWork.OPTIMIZER,
    Item.SYNC: FailedWork.SYNC,
}


def work_of(failure: Failure) -> FailedWork | None:
    """The work that the stack shows; where it shows a backward pass or nothing, the likeliest tensor's."""
    shown, allocation = failure.place.work, failure.allocation
    if shown not in (None, FailedWork.BACKWARD) or allocation is None or not allocation.candidates:
        return shown
    tensor = allocation.candidates[0].match.tensor
    if tensor.quadratic:
        return FailedWork.ATTENTION
    return _OF_ITEMS.get(tensor.item, shown)


def said_of_kind(failure: Failure) -> str:
    """The first line: what ran out, and when."""
    error, place = failure.error, failure.place
    phases = _(" or ").join(phase.value for phase in place.phases)
    when = _(" in {phases}").format(phases=phases) if phases else ""
    when = _(" before the first step") if place.before_steps else when
    failed = failed_of(error)
    if error.kind is ErrorKind.SAMPLER:
        return _(
            "The rollout engine ran out of GPU memory while it tried {sequences:,.0f} sequences."
        ).format(sequences=error.figure("sequences") or 0)
    if failed is not None:
        text = _("Out of GPU memory{when}: {size} were asked for").format(when=when, size=failed.text)
        if failed.free_bytes is None:
            return text + _(".")
        return _("{text}, {free} were free.").format(text=text, free=size(failed.free_bytes))
    if error.kind is ErrorKind.SHORT_CACHE:
        return _short_cache(failure)
    if error.kind is ErrorKind.NOT_FREE:
        return _(
            "The rollout engine did not start: {free:.1f} of {total:.1f} GiB were free, and its share of "
            "{fraction:g} is {share:.1f} GiB; a share of {most:.2f} was free."
        ).format(**_not_free(failure))
    return _(_SAID[error.kind]).format(when=when)


_SAID = {
    ErrorKind.ALLOCATION: N_("Out of GPU memory{when}."),
    ErrorKind.UNSIZED: N_("Out of GPU memory{when}; the error names no size."),
    ErrorKind.MAPPING: N_("Out of GPU memory{when}: the rollout engine could not take its memory again."),
    ErrorKind.NCCL: N_("Out of GPU memory{when}: NCCL found no room for its buffers."),
    ErrorKind.NO_CACHE: N_("The rollout engine did not start: nothing of its share is left for a KV cache."),
    ErrorKind.SERVING: N_("The rollout engine ran out of GPU memory{when} while it generated."),
    ErrorKind.HOST: N_("Out of host memory on a node, not on a GPU."),
    ErrorKind.KILLED: N_("A process was killed, perhaps because a node ran out of memory."),
}


def _short_cache(failure: Failure) -> str:
    error = failure.error
    tokens = error.figure("sequence_tokens") or 0
    needed, available, possible = (
        error.figure(name) for name in ("needed_gib", "available_gib", "possible_tokens")
    )
    text = _(
        "The rollout engine did not start: its KV cache holds no whole sequence of {tokens:,.0f} tokens"
    ).format(tokens=tokens)
    if needed is not None and available is not None:
        text = _("{text}: {needed:.2f} GiB are needed, {available:.2f} there").format(
            text=text, needed=needed, available=available
        )
    if possible is not None:
        text = _("{text}; {possible:,.0f} tokens would do").format(text=text, possible=possible)
    return text + _(".")


def _not_free(failure: Failure) -> dict[str, float]:
    names = {"free": "free_gib", "total": "total_gib", "fraction": "fraction", "share": "share_gib"}
    figures = {name: failure.error.figure(key) or 0.0 for name, key in names.items()}
    figures["most"] = (free_share(failure.error) or 0) / 100
    return figures
