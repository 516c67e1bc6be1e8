"""What verl adds of its own accord to a pass of its FSDP engine that was measured alone."""

from msgspec.structs import replace

from tuner.architectures import find_architecture
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


def engine_of_pass(engine: Engine, model: ModelShape, *, images: bool) -> Engine:
    """The engine as the newest release runs it, whose rows of fields read the same from settings.

    Args:
        engine: what was recorded of the pass.
        model: that it runs.
        images: its prompts have some.
    """
    architecture = find_architecture(model.architecture)
    return replace(
        engine,
        idle_tower=not images and not architecture.verl_knows_tower,
        repeats_keys=architecture.verl_repeats_keys,
        separate_embedding_units=engine.backend is Backend.FSDP2 and not model.tied_embeddings,
    )
