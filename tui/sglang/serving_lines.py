"""`Decode batch` and `Prefill batch` lines, read as key: value pairs in any order (sglang-facts 2.3).

This is the hot path: a busy server logs little else. `quick_decode` reads the plain form with one expression;
everything else goes through the pairs.
"""

import re

from tui.facts import DecodeBatch, PrefillBatch
from tui.patterns import lazy
from tui.sglang.prefix import rank_of, stamp_seconds

_PLAIN_DECODE = lazy(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)((?: [A-Z_]{1,16}\d{1,6}){0,8})\] Decode batch[., ]{1,2}"
    r"#running-req: (\d{1,9}), #token: (\d{1,15}), token usage: (\d{1,4}\.\d{1,6}), "
    r"(?:accept len: (\d{1,4}\.\d{1,6}), (?:accept rate: (\d{1,4}\.\d{1,6}), )?)?"
    r"[a-z]{1,8} graph: (True|False), gen throughput \(token/s\): (\d{1,9}\.\d{1,6}), #queue-req: (\d{1,9})(?:, )?$",
    re.ASCII,
).match


_HEAD = " .,[]0123456789"  # what may stand between "Decode batch" and the first pair: ". ", ", ", " [2041], "


def _count(value: str) -> int | None:
    return int(value) if value.isdecimal() and len(value) < 16 else None


def _amount(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if abs(number) < 1e18 else None


def quick_decode(text: str, line: int) -> DecodeBatch | None:
    """The fact of a whole raw line that is one decode record in its plain form; None: read it the long way."""
    match = _PLAIN_DECODE(text)
    if match is None:
        return None
    stamp, tags, running, tokens, usage, accept_len, accept_rate, graph, speed, queue = match.groups()
    at = stamp_seconds(stamp)
    if at is None:
        return None
    return DecodeBatch(
        at=at,
        line=line,
        rank=rank_of(tags) if tags else None,
        running=int(running),
        queue=int(queue),
        tokens=int(tokens),
        token_usage=float(usage),
        accept_len=float(accept_len) if accept_len else None,
        accept_rate=float(accept_rate) if accept_rate else None,
        gen_tok_s=float(speed),
        graph=graph == "True",
    )


def read_decode(message: str, at: float, line: int, rank: str | None) -> DecodeBatch | None:
    """The fact of a message that starts with "Decode batch", None when it holds no pair."""
    pairs = message[12:].lstrip(_HEAD)
    if ": " not in pairs:
        return None
    running = queue = tokens = None
    usage = accept_len = accept_rate = speed = None
    graph: bool | None = None
    more: dict[str, float] | None = None
    for pair in pairs.split(", "):
        key, _, value = pair.partition(": ")
        if key == "#running-req":
            running = _count(value)
        elif key == "#token":
            tokens = _count(value)
        elif key == "token usage":
            usage = _amount(value)
        elif key == "accept len":
            accept_len = _amount(value)
        elif key == "accept rate":
            accept_rate = _amount(value)
        elif key == "gen throughput (token/s)":
            speed = _amount(value)
        elif key == "#queue-req":
            queue = _count(value.strip(" ,\r\n"))
        elif key[-6:] == " graph":
            graph = True if value == "True" else False if value == "False" else None
        else:
            number = _amount(value.strip(" ,%\r\n"))
            if number is not None and key:
                more = more or {}
                more[key] = number
                if key == "#full token":
                    tokens = int(number)
                elif key == "full token usage":
                    usage = number
    return DecodeBatch(
        at=at,
        line=line,
        rank=rank,
        running=running,
        queue=queue,
        tokens=tokens,
        token_usage=usage,
        accept_len=accept_len,
        accept_rate=accept_rate,
        gen_tok_s=speed,
        graph=graph,
        more=more or {},
    )


_PREFILL_FIELDS = {
    "#new-seq": "new_seq",
    "#new-token": "new_tokens",
    "#cached-token": "cached_tokens",
    "#running-req": "running",
    "#queue-req": "queue",
    "token usage": "token_usage",
    "input throughput (token/s)": "input_tok_s",
}


def read_prefill(message: str, at: float, line: int, rank: str | None) -> PrefillBatch | None:
    """The fact of a message that starts with "Prefill batch", None when it holds no pair."""
    pairs = message[13:].lstrip(_HEAD)
    if ": " not in pairs:
        return None
    counts: dict[str, int | None] = {}
    amounts: dict[str, float | None] = {}
    more: dict[str, float] = {}
    for pair in pairs.split(", "):
        key, _, value = pair.partition(": ")
        value = value.strip(" ,%\r\n")
        field = _PREFILL_FIELDS.get(key)
        if field is None:
            if key[-6:] == " graph" and value in ("True", "False"):
                more[key] = float(value == "True")
            elif (number := _amount(value)) is not None and key:
                more[key] = number
        elif key[0] == "#":
            counts[field] = _count(value)
        else:
            amounts[field] = _amount(value)
    usage = amounts.get("token_usage")
    return PrefillBatch(
        at=at,
        line=line,
        rank=rank,
        new_seq=counts.get("new_seq"),
        new_tokens=counts.get("new_tokens"),
        cached_tokens=counts.get("cached_tokens"),
        token_usage=more.get("full token usage") if usage is None else usage,
        running=counts.get("running"),
        queue=counts.get("queue"),
        input_tok_s=amounts.get("input_tok_s"),
        more=more,
    )
