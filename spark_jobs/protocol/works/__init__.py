"""Kinds of work: each module defines one, or the changes of progress. Pure."""

from __future__ import annotations

import importlib
import pkgutil

# As an archive lists them too, in which the code is shipped.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__package__}.{_module.name}")
