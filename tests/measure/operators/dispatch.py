"""How fast a batch travels between a trainer's driver and its workers, through the memory of one machine.

The steps are those of verl's ``DataProto`` through Ray: rows made contiguous, put into one buffer
(``TensorDict.consolidate``), saved by torch into bytes, pickled, copied into shared memory; and back.
And how fast a rank makes a tensor of the lists of an engine, as ``utils/torch_functional.py``
(``pad_2d_list_to_length``) of verl 0.5 does.
"""

import io
import mmap
import pickle
import time

import torch
from measure.operators.shapes import Shapes

_TENSORS = 6
_COLUMNS = 4096
_LISTS = 512  # responses
_REPETITIONS = 3


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


def listed(shapes: Shapes) -> dict[str, float]:
    """Seconds in which torch makes one number of a padded tensor of lists of token ids, the least of some."""
    rows = min(_LISTS, max(2, shapes.copied_values // _COLUMNS))
    lists = [list(range(row, row + _COLUMNS // 2)) for row in range(rows)]
    seconds = min(_padded_seconds(lists) for _ in range(_REPETITIONS))
    return {"numbers": rows * _COLUMNS, "number_s": seconds / (rows * _COLUMNS)}


def _padded_seconds(lists: list[list[int]]) -> float:
    begin = time.perf_counter()
    padded = [(*one, *((0,) * (_COLUMNS - len(one)))) for one in lists]
    tensor = torch.tensor(padded)
    seconds = time.perf_counter() - begin
    if tensor.shape != (len(lists), _COLUMNS) or int(tensor[-1, 0]) != lists[-1][0]:
        raise RuntimeError("the tensor does not hold the lists")
    return seconds


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
