"""What a release does and a copy of verl does otherwise is read from the copy's code, through the command."""

import json
from copy import deepcopy
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
    defaults = deepcopy(dict(read_defaults("0.5.0", CONFIGS[0]).tree))  # which others read as well
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


OF_PROMPTS = """class ActorRolloutRefWorker:
    def __init__(self):
        if self._is_actor:
            self.config.actor.ppo_micro_batch_size //= self.device_mesh.shape[0]
            self.config.actor.ppo_micro_batch_size *= self.config.rollout.n
        if self._is_rollout:
            self.config.rollout.log_prob_micro_batch_size //= self.device_mesh.shape[0]
            self.config.rollout.log_prob_micro_batch_size *= self.config.rollout.n
"""


@pytest.mark.parametrize(("repeats", "sequences"), [(True, 4 * 5), (False, 4)])
def test_micro_batches_of_a_copy_take_all_responses_of_a_prompt(
    repository: Path, repeats: bool, sequences: int
) -> None:
    """Copies of verl 0.1: ``workers/fsdp_workers.py:96-109``."""
    workers = OF_PROMPTS if repeats else OF_PROMPTS.replace("*= self.config.rollout.n", "*= 1")
    launch = LAUNCH.replace("use_dynamic_bsz=True", "ppo_micro_batch_size=32")
    role = "actor_rollout_ref"
    launch += f" {role}.rollout.n=5 {role}.rollout.log_prob_micro_batch_size=32"
    write(repository, workers=workers, launch=f"{launch} {role}.ref.log_prob_micro_batch_size=32")
    job = advice(repository, "--verl-version", "0.3.0.post1")["workload"]

    sizes = [job["actor"]["update"], job["actor"]["log_prob"], job["reference"]["log_prob"]]
    assert [one["batching"]["micro_batch_sequences"] for one in sizes] == [sequences] * 3


@pytest.mark.parametrize(("size", "refused"), [(4, True), (8, False)])
def test_a_micro_batch_that_leaves_ranks_of_the_copy_without_a_sequence(
    repository: Path, size: int, refused: bool
) -> None:
    """Copies of verl 0.1: ``fsdp_workers.py:97-109`` divides, ``dp_actor.py:207`` fails."""
    launch = LAUNCH.replace("use_dynamic_bsz=True", f"ppo_micro_batch_size={size}")
    role = "actor_rollout_ref"
    sizes = f"{role}.rollout.log_prob_micro_batch_size=8 {role}.ref.log_prob_micro_batch_size=8"
    write(repository, workers=OF_PROMPTS, launch=f"{launch} {sizes}")
    answer = advice(repository, "--verl-version", "0.3.0.post1")

    assert (answer["verdict"] == "will_not_start") is refused
    assert ("CFG191" in codes(answer)) is refused
    if refused:
        (finding,) = (finding for finding in answer["findings"] if finding["code"] == "CFG191")
        assert "It stops at verl/workers/fsdp_workers.py:4 of this copy." in finding["notes"]


DIVIDES = """class DataParallelPPOActor:
    def update_policy(self, data):
        self.gradient_accumulation = self.config.ppo_mini_batch_size // self.config.ppo_micro_batch_size
        if self.config.use_dynamic_bsz:
            loss = policy_loss * (len(data) / self.config.ppo_mini_batch_size)
        else:
            loss = policy_loss / self.gradient_accumulation
"""
ALWAYS = DIVIDES.replace("loss = policy_loss * (len(data) / self.config.ppo_mini_batch_size)", "pass")


@pytest.mark.parametrize(("actor", "scales"), [(DIVIDES, False), (ALWAYS, True)])
def test_a_budget_under_which_the_copy_divides_the_loss_by_another_number(
    repository: Path, actor: str, scales: bool
) -> None:
    """Copies of verl 0.1 divide in both cases; 0.3.0.post1 ``workers/actor/dp_actor.py:311-315``."""
    (repository / "verl" / "workers" / "dp_actor.py").write_text(
        f"{actor}        self.config.ppo_max_token_len_per_gpu, self.config.log_prob_max_token_len_per_gpu\n"
    )
    write(repository, workers=TIMEOUT)
    budgeted = codes(advice(repository, "--verl-version", "0.3.0.post1"))
    role = "actor_rollout_ref"
    static = LAUNCH.replace("use_dynamic_bsz=True", "ppo_micro_batch_size=128")
    sizes = f"{role}.rollout.log_prob_micro_batch_size=128 {role}.ref.log_prob_micro_batch_size=128"
    long = "data.max_response_length=1024 data.train_batch_size=512"
    write(repository, workers=TIMEOUT, launch=f"{static} {sizes} {long}")
    counted = codes(advice(repository, "--verl-version", "0.3.0.post1"))

    assert ("CFG190" in budgeted) is scales
    assert ("BAT001" in counted) is not scales


PACKS_SOME = """class ActorRolloutRefWorker:
    def _build_model_optimizer(self):
        use_remove_padding = self.config.model.get("use_remove_padding", False)
        if use_remove_padding:
            from verl.models.registry import check_model_support_rmpad
            check_model_support_rmpad(actor_model_config.model_type)
"""
PACKED = """_REOVEPAD_MODELS = {listed!r}

def check_model_support_rmpad(model_type):
    if model_type not in _REOVEPAD_MODELS.keys():
        raise ValueError(f"Model architecture {{model_type}} is not supported for now.")
"""


@pytest.mark.parametrize(
    ("model", "own", "refused"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "", False),
        ("Qwen/Qwen2.5-VL-3B-Instruct", "", True),
        ("Qwen/Qwen2.5-VL-3B-Instruct", "qwen2_5_vl", False),
        ("google/gemma-3-12b-it", "", True),
    ],
)
def test_a_type_that_the_workers_of_the_copy_do_not_pack(
    repository: Path, model: str, own: str, refused: bool
) -> None:
    """Copies of verl 0.1: ``check_model_support_rmpad`` of ``models/registry.py``."""
    listed = dict.fromkeys(("llama", "mistral", "gemma", "qwen2", own), "Config")
    (repository / "verl" / "models").mkdir()
    (repository / "verl" / "models" / "registry.py").write_text(PACKED.format(listed=listed))
    launch = f"{LAUNCH.replace('Qwen/Qwen2.5-7B-Instruct', model)} data.max_response_length=2048"
    write(repository, workers=PACKS_SOME, launch=launch)
    packed = advice(repository, "--verl-version", "0.3.0.post1")
    unpacked = launch.replace("use_remove_padding=True", "use_remove_padding=False")
    write(repository, workers=PACKS_SOME, launch=unpacked)
    padded = advice(repository, "--verl-version", "0.3.0.post1")

    assert ("CFG189" in codes(packed)) is refused
    assert (packed["verdict"] == "will_not_start") is refused
    proposed = [text for finding in padded["findings"] for text in finding["overrides"]]
    assert ("actor_rollout_ref.model.use_remove_padding=True" in proposed) is not refused
