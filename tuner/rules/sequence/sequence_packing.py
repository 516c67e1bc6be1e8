"""Pack sequences instead of padding them

What it checks
--------------

Sequences are padded to a common length, and packing them shortens the step.

Why it matters
--------------

Up to verl 0.7.1 the workers compute every sequence at its maximum length; the model engine of later releases pads to the longest sequence of a micro-batch, and so does Megatron's, since 0.9.0 to the longest of the mini-batch.
Padded tokens go through every layer and through the output head, only to be masked at the end.
With responses spread evenly up to their maximum, nearly half of all computed tokens are padding either way: of the micro-batches on all ranks one has a long sequence, and the others wait for it.
A token budget counts real tokens and no padding, so that short sequences fill a micro-batch with more than it says: the peak is then taken with sequences of mean length, and its upper end with the shortest that there can be.
Packed sequences lie end to end, and attention is told where each begins.
Packing is also what compiled entropy, dynamic context lengths and Ulysses rest on.

When it does not apply
----------------------

The architecture has no packed attention in transformers.
The trainer shares prompts between responses, as verl 0.7.1 does with ``use_prefix_grouper``: it then pads, and packing would turn that off.
In a copy of the trainer, the worker that the program makes has an actor with a pass of its own that pads and never reads the setting.
A family that verl's guide does not name (Llama, Mistral, the first Gemma and Qwen are) is advised with the word to compare one step first.
Attention other than FlashAttention under a transformers that would let packed sequences attend to each other.
Nearly all sequences are equally long.
The package flash-attn is missing where the job runs: where a release packs by its functions and the job asks for another attention, or somebody says that the package cannot be had, the line stands apart as one that needs it.

Sources
-------

verl documentation, performance tuning guide, "Enable remove padding (sequence packing)".
verl 0.7.1, ``workers/actor/dp_actor.py:128-135`` (``can_use_pg``).
verl 0.8.0, ``workers/engine/fsdp/transformer_impl.py:1009-1034`` (``max_seq_len`` of the micro-batch); 0.5.0, ``models/mcore/util.py`` (``remove_left_padding``).
verl 0.9.0, ``workers/engine/megatron/transformer_impl.py`` (``pad_bshd_to_minibatch_max``); 0.3.0.post1 to 0.9.1, ``utils/seqlen_balancing.py`` (``rearrange_micro_batches``: real lengths).
verl 0.6.0 to 0.9.0, ``utils/attention_utils.py`` (``flash_attn.bert_padding``, imported in the first packed pass); 0.9.1 there (``_fallback_unpad_input``).
verl 0.7.0 and later pack by default; earlier releases do not.
"""

from msgspec.structs import replace

from tuner.batching import micro_batch_tokens
from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due
from tuner.rules.packing import needs_flash, packed, sequences_packed
from tuner.rules.wording import count
from tuner.timing.tokens import micro_batches_of
from tuner.workload import Batch, Padding, Phase, StepPass

RULE = Rule(
    code="SEQ001",
    name="sequence-packing",
    summary=N_("sequences are padded, and padding is computed"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)

_WITH_PACKAGE = replace(RULE, package="flash-attn")
_UNTESTED = N_(
    "The trainer's documentation does not name this model's family for packing; compare "
    "the log-probabilities of one step with padding before relying on it."
)
_ASSUMED = N_("Mean lengths are taken as half of the maxima; the gain grows with shorter responses.")


def check(case: Case) -> Finding | None:
    """Pack in every engine that pads."""
    proposal = packed(case.workload)
    if proposal == case.workload:
        return None
    pays = case.pays(proposal)
    short = None if pays else due(case, sequences_packed)
    if not pays and short is None:
        return None
    batch, tested = case.workload.batch, case.workload.actor.engine.packing_tested
    padded = _named_pass(case, short)
    rule = _WITH_PACKAGE if needs_flash(case.workload, proposal) else RULE
    return Finding(
        rule=rule if short is None else replace(rule, goal=Goal.MEMORY),
        message=_padding(case.workload.batch, padded),
        severity=RULE.severity,
        evidence=Evidence.HEURISTIC if batch.known_mean_tokens is None else Evidence.MODELLED,
        phase=padded.phase if short is None else short,
        proposal=proposal,
        notes=(
            *((_(_ASSUMED),) if batch.known_mean_tokens is None else ()),
            *(() if tested else (_(_UNTESTED),)),
        ),
    )


def _named_pass(case: Case, short: Phase | None) -> StepPass:
    """The pass to name: the one that lacks memory, else of the updates that pad the one with the highest peak."""
    padded = [one for one in case.workload.passes() if not one.engine.packed and one.engine.packable]
    peaks = {phase.phase: phase.peak_bytes for phase in case.estimate.phases}
    lacking = [one for one in padded if one.phase is short]
    updates = [one for one in padded if one.training]
    return max(lacking or updates or padded[:1], key=lambda one: peaks.get(one.phase, 0))


def _padding(batch: Batch, padded: StepPass) -> str:
    """To which length a pass pads, and what that makes of a token budget."""
    length = _padded_length(batch, padded)
    computed = micro_batch_tokens(batch, padded)
    if not padded.batching.dynamic or computed <= padded.batching.token_budget:
        return length
    return _("{length}; a budget of {budget} does not count that, so that {computed} are computed").format(
        length=length,
        budget=counted(padded.batching.token_budget, "token"),
        computed=count(computed),
    )


def _padded_length(batch: Batch, padded: StepPass) -> str:
    if padded.engine.padding is Padding.MAXIMUM:
        return _("{phase} computes every sequence as if it had {tokens}, whatever its length").format(
            phase=padded.phase.value, tokens=counted(batch.sequence_tokens, "token")
        )
    longest = counted(round(micro_batches_of(batch, padded).sequence_tokens), "token")
    if padded.engine.padding is Padding.MINI_BATCH:
        return _(
            "{phase} computes every sequence as if it were as long as the longest of its mini-batch: "
            "on the slowest rank about {longest} where the mean is {mean}"
        ).format(phase=padded.phase.value, longest=longest, mean=count(round(batch.mean_sequence_tokens)))
    return _(
        "{phase} computes every sequence as if it were as long as the longest of its micro-batch: "
        "on the slowest rank about {longest} where the mean is {mean}"
    ).format(phase=padded.phase.value, longest=longest, mean=count(round(batch.mean_sequence_tokens)))
