"""A token budget below one sequence

What it checks
--------------
Under dynamic batching, each pass's token budget times the ranks that share a sequence, against the longest possible sequence, ``data.max_prompt_length`` plus ``data.max_response_length``.
The override is the smallest budget that holds one sequence; more is faster where it fits.

Why it matters
--------------
A sequence cannot be split over micro-batches, and verl asserts that the budget holds the longest one.
Up to 0.7.1 the workers compare with the padded length, so that the first step fails.
From 0.8.0 on they compare with the longest sequence that is there, so that the run fails on the day a response gets that long, which may be after hours.

When it does not apply
----------------------
Static batches have no budget.

Sources
-------
``rearrange_micro_batches``: verl 0.4.1 ``utils/seqlen_balancing.py`` (``attention_mask.shape[-1]``), 0.9.1 likewise with nested inputs; ``prepare_micro_batches``: 0.9.1 ``workers/engine/utils.py``.
verl #3088, #571.
"""

from collections.abc import Iterator
from math import ceil

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.interpolation import is_interpolation
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import key_of
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG121",
    name="budget-below-sequence",
    summary=N_("a token budget that cannot hold one sequence of maximum length"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

GUARDS = (CodeGuard(words="rearrange_micro_batches max_token_len"),)

#: The meaning of the key with each pass's budget, in the order in which the message names them.
_BUDGETS = {
    Phase.UPDATE_ACTOR: "actor.token_budget",
    Phase.TRAIN: "actor.token_budget",
    Phase.OLD_LOG_PROB: "log_prob.token_budget",
    Phase.REF_LOG_PROB: "ref.token_budget",
    Phase.UPDATE_CRITIC: "critic.token_budget",
    Phase.VALUES: "values.token_budget",
}
_PADDED = Releases(until=ENGINE_PREVIEW)  # compares with prompt plus response at once

PROGRAMS = tuple(Program)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding with every budget that is too small."""
    batch = workload.batch
    tokens = batch.sequence_tokens if version in _PADDED else batch.reached_tokens
    small = {
        name: ceil(tokens / step_pass.engine.parallel.sequence_split)
        for phase, meaning in _BUDGETS.items()
        if (step_pass := workload.pass_of(phase)) is not None and step_pass.batching.dynamic
        if (name := key_of(settings, meaning, version)) is not None
        if step_pass.batching.token_budget * step_pass.engine.parallel.sequence_split < tokens
    }
    if not small:
        return
    values = ", ".join(f"{name}={settings.get(name)}" for name in small)
    when = _("in the first step") if version in _PADDED else _("as soon as one gets that long")
    yield report(
        RULE,
        settings,
        _("{values} cannot hold one sequence of {tokens} tokens: {release} fails an assertion {when}").format(
            values=values, tokens=tokens, release=workload.release, when=when
        ),
        keys=list(small),
        overrides=[
            assign(settings, name, budget)
            for name, budget in small.items()
            if not _follows(name, small, settings)
        ],
        severity=None if version in _PADDED else Severity.WARNING,
    )


def _follows(name: str, small: dict[str, int], settings: Settings) -> bool:
    """Whether the release links this budget to another one that is put right."""
    link = settings.default_value(name)
    return not settings.is_set(name) and is_interpolation(link) and any(other in str(link) for other in small)
