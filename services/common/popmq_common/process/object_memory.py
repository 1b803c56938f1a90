"""Where Python takes memory for small objects from: its own allocator, or the C library.

Its own is faster. It takes pieces of 1 MiB, and gives one back when nothing is left in it; after a
flood, one of two has an object in it that was renewed meanwhile, a timer or a number. The C library
gives back pages of 4 KiB. So while a flood lasts new objects come from there. Python's allocator
still frees and resizes all of them: it hands on what is not its own, as it does with all that is
larger than 512 bytes.

Source: Python's documentation, "Memory Management", "Customize Memory Allocators"; CPython,
Objects/obmalloc.c.
"""

import ctypes
import os
import sys
import sysconfig
import tracemalloc
from typing import Final

RAW, MEM, OBJ = range(3)
SMALL: Final = (MEM, OBJ)
"""The domains whose memory is Python's own."""
PYTHONS: Final = ((3, 11), (3, 14))
"""From this on, and below that: tried with each. Before a later one is added: does its allocator
still hand on what is not its own?"""
USUAL: Final = ("", "default", "pymalloc")
"""Of the variable PYTHONMALLOC."""


class _Functions(ctypes.Structure):
    """A PyMemAllocatorEx."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class ObjectMemory:
    """Of this process. It starts with Python's own allocator."""

    def __init__(self) -> None:
        self._own: dict[int, _Functions] = {}
        """What to put back, while objects come from the C library."""

    @property
    def is_of_c(self) -> bool:
        return bool(self._own)

    def take_from_c(self) -> None:
        """Nothing changes where somebody looks at each allocation, or Python has another allocator
        than usual."""
        if self._own or not _is_usual():
            return
        raw = _functions(RAW)
        if _functions(OBJ).malloc == raw.malloc:  # another part of this process has done so
            return
        self._own = {domain: _functions(domain) for domain in SMALL}
        for domain, own in self._own.items():
            _set_functions(
                domain, _Functions(own.context, raw.malloc, raw.calloc, own.realloc, own.free)
            )

    def take_from_python(self) -> None:
        for domain, own in self._own.items():
            _set_functions(domain, own)
        self._own = {}


def _is_usual() -> bool:
    return (
        sys.implementation.name == "cpython"
        and PYTHONS[0] <= sys.version_info[:2] < PYTHONS[1]
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and not hasattr(sys, "gettotalrefcount")  # a debug build
        and not sys.flags.dev_mode
        and not tracemalloc.is_tracing()
        and os.environ.get("PYTHONMALLOC", "") in USUAL
    )


def _functions(domain: int) -> _Functions:
    found = _Functions()
    ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(found))
    return found


def _set_functions(domain: int, functions: _Functions) -> None:
    ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(functions))
