"""Asks a release of verl, unpacked from its wheel, which launches its own validation refuses.

Run as ``python asking.py FOLDER < launches.json``; the answer is a JSON list with the reason of each
refusal, None where verl goes on. Only the code that judges a configuration runs: it is composed by
Hydra from the release's own files, its sections become the release's own dataclasses, whose
``__post_init__`` judges them, and ``validate_config`` judges the whole. Ray, PyTorch's data loaders,
the engines and whatever else is not installed is replaced by names that do nothing. A model's
``config.json`` and tokenizer are not read, so nothing that depends on them is judged here.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

_SECTIONS = ("actor_rollout_ref.rollout", "actor_rollout_ref.actor", "critic", "distillation")
_NOT_OURS = ("ray", "tensordict", "torchdata", "codetiming", "vllm", "sglang", "megatron", "datasets", "peft")
_NOT_OURS += ("pylatexenc", "wandb", "dill", "pybind11", "liger_kernel", "transfer_queue", "cachetools")
_NOT_OURS += (
    "mbridge",
    "torchvision",
    "qwen_vl_utils",
    "aiohttp",
    "uvicorn",
    "fastapi",
    "zmq",
    "torchao",
    "orjson",
    "transformers",
    "PIL",
    "pandas",
    "openai",
    "starlette",
    "pyarrow",
)


class _Nothing(type):
    """A class of which every attribute, call and subscript is itself."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else cls

    def __getitem__(cls, item: Any) -> Any:
        return cls


class Nothing(metaclass=_Nothing):
    """What stands for every name of a package that is not installed."""


class _Absent(ModuleType):
    __path__ = ()  # type: ignore[assignment]
    __version__ = "99.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class _Replaces(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages that are not installed, as modules of nothing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] in _NOT_OURS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""


def judges(folder: Path) -> Callable[[Sequence[str]], str | None]:
    """A function from a launch's overrides to the reason why the release in ``folder`` refuses it."""
    _import_from(folder)
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    def judge(overrides: Sequence[str]) -> str | None:
        name = "ppo_trainer"
        for override in overrides:
            if override.startswith("--config-name="):
                name = override.partition("=")[2].removesuffix(".yaml")
        plain = [override for override in overrides if not override.startswith("--")]
        try:
            with initialize_config_dir(str(folder / "verl/trainer/config"), version_base=None):
                config = compose(name, plain)
            OmegaConf.resolve(config)
            _validate(config)
        except Exception as error:
            return f"{type(error).__name__}: {_innermost(error)}"
        return None

    return judge


def _import_from(folder: Path) -> None:
    """Make the release importable, without what its packages import for themselves."""
    sys.meta_path.insert(0, _Replaces())
    sys.path.insert(0, str(folder))
    verl = ModuleType("verl")
    verl.__path__ = [str(folder / "verl")]
    verl.DataProto = Nothing  # type: ignore[attr-defined]
    sys.modules["verl"] = verl
    protocol = _Absent("verl.protocol")
    sys.modules["verl.protocol"] = protocol
    installed = importlib.metadata.version
    importlib.metadata.version = lambda name: "0.99.0" if name in _NOT_OURS else installed(name)
    sys.modules["vllm.config.lora"] = None  # type: ignore[assignment]  # verl then takes its own list of ranks
    with contextlib.suppress(ImportError):
        from verl.workers.config import HFModelConfig

        HFModelConfig.__post_init__ = lambda self: None  # it would read the model's files


def _validate(config: Any) -> None:
    reference = bool(config.actor_rollout_ref.actor.use_kl_loss or config.algorithm.use_kl_in_reward)
    critic = config.critic.get("enable", None)
    critic = config.algorithm.adv_estimator == "gae" if critic is None else bool(critic)
    try:
        from verl.utils.config import omega_conf_to_dataclass, validate_config
    except ImportError:
        _validate_by_trainer(config, reference=reference, critic=critic)
    else:
        validate_config(config, use_reference_policy=reference, use_critic=critic)
        for section in _sections(config, critic=critic):
            omega_conf_to_dataclass(section)


def _sections(config: Any, *, critic: bool) -> Iterator[Any]:
    from omegaconf import OmegaConf

    for name in _SECTIONS:
        section = OmegaConf.select(config, name)
        if section is None or "_target_" not in section:
            continue
        if (name != "critic" or critic) and (name != "distillation" or section.enabled):
            yield section


def _validate_by_trainer(config: Any, *, reference: bool, critic: bool) -> None:
    """Releases before 0.6 judge in a method of the trainer, which reads three of its attributes."""
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    trainer = SimpleNamespace(config=config, use_reference_policy=reference, use_critic=critic)
    RayPPOTrainer._validate_config(trainer)


def _innermost(error: BaseException) -> str:
    """The first line of what the release said, below what Hydra wraps around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else ""


if __name__ == "__main__":
    judge = judges(Path(sys.argv[1]))
    launches = json.load(sys.stdin)
    with contextlib.redirect_stdout(io.StringIO()):
        answers = [judge(launch) for launch in launches]
    json.dump(answers, sys.stdout)
