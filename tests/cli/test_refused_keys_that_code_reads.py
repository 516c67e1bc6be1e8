"""An override that Hydra refuses is not to be taken away where the code of a copy reads its key."""

from pathlib import Path

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=8 """
CODE = (
    "def play(config):\n    return Maze(config.env.width, config['env']['height'], config.env.get('depth'))\n"
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl 0.9.1 whose code reads three keys that its configuration lacks."""
    for name in (".git", "verl/trainer/config", "verl/workers"):
        (tmp_path / name).mkdir(parents=True)
    tree = dict(read_defaults("0.9.1", CONFIGS[0]).tree) | {"env": {"name": "maze"}}
    (tmp_path / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text(yaml.safe_dump(tree))
    (tmp_path / "verl" / "trainer" / "house.py").write_text(CODE)
    return tmp_path


def said(repository: Path, overrides: str, command: str = "advise", *options: str) -> str:
    (repository / "run.sh").write_text(LAUNCH + overrides)
    result = run(command, str(repository / "run.sh"), "--gpu", "h100-sxm", *options)
    return " ".join((result.out + result.err).split())


def test_the_way_out_is_a_plus(repository: Path) -> None:
    text = said(repository, "env.width=6")
    assert "CFG001 unknown-key" in text
    assert "verl/trainer/house.py:2 reads it: write +env.width=..." in text
    assert "The figures are those of the job without it." in text
    assert "ake it away" not in text


def test_of_many_keys_it_is_said_once(repository: Path) -> None:
    text = said(repository, "env.width=6 env.height=7 env.depth=8")
    assert "The same of env.height, env.depth." in text
    assert "verl/trainer/house.py:2 reads them: write +env.width=..., " in text
    assert "+env.height=..., +env.depth=... The figures are those of the job without them." in text
    assert "Take them away" not in text


def test_a_key_that_no_code_reads_is_taken_away(repository: Path) -> None:
    text = said(repository, "env.colour=6")
    assert "Take it away or fix it" in text
    assert "+env.colour" not in text


def test_a_word_that_another_section_has_is_not_enough(repository: Path) -> None:
    text = said(repository, "trainer.width=6")
    assert "Take it away or fix it" in text


def test_check_says_it_as_well(repository: Path) -> None:
    text = said(repository, "env.width=6", "check", "--output-format", "full")
    assert "verl/trainer/house.py:2 reads env.width: +env.width=... gives it." in text


def test_a_key_is_read_by_a_name_of_its_section(repository: Path) -> None:
    code = "def walk(self):\n    env_config = self.config.env\n    return env_config.get('steps', 1)\n"
    (repository / "verl" / "trainer" / "walk.py").write_text(code)
    assert "verl/trainer/walk.py:3 reads it: write +env.steps=..." in said(repository, "env.steps=6")
    assert "Take it away or fix it" in said(repository, "trainer.steps=6")


def test_a_variable_of_that_name_reads_no_key(repository: Path) -> None:
    """As ``main_generation.py`` has one: ``output_dir = os.path.dirname(config.data.output_path)``."""
    file = repository / "verl" / "trainer" / "generate.py"
    file.write_text("def generate(config):\n    output_dir = dirname(config.data.output_path)\n")
    assert "+data.output_dir" not in said(repository, "data.output_dir=out")
    file.write_text("def generate(config):\n    output_dir = config.data.output_dir\n")
    assert "write +data.output_dir=..." in said(repository, "data.output_dir=out")


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("limits.py", 'def build(own_env):\n    assert own_env.pace > 0, "env.pace must be positive"\n'),
        ("fsdp_sft_trainer.py", "def build(config):\n    return config.env.pace\n"),
    ],
    ids=["a message", "another program"],
)
def test_neither_a_message_nor_another_program_reads_it(repository: Path, file: str, code: str) -> None:
    (repository / "verl" / "trainer" / file).write_text(code)
    assert "Take it away or fix it" in said(repository, "env.pace=6")
