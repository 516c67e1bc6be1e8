"""Programs that a script starts on GPUs before its trainer: engines that serve a model, and search on a GPU.

Nothing is run: what counts is how such a program is called.
"""

from collections.abc import Sequence
from itertools import pairwise

from tuner.inputs.shell.started_program import StartedProgram
from tuner.inputs.shell.values import Field
from tuner.inputs.shell.visible_devices import DEVICE_NAMES
from tuner.inputs.user_input import SideServer

_MODULES = frozenset(
    {"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "sglang.launch_server"}
)
_SERVES = frozenset({"vllm", "sglang"})  # commands with a part "serve"
_ON_GPU = frozenset({"--faiss_gpu", "--faiss-gpu"})  # of a retriever, whose index lies on GPUs


def side_server(command: StartedProgram) -> SideServer | None:
    """What a command starts beside the trainer on GPUs; None where it starts nothing of the kind."""
    name = _name([str(word.text) for word in command.words])
    devices = _devices(command)
    if name is None or devices == frozenset() or _computes_on_cpu(command.words):
        return None
    return SideServer(name=name, location=command.location, devices=devices)


def servers_near(servers: Sequence[SideServer], command: StartedProgram) -> tuple[SideServer, ...]:
    """The servers that may run on GPUs of a program; those on other ones, as the script says, do not."""
    seen = _devices(command)
    return tuple(
        server for server in servers if seen is None or server.devices is None or server.devices & seen
    )


def _name(words: Sequence[str]) -> str | None:
    """What such a program is called; None of another command."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name = word.rpartition("/")[2]
        if name in _SERVES and following == "serve":
            return f"{name} serve"
        if word == "-m" and following in _MODULES:
            return following
        if name.endswith(".py") and _ON_GPU.intersection(words):
            return name
    return None


def _computes_on_cpu(words: Sequence[Field]) -> bool:
    texts = [str(word.text) for word in words]
    return "--device=cpu" in texts or ("--device", "cpu") in pairwise(texts)


def _devices(command: StartedProgram) -> frozenset[str] | None:
    """The accelerators that a command sees, by number; None where the script does not say."""
    environment = dict(command.environment)
    for name in DEVICE_NAMES:
        value = environment[name].string if name in environment else None
        if value is not None:
            return frozenset(device.strip() for device in value.split(",") if device.strip())
    return None
