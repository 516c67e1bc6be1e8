"""What a launch of fine-tuning says beside its settings: torchrun starts a process for each GPU."""

from collections.abc import Iterator

from tuner.errors import Location
from tuner.inputs.given import Remark
from tuner.inputs.overrides import Kind, Override
from tuner.inputs.processes import Processes
from tuner.language import _
from tuner.trainers.protocol import Base
from tuner.trainers.verl.defaults import FINE_TUNING_CONFIGS

_GPUS, _NODES = "trainer.n_gpus_per_node", "trainer.nnodes"
_BY_RAY = "sft_trainer_ray"  # takes both keys, and is started once


def overrides_of(processes: Processes) -> Iterator[Override]:
    """The number of GPUs as overrides of the keys that stand for it, which the trainers do not read."""
    for key, count in ((_GPUS, processes.per_node), (_NODES, processes.nodes)):
        if count is not None:
            yield Override(
                key=key,
                package=None,
                kind=Kind.FORCE_ADD,
                value=count.value,
                text=count.text,
                location=count.location,
            )


def remarks_of(program: str, processes: Processes | None, source: str) -> tuple[Remark, ...]:
    """What is taken to be so where a launch does not say how many processes there are."""
    known = processes is not None and processes.per_node is not None
    if known or _BY_RAY in program:
        return ()
    text = _(
        "torchrun says how many GPUs there are (--nproc_per_node, --nnodes); where it is not given, "
        "{gpus} and {nodes} are taken, or --gpus-per-node and --nodes"
    )
    return (Remark(text=text.format(gpus=_GPUS, nodes=_NODES), location=Location(source=source)),)


def base_of(config: str) -> Base:
    """How the defaults of a configuration of fine-tuning are asked for again."""
    if config == FINE_TUNING_CONFIGS[2]:
        return Base(name=config, words=("engine=megatron", "optim=megatron"), keys=("engine._target_",))
    return Base(
        name=config, keys=("model.strategy" if config == FINE_TUNING_CONFIGS[0] else "engine._target_",)
    )
