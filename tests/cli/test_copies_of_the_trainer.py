"""A launch in a repository with a copy of verl is judged by the code of that copy, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import read_defaults

pytestmark = pytest.mark.sampled(12)

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.rollout.temperature=0 \\
    actor_rollout_ref.rollout.val_kwargs.do_sample=True trainer.n_gpus_per_node=8"""
REFUSES = """def validate_config(config):
    if config.actor_rollout_ref.rollout.val_kwargs.do_sample:
        assert config.actor_rollout_ref.rollout.temperature > 0
"""
LIGER = 'if self.config.model.get("use_liger", False):\n    apply()\n'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl that refuses nothing."""
    for name in (".git", "verl/trainer", "verl/workers"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "run.sh").write_text(LAUNCH)
    (tmp_path / "verl" / "__init__.py").touch()
    return tmp_path


def advice(repository: Path, *arguments: str) -> dict[str, Any]:
    answer = run("advise", str(repository / "run.sh"), *arguments, "--gpu", "h100-sxm", "-f", "json")
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


def test_what_the_copy_does_not_refuse_is_a_warning(repository: Path) -> None:
    answer = advice(repository)
    finding = next(item for item in answer["findings"] if item["code"] == "CFG118")

    assert answer["verdict"] == "fits"
    assert finding["severity"] == "warning"
    # in front, where nothing that is cut for want of room takes it away
    assert finding["message"].startswith(f"the code in {repository.name}/verl was not found to do so: ")


DEALS_OUT = """class DataParallelPPOActor:
    def _get_micro_batches(self, data):
        if "multi_modal_inputs" in data.non_tensor_batch:
            has_multi_modal_inputs = True
        if has_multi_modal_inputs:
            if data.meta_info["use_dynamic_bsz"]:
                batches, textual_indices = rearrange_micro_batches(batch=data.batch)
                return batches, textual_indices
        return data.batch.split(1), None
"""


@pytest.mark.parametrize("dealt", [True, False])
def test_what_the_copy_is_found_to_do_otherwise_is_not_told(repository: Path, dealt: bool) -> None:
    """Copies of verl 0.3.1 may deal images out with their sequences, as 0.4.1 does."""
    code = DEALS_OUT if dealt else DEALS_OUT.replace("textual_indices", "order")
    (repository / "verl/workers/dp_actor.py").write_text(code)
    (repository / "run.sh").write_text(f"{LAUNCH} data.image_key=images".replace("2.5-7B", "2.5-VL-7B"))
    answer = advice(repository, "--verl-version", "0.4.0")
    assert ("CFG188" in [item["code"] for item in answer["findings"]]) is not dealt


def test_what_the_copy_does_not_refuse_is_left_to_the_full_answer(repository: Path) -> None:
    asked = ("advise", str(repository / "run.sh"), "--gpu", "h100-sxm")

    assert "CFG118" not in run(*asked).out
    assert "CFG118" in run(*asked, "--full").out


BUILDS_REFERENCE = """class ActorRolloutRefWorker:
    def init_model(self):
        ref_model_path = self.config.ref.model.get("path", self.config.model.path)
        self.ref_module_fsdp = self._build_model_optimizer(model_path=ref_model_path)
"""


@pytest.mark.parametrize("kl", [False, True])
def test_a_path_of_the_reference_is_none_that_the_copy_adds(repository: Path, kl: bool) -> None:
    """Nor is it left out: where there is a reference, it is priced as the model of that path."""
    (repository / "verl" / "workers" / "fsdp_workers.py").write_text(BUILDS_REFERENCE)
    (repository / "verl" / "trainer" / "main_ppo.py").write_text("def run_ppo(config):\n    pass\n")
    path = "+actor_rollout_ref.ref.model.path=Qwen/Qwen2.5-3B-Instruct"
    (repository / "run.sh").write_text(f"{LAUNCH} {path} actor_rollout_ref.actor.use_kl_loss={kl}")
    told = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.6.0").out
    assert "the models of" not in told
    assert "another reference" not in told
    assert ("ref_log_prob" in told) is kl


EXCHANGES = """def all_to_all_tensor(local_input, scatter_dim, gather_dim, group):
    world_size = dist.get_world_size(group)
    input_list = [t.contiguous() for t in torch.tensor_split(local_input, world_size, scatter_dim)]
    output_list = [torch.empty_like(input_list[0]) for _ in range(world_size)]
    dist.all_to_all(output_list, input_list, group=group)
    return torch.cat(output_list, dim=gather_dim)
