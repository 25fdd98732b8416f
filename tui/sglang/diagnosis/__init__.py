"""What killed the server, and what to change: facts in, a Verdict out. No I/O."""

from tui.sglang.diagnosis.doctor import Doctor

__all__ = ["Doctor"]
