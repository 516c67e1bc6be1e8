"""How fast a batch travels between a trainer's driver and its workers, through the memory of one machine.

The steps are those of verl's ``DataProto`` through Ray: rows made contiguous, put into one buffer
(``TensorDict.consolidate``), saved by torch into bytes, pickled, copied into shared memory; and back.
"""

import io
import mmap
import pickle
import time

import torch
from measure.operators.shapes import Shapes

_TENSORS = 6
_COLUMNS = 4096


def dispatched(shapes: Shapes) -> dict[str, float]:
    """Bytes per second of sending and of receiving by one process, into memory that nobody has touched."""
    rows = max(2, shapes.copied_values // 4 // _TENSORS // _COLUMNS // 2)
    whole = [torch.randint(1000, (2 * rows, _COLUMNS)) for _ in range(_TENSORS)]
    part = [tensor[:rows] for tensor in whole]
    size = sum(tensor.numel() * tensor.element_size() for tensor in part)
    begin = time.perf_counter()
    shared, written = _sent(part)
    sent = time.perf_counter()
    received = _received(shared, written)
    end = time.perf_counter()
    if not all(torch.equal(one, other) for one, other in zip(part, received, strict=True)):
        raise RuntimeError("what came back is not what was sent")
    return {
        "bytes": size,
        "sent_bytes_per_s": round(size / (sent - begin)),
        "received_bytes_per_s": round(size / (end - sent)),
    }


def _sent(part: list[torch.Tensor]) -> tuple[mmap.mmap, int]:
    contiguous = [tensor.clone() for tensor in part]
    buffer = torch.cat([tensor.view(torch.uint8).flatten() for tensor in contiguous])
    views = [
        piece.view(torch.int64).view(tensor.shape)
        for piece, tensor in zip(buffer.chunk(len(contiguous)), contiguous, strict=True)
    ]
    saved = io.BytesIO()
    torch.save(views, saved)
    pickled = pickle.dumps((saved.getvalue(), {}, {}), protocol=5)
    shared = mmap.mmap(-1, len(pickled))
    shared[:] = pickled
    return shared, len(pickled)


def _received(shared: mmap.mmap, written: int) -> list[torch.Tensor]:
    saved, _, _ = pickle.loads(memoryview(shared)[:written])
    loaded: list[torch.Tensor] = torch.load(io.BytesIO(saved), weights_only=False)
    return loaded