"""


def test_heads_that_do_not_divide_fail_in_the_exchange_of_a_copy_that_asserts_nothing(
    repository: Path,
) -> None:
    """8 ranks share 28 heads of attention as 4, 4, 4, 4, 3, 3, 3 and 3, and all receive 4."""
    sequence_parallel = "actor_rollout_ref.actor.ulysses_sequence_parallel_size=8"
    (repository / "run.sh").write_text(f"{LAUNCH} {sequence_parallel}")
    (repository / "verl" / "ulysses.py").write_text(EXCHANGES)
    finding = next(item for item in advice(repository)["findings"] if item["code"] == "CFG115")
    assert finding["severity"] == "error"
    assert finding["message"].endswith("fails in the first step; legal sizes are 1, 2, 4")
    assert any(note.startswith("It stops at verl/ulysses.py:") for note in finding["notes"])
    assert finding["overrides"] == ["actor_rollout_ref.actor.ulysses_sequence_parallel_size=4"]
    told = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm").out
    assert told.startswith("WILL NOT START  refused by CFG115")


def test_what_the_copy_refuses_is_refused_with_its_line(repository: Path) -> None:
    (repository / "verl" / "trainer" / "house.py").write_text(REFUSES)
    answer = advice(repository)
    finding = next(item for item in answer["findings"] if item["code"] == "CFG118")

    assert answer["verdict"] == "will_not_start"
    assert "It stops at verl/trainer/house.py:3 of this copy." in finding["notes"]


def test_without_a_copy_the_release_refuses(repository: Path) -> None:
    (repository / "verl").rename(repository / "house")

    assert advice(repository)["verdict"] == "will_not_start"


def test_a_clone_beside_the_repository_is_not_its_copy(repository: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "run.sh").write_text(LAUNCH)

    assert advice(project)["verdict"] == "will_not_start"


def test_a_word_that_the_copy_registers_is_known_there(repository: Path) -> None:
    (repository / "run.sh").write_text(
        LAUNCH.replace("temperature=0", "temperature=1").replace("=grpo", "=house")
    )
    before = {item["code"] for item in advice(repository)["findings"]}
    (repository / "verl" / "trainer" / "house.py").write_text(
        '@register_adv_est("house")\ndef house(): ...\n'
    )
    after = {item["code"] for item in advice(repository)["findings"]}

    assert "CFG148" in before
    assert "CFG148" not in after


def test_a_key_that_the_copy_never_names_is_not_proposed(repository: Path) -> None:
    def proposed() -> set[str]:
        texts = [text for item in advice(repository)["findings"] for text in item["overrides"]]
        return {text.lstrip("+").partition("=")[0] for text in texts}

    (repository / "verl" / "trainer" / "house.py").write_text(LIGER)
    read = proposed()
    (repository / "verl" / "trainer" / "house.py").write_text("pass\n")

    assert "actor_rollout_ref.model.use_liger" in read
    assert not {key for key in proposed() if key.endswith((".use_liger", ".param_offload"))}


def test_a_configuration_that_cannot_be_composed_is_the_headline(repository: Path) -> None:
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    (config / "ppo_trainer.yaml").write_text("defaults:\n  - data@data: house\n  - _self_\nhouse: 1\n")
    (repository / "run.sh").write_text(f"{LAUNCH} data.of_house=1")
    answer = advice(repository)
    text = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm").out

    assert text.startswith("CANNOT SAY  the configuration ppo_trainer cannot be composed:")
    assert "'data/house' is not beside the configuration, and Hydra stops" in " ".join(text.split())
    assert (answer["verdict"], answer["memory_verdict"]) == ("cannot_say", "fits")
    assert answer["combination"] is None


@pytest.mark.parametrize(
    ("generated", "section", "read"),
    [(True, "house: 1", True), (False, "house: 1", False), (True, "house: [1", False)],
)
def test_a_section_that_only_the_generated_configuration_has(
    repository: Path, generated: bool, section: str, read: bool
) -> None:
    """A repository that ignores ``data/`` loses ``config/data``; what is malformed is no matter of that."""
    config = repository / "verl" / "trainer" / "config"
    (config / "model").mkdir(parents=True)
    (config / "model" / "house.yaml").write_text(section)
    whole = dict(read_defaults("0.5.0", "ppo_trainer").tree)
    if generated:
        (config / "_generated_ppo_trainer.yaml").write_text(yaml.safe_dump(whole))
    listed = {"defaults": [{"data@data": "legacy_data"}, {"model@house": "house"}, "_self_"]}
    own = {name: part for name, part in whole.items() if name != "data"}
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(listed | own))
    answer = advice(repository)
    text = " ".join(run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm").out.split())

    assert (answer["verdict"] != "cannot_say") is read
    assert ("not here: data, whose files are not in this checkout" in text) is read


@pytest.mark.parametrize("names", [(), ("__init__.py",)])
def test_a_package_without_a_trainer_refuses_nothing(repository: Path, names: tuple[str, ...]) -> None:
    (repository / "verl").rename(repository / "house")
    (repository / "verl").mkdir()
    for name in names:
        (repository / "verl" / name).write_text("")
    answer = advice(repository)

    assert (answer["verdict"], answer["memory_verdict"]) == ("cannot_say", "fits")
    assert answer["premises"]["missing_configuration"]["name"] == "ppo_trainer"


@pytest.mark.parametrize(
    ("generated", "borne_out"),
    [
        ("manager = LLMGenerationManager(tokenizer)", True),
        ("from search_r1.llm_agent import generation\nmanager = generation.Manager()", True),
        ("from search_r1.llm_agent.generation import LLMGenerationManager\nHouseAgent(tokenizer)", False),
        ("manager = HouseAgent(tokenizer)  # in place of LLMGenerationManager", False),
    ],
)
def test_a_project_that_keys_tell_is_borne_out_by_what_generates(
    repository: Path, generated: str, borne_out: bool
) -> None:
    (repository / "run.sh").write_text(LAUNCH.replace("temperature=0", "temperature=1") + " +max_turns=4")

    def project() -> bool:
        return "project: Search-R1" in run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm").out

    assert not project()
    (repository / "verl" / "trainer" / "house.py").write_text(
        f"retriever, do_search, max_turns, data.max_start_length, data.max_obs_length\n{generated}\n"
    )
    assert project() is borne_out


def test_a_project_is_told_by_the_trainer_that_its_program_runs(repository: Path) -> None:
    """The project's own trainer may lie beside one with another loop, which is the one that is started."""
    keys = " +max_turns=4 +data.max_start_length=256"
    (repository / "run.sh").write_text(LAUNCH.replace("temperature=0", "temperature=1") + keys)
    trainer = repository / "verl" / "trainer"
    words = "retriever, do_search, max_turns, data.max_start_length, data.max_obs_length\n"
    (trainer / "own_trainer.py").write_text(f"{words}LLMGenerationManager(tokenizer)\n")
    (trainer / "house_trainer.py").write_text("HouseAgent(tokenizer)\n")

    def project(name: str) -> bool:
        (trainer / "main_ppo.py").write_text(f"from verl.trainer.{name} import RayPPOTrainer\n")
        return "project: Search-R1" in run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm").out

    assert project("own_trainer")
    assert not project("house_trainer")
    (trainer / "house_trainer.py").write_text("from verl.trainer.own_trainer import RayPPOTrainer as Base\n")
    assert project("house_trainer")


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("requirements.txt", "torch\nvllm<=0.6.3  # later ones are not supported\n", "0.6.3"),
        ("requirements.txt", "# vllm==0.9.9\nvllm==0.8.4\n", "0.8.4"),
        ("setup.py", 'VLLM_REQUIRES = ["tensordict<=0.6.2", "vllm>=0.7.3,<=0.8.3"]\n', "0.8.3"),
        ("pyproject.toml", 'vllm = ["vllm>=0.7.3,<=0.9.2"]\n', "0.9.2"),
        ("requirements.txt", "vllm>=0.8.0\nvllm-flash-attn==2.6.1\n", None),
        ("house_environment.yml", "dependencies:\n  - pip:\n      - vllm==0.8.4\n", "0.8.4"),
        ("setup.py", 'VLLM_REQUIRES = ["vllm[audio,video]>=0.7.3,<=0.8.3"]\n', "0.8.3"),
    ],
)
def test_the_engine_is_the_newest_that_the_copy_allows(
    repository: Path, file: str, text: str, version: str | None
) -> None:
    release = advice(repository, "--verl-version", "0.4.1")["premises"]["engine"]
    (repository / file).write_text(text)
    premises = advice(repository, "--verl-version", "0.4.1")["premises"]
    if version is None:
        assert premises["engine"] == release
        return
    assert premises["engine"] == f"vLLM {version}" != release
    place, pinned = f"{repository.name}/{file}", f"\n{text}".find(f"vllm=={version}") > 0
    assert premises["engine_reason"] == (f"{place} pins it" if pinned else f"the newest that {place} allows")
    asked = advice(repository, "--verl-version", "0.4.1", "--engine-version", "0.7.3")
    assert asked["premises"]["engine"] == "vLLM 0.7.3"


