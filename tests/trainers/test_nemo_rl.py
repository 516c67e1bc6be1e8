"""NeMo-RL: what its configurations inherit, what a job becomes, and what every command says of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.cli.runner import run
from tuner.inputs.tree import dotted, leaves
from tuner.trainers import nemo_rl, registry, verl
from tuner.trainers.nemo_rl.bundle import bundle
from tuner.trainers.nemo_rl.coverage import COVERAGE
from tuner.trainers.nemo_rl.exemplars import GRPO, exemplars
from tuner.trainers.nemo_rl.inheritance import composed, parents_in
from tuner.trainers.protocol import Configuration, Loaded, Trainer
from tuner.units import GIB

GIVEN = ("--gpu", "h100-sxm", "--release", "0.7.0")
VERL = re.compile(r"\b(?:verl|actor_rollout_ref|ppo_\w+|use_dynamic_bsz|n_gpus_per_node)\b", re.IGNORECASE)
RECIPE = """\
defaults: ../../grpo_math_1B.yaml
grpo:
  num_prompts_per_step: 64
  num_generations_per_prompt: 32
policy:
  model_name: Qwen/Qwen3-8B
  train_global_batch_size: 2048
  train_micro_batch_size: 1
  logprob_batch_size: 2
  max_total_sequence_length: 4096
  dtensor_cfg:
    activation_checkpointing: true
cluster:
  gpus_per_node: 8
"""
MEGATRON = """\
  optimizer: null
  scheduler: null
  megatron_cfg:
    enabled: true
    tensor_model_parallel_size: 2
    sequence_parallel: true
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(RECIPE)
    return "run.yaml"


def under_megatron() -> None:
    other = RECIPE.replace("    activation_checkpointing: true\n", "    enabled: false\n")
    Path("run.yaml").write_text(other.replace("cluster:", f"{MEGATRON}cluster:"))


def advised(source: str, *words: str) -> dict[str, Any]:
    result = run("advise", source, *GIVEN, "-f", "json", *words)
    assert result.code == 0, result.err
    report: dict[str, Any] = json.loads(result.out)
    return report


def terms(report: dict[str, Any], phase: str) -> dict[str, float]:
    """The largest bytes of each of the phase's terms, whenever they are there."""
    (found,) = (one for one in report["memory"]["phases"] if one["phase"] == phase)
    sizes: dict[str, float] = {}
    for moment in found["moments"]:
        for term in moment["terms"]:
            sizes[term["name"]] = max(sizes.get(term["name"], 0), term["bytes"])
    return sizes


def gpus(report: dict[str, Any]) -> int:
    cluster = report["workload"]["cluster"]
    return int(cluster["gpus_per_node"] * cluster["nodes"])


def as_nemo_merges(name: str, version: str) -> Any:
    """What NeMo-RL itself makes of an example: OmegaConf merges the parents, and the child on them."""
    own = exemplars(version)[name]
    base: Any = OmegaConf.create({})
    for parent in parents_in(own):
        base = OmegaConf.merge(base, as_nemo_merges(Path(parent).name, version))
    child: Any = OmegaConf.create({key: value for key, value in own.items() if key != "defaults"})
    for key, section in own.items():
        if isinstance(section, dict) and section.get("_override_", False):
            child[key].pop("_override_")
            base.pop(key, None)
    return OmegaConf.merge(base, child)


def test_it_fulfils_what_a_trainer_is(recipe: str) -> None:
    trainer: Trainer = nemo_rl
    configuration: Configuration = nemo_rl.parse(None, ())
    loaded: Loaded = configuration.on("0.7.0")
    assert loaded.trainer is trainer is configuration.trainer
    assert registry.trainers()[:2] == (verl, nemo_rl)


@pytest.mark.parametrize("version", nemo_rl.bundled.versions)
def test_examples_are_composed_as_nemo_does(version: str) -> None:
    for name in exemplars(version):
        theirs = OmegaConf.to_container(as_nemo_merges(name, version), resolve=False)
        assert composed(name, version) == theirs, name


def test_examples_are_bundled_from_a_checkout(tmp_path: Path) -> None:
    folder = tmp_path / "checkout" / "examples" / "configs"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text("grpo: {num_prompts_per_step: 3}  # few\n")
    written = bundle(tmp_path / "checkout", "0.9.0", folder=tmp_path)
    assert json.loads(written.read_text()) == {"own.yaml": {"grpo": {"num_prompts_per_step": 3}}}


