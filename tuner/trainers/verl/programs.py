"""The programs of verl that train: reinforcement learning, and two generations of supervised fine-tuning."""

from tuner.enumeration import Enum
from tuner.inputs.tree import Tree, contains

_PPO = "verl.trainer.main_ppo"


class Program(Enum):
    """A program of verl that trains, whose configuration has keys of its own."""

    PPO = "main_ppo"
    SFT = "fsdp_sft_trainer"  # a trainer of its own under FSDP, up to 0.7.0
    SFT_ENGINE = "sft_trainer"  # on the model engines, since 0.6.0

    @property
    def fine_tunes(self) -> bool:
        """Whether it learns from given sequences and generates nothing."""
        return self is not Program.PPO


def runs_ppo_trainer(started: str) -> bool:
    """Whether verl's own program of PPO is surely started, which has no GPUs for generation alone."""
    if not started:
        return False
    module = started.removesuffix(".py").replace("/", ".").lstrip(".")
    return module == _PPO or module.endswith(f".{_PPO}")


def program_of(defaults: Tree) -> Program:
    """The program that a release's defaults are for."""
    if contains(defaults, ("model", "partial_pretrain")):
        return Program.SFT
    return Program.SFT_ENGINE if contains(defaults, ("engine",)) else Program.PPO