def test_what_a_readme_above_installs_counts_before_a_script_of_the_copy(tmp_path: Path) -> None:
    """It is followed by users, who install their own version, be it behind what such a script installs."""
    for name in (".git", "verl/verl/trainer", "verl/verl/workers", "verl/scripts/train"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl/verl/__init__.py").touch()
    (tmp_path / "verl/verl/trainer/main_ppo.py").write_text("def run_ppo(config):\n    pass\n")
    script = tmp_path / "verl/scripts/train/run.sh"
    script.write_text(LAUNCH)
    (tmp_path / "verl/scripts/install_engines.sh").write_text("pip install vllm==0.8.5\n")

    def engine() -> str:
        options = ("--gpu", "h100-sxm", "--verl-version", "0.4.1", "-f", "json")
        return str(json.loads(run("advise", str(script), *options).out)["premises"]["engine"])

    assert engine() == "vLLM 0.8.5"
    (tmp_path / "README.md").write_text("    bash scripts/install_engines.sh\n    pip install vllm==0.7.3\n")
    assert engine() == "vLLM 0.7.3"


def test_the_version_of_sglang_that_the_copy_pins_with_its_extras(repository: Path) -> None:
    script = repository / "run.sh"
    script.write_text(script.read_text().replace("rollout.name=vllm", "rollout.name=sglang"))
    (repository / "requirements_sglang.txt").write_text("sglang[srt,openai]==0.4.9.post6\n")
    assert advice(repository, "--verl-version", "0.5.0")["premises"]["engine"] == "SGLang 0.4.9.post6"


def without(tree: Any, end: str) -> Any:
    if not isinstance(tree, dict):
        return tree
    return {key: without(value, end) for key, value in tree.items() if not key.endswith(end)}


def test_a_copy_that_counts_prompts_is_given_whole_groups_that_divide(repository: Path) -> None:
    """Copies of verl 0.1 multiply a micro-batch by the responses of a prompt, and assert that it divides."""
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    own = without(dict(read_defaults("0.3.0.post1", "ppo_trainer").tree), "_per_gpu")
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(own))
    (repository / "verl" / "trainer" / "main_ppo.py").write_text("pass\n")
    (repository / "verl" / "workers" / "fsdp_workers.py").write_text(
        "self.config.actor.ppo_micro_batch_size *= self.config.rollout.n\n"
        "self.config.rollout.log_prob_micro_batch_size *= self.config.rollout.n\n"
        "self.config.ref.log_prob_micro_batch_size *= self.config.rollout.n\n"
    )
    role = "actor_rollout_ref"
    (repository / "run.sh").write_text(
        f"""python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.max_response_length=1024 \
    {role}.model.path=Qwen/Qwen2.5-3B-Instruct {role}.rollout.name=vllm data.train_batch_size=1024 \
    {role}.actor.ppo_mini_batch_size=256 {role}.actor.ppo_micro_batch_size=128 {role}.rollout.n=5 \
    {role}.rollout.log_prob_micro_batch_size=64 {role}.ref.log_prob_micro_batch_size=64 \
    {role}.model.use_remove_padding=True {role}.model.enable_gradient_checkpointing=True \
    {role}.rollout.tensor_model_parallel_size=1 trainer.n_gpus_per_node=8"""
    )
    answer = advice(repository)
    (finding,) = (item for item in answer["findings"] if item["code"] == "BAT005")
    (override,) = finding["overrides"]
    key, _is, size = override.partition("=")
    assert key == f"{role}.actor.ppo_micro_batch_size"
    prompts, left = divmod(int(size), 8)
    assert prompts and not left
    assert 256 * 5 // 8 % (prompts * 5) == 0


