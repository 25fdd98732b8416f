"""With this folder first on PYTHONPATH, SGLang's scheduler fails in its first batch, as with a defect of its own."""

import importlib.abc
import importlib.util
import os
import sys

MODULE = "sglang.srt.managers.scheduler"


class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            import torch

            run(module)

            def run_batch(self, *args, **options):
                return torch.zeros(29, 256) @ torch.zeros(384, 128)

            module.Scheduler.run_batch = run_batch

        spec.loader.exec_module = exec_module
        return spec


here = os.path.dirname(__file__)
places = [os.path.join(folder, "sitecustomize.py") for folder in sys.path if folder != here]
own = importlib.util.spec_from_file_location("own_sitecustomize", next(filter(os.path.isfile, places)))
module = sys.modules[own.name] = importlib.util.module_from_spec(own)
own.loader.exec_module(module)
sys.meta_path.insert(0, Broken())
