"""``.. moments::``, ``.. terms::`` and ``.. symbols::``: what the passes are made of, read off the program.

The tables are made by running the passes of one model, so page and program cannot differ.
"""

import pkgutil
from collections.abc import Iterator
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from msgspec.structs import replace
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

from tables import table
from tuner import memory
from tuner.dtypes import DType
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.ledger.symbols import MEANINGS, symbols_of_room
from tuner.memory.passes import pass_moments
from tuner.models import find_model
from tuner.trainers.verl.batch_fields import TOKEN_BYTES
from tuner.workload import Backend, Checkpointing, Engine, HeadKind, OutputHead, Parallelism

_MODEL = "qwen2.5-7b"  # untied, so that embedding and projection are units of their own
_TOKENS = 16384


def _pass(backend: Backend, **changes: object) -> PassInput:
    """A pass over a model with an ordinary engine."""
    megatron = backend is Backend.MEGATRON
    engine = Engine(
        token_bytes=TOKEN_BYTES,
        backend=backend,
        parallel=Parallelism(gpus=8, tensor=2, pipeline=2) if megatron else Parallelism(gpus=8, shard=8),
        stored_dtype=DType.BFLOAT16 if megatron else DType.FLOAT32,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.FULL,
        packed=True,
    )
    return PassInput(
        model=find_model(_MODEL),
        engine=replace(engine, **changes),
        head=OutputHead(kind=HeadKind.LOGITS),
        tokens=_TOKENS,
        entropy=False,
        micro_batches=4,
    )


def _stages(backend: Backend) -> Iterator[PassInput]:
    """The pass of each pipeline stage that differs; only Megatron has several."""
    inputs = _pass(backend)
    stages = (0, inputs.engine.parallel.pipeline - 1) if backend is Backend.MEGATRON else (None,)
    for stage in stages:
        parallel = replace(inputs.engine.parallel, stage=stage)
        yield replace(inputs, engine=replace(inputs.engine, parallel=parallel))


def _variants(backend: Backend) -> Iterator[PassInput]:
    """The pass of each stage with the switches that add terms or change their formulas."""
    yield from _stages(backend)
    for chunk in (None, _TOKENS // 8):
        for inputs in _stages(backend):
            eager = replace(inputs.head, compiled=False, chunk_tokens=chunk)
            yield replace(inputs, entropy=True, head=eager)
    yield replace(_pass(backend), micro_batches=1)
    yield _pass(backend, checkpointing=Checkpointing.NONE)
    if backend is not Backend.MEGATRON:
        yield _pass(backend, activation_offload=True)
        yield _pass(backend, reshard_after_forward=False)
        yield _pass(backend, deferred_gradient_sync=True)


class Moments(SphinxDirective):
    """The moments of a pass with the names of their terms; the argument is the backend."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec] = {"training": directives.flag}

    def run(self) -> list[nodes.Node]:
        """One row per moment, in their order."""
        training = "training" in self.options
        rows = [
            [f"``{moment.name}``", ", ".join(f"``{term.name}``" for term in moment.terms)]
            for inputs in _stages(Backend(self.arguments[0]))
            for moment in pass_moments(inputs, training=training)
        ]
        return table(self, ["Moment", "Terms"], rows, widths=[25, 75])


class Terms(SphinxDirective):
    """The formulas of a backend's terms and the functions that derive them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row per name and formula."""
        formulas = {
            (term.name, term.formula, term.source)
            for inputs in _variants(Backend(self.arguments[0]))
            for training in (False, True)
            for moment in pass_moments(inputs, training=training)
            for term in moment.terms
        }
        rows = [
            [f"``{name}``", f"``{formula}``", _reference(source)]
            for name, formula, source in sorted(formulas)
        ]
        return table(self, ["Term", "Formula", "Derived in"], rows, widths=[25, 45, 30])


class Symbols(SphinxDirective):
    """What the symbols of the formulas stand for."""

    def run(self) -> list[nodes.Node]:
        """One row per symbol."""
        everywhere = [[f"``{name}``", "", meaning] for name, meaning in MEANINGS.items()]
        local = [
            [f"``{name}``", f"``{module}``", meaning]
            for module in _rooms()
            for name, meaning in symbols_of_room(module).items()
        ]
        header = ["Symbol", "Only in", "Meaning"]
        return table(self, header, [*everywhere, *local], prose=["Meaning"], widths=[20, 25, 55])


def _rooms() -> Iterator[str]:
    """The packages and modules of the memory model, a package before its modules."""
    for room in pkgutil.walk_packages(memory.__path__, "memory."):
        yield room.name


def _reference(source: str) -> str:
    """The function, or the constant, on its page."""
    module, _, name = source.rpartition(".")
    role = "data" if name.isupper() else "func"
    return f":py:{role}:`{name} <tuner.{module}.{name}>`"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("moments", Moments)
    app.add_directive("terms", Terms)
    app.add_directive("symbols", Symbols)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