def test_a_copy_that_counts_over_all_ranks_is_given_sizes_that_do(repository: Path) -> None:
    """Copies of the oldest releases have no micro-batch per GPU, and a job there had no way out."""
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    own = without(dict(read_defaults("0.3.0.post1", "ppo_trainer").tree), "_per_gpu")
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(own))
    (repository / "verl" / "workers" / "actor.py").write_text("size = config.ppo_micro_batch_size\n")
    (repository / "verl" / "workers" / "rollout.py").write_text("size = config.log_prob_micro_batch_size\n")
    role = "actor_rollout_ref"
    (repository / "run.sh").write_text(
        f"""python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.max_response_length=3072 \\
    {role}.model.path=Qwen/Qwen2.5-3B-Instruct {role}.rollout.name=vllm data.train_batch_size=512 \\
    {role}.actor.ppo_mini_batch_size=128 {role}.actor.ppo_micro_batch_size=16 \\
    {role}.rollout.log_prob_micro_batch_size=256 {role}.ref.log_prob_micro_batch_size=256 \\
    {role}.rollout.tensor_model_parallel_size=1 trainer.n_gpus_per_node=8"""
    )
    answer = advice(repository)
    assert answer["premises"]["release"].startswith("0.3.0")
    (finding,) = (item for item in answer["findings"] if item["code"] == "BAT010")
    assert finding["price"]["after_bytes"] < finding["price"]["before_bytes"]
    sizes = [override.partition("=") for override in finding["overrides"]]
    assert {key for key, _is, _size in sizes} <= {
        f"{role}.rollout.log_prob_micro_batch_size",
        f"{role}.ref.log_prob_micro_batch_size",
    }
    assert all(0 < int(size) < 256 and int(size) % 8 == 0 for _key, _is, size in sizes)
    assert "CFG103" not in {item["code"] for item in answer["findings"]}  # there is no other form to set


