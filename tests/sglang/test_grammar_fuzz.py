# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Whatever a log holds, the grammar gives facts, nothing raises, and what is shown is text.

SPECDECK_FUZZ_LINES sets how many mutated lines are fed (the default keeps the test short); the soak feeds a million.
"""

import json
import os
import random
import unicodedata
from collections.abc import Iterable

import pytest

from tui.app.glyphs import UNICODE
from tui.app.log_lines import clipped, wrapped
from tui.app.widgets.verdict_card import card
from tui.commands import doctor_text, statustext
from tui.commands.doctor_case import examine
from tui.factlines import dump_fact, load_fact
from tui.facts import Attached, Fact
from tui.session import Session
from tui.sglang.bulk import interesting, sift
from tui.sglang.grammar import LogGrammar
from tui.sglang.ledger import Ledger
from tui.sources.linetext import line_text

LINES = int(os.environ.get("SPECDECK_FUZZ_LINES", "4000"))
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_INSERTS = [
    "\x00",
    "\x1b[31m",
    "\x1b]0;t\x07",
    "[bold red]",
    "[/]",
    "[link=x]",
    "\r",
    "\n",
    "\t",
    "�",
    "\u202e",
    "\ud83d",
    "𝟙",
    "٣",
    "%|",
    "]",
    "[",
    "(",
    "{",
    "'",
    '"',
    "\\",
    " pid=1) ",
    "nan",
    "inf",
    "-",
    "1e999",
    "9" * 40,
    "Traceback (most recent call last):",
    "server_args={",
    "|",
]


def _mutate(rng: random.Random, lines: list[str]) -> bytes:
    """A line cut, glued, shuffled and damaged; it may be no UTF-8, and may hold a newline more."""
    line = rng.choice(lines)
    for _ in range(rng.randint(0, 3)):
        start, end = sorted((rng.randint(0, len(line)), rng.randint(0, len(line))))
        match rng.randint(0, 5):
            case 0:
                line = line[start:]
            case 1:
                line = line[:end]
            case 2:
                line = line[:start] + line[end:]
            case 3:
                line = line[:start] + rng.choice(_INSERTS) + line[start:]
            case 4:
                line += rng.choice(lines)
            case _:
                words = line.split(" ")
                rng.shuffle(words)
                line = " ".join(words)
    raw = bytearray(line.encode("utf-8", "surrogatepass"))
    if raw and rng.random() < 0.2:
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw)


@pytest.fixture(name="seeds")
def _seeds(writer, decode_line, traceback_text):
    lines = [
        line for version in ("0.4.6", "0.5.6", "0.5.13", "0.5.23") for line in writer(version, tp=2, spec=True).start()
    ]
    lines += [decode_line(version) for version in ("0.4.6", "0.5.23")] * 5
    lines += ["[2026-11-29 12:00:00 TP1] Scheduler hit an exception: Traceback (most recent call last):"]
    lines += traceback_text.split("\n")
    lines += [
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.7",
        "During handling of the above exception, another exception occurred:",
        "  + Exception Group Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 95.01 GiB",
        "Loading safetensors checkpoint shards:  94% Completed | 15/16 [00:06<00:00,  2.10it/s]",
        "Capturing batches (bs=8 avail_mem=20.10 GB):  50%|█████     | 5/10 [00:02<00:02,  2.00it/s]",
        '(Worker pid=11, ip=1.2.3.4) File "x.py", line 3, in f',
        '{"log":"[2026-11-29 12:00:00] Load weight begin. avail mem=1.00 GB\\n","stream":"stderr"}',
        "max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled value instead.",
    ]
    return lines


@pytest.mark.parametrize("lines", [LINES, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_mutated_lines_never_raise_and_only_text_is_shown(seeds, tmp_path, lines):
    rng = random.Random(20261129)
    log = tmp_path / "a.log"
    verdicts = set()
    for count in range(0, lines, 500):
        # In turn nothing but damage, and a log in order with some.
        damage = 0.05 if count % 1000 else 1.0
        first = rng.randrange(len(seeds))
        raw = [
            _mutate(rng, seeds) if rng.random() < damage else seeds[(first + number) % len(seeds)].encode()
            for number in range(500)
        ]
        log.write_bytes(b"\n".join(raw))
        grammar, ledger, session = LogGrammar(), Ledger(), Session()
        session.apply(Attached(at=0.0, target="a.log"))
        for number, line in enumerate(raw, 1):
            interesting(line)
            text = line_text(line)
            _only_text((*wrapped(text, 80), clipped(text, 3, 80, "…")))
            facts = grammar.feed(number, text, 1.0)
            _check(facts, ledger, number)
            session.extend(facts)
        facts = grammar.finish(2.0)
        _check(facts, ledger, 501)
        session.extend(facts)
        ledger.ranks()
        _show(session)
        report = examine(str(log))
        verdicts.add(report.verdict and report.verdict.kind)
        _only_text(doctor_text.lines_of(report))
        json.dumps(doctor_text.to_json(report))
    assert verdicts - {None, "unknown"}, "the lines were mutated beyond recognition"


def _show(session: Session) -> None:
    """What `status` and the card over the log make of a session."""
    snapshot = session.snapshot(3.0)
    _only_text(statustext.lines_of(snapshot))
    if snapshot.verdict is not None:
        rows = card(snapshot.verdict, 100, 12, UNICODE)
        _only_text(run[0] for row in rows for run in row)


def _only_text(shown: Iterable[str]) -> None:
    for text in shown:
        if not text.isascii() or not text.isprintable():
            unsafe = [char for char in text if unicodedata.category(char) in _UNSAFE]
            assert not unsafe, (text, unsafe)


def _check(facts: list[Fact], ledger: Ledger, number: int) -> None:
    for fact in facts:
        assert 1 <= fact.line <= number
        assert isinstance(fact.at, float)
        assert load_fact(dump_fact(fact)) == fact
        ledger.apply(fact)


def test_a_log_reordered_line_by_line_never_raises(seeds):
    rng = random.Random(7)
    for _ in range(20):
        lines = seeds[:]
        rng.shuffle(lines)
        grammar, ledger = LogGrammar(), Ledger()
        for number, line in enumerate(lines, 1):
            _check(grammar.feed(number, line, 1.0), ledger, number)
        _check(grammar.finish(1.0), ledger, len(lines))
        for rank in ledger.ranks():
            assert rank.other is None or rank.other >= 0


def test_the_same_lines_give_the_same_facts(seeds):
    first, second = LogGrammar(), LogGrammar()
    for number, line in enumerate(seeds, 1):
        assert first.feed(number, line, 1.0) == second.feed(number, line, 1.0)


@pytest.mark.parametrize(
    "character", ["[", "]", " ", "a", "1", ":", "%", "|", '"', "'", "(", "\\", "\r", "A.", "a ", "1:", "-"]
)
def test_long_monotonous_lines_are_quick(character):
    """Sixty thousand of one character: an expression that backtracks would take minutes."""
    for head in (
        "",
        "Traceback (most recent call last): ",
        "server_args={",
        "Decode batch, #",
        "Load weight end. ",
        "x: error: ",
        "Capture ",
    ):
        grammar = LogGrammar()
        grammar.feed(1, head + character * 60_000, 0.0)
        grammar.feed(2, character * 60_000 + head, 0.0)
        grammar.finish(0.0)


def test_sieve_on_noise():
    rng = random.Random(3)
    for _ in range(50):
        block = bytes(rng.randrange(256) for _ in range(rng.randint(0, 9000)))
        found, following = sift(block, 1)
        assert following == 1 + block.count(b"\n") + (1 if block and block[-1:] != b"\n" else 0)
        assert all(1 <= number < following for number, _ in found)
