"""A function of the trainer that keys act through, told by its file, its class and its name."""

from msgspec import Struct

_WORDS = {"fsdp": ("fsdp", "/dp_"), "megatron": ("megatron",), "vllm": ("vllm",), "sglang": ("sglang",)}
_TRAINS = frozenset({"fsdp", "megatron"})


class TrainerFunction(Struct, frozen=True, kw_only=True):
    """A function of a class of the trainer, whatever releases have it."""

    file: str  # below the package
    owner: str  # its class
    name: str
    engine: bool | None = None  # whether the model engines run it, or the legacy workers; None: both

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.file}:{self.owner}.{self.name}"

    @property
    def engines(self) -> frozenset[str]:
        """The engines that it is for, of the trainer and of the rollout; none where it serves any."""
        return engines_of(self.file)

    def may_be_of(self, file: str) -> bool:
        """Whether a file may have the same function: its path names no other engine that trains."""
        mine, others = self.engines & _TRAINS, engines_of(file) & _TRAINS
        return not (mine and others) or not mine.isdisjoint(others)


def engines_of(file: str) -> frozenset[str]:
    """The engines that the path of a file names."""
    return frozenset(name for name, parts in _WORDS.items() if any(part in file for part in parts))


def functions_of(file: str, names: str, engine: bool | None = None) -> tuple[TrainerFunction, ...]:
    """Functions of a file by their names with the classes before them, in one text."""
    pairs = (name.split(".") for name in names.split())
    return tuple(TrainerFunction(file=file, owner=owner, name=name, engine=engine) for owner, name in pairs)