TUNES = """torchrun --standalone --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer \\
    model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct data.train_batch_size=256 data.max_length=1024 \\
    data.micro_batch_size={size}"""
NORMALIZES = """def _normalize_config_bsz(self):
    assert self.config.data.train_batch_size % dp_size == 0
    assert self.config.data.micro_batch_size % dp_size == 0
"""


@pytest.mark.parametrize(("size", "own"), [(32, 4), (128, 16), (8, 1)])
@pytest.mark.parametrize("per_gpu", [False, True])
def test_fine_tuning_of_a_copy_counts_micro_batches_over_all_ranks(
    repository: Path, size: int, own: int, per_gpu: bool
) -> None:
    """Copies of verl 0.1: ``trainer/fsdp_sft_trainer.py:87-90, 261``; a release reads the other key alone."""
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    tree = dict(read_defaults("0.4.1", "sft_trainer").tree)
    (config / "sft_trainer.yaml").write_text(yaml.safe_dump(tree if per_gpu else without(tree, "_per_gpu")))
    key = f"micro_batch_size{'_per_gpu' if per_gpu else ''}"
    code = NORMALIZES.replace("micro_batch_size", key)
    (repository / "verl" / "trainer" / "fsdp_sft_trainer.py").write_text(code)
    (repository / "run.sh").write_text(TUNES.format(size=size))
    answer = advice(repository)
    batching = answer["workload"]["actor"]["update"]["batching"]
    assert batching["micro_batch_sequences"] == (4 if per_gpu else own)
    sizes = [text for item in answer["findings"] for text in item["overrides"] if "micro_batch" in text]
    assert {text.partition("=")[0] for text in sizes} <= {f"data.{key}"}
    assert sizes or own == 16