def test_advice_is_in_its_own_keys_and_reads_back(recipe: str) -> None:
    text = run("advise", recipe, *GIVEN).out
    assert "NeMo-RL 0.7.0, automodel (fsdp2); vLLM 0.20.0" in " ".join(text.split())
    text += run("advise", recipe, *GIVEN, "--full").out + run("advise", recipe, *GIVEN[:2]).out
    assert "Give --release." in " ".join(text.split())
    assert not [line for line in text.splitlines() if VERL.search(line)]
    report = advised(recipe)
    assert report["premises"]["trainer"] == "NeMo-RL"
    block = report["combination"]
    assert block["overrides"]
    assert all(override.lstrip("+").startswith(("policy.", "cluster.")) for override in block["overrides"])
    pasted = advised(recipe, "--", *block["overrides"])
    assert pasted["memory"]["worst_phase"] == block["worst_phase"]
    assert pasted["step_time"]["seconds"] == pytest.approx(block["seconds"], rel=1e-9)


def test_masters_lie_in_float32_and_packed_batches_are_filled_up(recipe: str) -> None:
    """By hand: 8.19e9 parameters in float32 over 8 ranks, twice as many moments, and 4,096 x 1 tokens."""
    of_update = terms(advised(recipe), "update_actor")
    parameters = 8_190_735_360
    assert of_update["actor_parameters"] == pytest.approx(4 * parameters / 8, rel=1e-3)
    assert of_update["actor_optimizer"] == pytest.approx(8 * parameters / 8, rel=1e-3)
    tokens, vocabulary = 4096, 151_936
    # log-softmax, the gradient of what is gathered, and that of the logits, each in float32
    assert of_update["head_backward"] == 3 * 4 * tokens * vocabulary
    of_log_prob = terms(advised(recipe), "old_log_prob")
    assert of_log_prob["head_forward"] == 2 * 4 * (2 * tokens) * vocabulary


def test_chunks_that_are_joined_are_told(recipe: str) -> None:
    chunked = ("--", "policy.logprob_chunk_size=1024")
    assert terms(advised(recipe, *chunked), "old_log_prob")["head_forward"] == 3 * 4 * 8192 * 151_936
    result = run("check", recipe, *GIVEN, *chunked)
    assert "NRL004 nemo-idle-chunks" in result.out
    under_megatron()
    assert "NRL004" not in run("check", recipe, *GIVEN, *chunked).out


def test_megatron_keeps_weights_and_gradients_in_16_bits(recipe: str) -> None:
    under_megatron()
    of_update = terms(advised(recipe), "update_actor")
    weights = of_update["actor_parameters"]
    assert weights == pytest.approx(8_190_735_360, rel=1e-2)  # of half the model, 2 bytes each
    assert of_update["actor_gradients"] == pytest.approx(weights, rel=1e-2)
    grown = advised(
        recipe, "--", "policy.megatron_cfg.distributed_data_parallel_config.grad_reduce_in_fp32=true"
    )
    assert terms(grown, "update_actor")["actor_gradients"] == pytest.approx(2 * weights, rel=1e-2)


def test_a_section_may_take_the_place_of_the_one_below(recipe: str) -> None:
    Path("run.yaml").write_text(f"{RECIPE}loss_fn:\n  _override_: true\n  force_on_policy_ratio: true\n")
    shown = json.loads(run("config", recipe, "--release", "0.7.0", "-f", "json").out)
    keys = {one["key"] for one in shown["settings"]}
    assert "loss_fn.force_on_policy_ratio" in keys
    assert "loss_fn.ratio_clip_min" not in keys
    assert "old_log_prob" not in {phase["phase"] for phase in advised(recipe)["memory"]["phases"]}


