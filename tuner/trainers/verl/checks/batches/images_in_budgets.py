"""Micro-batches of a token budget in a job whose prompts hold images

What it checks
--------------
``use_dynamic_bsz`` of the actor, of its log-probabilities or of the reference before 0.4.1, with a model that reads images.
It refuses the launch where ``data.image_key`` or ``--images-per-prompt`` says that there are some, and warns where a multimodal model is only taken to see some.
The overrides count micro-batches in sequences again, one at a time where no size is set.

Why it matters
--------------
These releases cut a batch with images into micro-batches of a fixed number of sequences, whatever the key says, and then put the log-probabilities back into an order that was never made: ``UnboundLocalError`` in the first step, after the first generation.
The update would not fill its budget either, but scale the loss as if it had.

When it does not apply
----------------------
Without images in the data.
From 0.4.1 on images are dealt out with the sequences that they belong to, as in copies that have taken that code over.

Sources
-------
verl 0.3.0.post1 ``workers/actor/dp_actor.py:200-224``, 0.4.0 lines 283-312 (``compute_log_prob``), lines 347 and 421 (``update_policy``); 0.4.1 lines 316-348.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, REFERENCE, ROLLOUT, shards_with_fsdp
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG188",
    name="images-in-budgets",
    summary=N_("micro-batches of a token budget in a job whose prompts hold images"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_BROKEN = Releases(until="0.4.1")

GUARDS = (
    CodeGuard(
        words="compute_log_prob has_multi_modal_inputs use_dynamic_bsz micro_batches indices",
        lacks="_get_micro_batches",
        fails=True,
        unless="_get_micro_batches has_multi_modal_inputs use_dynamic_bsz textual_indices",
        releases=_BROKEN,
    ),
)

#: A switch, and what it switches off: micro-batches of so many sequences.
_SWITCHES = (
    (f"{ACTOR}.use_dynamic_bsz", f"{ACTOR}.ppo_micro_batch_size"),
    (f"{ROLLOUT}.log_prob_use_dynamic_bsz", f"{ROLLOUT}.log_prob_micro_batch_size"),
    (f"{REFERENCE}.log_prob_use_dynamic_bsz", f"{REFERENCE}.log_prob_micro_batch_size"),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where a budget is to fill micro-batches of images."""
    if version not in _BROKEN or workload.batch.images is None or not shards_with_fsdp(workload):
        return
    budgeted = [(switch, size) for switch, size in _SWITCHES if settings.flag(switch)]
    if not budgeted:
        return
    named = settings.is_set("data.image_key") or bool(workload.batch.lengths.images_per_prompt)
    text = (
        _("{key}=True: {release} stops in the first log-prob pass of prompts with images")
        if named
        else _(
            "{key}=True: {release} stops in the first log-prob pass of prompts with images, which "
            "a model like {model} is taken to read"
        )
    )
    yield report(
        RULE,
        settings,
        text.format(key=budgeted[0][0], release=workload.release, model=workload.model.name),
        keys=[switch for switch, _size in budgeted],
        overrides=[text for switch, size in budgeted for text in _counted(settings, switch, size)],
        severity=None if named else Severity.WARNING,
        phase=Phase.OLD_LOG_PROB,
    )


def _counted(settings: Settings, switch: str, size: str) -> Iterator[str]:
    """What counts micro-batches in sequences."""
    yield assign(settings, switch, False)
    if settings.get(size) is None and settings.get(f"{size}_per_gpu") is None:
        yield assign(settings, f"{size}_per_gpu", 1)
