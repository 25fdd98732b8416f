# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Tracebacks as records: whole, interleaved, chained, cut."""

import pytest

from tui.facts import Problem, Traceback
from tui.sglang.diagnosis import Doctor
from tui.sglang.grammar import LogGrammar

STAMP0 = "[2026-11-29 12:00:00 TP0] "
STAMP1 = "[2026-11-29 12:00:01 TP1] "
HIT = "Scheduler hit an exception: "
SIGQUIT = "[2026-11-29 12:00:02] Received sigquit from a child process. It usually means the child failed."


def _tracebacks(facts):
    return [fact for fact in facts if isinstance(fact, Traceback)]


def _problems(facts):
    return [fact.code for fact in facts if isinstance(fact, Problem)]


def test_one_record(read, traceback_text):
    text = STAMP1 + HIT + traceback_text + "ValueError: it is bad\n\n" + SIGQUIT
    facts = read(text)
    (fact,) = _tracebacks(facts)
    assert (fact.rank, fact.line, fact.last_line) == ("TP1", 1, 7)
    assert (fact.exception, fact.message, fact.head_cut, fact.chain) == ("ValueError", "it is bad", False, ())
    assert fact.where == (
        "run_scheduler_process (sglang/srt/managers/scheduler.py:6362)",
        "configure (sglang/srt/mem_cache/pool.py:3050)",
    )
    assert _problems(facts) == ["process-exception", "sigquit"]


def test_it_is_told_as_soon_as_the_next_record_begins(read, traceback_text):
    text = STAMP1 + HIT + traceback_text + "ValueError: it is bad"
    assert _tracebacks(read(text, finish=False)) == []
    assert len(_tracebacks(read(text + "\n" + SIGQUIT, finish=False))) == 1
    assert len(_tracebacks(read(text))) == 1


def test_eight_ranks_one_after_the_other(read, traceback_text):
    text = "\n".join(
        f"[2026-11-29 12:00:00 TP{rank}] {HIT}{traceback_text}ValueError: rank {rank}\n" for rank in range(8)
    )
    facts = _tracebacks(read(text))
    assert [(fact.rank, fact.message) for fact in facts] == [(f"TP{rank}", f"rank {rank}") for rank in range(8)]


def test_another_rank_may_write_between_the_lines(read, traceback_text):
    head, *rest = (STAMP1 + HIT + traceback_text + "ValueError: it is bad").split("\n")
    between = STAMP0 + "Memory pool end. avail mem=1.00 GB"
    (fact,) = _tracebacks(read([head, *rest[:2], between, *rest[2:], SIGQUIT]))
    assert (fact.rank, fact.exception, len(fact.where)) == ("TP1", "ValueError", 2)


def test_two_ranks_interleaved(read, traceback_text):
    first = (STAMP0 + HIT + traceback_text + "ValueError: of zero").split("\n")
    second = (STAMP1 + HIT + traceback_text + "KeyError: 'of one'").split("\n")
    facts = _tracebacks(read([*first[:4], *second, *first[4:], SIGQUIT]))
    assert {(fact.rank, fact.exception, fact.message, len(fact.where)) for fact in facts} == {
        ("TP1", "KeyError", "'of one'", 2),
        ("TP0", "ValueError", "of zero", 2),
    }


@pytest.mark.parametrize(
    "phrase",
    [
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    ],
)
def test_chained(read, traceback_text, phrase):
    text = f"{traceback_text}KeyError: 'a'\n\n{phrase}\n\n{traceback_text}x.y.CustomThing: b\n\n{phrase}\n\n{traceback_text}OSError: c"
    (fact,) = _tracebacks(read(STAMP1 + HIT + text))
    assert (fact.exception, fact.message) == ("OSError", "c")
    assert fact.chain == ("KeyError: 'a'", "x.y.CustomThing: b")
    assert len(fact.where) == 2


def test_message_of_many_lines(read, traceback_text):
    advice = (
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.\n\nPossible solutions:\n"
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-max-bs to a smaller value"
    )
    facts = read(STAMP1 + HIT + traceback_text + advice + "\n\n" + SIGQUIT)
    (fact,) = _tracebacks(facts)
    assert fact.message.startswith("Capture cuda graph failed: CUDA out of memory.")
    assert fact.message.endswith("2. set --cuda-graph-max-bs to a smaller value")
    problems = [fact for fact in facts if isinstance(fact, Problem)]
    assert [fact.code for fact in problems] == [
        "process-exception",
        "cuda-oom",
        "capture-failed",
        "capture-advice",
        "sigquit",
    ]
    assert [fact.rank for fact in problems] == ["TP1"] * 4 + [None]