def test_parents_are_read_where_they_lie(recipe: str) -> None:
    Path("base.yaml").write_text(RECIPE)
    Path("run.yaml").write_text("defaults: base.yaml\npolicy: {max_total_sequence_length: 2048}\n")
    shown = json.loads(run("config", recipe, "--release", "0.7.0", "-f", "json").out)
    values = {one["key"]: one["value"] for one in shown["settings"]}
    assert values["policy.max_total_sequence_length"] == 2048
    batching = advised(recipe)["workload"]["actor"]["update"]["batching"]
    assert (batching["dynamic"], batching["token_budget"]) == (True, 2048)
    assert values["grpo.num_prompts_per_step"] == 64
    Path("run.yaml").write_text("defaults: ../nowhere.yaml\npolicy: {precision: bfloat16}\n")
    refused = run("advise", recipe, *GIVEN)
    assert refused.code == 2
    assert "../nowhere.yaml is not there, and NeMo-RL 0.7.0 has no example of that name" in refused.err


def test_generation_on_gpus_of_its_own_takes_them_from_the_trainer(recipe: str) -> None:
    apart = (
        "policy.generation.colocated.enabled=false",
        "policy.generation.colocated.resources.gpus_per_node=2",
    )
    report = advised(recipe, "policy.train_global_batch_size=1536", "grpo.num_prompts_per_step=48", *apart)
    assert gpus(report) == 6
    refused = run("advise", recipe, *GIVEN, apart[0])
    assert refused.code == 2
    assert "nothing says how many" in refused.err


@pytest.mark.parametrize(
    ("override", "code"),
    [
        ("policy.train_global_batch_size=1000", "NRL001"),
        ("loss_fn.force_on_policy_ratio=true", ""),
        ("policy.train_global_batch_size=512 loss_fn.force_on_policy_ratio=true", "NRL002"),
        ("policy.generation.vllm_cfg.async_engine=true", "NRL005"),
        ("policy.generation.vllm_cfg.async_engine=true ++policy.generation.vllm_kwargs.max_num_seqs=512", ""),
    ],
)
def test_what_it_refuses_or_leaves_idle(recipe: str, override: str, code: str) -> None:
    found = json.loads(run("check", recipe, *GIVEN, "-f", "json", "--", *override.split()).out)["findings"]
    assert [one["code"] for one in found if one["code"].startswith("NRL")] == ([code] if code else [])
    mended = next((one for one in found if one["code"] == code), None)
    if mended is not None:
        again = run("check", recipe, *GIVEN, "-f", "json", "--", *override.split(), *mended["overrides"])
        assert code not in {one["code"] for one in json.loads(again.out)["findings"]}


def test_micro_batches_that_differ_under_tensor_parallelism(recipe: str) -> None:
    under_megatron()
    words = ("policy.megatron_cfg.tensor_model_parallel_size=4",)
    assert "NRL003" in run("check", recipe, *GIVEN, *words).out
    assert "NRL003" not in run("check", recipe, *GIVEN, *words, "policy.logprob_batch_size=1").out


def test_fine_tuning_has_one_phase(recipe: str) -> None:
    Path("run.yaml").write_text(
        "defaults: ../sft.yaml\npolicy:\n  model_name: Qwen/Qwen3-8B\n  train_global_batch_size: 64\n"
        "cluster: {gpus_per_node: 8}\n"
    )
    report = advised(recipe)
    assert {phase["phase"] for phase in report["memory"]["phases"]} == {"train", "save_checkpoint"}


def of_example(parent: str, more: str = "") -> None:
    """A job of one of the examples with a model of its own."""
    Path("run.yaml").write_text(
        f"defaults: {parent}\npolicy: {{model_name: Qwen/Qwen3-8B, train_global_batch_size: 64}}\n{more}"
    )


EIGHT = "cluster: {gpus_per_node: 8}\n"


def phases(report: dict[str, Any]) -> list[str]:
    return [phase["phase"] for phase in report["memory"]["phases"]]


def test_pairs_are_preferred_against_the_policy_as_it_was(recipe: str) -> None:
    of_example("dpo.yaml", EIGHT)
    report = advised(recipe)
    assert phases(report) == ["ref_log_prob", "train", "save_checkpoint"]
    assert report["workload"]["batch"]["prompts"] == 2 * 64
    assert report["workload"]["actor"]["update"]["batching"]["micro_batch_sequences"] == 2 * 2
    of_pass = terms(report, "ref_log_prob")
    assert of_pass["reference_parameters"] == pytest.approx(4 * 8_190_735_360 / 8, rel=1e-3)
    assert "actor_parameters" not in of_pass  # their place is taken
    assert of_pass["actor_optimizer"] == pytest.approx(8 * 8_190_735_360 / 8, rel=1e-3)


