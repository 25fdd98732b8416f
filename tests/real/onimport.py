"""Changes one module of the server's as soon as it is imported: for a `sitecustomize.py` first on PYTHONPATH."""

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType


class _OnImport(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self._name, self._change = name, change

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            self._change(module)

        spec.loader.exec_module = exec_module
        return spec


def on_import(name: str, change: Callable[[ModuleType], None], folder: str) -> None:
    """Let `change` have the module `name` once it is imported, after the interpreter's own sitecustomize ran.

    `folder`: where the caller lies; its sitecustomize hides the interpreter's own.
    """
    places = [os.path.join(place, "sitecustomize.py") for place in sys.path if place != folder]
    own = importlib.util.spec_from_file_location("own_sitecustomize", next(filter(os.path.isfile, places)))
    module = sys.modules[own.name] = importlib.util.module_from_spec(own)
    own.loader.exec_module(module)
    sys.meta_path.insert(0, _OnImport(name, change))
