"""Transformer Engine's and Megatron-Core's Python on the processor, without a line of their files changed.

Transformer Engine says in its sources that its tensors are on a GPU. Its modules are changed as they are
loaded: the word for the device, the assertions about it, and the loading of its compiled part, in whose place
:mod:`measure.megatron_layers.compiled_part` stands.
"""

import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from measure.megatron_layers.compiled_part import CompiledPart

_ENGINE = "transformer_engine"
_CHANGES = (
    (re.compile(r'torch\.device\("cuda", torch\.cuda\.current_device\(\)\)'), 'torch.device("cpu")'),
    (re.compile(r'"cuda"'), '"cpu"'),
    (re.compile(r'assert [^\n]*, "TransformerEngine needs CUDA\."'), "pass"),
    (re.compile(r"query_layer\.is_cuda and key_layer\.is_cuda and value_layer\.is_cuda"), "True"),
)
#: Behind ``transformer_engine.common``: nothing compiled is loaded.
_NOTHING_LOADED = "\n\ndef load_framework_extension(framework):\n    pass\n"


def changed(source: str, module: str) -> str:
    """A module's source as it is run here."""
    for pattern, replacement in _CHANGES:
        source = pattern.sub(replacement, source)
    return source + _NOTHING_LOADED if module == f"{_ENGINE}.common" else source


class _Loader(SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        source = changed(bytes(data).decode("utf-8"), self.name)
        return compile(source, path, "exec", dont_inherit=True, optimize=_optimize)

    def get_code(self, fullname: str) -> Any:
        """From the source, always: a compiled file beside it is of the source as it stands."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _ENGINE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


class _Anything(ModuleType):
    """A module that has every name, for what only an export needs."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class _Nothing:
    """A context, a stream or an event that does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: self


def put_on_the_cpu(packages: str) -> None:
    """Make both packages importable here; for the rest of this process.

    Args:
        packages: the folder that has them.
    """
    os.environ.update(NVTE_PROJECT_BUILDING="1", CUDA_DEVICE_MAX_CONNECTIONS="1")
    os.environ.update(NVTE_FLASH_ATTN="0", NVTE_FUSED_ATTN="1", NVTE_UNFUSED_ATTN="0")
    torch.set_num_threads(1)
    sys.path.insert(0, packages)
    sys.meta_path.insert(0, _Finder())
    sys.modules["transformer_engine_torch"] = CompiledPart()
    sys.modules[f"{_ENGINE}.pytorch.onnx_extensions"] = _Anything(f"{_ENGINE}.pytorch.onnx_extensions")
    _without_cuda()


def _without_cuda() -> None:
    """Lets what both ask of CUDA mean the processor, as an H200 would answer."""
    cuda: Any = torch.cuda
    h200 = SimpleNamespace(
        major=9,
        minor=0,
        name="H200",
        gcnArchName="",
        multi_processor_count=132,
        total_memory=1 << 37,
        warp_size=32,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
    )
    for name in ("device", "Stream", "Event", "stream"):
        setattr(cuda, name, _Nothing)
    cuda.current_device = lambda: torch.device("cpu")
    cuda.current_stream = lambda *_: _Nothing()
    cuda.is_current_stream_capturing = lambda: False
    cuda.get_device_properties = lambda *_: h200
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.initial_seed = lambda: 0
    cuda.default_generators = [torch.default_generator]
    for module in (cuda, cuda.random):
        module.get_rng_state = lambda *_, **__: torch.get_rng_state()
        module.set_rng_state = lambda *_, **__: None
    for name in ("synchronize", "manual_seed", "_lazy_call"):
        setattr(cuda, name, lambda *_, **__: None)
    cuda.nvtx.range_push = cuda.nvtx.range_pop = lambda *_: None
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor  # type: ignore[method-assign]
