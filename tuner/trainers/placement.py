"""Where a job generates: on the trainer's GPUs, or on GPUs of its own while the others train."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.enumeration import Enum


class Placement(Enum):
    """Where responses come from, and how old they may be."""

    COLOCATED = "colocated"  # one after the other, on the same GPUs
    ONE_STEP_OFF = "one-step-off"  # the next batch is generated while one trains on the last
    FULLY_ASYNC = "fully-async"  # responses stream into a queue
    SEPARATE = "separate"  # the trainer's own asynchronous mode, with a pool of its own for generation


class PoolSplit(Struct, frozen=True, kw_only=True):
    """GPUs divided into a pool that trains and a pool that generates."""

    training_nodes: int
    training_gpus_per_node: int
    generating_nodes: int
    generating_gpus_per_node: int

    @property
    def training_gpus(self) -> Annotated[int, Meta(description="of all nodes")]:
        """GPUs that train."""
        return self.training_nodes * self.training_gpus_per_node

    @property
    def generating_gpus(self) -> Annotated[int, Meta(description="of all nodes")]:
        """GPUs that generate."""
        return self.generating_nodes * self.generating_gpus_per_node


class PlacedLaunch(Struct, frozen=True, kw_only=True):
    """How a release is told to generate elsewhere."""

    overrides: tuple[str, ...]
    effect: Annotated[str, Meta(description="on the training")]
    program: Annotated[str, Meta(description="that it needs; empty: the one that the launch starts")] = ""
    options: Annotated[tuple[str, ...], Meta(description="of that program, before its overrides")] = ()
    packaged: Annotated[bool, Meta(description="false: the program stands in the repository alone")] = True
    upper: Annotated[
        bool, Meta(description="its seconds are a bound: a wait for the last responses is counted in them")
    ] = False
