"""The files of which a function runs: for measures that ask what a piece of work passes."""

from __future__ import annotations

import sys
import threading
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType


class MetFiles:
    """The files below a folder of which a function runs, here and in every thread that begins meanwhile.

    What runs while a module is imported is not met, and a class's body is no function. Nor is a method that
    a decorator made (of a dataclass): it is of no file.
    """

    def __init__(self, root: object) -> None:
        self.files: dict[str, None] = {}
        self.has_ended = False
        self._root = f"{root}/"
        self._known: set[CodeType] = set()
        self._here = threading.local()

    def __enter__(self) -> None:
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def end(self) -> None:
        """Meet no more."""
        self.has_ended = True

    def _see(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            step = {"call": 1, "return": -1}.get(event, 0)
            self._here.importing = self._importing() + step
        elif event == "call" and not self.has_ended and code not in self._known:
            self._meet(code)

    def _meet(self, code: CodeType) -> None:
        if not code.co_flags & CO_OPTIMIZED or self._importing():
            return  # and may be met later
        self._known.add(code)
        if code.co_filename.startswith(self._root):
            self.files.setdefault(code.co_filename.removeprefix(self._root))

    def _importing(self) -> int:
        """How many modules this thread is amid the import of."""
        return int(getattr(self._here, "importing", 0))
