"""Where the real SGLang and its models lie, and what its processes need."""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROFILES = ROOT / "profiles"
FIXTURES = ROOT / "tests" / "fixtures" / "sglang-0.5.23"

SERVER_ENV = {
    "SGLANG_USE_CPU_ENGINE": "1",
    # Without it small helpers are compiled with g++ at the first request: 18 s once.
    "TORCH_COMPILE_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # Threads that wait let others have the few cores.
    "OMP_WAIT_POLICY": "PASSIVE",
}


def venv_dir() -> Path:
    """The virtual environment of the real server: SPECDECK_SGLANG_VENV, or .venv-sglang in the repository."""
    return Path(os.environ.get("SPECDECK_SGLANG_VENV") or ROOT / ".venv-sglang").absolute()


def venv_python() -> Path:
    return venv_dir() / "bin" / "python"


def models_dir() -> Path:
    """The folder of the generated checkpoints: SPECDECK_MODELS, or .cache/models in the repository."""
    return Path(os.environ.get("SPECDECK_MODELS") or ROOT / ".cache" / "models").absolute()
