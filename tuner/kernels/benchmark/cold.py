"""Compilers' caches in a folder that is empty at first, so that first calls cost what they cost a user."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_VARIABLES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUTE_DSL_CACHE_DIR": "cute",
}


@contextmanager
def cold_caches() -> Iterator[None]:
    """Within it Triton, torch's compiler and CuTe DSL find nothing that they compiled before."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    with TemporaryDirectory(prefix="tuner-benchmark-", ignore_cleanup_errors=True) as folder:
        for name, part in _VARIABLES.items():
            os.environ[name] = str(Path(folder, part))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