def test_ranks_cannot_share_a_micro_batch_of_fine_tuning(repository: Path) -> None:
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    tree = without(dict(read_defaults("0.4.1", "sft_trainer").tree), "_per_gpu")
    (config / "sft_trainer.yaml").write_text(yaml.safe_dump(tree))
    (repository / "verl" / "trainer" / "fsdp_sft_trainer.py").write_text(NORMALIZES)
    (repository / "run.sh").write_text(TUNES.format(size=20))
    answer = advice(repository)
    (finding,) = (item for item in answer["findings"] if item["code"] == "CFG181")
    assert answer["verdict"] == "will_not_start"
    assert finding["overrides"] == ["data.micro_batch_size=24"]


@pytest.mark.parametrize("named", [True, False])
def test_a_budget_that_the_copy_never_hands_on_is_not_too_small(repository: Path, named: bool) -> None:
    """Copies from before 0.2 build the engine without one."""
    (repository / "verl" / "trainer" / "main_ppo.py").write_text("pass\n")
    (repository / "verl" / "workers" / "vllm_rollout.py").write_text(
        f'budget = config.get("{"max_num_batched_tokens" if named else "max_num_seqs"}")\n'
    )
    (repository / "run.sh").write_text(
        f"{LAUNCH.replace('temperature=0', 'temperature=1')} data.max_prompt_length=16384"
    )
    found = {item["code"] for item in advice(repository, "--verl-version", "0.3.0.post1")["findings"]}
    assert ("CFG130" in found) is named


@pytest.mark.parametrize("off", [True, False])
def test_a_budget_that_a_copy_refuses_without_chunked_prefill_stops_nothing_with_it(
    repository: Path, off: bool
) -> None:
    """A copy may raise where vLLM itself does, and the release in the other case."""
    (repository / "verl" / "trainer" / "main_ppo.py").write_text("pass\n")
    (repository / "verl" / "workers" / "vllm_rollout.py").write_text(
        f"if max_num_batched_tokens < max_model_len and {'not ' * off}config.enable_chunked_prefill:\n"
        '    raise ValueError("too small")\n'
    )
    (repository / "run.sh").write_text(
        f"{LAUNCH.replace('temperature=0', 'temperature=1')} data.max_prompt_length=16384"
    )
    answer = advice(repository, "--verl-version", "0.4.1")
    refused = [item["code"] for item in answer["findings"] if item["refuses"]]
    assert ("CFG130" in refused) is not off


def in_groups(tree: dict[str, Any], folder: Path, name: str, *, lost: str) -> None:
    """Write a configuration as releases since 0.5 do: a file for each group, one of which is lost."""
    plain = {key: value for key, value in tree.items() if not isinstance(value, dict)}
    groups = [key for key in tree if key not in plain]
    for group in groups:
        if group != lost:
            (folder / group).mkdir(parents=True)
            (folder / group / f"{group}.yaml").write_text(yaml.safe_dump(tree[group]))
    entries = [*({f"{group}@{group}": group} for group in groups), "_self_"]
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({"defaults": entries, **plain}))