def test_a_reward_model_learns_from_pairs_with_one_column(recipe: str) -> None:
    of_example("rm.yaml", EIGHT)
    report = advised(recipe)
    assert phases(report) == ["train", "save_checkpoint"]
    assert report["workload"]["batch"]["prompts"] == 2 * 64
    assert report["workload"]["actor"]["head"]["kind"] == "value"


def test_a_value_model_takes_turns_with_the_policy(recipe: str) -> None:
    more = EIGHT + "value: {train_micro_batch_size: 2, dtensor_cfg: {activation_checkpointing: true}}\n"
    of_example("ppo_math_1B.yaml", more)
    report = advised(recipe)
    assert {"values", "update_critic", "update_actor", "old_log_prob"} < set(phases(report))
    assert "ref_log_prob" not in phases(report)
    assert report["workload"]["batch"]["epochs"] == 4
    critic = report["workload"]["critic"]
    assert critic["engine"]["checkpointing"] == "full"
    assert critic["update"]["batching"]["micro_batch_sequences"] == 2
    assert "critic_optimizer" not in terms(report, "update_actor")
    text = run("advise", recipe, *GIVEN, "--critic-model", "Qwen3-0.6B", "-f", "json").out
    assert (
        terms(json.loads(text), "values")["critic_parameters"]
        < 0.1 * terms(report, "values")["critic_parameters"]
    )


TEACHER = EIGHT + "teacher: {model_name: Qwen/Qwen3-14B, dtensor_cfg: {tensor_parallel_size: 2}}\n"


def test_a_teacher_stands_in_the_place_of_a_reference(recipe: str) -> None:
    """By hand: the largest logits are taken of 152k columns in float32, of which two ranks have half each."""
    of_example("distillation_math.yaml", TEACHER)
    report = advised(recipe)
    assert "old_log_prob" not in phases(report)
    of_pass = terms(report, "ref_log_prob")
    assert of_pass["reference_parameters"] == pytest.approx(4 * 14_768_307_200 / 8, rel=1e-3)
    tokens = 8192 / 2  # of one sequence that two ranks share
    assert of_pass["head_forward"] == pytest.approx(4 * tokens * 151_936 / 2, rel=1e-3)
    assert terms(report, "update_actor")["head_backward"] == pytest.approx(
        2 * 4 * tokens * 151_936 / 2, rel=1e-3
    )
    of_example("distillation_math.yaml", EIGHT + "teacher: {model_name: nobody/knows-it}\n")
    refused = run("advise", recipe, *GIVEN)
    assert (refused.code, "teacher.model_name" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ("evals/eval.yaml", "is not there"),
        ("xtoken_off_policy_distillation.yaml", "distillation between vocabularies is not modelled"),
    ],
)
def test_other_algorithms_are_refused_by_name(recipe: str, parent: str, message: str) -> None:
    of_example(parent)
    refused = run("advise", recipe, *GIVEN)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err


def test_tensor_parallelism_leaves_a_rank_its_share(recipe: str) -> None:
    """By hand: states are shared by all 8 ranks, a log-softmax of 152k columns by two."""
    whole, shared = (advised(recipe, f"policy.dtensor_cfg.tensor_parallel_size={ranks}") for ranks in (1, 2))
    for name in ("actor_parameters", "actor_optimizer"):
        values = [terms(one, "update_actor")[name] for one in (whole, shared)]
        assert values[1] == pytest.approx(values[0], rel=1e-3)
    tokens = 4096
    # logits, those less the largest, and their exponentials, of half of the columns
    assert terms(shared, "old_log_prob")["head_forward"] == 3 * 4 * 2 * tokens * 151_936 // 2
    assert terms(whole, "update_actor")["root_unit"] == pytest.approx(
        2 * terms(shared, "update_actor")["root_unit"], rel=1e-3
    )
    refused = run("advise", recipe, *GIVEN, "policy.dtensor_cfg.tensor_parallel_size=3")
    assert refused.code == 2
    assert "do not divide the trainer's 8 GPUs" in " ".join(refused.err.split())


