"""With this folder first on PYTHONPATH, SGLang also prints P and A with all their digits before it sizes its pool.

Its own lines round them to two decimals, which is too coarse to check four digits of the floor. Nothing else changes.
"""

import os
import runpy
import sys

HERE = os.path.dirname(__file__)


def change(module):
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


tools = runpy.run_path(os.path.join(os.path.dirname(HERE), "onimport.py"))
tools["on_import"]("sglang.srt.mem_cache.kv_cache_configurator", change, HERE)
