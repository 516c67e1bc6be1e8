"""Which division of the GPUs between generation and training is named, by seconds that are given."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tests.workloads import grpo_7b
from tuner.findings import Finding
from tuner.rules.case import Case
from tuner.rules.rollout import generation_apart
from tuner.timing import PhaseTime, StepTime
from tuner.workload import Lengths, Phase, Service, ServiceRole, Workload

#: Sixteen GPUs, two to a replica; the release has a trainer that generates on its own.
JOB = grpo_7b(nodes=2).with_rollout(tensor_parallel=2, apart_with=("one_step_off_policy",))


def phase(name: Phase, seconds: float) -> PhaseTime:
    return PhaseTime(phase=name, seconds=seconds, parts=(("compute", seconds),))


def step(generation: float, training: float = 30, sync: float = 10) -> StepTime:
    return StepTime(
        phases=(
            phase(Phase.ROLLOUT, generation),
            phase(Phase.UPDATE_ACTOR, training),
            *((phase(Phase.UPDATE_WEIGHTS, sync),) if sync else ()),
        )
    )


class Given(SimpleNamespace):
    """A case of which the seconds are given, and which lacks no memory."""

    lacking = None

    def short(self) -> object:
        return self.lacking

    @property
    def step(self) -> object:
        return Case.of(self.workload, headroom=0.1).step


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """What the rule says where all GPUs generate for so long, and fewer as a table or a function says."""

    def say(
        generation: float,
        by_gpus: object,
        *,
        training: float = 30,
        sync: float = 10,
        job: Workload = JOB,
        **case: object,
    ) -> Finding | None:
        def figures(workload: Workload) -> SimpleNamespace:
            gpus = workload.generator.gpus
            return SimpleNamespace(time=step(by_gpus(gpus)))  # type: ignore[operator]

        monkeypatch.setattr(generation_apart, "figures", figures)
        time = step(generation, training, sync)
        return generation_apart.check(Given(workload=job, time=time, **case))  # type: ignore[arg-type]

    return say


def tail(gpus: int) -> float:
    """50 s for the last responses, however many GPUs there are: 60 s on 16, 70 s on 8, 66 s on 10."""
    return 50 + 160 / gpus


def test_the_best_division_lies_just_before_training_takes_longer(found) -> None:  # type: ignore[no-untyped-def]
    """On eight GPUs max(70, 30 x 16 / 8) + 10 = 80 s of 100 s, on ten max(66, 30 x 16 / 6) + 10 = 90 s."""
    said = found(60, tail)
    assert said is not None
    assert said.message.startswith("generation takes 60% of a step")
    assert "on 8 of 16 GPUs" in said.message
    assert "takes 80% of that at best" in said.message
    # A fifth of the step is the least that is named.
    assert found(60, lambda gpus: tail(gpus) + 0.1) is None


def test_the_best_division_may_be_where_training_takes_longer(found) -> None:  # type: ignore[no-untyped-def]
    """Half of a step of 100 s; on six GPUs max(60, 40 x 16 / 10) + 10 = 74 s, on four max(100, 53) + 10."""
    seconds = {2: 200, 4: 100, 6: 60, 8: 59, 10: 58, 12: 57, 14: 56}
    said = found(50, seconds.__getitem__, training=40)
    assert said is not None
    assert "generation takes 50% of a step" in said.message
    assert "on 6 of 16 GPUs" in said.message
    assert "takes 74% of that at best" in said.message
    # One second less is less than half.
    assert found(49, seconds.__getitem__, training=41) is None


def test_of_divisions_that_take_as_long_the_one_with_fewer_gpus_that_generate_is_named(found) -> None:  # type: ignore[no-untyped-def]
    """On six and on eight GPUs 60 s, where training takes 30 x 16 / 10 = 48 s and 30 x 16 / 8 = 60 s."""
    said = found(60, lambda _gpus: 60)
    assert said is not None
    assert "on 6 of 16 GPUs" in said.message


def test_generation_that_takes_longer_everywhere_gets_all_gpus_but_a_replica(found) -> None:  # type: ignore[no-untyped-def]
    """On 14 GPUs max(45, 2 x 16 / 2) + 8 = 53 s of 70 s."""
    said = found(60, lambda gpus: {12: 47, 14: 45}.get(gpus, 60), training=2, sync=8)
    assert said is not None
    assert "on 14 of 16 GPUs" in said.message
    assert "takes 76% of that at best" in said.message


def test_training_that_takes_longer_everywhere_leaves_one_replica(found) -> None:  # type: ignore[no-untyped-def]
    """On two GPUs max(20, 40 x 16 / 14 = 45.7) + 10 = 55.7 s of 100 s."""
    said = found(50, lambda _gpus: 20, training=40)
    assert said is not None
    assert "on 2 of 16 GPUs" in said.message
    assert "takes 56% of that at best" in said.message


def test_weights_that_take_no_time_to_carry(found) -> None:  # type: ignore[no-untyped-def]
    """On eight GPUs max(70, 60) = 70 s of 90 s."""
    said = found(60, tail, sync=0)
    assert said is not None
    assert "takes 78% of that at best" in said.message


def test_a_single_replica_is_not_divided(found) -> None:  # type: ignore[no-untyped-def]
    assert found(60, tail, job=JOB.with_rollout(tensor_parallel=16)) is None


def test_lengths_that_are_known_are_not_said_to_be_assumed(found) -> None:  # type: ignore[no-untyped-def]
    said = found(60, tail)
    assert [note.split(" ")[0] for note in said.notes] == ["verl", "Responses", "Lengths"]
    assert said.notes[0].endswith("one_step_off_policy")
    known = JOB.with_batch(lengths=Lengths(mean_prompt=500, mean_response=1500, response_p95=2500))
    assert len(found(60, tail, job=known).notes) == 2


@pytest.mark.parametrize(
    "job",
    [
        JOB.with_rollout(colocated=False),
        JOB.with_rollout(apart_with=()),
        replace(
            JOB,
            services=(
                Service(role=ServiceRole.REWARD, name="judge", model=None, gpus=16, shares_gpus=True),
                Service(role=ServiceRole.REWARD, name="other", model=None, gpus=8, shares_gpus=False),
            ),
        ),
    ],
)
def test_jobs_that_are_not_divided(job: Workload, found) -> None:  # type: ignore[no-untyped-def]
    assert found(60, tail, job=job) is None


def test_a_judge_on_gpus_of_its_own_does_not_keep_them_together(found) -> None:  # type: ignore[no-untyped-def]
    judge = Service(role=ServiceRole.REWARD, name="judge", model=None, gpus=8, shares_gpus=False)
    assert found(60, tail, job=replace(JOB, services=(judge,))) is not None


def test_a_job_that_lacks_memory_has_to_run_first(found) -> None:  # type: ignore[no-untyped-def]
    assert found(60, tail, lacking=object()) is None
