"""What generates and scores: parts that the estimate leaves out."""

from tuner.language import N_
from tuner.trainers.key_facts import Affects
from tuner.trainers.omission import Omission, OmissionContext, changed, switched
from tuner.trainers.verl.rollout_names import NAME_KEY, engine_of_own_rollout
from tuner.trainers.verl.source import source_of
from tuner.versions import at_least

_ROLLOUT = "actor_rollout_ref.rollout"
_CALLS = f"{_ROLLOUT}.multi_turn.max_parallel_calls"
_GENERATED = "data.gen_batch_size"


def _early_servers(job: OmissionContext) -> str | None:
    """Asked for where the release does not generate so by itself; from 0.6.0 on it is counted."""
    return None if at_least(job.version, "0.6.0") else job.named(f"{_ROLLOUT}.mode")


def _own_rollout(job: OmissionContext) -> str | None:
    """What a copy of verl generates with by a name of its own."""
    name = job.settings.text(NAME_KEY, default="")
    return NAME_KEY if engine_of_own_rollout(job.settings, name) is not None else None


def _transformers(job: OmissionContext) -> str | None:
    """Generating with the model that is trained, in one unit of FSDP, for which verl 0.3 to 0.5 wrap it so.

    Source: verl 0.3.0.post1 to 0.5.0 ``workers/fsdp_workers.py`` (``auto_wrap_policy = None``).
    """
    return NAME_KEY if job.workload.rollout is not None and job.workload.rollout.is_trainer else None


def _own_prompts(job: OmissionContext) -> str | None:
    """Another length of prompts than that of the data, which the release takes by default."""
    own, turns = f"{_ROLLOUT}.prompt_length", f"{_ROLLOUT}.multi_turn.enable"
    if job.settings.flag(turns):  # whose loop makes longer ones, which are counted
        return None
    return own if job.settings.get(own) != job.settings.get("data.max_prompt_length") else None


def _own_loop(job: OmissionContext) -> str | None:
    """Code of the user's that decides how a response comes about, where nobody says in how many turns."""
    if job.workload.batch.lengths.turns is not None:
        return None
    return job.named(
        f"{_ROLLOUT}.chat_scheduler",
        f"{_ROLLOUT}.agent.agent_loop_config_path",
        f"{_ROLLOUT}.agent.custom_async_server.*",
    )


def _log_probs(job: OmissionContext) -> str | None:
    """Asked for where the release does not do so by itself."""
    key = job.named(f"{_ROLLOUT}.calculate_log_probs")
    return key if key is not None and job.settings.get(key) else None


def _other_batch(job: OmissionContext) -> str | None:
    """Another batch size than that of training, which PPO's V1 trainer takes in pieces of that size.

    Source: verl 0.4.1 to 0.9.1 ``trainer/ppo/ray_trainer.py`` (``_create_dataloader``), 0.9.1
    ``trainer/ppo/v1/trainer_base.py`` (``_next_train_batch``).
    """
    prompts = job.named(_GENERATED)
    if prompts is None or job.workload.batch.group_filter or source_of(job.settings, job.version).v1_trainer:
        return None
    return prompts if job.settings.get(_GENERATED) != job.workload.batch.prompts else None


def _further_calls(job: OmissionContext) -> str | None:
    """The limit of calls in one turn, where tools answer without anybody saying how long."""
    talks = job.workload.batch.conversation
    return job.named(_CALLS) if talks is not None and talks.tokens_assumed else None


