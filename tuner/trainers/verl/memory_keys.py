"""The keys of verl that decide how much memory a job takes at a place of its step, the first of them most."""

from tuner.inputs.settings import Settings
from tuner.trainers.verl.keys import key
from tuner.trainers.verl.programs import Program, program_of
from tuner.workload import Phase, Workload
from tuner.workload.place import FailedWork, FailurePlace

# Of a pass: the tokens of a micro-batch, as a budget or as a number of sequences.
_TOKENS = {
    Phase.OLD_LOG_PROB: ("log_prob.token_budget", "log_prob.micro_batch"),
    Phase.REF_LOG_PROB: ("ref.token_budget", "ref.micro_batch"),
    Phase.VALUES: ("values.token_budget", "values.micro_batch", "critic.fsdp.infer_micro_batch_size_per_gpu"),
    Phase.UPDATE_ACTOR: ("actor.token_budget", "actor.micro_batch"),
    Phase.TRAIN: ("actor.token_budget", "actor.micro_batch"),
    Phase.UPDATE_CRITIC: (
        "critic.token_budget",
        "critic.micro_batch",
        "critic.fsdp.micro_batch_size_per_gpu",
    ),
}
_STATES = ("actor.fsdp.optimizer_offload", "actor.fsdp.param_offload", "actor.fsdp.fsdp_size")
_CRITIC_STATES = ("critic.fsdp.optimizer_offload", "critic.fsdp.param_offload", "critic.fsdp.fsdp_size")
_FRACTION = ("rollout.memory_fraction",)
_OF_PHASE = {
    **_TOKENS,
    Phase.ROLLOUT: (*_FRACTION, "rollout.max_sequences", "rollout.max_batched_tokens"),
    Phase.WAKE_UP: (*_FRACTION, *_STATES),
    Phase.UPDATE_WEIGHTS: (*_STATES, "sync.bucket_megabytes", *_FRACTION),
    Phase.SAVE_CHECKPOINT: ("actor.saved",),
    Phase.REWARD: (),
}
_CRITICS = (Phase.UPDATE_CRITIC, Phase.VALUES)
_AT_START = {
    FailedWork.GRAPHS: ("rollout.enforce_eager", "rollout.capture_sizes", *_FRACTION),
    FailedWork.TRIAL_RUN: ("rollout.max_batched_tokens", "rollout.max_sequences", *_FRACTION),
    FailedWork.BUILDING: ("actor.fsdp.fsdp_size", "actor.fsdp.param_offload"),
}
_OF_WORK = {FailedWork.CACHE: (*_FRACTION, *_STATES), FailedWork.ENGINE_WEIGHTS: (*_FRACTION, *_STATES)}
_OF_STATES = (FailedWork.OPTIMIZER, FailedWork.LOADING, FailedWork.GATHERING, FailedWork.GRADIENTS)


def deciding_keys(
    place: FailurePlace, version: str, workload: Workload | None = None, settings: Settings | None = None
) -> tuple[str, ...]:
    """The keys, as a release spells them; none where the place is not known.

    Args:
        place: where the job was.
        version: the release.
        workload: the job, where it is known: its passes go by a budget or by a number of sequences.
        settings: those of the job, where they are known: each program has keys of its own.
    """
    meanings: tuple[str, ...] = ()
    if place.before_steps:
        engine = (*_FRACTION, "rollout.tensor_parallel", "rollout.max_model_tokens")
        meanings = _AT_START.get(place.work, engine) if place.work is not None else engine
    elif place.work in _OF_STATES:
        critic = place.phases and set(place.phases) <= set(_CRITICS)
        meanings = _CRITIC_STATES if critic else _STATES
    elif place.work in _OF_WORK:
        meanings = _OF_WORK[place.work]
    else:
        meanings = tuple(meaning for phase in place.phases for meaning in _read(phase, workload))
    names = _names(meanings, version, settings)
    if not names:  # a project has no key for a budget that it computes of its micro-batch
        sizes = (meaning for phase in place.phases for meaning in _TOKENS.get(phase, ()))
        names = _names(tuple(sizes), version, settings)
    return names


def _names(meanings: tuple[str, ...], version: str, settings: Settings | None) -> tuple[str, ...]:
    """The keys of these meanings that the program has which reads the settings."""
    program = Program.PPO if settings is None else program_of(settings.defaults)
    names = (key(meaning, version, program) for meaning in dict.fromkeys(meanings))
    return tuple(
        name
        for name in names
        if name is not None and (settings is None or settings.as_reader_takes_it(name) is not None)
    )


def _read(phase: Phase, workload: Workload | None) -> tuple[str, ...]:
    """What decides in a phase: of a pass of a known job, its budget or its micro-batch."""
    step_pass = None if workload is None else workload.pass_of(phase)
    if step_pass is None or phase not in _TOKENS:
        return _OF_PHASE[phase]
    budget, *sizes = _TOKENS[phase]
    return (budget,) if step_pass.settings.batching.dynamic else tuple(sizes)
