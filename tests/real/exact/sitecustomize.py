"""With this folder first on PYTHONPATH, SGLang also prints P and A with all their digits before it sizes its pool.

Its own lines round them to two decimals, which is too coarse to check four digits of the floor. Nothing else changes.
"""

import importlib.abc
import importlib.util
import os
import sys

MODULE = "sglang.srt.mem_cache.kv_cache_configurator"


class Exact(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            classes = [found for found in vars(module).values() if isinstance(found, type)]
            owner = next(cls for cls in classes if "_profile_available_bytes" in vars(cls))
            ask, size = module.get_available_gpu_memory, owner._profile_available_bytes
            found = []

            def get_available_gpu_memory(*args, **options):
                found.append(ask(*args, **options))
                return found[-1]

            def _profile_available_bytes(self, pre_model_load_memory):
                try:
                    return size(self, pre_model_load_memory)
                finally:
                    print(f"exact pre={pre_model_load_memory!r} available={found[-1]!r}", file=sys.stderr, flush=True)

            module.get_available_gpu_memory = get_available_gpu_memory
            owner._profile_available_bytes = _profile_available_bytes

        spec.loader.exec_module = exec_module
        return spec


here = os.path.dirname(__file__)
places = [os.path.join(folder, "sitecustomize.py") for folder in sys.path if folder != here]
own = importlib.util.spec_from_file_location("own_sitecustomize", next(filter(os.path.isfile, places)))
module = sys.modules[own.name] = importlib.util.module_from_spec(own)
own.loader.exec_module(module)
sys.meta_path.insert(0, Exact())