def test_context_parallelism_shares_a_sequence(recipe: str) -> None:
    padded = ("policy.sequence_packing.enabled=false",)
    halves = advised(recipe, *padded, "policy.dtensor_cfg.context_parallel_size=2")
    whole = advised(recipe, *padded)
    for phase in ("old_log_prob", "update_actor"):
        name = "head_backward" if phase == "update_actor" else "head_forward"
        assert 2 * terms(halves, phase)[name] == terms(whole, phase)[name]


def test_two_engines_are_refused(recipe: str) -> None:
    refused = run("advise", recipe, *GIVEN, "policy.megatron_cfg.enabled=true")
    assert refused.code == 2
    assert "two engines are switched on" in refused.err


def test_products_in_8_bits_keep_their_weights_twice(recipe: str) -> None:
    """By hand: two bytes of each weight of the layers, of which a rank has half; they stay in any phase."""
    under_megatron()
    report = advised(recipe, "policy.megatron_cfg.fp8_cfg.enabled=true")
    assert [one["name"] for one in report["left_out"]] == ["products in 8 bits"]
    in_layers = 8_190_735_360 - 2 * 151_936 * 4096
    for phase in ("rollout", "old_log_prob", "update_actor"):
        assert terms(report, phase)["actor_cast_weights"] == pytest.approx(2 * in_layers / 2, rel=1e-3)
    stored = advised(
        recipe, "policy.megatron_cfg.fp8_cfg.enabled=true", "policy.megatron_cfg.fp8_cfg.fp8_param=true"
    )
    assert "actor_cast_weights" not in terms(stored, "update_actor")


def test_a_launch_of_its_program_is_read(recipe: str) -> None:
    Path("run.sh").write_text(
        "uv run examples/run_grpo.py --config run.yaml cluster.gpus_per_node=4 policy.precision=bfloat16\n"
    )
    report = advised("run.sh")
    assert (report["premises"]["trainer"], gpus(report)) == ("NeMo-RL", 4)


def test_a_configuration_that_only_a_run_names_is_asked_for(recipe: str) -> None:
    Path("run.sh").write_text('uv run examples/run_grpo.py --config $HERE grpo.max_num_steps=3 "$@"\n')
    refused = run("advise", "run.sh", *GIVEN)
    assert refused.code == 2
    assert "--config names no file of YAML: got 'grpo.max_num_steps=3'" in refused.err


def test_plans_and_differences_are_made(recipe: str) -> None:
    planned = run("plan", recipe, *GIVEN)
    assert planned.code == 0, planned.err
    assert "policy." in planned.out
    Path("other.yaml").write_text(RECIPE.replace("4096", "8192"))
    found = json.loads(run("diff", recipe, "other.yaml", *GIVEN, "-f", "json").out)
    assert "policy.max_total_sequence_length" in {key["after"]["key"] for key in found["keys"]}


def test_the_block_is_written_into_the_file(recipe: str) -> None:
    result = run("advise", recipe, *GIVEN, "--write", "new.yaml")
    assert result.code == 0, result.err
    assert Path("new.yaml").read_text().startswith("defaults: ../../grpo_math_1B.yaml\n")


def test_the_buffers_of_a_sync_are_a_share_of_what_is_free(recipe: str) -> None:
    """By hand: 0.3 of what 8.19e9 parameters, an eighth in 4 bytes and all in 2, leave of the card."""
    of_sync = terms(advised(recipe), "update_weights")
    card = 79.11 * GIB
    free = card - 8_190_735_360 * (4 / 8 + 2)
    assert of_sync["sync_buckets"] == pytest.approx(0.3 * free, rel=0.01)
    given = terms(advised(recipe, "++policy.refit_buffer_size_gb=2"), "update_weights")
    assert given["sync_buckets"] == 2 * GIB


def test_parts_that_older_releases_recompute_apart_are_left_out_by_name(recipe: str) -> None:
    def left_out(release: str) -> list[str]:
        found = json.loads(run("advise", recipe, "--gpu", "h100-sxm", "--release", release, "-f", "json").out)
        return [one["name"] for one in found["left_out"]]

    assert left_out("0.6.0") == ["the inputs of each part of a layer"]
    assert left_out("0.7.0") == []


def test_every_key_of_the_examples_falls_in_one_class() -> None:
    for version in nemo_rl.bundled.versions:
        for name in (GRPO, "sft.yaml", "dpo.yaml", "rm.yaml", "distillation_math.yaml", "ppo_math_1B.yaml"):
            if name not in exemplars(version):
                continue
            for path, _value in leaves(composed(name, version)):
                key = dotted(path)
                classes = COVERAGE.classes(key, version)
                assert len(classes) == 1, (version, key, classes)


