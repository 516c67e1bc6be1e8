"""A Ulysses size that the attention heads do not allow

What it checks
--------------
The sequence-parallel size of the actor, the reference and the critic against the model: it has to divide the attention heads, and it has to divide the key-value heads or be a multiple of them.
It also has to divide the GPUs.
The override is the largest legal size up to the one asked for; the message lists all of them.

Why it matters
--------------
Ulysses trades sequence shards for head shards around attention.
verl asserts the rule when it patches the model, after the model has been loaded.
Copies from before that assertion, or without it, get to the exchange: it cuts unequal numbers of heads and receives them into tensors that are all as large as the first, so that the first pass fails or waits for ever.

When it does not apply
----------------------
Under Megatron, which has context parallelism instead.

Sources
-------
verl 0.4.1 ``models/transformers/monkey_patch.py:208-210``, 0.7.1 lines 333-339, 0.9.1 lines 343-349.
verl 0.3.0.post1 ``utils/ulysses.py:132-151`` (``all_to_all_tensor``).
verl #1226.
Jacobs et al. 2023, DeepSpeed Ulysses, arXiv:2309.14509.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.model_shape import ModelShape
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import key_of
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.roles import reference_sharing
from tuner.trainers.verl.source import source_of
from tuner.workload import Backend, Engine, Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG115",
    name="ulysses-heads",
    summary=N_("a sequence-parallel size that the attention heads do not allow"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_ASSERTS = CodeGuard(words="ulysses_sp_size num_attention_heads")
_EXCHANGES = CodeGuard(words="all_to_all_tensor empty_like input_list", fails=True, in_training=True)
GUARDS = (_ASSERTS, _EXCHANGES)

PROGRAMS = tuple(Program)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per role with a size of its own."""
    yield from _findings(settings, workload, version, asserts=True)


def check_of_copy(
    settings: Settings, workload: Workload, version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """The findings of a copy that may get to the exchange of heads without an assertion."""
    asserts = bool(_ASSERTS.lines(code)) or not _EXCHANGES.lines(code)
    yield from _findings(settings, workload, version, asserts=asserts)


def _findings(settings: Settings, workload: Workload, version: str, *, asserts: bool) -> Iterator[Finding]:
    roles = [("actor", workload.actor.engine, workload.model)]
    if workload.reference is not None:
        roles.append(("ref", workload.reference.engine, workload.model))
    if workload.critic is not None:
        roles.append(("critic", workload.critic.engine, workload.critic.model))
    reported: set[int] = set()
    for role, engine, model in roles:
        size = engine.parallel.ulysses
        name = _key(role, size, settings, version)
        if (
            engine.backend is Backend.MEGATRON
            or name is None
            or size in reported
            or _legal(size, engine, model)
        ):
            continue
        reported.add(size)
        legal = [other for other in range(1, engine.parallel.gpus + 1) if _legal(other, engine, model)]
        fewer = max(other for other in legal if other <= size)
        names = [name, *(_of_reference(settings, workload, version, size) if role == "actor" else ())]
        yield report(
            RULE,
            settings,
            _message(engine, model, workload, legal, asserts=asserts),
            keys=[name],
            overrides=[assign(settings, key, fewer) for key in names],
        )


def _of_reference(settings: Settings, workload: Workload, version: str, size: int) -> list[str]:
    """The key that the user gives the reference the same size by, where it has to follow the actor's."""
    key = reference_sharing(source_of(settings, version))
    set_alike = key is not None and settings.is_set(key) and settings.get(key) == size
    return [key] if key is not None and set_alike and workload.reference is not None else []


def _message(
    engine: Engine, model: ModelShape, workload: Workload, legal: Sequence[int], *, asserts: bool
) -> str:
    text = _(
        "a sequence-parallel size of {size} does not go with {heads} attention and {kv_heads} "
        "on {gpus}, which {release} asserts; legal sizes are {legal}"
    )
    if not asserts:
        text = _(
            "a sequence-parallel size of {size} does not go with {heads} attention and {kv_heads} "
            "on {gpus}: the exchange of heads fails in the first step; legal sizes are {legal}"
        )
    return text.format(
        size=engine.parallel.ulysses,
        heads=model.heads,
        kv_heads=counted(model.kv_heads, "key-value head"),
        gpus=counted(engine.parallel.gpus, "GPU"),
        release=workload.release,
        legal=", ".join(map(str, legal)),
    )


def _key(role: str, size: int, settings: Settings, version: str) -> str | None:
    """The key that sets the size: from the model engine on, the old key wins where it is above 1."""
    old = key_of(settings, f"{role}.old_ulysses", version) if role != "critic" else None
    return (
        old if old is not None and settings.get(old) == size else key_of(settings, f"{role}.ulysses", version)
    )


def _legal(size: int, engine: Engine, model: ModelShape) -> bool:
    shared = model.kv_heads % size == 0 or size % model.kv_heads == 0
    return model.heads % size == 0 and shared and engine.parallel.gpus % size == 0