@pytest.fixture
def torn(repository: Path) -> Path:
    """A repository whose copy of verl 0.4.1 has lost the file of its group ``data``."""
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    in_groups(dict(read_defaults("0.4.1", "ppo_trainer").tree), config, "ppo_trainer", lost="data")
    (repository / "verl" / "version").mkdir()
    (repository / "verl" / "version" / "version").write_text("0.5.0.dev\n")
    (repository / "setup.py").write_text('VLLM_REQUIRES = ["tensordict<=0.6.2", "vllm<=0.8.4"]\n')
    return repository


def test_a_copy_that_cannot_be_composed_tells_its_release_all_the_same(torn: Path) -> None:
    answer = advice(torn)
    premises = answer["premises"]

    assert answer["verdict"] == "cannot_say"
    assert premises["missing_configuration"]["name"] == "ppo_trainer"
    assert premises["release"] == "0.4.1"
    assert premises["release_reason"].endswith("is most like, as far as it can be read: no key differs")
    assert premises["engine"] == "vLLM 0.8.4"


def test_a_copy_of_which_nothing_can_be_read_tells_its_release_by_its_version_file(torn: Path) -> None:
    (torn / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text("defaults: [\n")
    premises = advice(torn)["premises"]

    assert premises["release"] == "0.5.0"
    assert "verl/version/version says 0.5.0.dev" in premises["release_reason"]
    assert premises["engine"] == "vLLM 0.8.4"


def test_a_package_without_a_trainer_tells_its_release_by_its_version_file(repository: Path) -> None:
    (repository / "verl").rename(repository / "house")
    (repository / "verl" / "version").mkdir(parents=True)
    (repository / "verl" / "__init__.py").write_text("")
    (repository / "verl" / "version" / "version").write_text("0.6.1\n")

    assert advice(repository)["premises"]["release"] == "0.6.1"


def test_workers_on_megatron_core_are_of_no_release_before_them(repository: Path) -> None:
    """A copy from between 0.3 and 0.4 can have keys of the one and Megatron workers of the other."""
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    own = dict(read_defaults("0.3.0.post1", "ppo_megatron_trainer").tree)
    (config / "ppo_megatron_trainer.yaml").write_text(yaml.safe_dump(own))
    workers = repository / "verl" / "workers" / "megatron_workers.py"
    workers.write_text("model = build_model(self.hf_config)\n")
    script = repository / "run.sh"
    script.write_text(
        LAUNCH.replace("main_ppo", "main_ppo --config-name=ppo_megatron_trainer")
        .replace("rollout.temperature=0", "rollout.temperature=1")
        .replace("actor_rollout_ref.rollout.val_kwargs.do_sample=True", "data.train_batch_size=256")
    )
    told = run("advise", str(script), "--gpu", "h100-sxm")
    assert "Megatron workers of verl 0.3.0.post1 are other ones" in told.out + told.err

    workers.write_text("from verl.models.mcore import init_mcore_model\n")
    premises = advice(repository)["premises"]
    assert premises["release"] == "0.4.0"
    assert "of 0.4.0 and newer by the code" in premises["release_reason"]


def test_a_project_on_a_later_copy_that_cannot_be_composed(repository: Path) -> None:
    """The copy says its version; that the keys are a project's says only what it once was built on."""
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    (config / "ppo_trainer.yaml").write_text("defaults:\n  - data@data: house\n  - _self_\nhouse: 1\n")
    (repository / "verl" / "version").mkdir()
    (repository / "verl" / "version" / "version").write_text("0.5.0\n")
    script = repository / "run.sh"
    project = " max_turns=2 retriever.topk=3 data.max_start_length=256 data.max_obs_length=256"
    script.write_text(LAUNCH.replace("rollout.temperature=0", "rollout.temperature=1") + project)
    assert advice(repository)["premises"]["release"] == "0.5.0"


def test_what_a_copy_of_a_project_reads_beyond_it_is_named(repository: Path) -> None:
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    own = {**read_defaults("0.3.0.post1", "ppo_trainer").tree, "max_turns": 10, "retriever": {"topk": 3}}
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(own))
    (repository / "verl" / "trainer" / "main_ppo.py").write_text(
        "read(config.max_turns, config.retriever, config.do_search, data.max_start_length)\n"
        "LLMGenerationManager(data.max_obs_length)\n"
    )
    (repository / "verl" / "workers" / "fsdp_workers.py").write_text(
        'every = optim_config.get("switch_block_every", 100)\n'
    )
    script = repository / "run.sh"
    added = " max_turns=2 retriever.topk=3 +actor_rollout_ref.actor.optim.switch_block_every=50"
    script.write_text(LAUNCH.replace("rollout.temperature=0", "rollout.temperature=1") + added)
    premises = advice(repository)["premises"]
    assert "read as Search-R1" in [remark["text"] for remark in premises["script_remarks"]]
    assert premises["keys_of_copy"] == ["actor_rollout_ref.actor.optim.switch_block_every"]