def test_mamba_layers_leave_a_state_and_no_cache(recipe: str) -> None:
    """By hand: the states of 27 layers, 128 heads of 80 x 128, and a cache of 4."""
    named = "policy.model_name=nvidia/NVIDIA-Nemotron-Nano-9B-v2"
    report = advised(recipe, named)
    of_update = terms(report, "update_actor")
    assert of_update["actor_parameters"] == pytest.approx(4 * 8_888_227_328 / 8, rel=1e-3)
    # inputs of all 56 layers, which are recomputed one by one, in a micro-batch filled up to 4,096 tokens
    assert of_update["layer_inputs"] == 56 * 4096 * 2 * 4480
    under_megatron()
    assert terms(advised(recipe, named), "update_actor")["actor_parameters"] == pytest.approx(
        2 * 8_888_227_328 / 2, rel=0.01
    )


@pytest.mark.parametrize(
    ("name", "model"),
    [
        (
            "Follow instructions in https://github.com/NVIDIA-NeMo/RL/blob/main/docs/guides/deepseek.md",
            "DeepSeek-V3",
        ),
        ("/path/to/model", "NVIDIA-Nemotron-3-Super-120B-A12B-BF16"),
    ],
)
def test_what_stands_for_a_model_is_filled_in(recipe: str, name: str, model: str) -> None:
    folder = Path("nemotron-3-super")
    folder.mkdir()
    text = RECIPE.replace("Qwen/Qwen3-8B", f'"{name}"')
    (folder / "stage.yaml").write_text(text)
    report = advised("nemotron-3-super/stage.yaml", "cluster.num_nodes=8")
    assert report["workload"]["model"]["name"] == model
    said = run("advise", "nemotron-3-super/stage.yaml", *GIVEN, "--full").out
    assert "policy.model_name names no model" in " ".join(said.split())


def seconds(report: dict[str, Any], phase: str) -> dict[str, float]:
    """The seconds of a phase by cause."""
    (found,) = (one for one in report["time"] if one["phase"] == phase)
    return {part["name"]: part["seconds"] for part in found["parts"]}


def test_moments_leave_into_memory_that_nobody_has_touched(recipe: str) -> None:
    """By hand: two moments in float32 of an eighth of the model, 2.5 GB/s away and 6.5 GB/s back."""
    report = advised(recipe)
    moved = 8 * 8_190_735_360 / 8
    of_update = seconds(report, "update_actor")
    assert of_update["host_copies"] == pytest.approx(moved / 2.5e9 + moved / 6.5e9, rel=1e-3)
    # weights come once for all passes of a step, and leave behind the new ones
    assert not seconds(report, "old_log_prob").get("host_copies")
    apart = advised(
        recipe,
        "policy.train_global_batch_size=1536",
        "grpo.num_prompts_per_step=48",
        "policy.generation.colocated.enabled=false",
        "policy.generation.colocated.resources.gpus_per_node=2",
    )
    assert not seconds(apart, "update_actor").get("host_copies")


def test_main_weights_that_are_no_state_stay(recipe: str) -> None:
    """By hand: four bytes of each weight, which the 8 ranks of two halves share."""
    under_megatron()
    precise = "policy.megatron_cfg.optimizer.use_precision_aware_optimizer"
    kept = terms(advised(recipe, f"{precise}=false"), "rollout")
    assert kept["actor_main_weights"] == pytest.approx(4 * 8_190_735_360 / 8, rel=0.01)
    assert "actor_main_weights" not in terms(advised(recipe, f"{precise}=true"), "rollout")


def test_batches_that_may_be_old_are_generated_side_by_side(recipe: str) -> None:
    apart = (
        "policy.train_global_batch_size=1536",
        "grpo.num_prompts_per_step=48",
        "policy.generation.colocated.enabled=false",
        "policy.generation.colocated.resources.gpus_per_node=2",
        "grpo.async_grpo.enabled=true",
    )
    one, four = (
        sum(
            seconds(
                advised(recipe, *apart, f"grpo.async_grpo.max_trajectory_age_steps={age}"), "rollout"
            ).values()
        )
        for age in (1, 4)
    )
    assert four < one


