"""Lets SGLang 0.5.23 run on a CPU without its CUDA packages. Lies in the server venv's site-packages, so that every
process of the server, spawned children included, imports it first. SGLang's own files are not changed."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types


class TorchvisionOps(importlib.abc.MetaPathFinder):
    """torchvision's own library wants CUDA and cannot load; its import then fails on the two ops it registers there."""

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            self.library = torch.library.Library("torchvision", "DEF")
            self.library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            self.library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            kept.append(self.library)


class DraftingBackend(importlib.abc.MetaPathFinder):
    """Only the "intel_amx" attention backend may draft on a CPU, and the argument resolution drops it without AMX.

    "Has AMX" is said to that resolution alone; the kernels come from the sgl_kernel stand-in.
    """

    def find_spec(self, name, path=None, target=None):
        if name != "sglang.srt.runtime_context":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module.override_platform(has_amx=True).install()

        spec.loader.exec_module = exec_module
        return spec


class Pretended(types.ModuleType):
    """A module in which every name exists: capitals are classes, the rest modules that act as decorators."""

    def __init__(self, name):
        super().__init__(name)
        self.__path__ = []
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if name[0].isupper():
            body = {"__init__": lambda self, *a, **k: None, "__class_getitem__": classmethod(lambda cls, item: cls)}
            value = type(name, (), body)
        else:
            value = sys.modules.get(full) or sys.modules.setdefault(full, Pretended(full))
        setattr(self, name, value)
        return value

    def __call__(self, *args, **kwargs):
        bare = len(args) == 1 and callable(args[0]) and not kwargs
        return args[0] if bare else (lambda function: function)


class Triton(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for triton (0.9 GB installed), which nothing runs on a CPU: its decorators pass functions through."""

    def find_spec(self, name, path=None, target=None):
        if name == "triton" or name.startswith("triton."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = Pretended(spec.name)
        if spec.name == "triton":
            module.__version__ = "3.8.0"
        return module

    def exec_module(self, module):
        pass


kept = []
sys.meta_path.insert(0, TorchvisionOps())
if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    sys.meta_path.insert(0, DraftingBackend())
sys.meta_path.append(Triton())