def optimizer_bytes(answer: dict[str, Any]) -> int:
    (update,) = (phase for phase in answer["memory"]["phases"] if phase["phase"] == "update_actor")
    terms = [moment["terms"] for moment in update["moments"]]
    return max(sum(int(term["bytes"]) for term in those if term["item"] == "optimizer") for those in terms)


@pytest.mark.parametrize("old", [False, True])
def test_workers_that_train_lora_are_of_no_release_before_it(repository: Path, old: bool) -> None:
    """Forks put an old configuration beside newer workers, and what those do decides."""
    config = repository / "verl" / "trainer" / "config"
    config.mkdir()
    own = dict(read_defaults("0.3.0.post1", "ppo_trainer").tree)
    if old:  # a much older one, which has most keys of the oldest release and not of the next
        own = {key: value for key, value in own.items() if key not in {"custom_reward_function", "critic"}}
        own["critic"] = {"strategy": "fsdp"}
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(own))
    workers = repository / "verl" / "workers" / "fsdp_workers.py"
    workers.write_text("model = self.config.model\n")
    script = repository / "run.sh"
    rank = "+actor_rollout_ref.model.lora_rank=32 data.train_batch_size=256"
    script.write_text(
        LAUNCH.replace("rollout.temperature=0", "rollout.temperature=1").replace(
            "actor_rollout_ref.rollout.val_kwargs.do_sample=True", rank
        )
    )
    before = advice(repository)
    assert before["premises"]["release"] == "0.3.0.post1"

    workers.write_text('self._is_lora = self.config.model.get("lora_rank", 0) > 0\n')
    after = advice(repository)
    assert after["premises"]["release"] == "0.4.0"
    assert optimizer_bytes(after) < optimizer_bytes(before) / 2

    workers.write_text("class ActorRolloutRefWorker(Worker, DistProfilerExtension): _is_lora = True\n")
    assert advice(repository)["premises"]["release"] == "0.4.1"


def test_a_limit_of_images_that_a_copy_hands_to_vllm_for_an_agent(repository: Path) -> None:
    """An agent's turns may bring images, and a language model refuses even the limit of them."""
    code = repository / "verl" / "workers" / "rollout" / "vllm_rollout"
    code.mkdir(parents=True)
    limit = '{"limit_mm_per_prompt": dict(image=agent.max_vllm_images)}'
    handed = f"LLM(**({limit} if agent.activate_agent else {{}}))\n"
    agent = "actor_rollout_ref.rollout.agent"
    script = repository / "run.sh"
    script.write_text(script.read_text() + f" +{agent}.activate_agent=True +{agent}.max_vllm_images=32")

    def said(engine: str) -> bool:
        answer = advice(repository, "--verl-version", "0.4.1", "--engine-version", engine)
        return "CFG205" in [finding["code"] for finding in answer["findings"]]

    assert not said("0.8.5")
    (code / "vllm_rollout_spmd.py").write_text(handed)
    assert said("0.8.5")
    assert not said("0.10.1")
    script.write_text(script.read_text().replace("activate_agent=True", "activate_agent=False"))
    assert not said("0.8.5")