GENERATION: tuple[Omission, ...] = (
    Omission(
        name=N_("further calls of tools in one turn"),
        reason=N_("tools are taken to be called once in a turn; --tool-tokens says what all of them answer"),
        patterns=(_CALLS,),
        affects=Affects.SECONDS,
        trigger=_further_calls,
    ),
    Omission(
        name=N_("generation by transformers with the model that is trained"),
        reason=N_("its layers are one unit of FSDP, gathered whole as they are stored"),
        patterns=(),  # read, since it decides the engine
        trigger=_transformers,
    ),
    Omission(
        name=N_("what the copy's own rollout does beside the engine's"),
        reason=N_("it is taken to generate as the engine does that its name begins with"),
        patterns=(),  # read, since it decides the engine
        affects=Affects.SECONDS,
        trigger=_own_rollout,
    ),
    Omission(
        name=N_("a checkpoint engine of the user's"),
        reason=N_("it is taken to hold the buffers that nccl's does"),
        patterns=(f"{_ROLLOUT}.checkpoint_engine.custom_backend_module",),
    ),
    Omission(
        name=N_("options of the checkpoint engine"),
        reason=N_("they are passed on to it as they are"),
        patterns=(f"{_ROLLOUT}.checkpoint_engine.engine_kwargs.**",),
        rest=True,
    ),
    Omission(
        name=N_("prefill and decoding apart"),
        reason=N_("each replica is taken to do both"),
        patterns=(f"{_ROLLOUT}.disaggregation.**",),
        trigger=switched(f"{_ROLLOUT}.disaggregation.enabled"),
    ),
    Omission(
        name=N_("the quantization's own settings"),
        reason=N_("the file that says how weights are quantized is not read"),
        patterns=(f"{_ROLLOUT}.quantization_config_file",),
    ),
    Omission(
        name=N_("the engine's log-probabilities"),
        reason=N_("the sampler may keep a row of the vocabulary for each sequence; the upper end has them"),
        patterns=(f"{_ROLLOUT}.logprobs_mode",),  # whether they are asked for is read
        trigger=_log_probs,
    ),
    Omission(
        name=N_("arguments of the engine"),
        reason=N_("they are passed on to the rollout engine as they are"),
        patterns=(f"{_ROLLOUT}.engine_kwargs.**",),
        rest=True,
    ),
    Omission(
        name=N_("the rollout's own length of prompts"),
        reason=N_("prompts are taken to be as long as the data's key says"),
        patterns=(),  # read, since a loop of turns goes by it
        trigger=_own_prompts,
    ),
    Omission(
        name=N_("servers of the asynchronous rollout"),
        reason=N_("generation is taken to run in the trainer's own processes"),
        patterns=(),  # read, since it decides which processes there are
        affects=Affects.SECONDS,
        trigger=_early_servers,
    ),
    Omission(
        name=N_("an agent loop of the user's"),
        reason=N_("--turns, --tool-tokens and --tool-seconds tell what it does; else it is taken for verl's"),
        patterns=(
            f"{_ROLLOUT}.multi_turn.**",
            f"{_ROLLOUT}.chat_scheduler",
            f"{_ROLLOUT}.agent.agent_loop_config_path",
            f"{_ROLLOUT}.agent.custom_async_server.*",
            "data.{tool_config_path,function_tool_path}",
        ),
        affects=Affects.SECONDS,
        trigger=_own_loop,
        rest=True,
    ),
    Omission(
        name=N_("oversampled requests"),
        reason=N_("more requests are started than are waited for"),
        patterns=(f"{_ROLLOUT}.over_sample_rate <0.7.0",),
        affects=Affects.SECONDS,
    ),
    Omission(
        name=N_("the batch size of generation"),
        reason=N_("without a filter of groups a step has so many prompts; those of training are counted"),
        patterns=(),  # read, since a filter generates so many at a time
        affects=Affects.SECONDS,
        trigger=_other_batch,
    ),
    Omission(
        name=N_("skipped generation"),
        reason=N_("responses are taken to be generated in every step"),
        patterns=(
            f"{_ROLLOUT}.{{skip,skip_rollout,skip_dump_dir}}.**",
            "skip.{rollout,async_rollout,rollout_tq}.**",
        ),
        affects=Affects.SECONDS,
        trigger=changed(f"{_ROLLOUT}.skip_rollout", f"{_ROLLOUT}.skip.enable", "skip.*.enable"),
    ),
    Omission(
        name=N_("the reward function"),
        reason=N_("the time that rewards take on CPUs is not known"),
        patterns=(
            "custom_reward_function.path <0.7.0",
            "**.sandbox_fusion.url",
            "reward_model.reward_loop_*",
            "**.reward_manager.{source,module}.**",
        ),
        affects=Affects.SECONDS,
        trigger=changed(
            "**.custom_reward_function.path",
            "**.sandbox_fusion.url",
            "reward_model.reward_loop_*",
            "**.reward_manager.{source,module}.**",
        ),
    ),
)
