"""What a release does and a copy of verl does otherwise is read from the copy's code, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.inputs.tree import Tree
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.model.use_remove_padding=True trainer.n_gpus_per_node=8"""
REFERENCE = """class ActorRolloutRefWorker:
    def __init__(self, config, role):
        if self._is_ref:
            self._is_offload_param = self.config.ref.fsdp_config.get("param_offload", False)

    def _build_model_optimizer(self, role):
        {wrapped}
"""
STREAMS = "cpu_offload = None if role == 'actor' else CPUOffload(offload_params=True)"
BY_HAND = "actor_module_fsdp = FSDP(actor_module, device_id=torch.cuda.current_device())"
HEADS = """class ActorRolloutRefWorker:
    def build(self):
        fused_kernel_options = self.config.model.get("fused_kernel_options", None)
        backend = fused_kernel_options.get("impl_backend", None) if fused_kernel_options else None
"""
TIMEOUT = """class ActorRolloutRefWorker:
    def __init__(self, config):
        init_process_group(timeout=self.config.get("nccl_timeout", 600))
"""
ROLES_FOR_KL = """def run(config):
    config.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu
    if config.algorithm.use_kl_in_reward or config.actor_rollout_ref.actor.use_kl_loss:
        role_worker_mapping[Role.RefPolicy] = ActorRolloutRefWorker
"""
ALL_ROLES = """def run(config):
    config.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu
    role_worker_mapping = {Role.RefPolicy: ActorRolloutRefWorker}
"""
GUARD = """def check_mutually_exclusive(mbs, mbs_per_gpu):
    if mbs is None and mbs_per_gpu is None:
        raise ValueError("set one of them")
"""
OWN_ROLLOUT = """class ActorRolloutRefWorker:
    def _build_rollout(self):
        if self.config.rollout.name == "vllm":
            rollout_class = vLLMRollout
        elif self.config.rollout.name == "vllm_with_tool":
            rollout_class = vLLMRolloutWithTool
"""
NO_LEGACY = 'raise NotImplementedError("support legacy worker implementation")\n'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl, whose code a test writes."""
    for name in (".git", "verl/trainer/config", "verl/workers", "verl/experimental"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text("config.ref.fsdp_config.param_offload\n")
    return tmp_path


def write(repository: Path, *, workers: str, launch: str = LAUNCH, defaults: Tree | None = None) -> None:
    (repository / "verl" / "workers" / "fsdp_workers.py").write_text(workers)
    (repository / "run.sh").write_text(launch)
    if defaults is not None:
        (repository / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text(yaml.safe_dump(defaults))


def advice(repository: Path, *arguments: str) -> dict[str, Any]:
    answer = run("advise", str(repository / "run.sh"), *arguments, "--gpu", "h100-sxm", "-f", "json")
    assert answer.code == 0, answer.err
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


def codes(answer: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in answer["findings"]}


def update_bytes(answer: dict[str, Any]) -> float:
    phases = {phase["phase"]: phase for phase in answer["memory"]["phases"]}
    return float(phases["update_actor"]["peak_bytes"])


@pytest.mark.parametrize(("wrapped", "streams"), [(STREAMS, True), (BY_HAND, False)])
def test_a_reference_stays_on_the_card_where_the_copy_moves_it_by_hand(
    repository: Path, wrapped: str, streams: bool
) -> None:
    workers = REFERENCE.format(wrapped=wrapped)
    write(repository, workers=workers)
    held = advice(repository)
    write(
        repository,
        workers=workers,
        launch=f"{LAUNCH} actor_rollout_ref.ref.fsdp_config.param_offload=True",
    )
    offloaded = advice(repository)

    engines = [answer["workload"]["reference"]["engine"] for answer in (held, offloaded)]
    assert [engine["streamed_offload"] for engine in engines] == [streams, streams]
    assert [engine["param_offload"] for engine in engines] == [False, not streams]
    assert ("CFG106" in codes(offloaded)) is streams
    assert (update_bytes(held) > update_bytes(offloaded)) is not streams


def test_a_fused_head_that_the_copy_leaves_unpatched(repository: Path) -> None:
    defaults = dict(read_defaults("0.5.0", CONFIGS[0]).tree)
    fused = f"{LAUNCH} actor_rollout_ref.model.use_fused_kernels=True"
    write(repository, workers=HEADS, launch=fused, defaults=defaults)
    named = codes(advice(repository))
    del defaults["actor_rollout_ref"]["model"]["fused_kernel_options"]
    write(repository, workers=HEADS, launch=fused, defaults=defaults)
    unset = advice(repository)

    assert "CFG169" in named and "CFG124" not in named
    assert "CFG124" in codes(unset) and "CFG169" not in codes(unset)


@pytest.mark.parametrize(
    ("main", "key", "there"),
    [
        (ALL_ROLES, "", True),
        (ROLES_FOR_KL, "", False),
        (ROLES_FOR_KL, " algorithm.use_kl_in_reward=True", True),
        (ROLES_FOR_KL, " actor_rollout_ref.actor.use_kl_loss=True", True),
    ],
)
def test_a_reference_that_an_old_copy_builds_for_a_kl_term_alone(
    repository: Path, main: str, key: str, there: bool
) -> None:
    defaults = dict(read_defaults("0.3.0.post1", CONFIGS[0]).tree)
    defaults["algorithm"] = {**defaults["algorithm"], "use_kl_in_reward": False}
    launch = LAUNCH.replace("use_dynamic_bsz", "ppo_micro_batch_size_per_gpu").replace("gpu=True", "gpu=1")
    launch = launch.replace(" actor_rollout_ref.actor.use_kl_loss=True", "")
    (repository / "verl" / "trainer" / "main_ppo.py").write_text(main)
    (repository / "verl" / "trainer" / "ray_trainer.py").write_text(GUARD)
    size = " actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1"
    write(repository, workers=TIMEOUT, launch=f"{launch}{size}{key}", defaults=defaults)
    answer = advice(repository, "--verl-version", "0.3.0.post1")

    assert (answer["workload"]["reference"] is not None) is there
    assert ("CFG104" in codes(answer)) is there


def test_a_rollout_that_the_copy_builds_on_an_engine_is_taken_for_it(repository: Path) -> None:
    launch = LAUNCH.replace("rollout.name=vllm", "rollout.name=vllm_with_tool")
    write(repository, workers=OWN_ROLLOUT)
    plain = advice(repository)
    write(repository, workers=OWN_ROLLOUT, launch=launch)
    own = advice(repository)

    assert own["workload"]["rollout"]["engine"] == "vllm"
    assert update_bytes(own) == update_bytes(plain)
    assert {part["key"] for part in own["left_out"]} - {part["key"] for part in plain["left_out"]} == {
        "actor_rollout_ref.rollout.name"
    }


@pytest.mark.parametrize(
    ("workers", "name"), [(TIMEOUT, "vllm_with_tool"), (OWN_ROLLOUT, "vllm_tools"), (OWN_ROLLOUT, "own")]
)
def test_a_rollout_that_nobody_builds_is_refused(repository: Path, workers: str, name: str) -> None:
    write(repository, workers=workers, launch=LAUNCH.replace("rollout.name=vllm", f"rollout.name={name}"))
    answer = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm")

    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert f"got '{name}'" in answer.err


@pytest.mark.parametrize(("refuses", "dead"), [(False, False), (True, True)])
def test_a_key_that_older_workers_of_the_copy_read(repository: Path, refuses: bool, dead: bool) -> None:
    launch = LAUNCH.replace("trainer.main_ppo", "experimental.fully_async_policy.fully_async_main")
    (repository / "verl" / "experimental" / "parts.py").write_text(NO_LEGACY if refuses else "pass\n")
    write(
        repository,
        workers=TIMEOUT,
        launch=f"{launch} actor_rollout_ref.hybrid_engine=False actor_rollout_ref.nccl_timeout=7200",
    )

    assert ("CFG101" in codes(advice(repository, "--verl-version", "0.7.1"))) is dead
