"""Axes that some jobs have: a part of the layers recomputed, interleaved stages, an engine that is awake."""

from tests.plan import jobs
from tests.plan.jobs import ACTOR, JOBS, MEGATRON, REF, ROLLOUT, SmallJob
from tuner.advise.refusals import started
from tuner.consultation.consult import job_of
from tuner.consultation.premises import Premises
from tuner.plan.space import Option, Space, space_of
from tuner.rules.case import figures
from tuner.workload import Phase

DENSE = next(job for job in JOBS if job.name == "megatron")
STAGED = (*MEGATRON, f"{ACTOR}.megatron.pipeline_model_parallel_size=2")


def options(space: Space, name: str) -> dict[str, Option]:
    return {option.text: option for axis in space.axes if axis.name == name for option in axis.options}


def packing_of(release: str) -> dict[str, Option]:
    """The options of packing for a job that pads, and asks for PyTorch's attention."""
    words = (
        *(word for word in jobs.COMMON if "dynamic" not in word and "padding" not in word),
        "actor_rollout_ref.model.use_remove_padding=False",
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=2",
        f"{REF}.log_prob_micro_batch_size_per_gpu=2",
    )
    premises = Premises(model="qwen2.5-7b", gpu="8xh100-sxm", verl_version=release)
    read, _ = job_of("/dev/null", words, premises)
    return options(space_of(started(read.reading, headroom=jobs.HEADROOM, allow=()).reading), "packing")


def test_packing_by_a_package_that_may_not_be_there_is_no_axis() -> None:
    assert packing_of("0.9.1")
    assert not packing_of("0.7.1")


def whole_space(job: SmallJob) -> Space:
    return space_of(jobs.reading_of(job))


def test_recomputing_more_layers_takes_longer_and_less_memory() -> None:
    space = jobs.space(DENSE)
    place = [axis.name for axis in space.axes].index("recomputation")
    texts = [option.text for option in space.axes[place].options]
    wanted = ["", "7 layers of a stage", "14 layers of a stage", "21 layers of a stage", "full"]
    seconds, peaks = [], []
    for text in wanted:
        choice = (*(0 for _ in range(place)), texts.index(text), *(0 for _ in space.axes[place + 1 :]))
        made = figures(space.workload(choice))
        updating = made.time.phase(Phase.UPDATE_ACTOR)
        memory = made.memory.phase(Phase.UPDATE_ACTOR)
        assert updating is not None and memory is not None
        seconds.append(updating.seconds)
        peaks.append(memory.peak_bytes)
    assert seconds == sorted(seconds) and len(set(seconds)) == len(wanted)
    assert peaks == sorted(peaks, reverse=True) and len(set(peaks)) == len(wanted)
    # of 28 layers, each quarter adds as much
    assert abs((seconds[1] - seconds[0]) / (seconds[4] - seconds[0]) - 0.25) < 1e-9


def test_the_first_layers_are_written_as_blocks() -> None:
    option = options(whole_space(DENSE), "recomputation")["7 layers of a stage"]
    assert {key.rpartition(".")[2] for key in option.keys} == {
        "recompute_granularity",
        "recompute_method",
        "recompute_num_layers",
    }


def test_stages_are_interleaved_where_budgets_make_the_micro_batches() -> None:
    dynamic = SmallJob(name="interleaved", model="qwen2.5-7b", overrides=STAGED, options=())
    static = SmallJob(
        name="not-interleaved",
        model="qwen2.5-7b",
        overrides=(
            *STAGED,
            f"{ACTOR}.use_dynamic_bsz=False",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
            f"{ROLLOUT}.log_prob_use_dynamic_bsz=False",
            f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=1",
            f"{REF}.log_prob_use_dynamic_bsz=False",
            f"{REF}.log_prob_micro_batch_size_per_gpu=1",
        ),
        options=(),
    )
    assert any("VPP 2" in text for text in options(whole_space(dynamic), "layout"))
    assert not any("VPP" in text for text in options(whole_space(static), "layout"))


def test_an_engine_that_stays_awake_takes_its_share_in_the_passes() -> None:
    job = next(job for job in JOBS if job.name == "fsdp-moe")
    space = jobs.space(job)
    place = [axis.name for axis in space.axes].index("sleep")
    awake = space.workload((*(0 for _ in range(place)), 1, *(0 for _ in space.axes[place + 1 :])))
    before, after = figures(space.base), figures(awake)
    peaks = [made.memory.phase(Phase.UPDATE_ACTOR) for made in (before, after)]
    assert peaks[0] is not None and peaks[1] is not None
    assert peaks[1].peak_bytes > peaks[0].peak_bytes
    assert after.time.seconds < before.time.seconds