def test_head_cut(read, traceback_text):
    (fact,) = _tracebacks(read(traceback_text.split("\n", 1)[1] + "ValueError: x\n" + SIGQUIT))
    assert (fact.head_cut, fact.exception, len(fact.where), fact.line) == (True, "ValueError", 2, 1)


def test_cut_in_the_middle_of_a_source_line(read, traceback_text):
    (fact,) = _tracebacks(read(traceback_text.split("\n", 2)[2] + "ValueError: x\n" + SIGQUIT))
    assert (fact.head_cut, fact.exception, len(fact.where), fact.line) == (True, "ValueError", 1, 3)


def test_tail_cut(read, traceback_text):
    (fact,) = _tracebacks(read(STAMP1 + HIT + traceback_text))
    assert (fact.exception, fact.message, len(fact.where)) == (None, "", 2)


def test_an_unfinished_traceback_does_not_stay_open_for_ever(read, traceback_text, decode_line):
    lines = (STAMP1 + HIT + traceback_text).rstrip("\n").split("\n")
    facts = _tracebacks(read([*lines, *(decode_line(second=i) for i in range(20))], finish=False))
    assert [fact.exception for fact in facts] == [None]


def test_a_lone_exception_line(read):
    (fact,) = _tracebacks(read(["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB."]))
    assert (fact.head_cut, fact.exception, fact.where) == (True, "torch.OutOfMemoryError", ())


@pytest.mark.parametrize(
    "line",
    [
        "INFO: all is well",
        "ERROR: something",
        "usage: launch_server.py [-h]",
        "Warning: deprecated",
        "x.py:3: UserWarning: look out",
        "Note: an Error: inside",
        "Error: no such thing",
        "http://x: y",
    ],
)
def test_lines_that_are_no_exceptions(read, line):
    assert _tracebacks(read([line])) == []


def test_every_line_carried_by_a_container(read, traceback_text):
    text = STAMP1 + HIT + traceback_text + "ValueError: it is bad"
    (fact,) = _tracebacks(read("\n".join("sglang-1  | " + line for line in text.split("\n"))))
    assert (fact.rank, fact.exception, len(fact.where)) == ("TP1", "ValueError", 2)


def test_two_actors_of_ray_interleaved(read, traceback_text):
    lines = (traceback_text + "ValueError: it is ").split("\n")
    mixed = [
        f"(Worker pid={pid}) {line}" + (str(pid) if "Error:" in line else "") for line in lines for pid in (11, 22)
    ]
    assert {(fact.message, len(fact.where)) for fact in _tracebacks(read(mixed))} == {("it is 11", 2), ("it is 22", 2)}


@pytest.mark.parametrize("label", ["{}: ", "[rank{}]: ", "gpu-node-{} | "])
def test_two_tasks_of_a_launcher_interleaved(read, traceback_text, label):
    lines = (traceback_text + "ValueError: it is ").split("\n")
    mixed = [label.format(task) + line + (str(task) if "Error:" in line else "") for line in lines for task in (3, 12)]
    assert {(fact.message, len(fact.where)) for fact in _tracebacks(read(mixed))} == {("it is 3", 2), ("it is 12", 2)}


def test_an_unfinished_traceback_ends_among_other_text(read, traceback_text):
    facts = _tracebacks(
        read([*traceback_text.rstrip("\n").split("\n"), *["other words of some program"] * 40], finish=False)
    )
    assert [fact.exception for fact in facts] == [None]


def test_a_traceback_pasted_as_one_line(read, traceback_text):
    text = traceback_text + "ptxas.BuildError: sm_120 is not defined\n\nPossible solutions:"
    line = " ".join(f"(Worker pid=11) {part.strip()}" for part in text.split("\n"))
    (fact,) = _tracebacks(read([line]))
    assert (fact.exception, len(fact.where)) == ("ptxas.BuildError", 2)


def test_line_breaks_escaped(read, traceback_text):
    escaped = (traceback_text + "ValueError: it is bad").replace("\n", "\\n")
    (fact,) = _tracebacks(read([STAMP1 + HIT + escaped]))
    assert (fact.rank, fact.exception, fact.message, len(fact.where)) == ("TP1", "ValueError", "it is bad", 2)


