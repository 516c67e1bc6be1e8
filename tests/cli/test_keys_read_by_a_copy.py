"""No key is proposed that the code of a copy of verl does not read, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.inputs.tree import Tree, merged
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

pytestmark = pytest.mark.sampled(12)

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=8"""
LIGER = "actor_rollout_ref.model.use_liger"
OFFLOAD = "actor_rollout_ref.actor.fsdp_config.optimizer_offload"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl 0.9.1 with its whole configuration, and code that reads none."""
    for name in (".git", "verl/trainer/config", "verl/workers"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "run.sh").write_text(LAUNCH)
    write_configuration(tmp_path, {})
    write_code(tmp_path, "pass")
    return tmp_path


def write_configuration(repository: Path, own: Tree) -> None:
    tree = merged(dict(read_defaults("0.9.1", CONFIGS[0]).tree), own)
    (repository / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text(yaml.safe_dump(tree))


def write_code(repository: Path, code: str) -> None:
    (repository / "verl" / "trainer" / "house.py").write_text(f"{code}\n")


def findings(repository: Path) -> list[dict[str, Any]]:
    answer = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "-f", "json")
    assert answer.code == 0, answer.err
    found: list[dict[str, Any]] = json.loads(answer.out)["findings"]
    return found


def proposed(repository: Path) -> set[str]:
    texts = [text for item in findings(repository) for text in item["overrides"]]
    return {text.lstrip("+").partition("=")[0] for text in texts}


@pytest.mark.parametrize(
    "code",
    [
        "if self.config.model.use_liger: apply()",
        "if config.get('use_liger', False): apply()",
        "if config['model']['use_liger']: apply()",
        "if OmegaConf.select(config, 'actor_rollout_ref.model.use_liger'): apply()",
        "if OmegaConf.select(config, f'{role}.model.use_liger'): apply()",
        "@dataclass\nclass ModelConfig(BaseConfig):\n    path: str = ''\n    use_liger: bool = False",
        "for name in names:\n    use(getattr(self.config.model, name))",
        "build(**self.config.model)",
        "build(**OmegaConf.to_container(self.config.get('model', {}), resolve=True))",
        "write({**config.actor_rollout_ref.model})",
        "settings = self.config.actor_rollout_ref.model\nbuild(**settings)",
        "write(asdict(\n    self.config.model,\n))",
        "write({key: value for key, value in config.model.items()})",
        "syntax of a Python to come!\nconfig.model.use_liger",
    ],
)
def test_a_key_that_some_code_reads_is_proposed(code: str, repository: Path) -> None:
    write_code(repository, code)

    assert LIGER in proposed(repository)


@pytest.mark.parametrize(
    "code",
    [
        "pass",
        "# config.model.use_liger",
        '"""Takes use_liger.\n\n    model.use_liger (bool): fused layers.\n"""',
        "use_liger = True",
        "def build(use_liger=False): ...",
        "raise ValueError('use_liger is not for this model')",
        "class Model:\n    '''use_liger'''",
        "config.model.use_liger_of_old",
        "pprint(OmegaConf.to_container(config, resolve=True))",
        "build(**inputs.model)",
        "build(**self.config.models)",
    ],
)
def test_a_key_that_stands_in_its_yaml_alone_is_not_proposed(code: str, repository: Path) -> None:
    write_code(repository, code)

    assert not proposed(repository) & {LIGER, OFFLOAD}


def test_a_section_is_taken_without_others(repository: Path) -> None:
    write_code(repository, "build(**self.config.model)")

    assert LIGER in proposed(repository)
    assert OFFLOAD not in proposed(repository)


def test_a_key_that_another_one_takes_its_value_from_is_read_with_it(repository: Path) -> None:
    write_configuration(repository, {"house": {"fused": "${actor_rollout_ref.model.use_liger}"}})
    assert LIGER not in proposed(repository)

    write_code(repository, "if config.house.fused: apply()")
    assert LIGER in proposed(repository)


def test_a_check_proposes_no_key_that_nothing_reads(repository: Path) -> None:
    """A misspelled key: the nearest one stands in the copy's YAML, and no code reads it."""
    (repository / "run.sh").write_text(f"{LAUNCH} +actor_rollout_ref.model.use_ligger=True")

    def overrides() -> tuple[list[str], list[str]]:
        item = next(item for item in findings(repository) if item["code"] == "CFG001")
        return item["overrides"], item["notes"]

    moved, notes = overrides()
    assert moved == []
    assert f"No code in {repository.name}/verl reads {LIGER}." in notes
    write_code(repository, "config.model.use_liger")
    assert f"{LIGER}=True" in overrides()[0]


FINE_TUNING = """torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.max_length=4096 \\
    data.micro_batch_size_per_gpu=2 model.partial_pretrain=Qwen/Qwen2.5-7B-Instruct"""
OF_ITS_MODEL = (
    "config.model.enable_gradient_checkpointing, config.model.fsdp_config, config.use_remove_padding"
)


@pytest.mark.parametrize("reads", [True, False])
def test_fine_tuning_gets_no_key_that_only_other_programs_of_the_copy_read(
    tmp_path: Path, reads: bool
) -> None:
    for name in (".git", "verl/trainer/config", "verl/workers"):
        (tmp_path / name).mkdir(parents=True)
    tree = dict(read_defaults("0.5.0", "sft_trainer").tree)
    (tmp_path / "verl" / "trainer" / "config" / "sft_trainer.yaml").write_text(yaml.safe_dump(tree))
    (tmp_path / "verl" / "workers" / "fsdp_workers.py").write_text("if config.model.use_liger: apply()\n")
    trainer = tmp_path / "verl" / "trainer" / "fsdp_sft_trainer.py"
    trainer.write_text(OF_ITS_MODEL + ("\nconfig.model.use_liger\n" if reads else "\n"))
    (tmp_path / "run.sh").write_text(FINE_TUNING)
    assert ("model.use_liger" in proposed(tmp_path)) is reads
