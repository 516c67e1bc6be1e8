"""Memory that is mapped as vLLM's sleep mode has it: blocks of a fixed place, made anew and taken away."""

import ctypes

_DEVICE, _PINNED, _READ_AND_WRITE = (
    1,
    1,
    3,
)  # CU_MEM_LOCATION_TYPE, CU_MEM_ALLOCATION_TYPE, CU_MEM_ACCESS_FLAGS


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Kind(ctypes.Structure):
    """``CUmemAllocationProp``."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """``CUmemAccessDesc``."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Blocks:
    """Places for blocks of one size on a card; they have no memory until they wake.

    Source: vLLM 0.24 ``csrc/cumem_allocator.cpp`` (``create_and_map``, ``unmap_and_release``).
    """

    def __init__(self, size: int, count: int, card: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._size, self._handles = size, list[int]()
        location = _Location(_DEVICE, card)
        self._kind = _Kind(type=_PINNED, location=location)
        self._access = _Access(location, _READ_AND_WRITE)
        self._places = [ctypes.c_ulonglong() for _ in range(count)]
        for place in self._places:
            self._call(
                "cuMemAddressReserve", ctypes.byref(place), _size(size), _size(0), _place(0), _place(0)
            )

    def wake(self) -> None:
        """Gives every place its memory."""
        for place in self._places:
            handle = ctypes.c_ulonglong()
            self._call(
                "cuMemCreate", ctypes.byref(handle), _size(self._size), ctypes.byref(self._kind), _place(0)
            )
            self._call("cuMemMap", place, _size(self._size), _size(0), handle, _place(0))
            self._call("cuMemSetAccess", place, _size(self._size), ctypes.byref(self._access), _size(1))
            self._handles.append(handle.value)

    def sleep(self) -> None:
        """Takes it away again."""
        for place, handle in zip(self._places, self._handles, strict=True):
            self._call("cuMemUnmap", place, _size(self._size))
            self._call("cuMemRelease", _place(handle))
        self._handles.clear()

    def close(self) -> None:
        """Gives the places back."""
        for place in self._places:
            self._call("cuMemAddressFree", place, _size(self._size))

    def _call(self, name: str, *arguments: object) -> None:
        error = getattr(self._cuda, name)(*arguments)
        if error:
            raise RuntimeError(f"{name}: error {error}")


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def _place(value: int) -> ctypes.c_ulonglong:
    return ctypes.c_ulonglong(value)