def test_sizes_that_are_asserted_to_be_equal_change_together(recipe: str) -> None:
    """Under tensor parallelism of 4 a larger micro-batch of one alone would not start."""
    padded = (
        "policy.sequence_packing.enabled=false",
        "policy.logprob_batch_size=1",
        "policy.dtensor_cfg.tensor_parallel_size=4",
    )
    block = advised(recipe, *padded)["combination"]["overrides"]
    changed = dict(line.split("=") for line in block)
    sizes = [changed.get(f"policy.{name}") for name in ("train_micro_batch_size", "logprob_batch_size")]
    assert sizes[0] is not None
    assert sizes[0] == sizes[1]
    code = "NRL003"
    assert code not in run("check", recipe, *GIVEN, "--", *padded, *block).out
    alone = advised(recipe, *padded[:2], "policy.dtensor_cfg.tensor_parallel_size=2")["combination"]
    assert "policy.logprob_batch_size" in dict(line.split("=") for line in alone["overrides"])


def test_a_limit_that_is_one_ranks_is_not_told_of_a_budget_that_several_share(recipe: str) -> None:
    under_megatron()
    budget = "train_mb_tokens"
    words = ("policy.megatron_cfg.context_parallel_size=2",)
    assert budget in run("advise", recipe, *GIVEN).out
    assert budget not in run("advise", recipe, *GIVEN, *words).out
    # a block says what all of them have
    tokens = advised(recipe, *words)["workload"]["actor"]["update"]["batching"]["token_budget"]
    assert tokens == 4096 / 2


def test_prompts_with_images_have_a_tower_at_work(recipe: str) -> None:
    named = ("policy.model_name=Qwen/Qwen2.5-VL-3B-Instruct",)
    images = ("++data.default.processor=vlm_hf_data_processor",)
    blind, seeing = (terms(advised(recipe, *named, *more), "update_actor") for more in ((), images))
    assert not any("tower" in name or "vision" in name for name in blind)
    assert sum(seeing.values()) > sum(blind.values())
    assert advised(recipe, *named, *images)["workload"]["batch"]["images"]["per_prompt"] == 1
    under_megatron()
    left_out = advised(recipe, *named, *images)["left_out"]
    assert [(one["name"], one["key"]) for one in left_out] == [
        ("the vision tower's activations", "data.default.processor")
    ]
    of_example("sft_vlm_3B.yaml", EIGHT)
    given = advised(recipe, *named)
    assert [one["name"] for one in given["left_out"]] == ["the vision tower's activations"]


def test_buffers_to_other_gpus_are_a_share_of_the_card(recipe: str) -> None:
    """By hand: two of a fiftieth of 80 GiB, less what the card keeps for itself."""
    report = advised(
        recipe,
        "policy.train_global_batch_size=1536",
        "grpo.num_prompts_per_step=48",
        "policy.generation.colocated.enabled=false",
        "policy.generation.colocated.resources.gpus_per_node=2",
    )
    assert terms(report, "update_weights")["sync_buckets"] == pytest.approx(0.04 * 79.65 * GIB, rel=0.01)


def test_no_optimizer_goes_to_the_host_for_room_alone(recipe: str) -> None:
    """It fits with 1.6 GiB at least; a step on the host would take 29 s instead of 1."""
    Path("run.yaml").write_text(
        "defaults: ../sft.yaml\npolicy:\n  model_name: nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16\n"
        "  train_global_batch_size: 16\n  max_total_sequence_length: 2048\n"
        "  dtensor_cfg: {expert_parallel_size: 8}\ncluster: {gpus_per_node: 8}\n"
    )
    report = advised(recipe)
    assert report["verdict"] == "fits"
    block = report["combination"]
    assert block is None or not any("cpu_offload" in line for line in block["overrides"])


def test_whole_sequences_fill_micro_batches(recipe: str) -> None:
    """Of sequences that have three quarters of 4,096 tokens hardly two share them, and all are computed."""

    def compute(mean: int) -> float:
        lengths = ("--mean-prompt-length", "8", "--mean-response-length", str(mean))
        return seconds(advised(recipe, *lengths), "update_actor")["compute"]

    assert compute(3000) > 0.9 * compute(4080)
