"""What a launch of fine-tuning says beside its settings: torchrun starts a process for each GPU."""

from collections.abc import Collection, Iterator

from tuner.errors import Location
from tuner.inputs.overrides import COMMAND_LINE, Override, OverrideKind
from tuner.inputs.tree import Path, split_key
from tuner.inputs.user_input import Count, Processes, Remark
from tuner.language import _
from tuner.trainers.protocol import Base
from tuner.trainers.verl.defaults import FINE_TUNING_CONFIGS

_GPUS, _NODES = "trainer.n_gpus_per_node", "trainer.nnodes"
_ASSUMED = Count(value=8, text="no --nproc_per_node is given", location=Location(source=COMMAND_LINE))
_BY_RAY = "sft_trainer_ray"  # takes both keys, and is started once


def overrides_of(processes: Processes | None, program: str, keys: Collection[Path]) -> Iterator[Override]:
    """The number of GPUs as overrides of the keys that stand for it, which nothing reads under torchrun.

    Args:
        processes: what torchrun's options say; None where there is none.
        program: the module or file that is started; empty where nobody says.
        keys: those that the user sets.
    """
    counts = processes or Processes()
    assumed = None if _BY_RAY in program or split_key(_GPUS) in keys else _ASSUMED
    for key, count in ((_GPUS, per_node(processes, program) or assumed), (_NODES, counts.nodes)):
        if count is not None:
            yield Override(
                key=key,
                package=None,
                kind=OverrideKind.FORCE_ADD,
                value=count.value,
                text=count.text,
                location=count.location,
            )


def per_node(processes: Processes | None, program: str) -> Count | None:
    """The processes on a node, each with a GPU; None where the launch does not say, or Ray starts them."""
    return None if processes is None or _BY_RAY in program else processes.per_node or processes.visible


def remarks_of(program: str, processes: Processes | None, source: str) -> tuple[Remark, ...]:
    """What is taken to be so where a launch does not say how many processes there are."""
    if _BY_RAY in program:
        return ()
    count = per_node(processes, program)
    if count is not None and count.told:
        return ()
    if count is not None:
        text = _(
            "without --nproc_per_node one process is started on a node ({launcher}), whatever {key} says"
        )
        text = text.format(launcher=count.text, key=_GPUS)
        return (Remark(text=text, location=count.location),)
    text = _(
        "torchrun says how many GPUs a node has (--nproc_per_node); where it is not given, {key} is "
        "taken, else {gpus}; --gpus-per-node says otherwise"
    )
    return (Remark(text=text.format(key=_GPUS, gpus=_ASSUMED.value), location=Location(source=source)),)


def base_of(config: str) -> Base:
    """How the defaults of a configuration of fine-tuning are asked for again."""
    if config in FINE_TUNING_CONFIGS[2:]:
        engine = config.rpartition("_")[2]
        return Base(name=config, words=(f"engine={engine}", f"optim={engine}"), keys=("engine._target_",))
    return Base(
        name=config, keys=("model.strategy" if config == FINE_TUNING_CONFIGS[0] else "engine._target_",)
    )
