"""An engine shorter than a sequence

What it checks
--------------
``rollout.max_model_len`` below the longest prompt with the longest response.
The override is that length, or all positions that the model has.

Why it matters
--------------
From 0.7.1 on the server ends every response at the engine's length, whatever ``max_response_length`` says, and refuses a prompt that leaves no room.
Up to 0.6.1 SGLang's rollout asserts that a whole sequence fits.

When it does not apply
----------------------
0.7.0, and the servers of earlier releases with ``rollout.mode=async``, take the length of a sequence instead; a copy of 0.7.0 whose servers heed the key is checked as 0.7.1 is.
Where the engine already takes all positions of the model: CFG120 speaks of sequences that are longer than that.

Sources
-------
verl 0.6.1 ``workers/rollout/sglang_rollout/sglang_rollout.py:361-367``, 0.7.1 ``workers/rollout/vllm_rollout/vllm_async_server.py:518-545``, 0.9.1 lines 590-621.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.trainers.verl.rollout_facts import has_own_positions
from tuner.trainers.verl.source import source_of
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG156",
    name="model-length-below-sequence",
    summary=N_("a rollout engine that is shorter than a sequence may be"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
    first=True,
)

GUARDS = (
    CodeGuard(
        words="max_model_len prompt_length response_length", releases=Releases(since="0.4.0", until="0.7.0")
    ),
    CodeGuard(words="max_possible_tokens max_model_len", releases=Releases(since="0.7.0")),
)

_CUTS = Releases(since="0.7.1")
_REPLACES = Releases(since="0.7.0", until="0.7.1")  # by the length of a sequence
_KEY = f"{ROLLOUT}.max_model_len"
_ENGINES = (RolloutEngine.VLLM, RolloutEngine.SGLANG)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for the engines that cut or refuse."""
    engine, tokens = workload.generator.engine, workload.batch.sequence_tokens
    length = settings.integer(_KEY, minimum=1)
    if length is None or engine not in _ENGINES:
        return
    own = has_own_positions(settings) or workload.model.contained_in  # then nobody knows how many it takes
    longest = tokens if own else min(tokens, workload.model.max_positions)
    if length >= longest:
        return
    takes_it = source_of(settings, version).copy.keeps_model_length  # a copy's servers, as 0.7.1's do
    if version in _REPLACES and not takes_it:
        return
    cuts = version in _CUTS or takes_it
    if not cuts and (engine is not RolloutEngine.SGLANG or settings.text(f"{ROLLOUT}.mode") == "async"):
        return
    what = _("ends responses there") if cuts else _("asserts that a whole sequence fits")
    yield report(
        RULE,
        settings,
        _("{key}={length} is below the {tokens} tokens of the longest sequence: {release} {what}").format(
            key=_KEY, length=length, tokens=tokens, release=workload.release, what=what
        ),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, longest)],
        severity=Severity.WARNING if cuts else None,
    )