def test_exception_group(read):
    text = """  + Exception Group Traceback (most recent call last):
  |   File "/x/lib/python3.11/site-packages/a.py", line 2, in run
  |     raise ExceptionGroup
  | ExceptionGroup: two of them (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/x/b.py", line 3, in first
    |     raise ValueError
    | ValueError: one
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/x/b.py", line 4, in second
    | KeyError: 'two'
    +------------------------------------"""
    (fact,) = _tracebacks(read(text + "\n" + SIGQUIT))
    assert (fact.exception, fact.where) == ("ExceptionGroup", ("run (a.py:2)",))
    assert fact.chain == ("ValueError: one", "KeyError: 'two'")


def test_syntax_error(read):
    text = 'Traceback (most recent call last):\n  File "/x/a.py", line 2, in <module>\n    import b\n  File "/x/b.py", line 7\n    foo(\n       ^\nSyntaxError: \'(\' was never closed'
    (fact,) = _tracebacks(read(text))
    assert (fact.exception, fact.where) == ("SyntaxError", ("<module> (/x/a.py:2)", "<module> (/x/b.py:7)"))


def test_dumps_are_no_tracebacks(read):
    text = """[2026-11-29 12:00:00 TP6] Pyspy dump for PID 309:
Process 309: sglang::scheduler_TP6
Thread 309 (active): "MainThread"
    _apply (penaltylib/min_new_tokens.py:78)
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/x/a.py", line 5 in forward
  File "/x/a.py", line 6 in run"""
    facts = read(text)
    assert _tracebacks(facts) == []
    assert _problems(facts) == ["stack-dump", "segfault"]


def test_source_lines_are_not_read_as_problems(read):
    text = """Traceback (most recent call last):
  File "/x/a.py", line 5, in f
    raise RuntimeError("Not enough memory. Please try to increase --mem-fraction-static.")
RuntimeError: something else"""
    assert _problems(read(text)) == []


def test_bounded(read):
    frame = '  File "/x/a.py", line 5, in f\n    f()\n'
    text = "Traceback (most recent call last):\n" + frame * 5000 + "RecursionError: too deep\n" + "more text\n" * 5000
    (fact,) = _tracebacks(read(text))
    assert fact.exception == "RecursionError"
    assert len(fact.where) <= 120
    assert len(fact.message) <= 4000


def test_many_open_at_once_are_bounded(read):
    lines = [f"(Worker pid={pid}) Traceback (most recent call last):" for pid in range(500)]
    assert len(_tracebacks(read(lines, finish=False))) >= 400


def test_secrets_in_messages_are_masked(read):
    (fact,) = _tracebacks(read(["ValueError: bad arguments api_key='sk-abc'"]))
    assert "sk-abc" not in fact.message


CHAIN = """Traceback (most recent call last):
  File "/sgl/a.py", line 1, in connect
    dial()
ConnectionRefusedError: [Errno 111] Connection refused

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/sgl/b.py", line 2, in load
    raise ValueError("one")
ValueError: one

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/sgl/c.py", line 3, in main
    raise TypeError("two")
TypeError: two
"""


def test_a_reader_that_does_not_wait_gets_the_whole_chain_when_it_goes_on(read):
    (whole,) = _tracebacks(read(CHAIN))
    grammar, doctor, told = LogGrammar(), Doctor(), []
    for number, line in enumerate(CHAIN.splitlines(), 1):
        facts = [*grammar.feed(number, line, 0.0), *grammar.settle()]
        assert not grammar.waits
        told += _tracebacks(facts)
        doctor.extend(facts)
    assert [fact.exception for fact in told] == ["ConnectionRefusedError", "ValueError", "TypeError"]
    assert told[-1].chain == whole.chain
    assert (told[-1].line, told[-1].last_line, told[-1].where) == (whole.line, whole.last_line, whole.where)
    (incident,) = doctor.case().incidents
    assert incident.trace == told[-1]


def test_what_was_settled_is_not_continued_by_anything_else(read):
    grammar = LogGrammar()
    for number, line in enumerate(CHAIN.splitlines()[:4], 1):
        grammar.feed(number, line, 0.0)
    assert len(grammar.settle()) == 1
    assert grammar.feed(5, "", 0.0) == []
    grammar.feed(6, STAMP0 + "something else", 0.0)
    assert (
        _tracebacks(grammar.feed(7, "During handling of the above exception, another exception occurred:", 0.0)) == []
    )
    assert not grammar.waits
    assert _tracebacks(grammar.finish(0.0)) == []
