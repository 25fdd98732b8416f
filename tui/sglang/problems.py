"""Recognises what SGLang, torch, NCCL, argparse, uvicorn, the shell and the kernel print when something is wrong.

One line may say several things ("Capture cuda graph failed: CUDA out of memory…"): each is a Problem of its own.
What they mean together is `tui.sglang.diagnosis`'s business.
"""

from tui.facts import Problem
from tui.sglang.problem_codes import CODES
from tui.sglang.problem_rule import Rule
from tui.sglang.rules_memory import MEMORY_RULES
from tui.sglang.rules_process import PROCESS_RULES
from tui.sglang.rules_start import START_RULES
from tui.sglang.secrets import mask_text

__all__ = ["CODES", "clean_text", "recognise"]

MAX_TEXT = 2000
_MAX_READ = 20_000
RULES: tuple[Rule, ...] = (*MEMORY_RULES, *PROCESS_RULES, *START_RULES)

# Lines that quote trouble without having any.
_HARMLESS = ("Ignore import error when loading", "can be ignored", "kill_process_tree called", "Pyspy failed")


def recognise(message: str, at: float, line: int, rank: str | None) -> list[Problem]:
    """The problems that a message names, most specific first; none for a harmless line."""
    found: list[Problem] = []
    message = message[:_MAX_READ]
    for rule in RULES:
        if rule.needle not in message or (rule.alone and found):
            continue
        numbers = _read(rule, message)
        if numbers is None or any(problem.code == rule.code for problem in found):
            continue
        if not found and any(harmless in message for harmless in _HARMLESS):
            return []
        found.append(Problem(at=at, line=line, rank=rank, code=rule.code, text=clean_text(message), numbers=numbers))
    return found


def clean_text(text: str) -> str:
    """Text fit to keep and show: secrets masked, control characters gone, length bounded."""
    text = mask_text(text.strip()[:MAX_TEXT])
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _read(rule: Rule, message: str) -> dict[str, float] | None:
    """The numbers that a rule reads from the message; None when its pattern does not match after all."""
    if rule.pattern is None:
        return rule.read(message) if rule.read else {}
    match = rule.pattern.search(message)
    if match is None:
        return {} if rule.optional else None
    numbers = {name: float(value) for name, value in match.groupdict().items() if value}
    if rule.read:
        numbers.update(rule.read(message))
    return numbers
