"""`specdeck doctor`: exit codes, the JSON contract, text, and every way to hand it a log."""

import gzip
import io
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
import zstandard

from tui.cli import main
from tui.commands.doctor_read import BLOCK, LogReader
from tui.runs.store import RunStore

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "tests/schemas/doctor.schema.json").read_text())
SERVERS = ROOT / "tests/fixtures/sglang-0.5.23"
CORPUS = os.environ.get("SPECDECK_CORPUS")
DECODE = (
    "[2026-11-29 13:00:00] Decode batch, #running-req: 8, #token: 543, token usage: 0.03, cuda graph: True, "
    "gen throughput (token/s): 394.28, #queue-req: 0\n"
)
OOM = (
    "[2026-11-29 14:00:00] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/srv/sglang/srt/managers/scheduler.py", line 2410, in run_scheduler_process\n'
    "    scheduler.event_loop_overlap()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "79.11 GiB of "
    "which 1.25 GiB is free.\n\n"
    "[2026-11-29 14:00:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
)


@pytest.fixture
def doctor(capsys):
    """doctor(log) -> (exit code, the JSON, checked against the schema)."""

    def run(log):
        code = main(["doctor", str(log), "--json"])
        answer = json.loads(capsys.readouterr().out)
        jsonschema.validate(answer, SCHEMA)
        return code, answer

    return run


@pytest.mark.parametrize(
    ("name", "code", "kind", "state"),
    [
        ("plain", 0, None, "stopping"),
        ("budget-refused", 1, "weights-over-budget", "failed"),
        ("bad-flag", 1, "bad-flag", "failed"),
        ("model-missing", 1, "model-missing", "failed"),
        ("port-in-use-silent", 1, "port-in-use", "failed"),
        ("killed-scheduler", 2, "unknown", "failed"),
    ],
)
def test_exit_codes_and_json(doctor, name, code, kind, state):
    found, answer = doctor(SERVERS / name / "server.log")
    assert found == code
    assert (answer["verdict"] or {}).get("kind") == kind
    assert answer["state"] == state
    for item in answer["verdict"]["evidence"] if answer["verdict"] else ():
        lines = (SERVERS / name / "server.log").read_text().split("\n")
        assert item["text"][:40] in lines[item["line"] - 1] or "Load weight end" in lines[item["line"] - 1]


def test_the_split_of_a_real_server(doctor):
    _, answer = doctor(SERVERS / "eagle3" / "server.log")
    (rank,) = answer["ranks"]
    assert rank["rank"] == "TP0"
    assert rank["base"] is not None
    assert rank["kv_draft"] is not None
    assert rank["graphs_base"] is None


@pytest.mark.parametrize("packing", ["plain", "gz", "zst", "stdin", "stdin-gz"])
def test_every_way_to_hand_it_a_log(doctor, tmp_path, monkeypatch, packing):
    data = (SERVERS / "budget-refused" / "server.log").read_bytes()
    name = tmp_path / f"a.log.{packing}"
    if packing.endswith("gz"):
        data = gzip.compress(data)
    elif packing == "zst":
        data = zstandard.ZstdCompressor().compress(data)
    if packing.startswith("stdin"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        name = "-"
    else:
        name.write_bytes(data)
    code, answer = doctor(name)
    assert code == 1
    assert answer["verdict"]["kind"] == "weights-over-budget"
    assert answer["verdict"]["evidence"][-1]["line"] == 72


def test_a_compressed_log_that_is_cut(doctor, tmp_path):
    log = tmp_path / "cut.gz"
    log.write_bytes(gzip.compress((SERVERS / "plain" / "server.log").read_bytes() + os.urandom(9000))[:-4000])
    code, answer = doctor(log)
    assert code == 0
    assert answer["ranks"]


def test_the_text_for_a_person(capsys):
    assert main(["doctor", str(SERVERS / "budget-refused" / "server.log")]) == 1
    text = capsys.readouterr().out
    assert "weights-over-budget (certain): The weights leave no memory for KV" in text
    assert "  - --mem-fraction-static 0.0001\n  + --mem-fraction-static 0." in text
    assert "line 72  ValueError: Loaded weights leave no GPU memory" in text
    assert "free before" in text.split("\n")[-3]
    assert main(["doctor", str(SERVERS / "plain" / "server.log")]) == 0
    assert "Nothing is wrong" in capsys.readouterr().out


def test_nothing_reaches_the_terminal_but_text(capsys, tmp_path):
    log = tmp_path / "hostile.log"
    said = "[2026-11-29 13:00:00] Scheduler hit an exception: Traceback (most recent call last):\n"
    log.write_bytes(
        said.encode()
        + b'  File "/x\x1b]0;owned\x07.py", line 1, in f\nValueError: \x1b[31m[bold]\xff\x9b2J\r\x00 [/]\n'
    )
    assert main(["doctor", str(log)]) == 2
    text = capsys.readouterr().out
    assert "ValueError" in text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_run_is_found_by_name(doctor, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SPECDECK_STATE_DIR", str(tmp_path))
    run = RunStore().create("kimi", {})
    run.log.write_bytes((SERVERS / "wrong-draft" / "server.log").read_bytes())
    code, answer = doctor("kimi")
    assert code == 1
    assert answer["verdict"]["kind"] == "draft-mismatch"
    assert main(["doctor", "no-such-run"]) == 2
    assert "no file 'no-such-run'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "\n", "nothing that SGLang says\n" * 5])
def test_a_log_that_is_none(doctor, tmp_path, text):
    log = tmp_path / "a.log"
    log.write_text(text)
    code, answer = doctor(log)
    assert code == 2
    assert answer["verdict"]["kind"] == "unknown"
    assert answer["ranks"] == []


def test_a_directory_is_refused_in_a_sentence(tmp_path, capsys):
    assert main(["doctor", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def big_log(path: Path, blocks: int) -> int:
    """A start, millions of decode lines, a failure, then access lines; the number of the line that says it."""
    head = (SERVERS / "plain" / "server.log").read_text().split("\n")[:63]
    chunk = DECODE * (8 * BLOCK // len(DECODE))
    access = '[2026-11-29 14:00:01] INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 503 Service Unavailable\n'
    with path.open("w") as file:
        file.write("\n".join(head) + "\n")
        for _ in range(blocks):
            file.write(chunk)
        file.write(OOM)
        file.write(access * 50_000)
    return len(head) + blocks * chunk.count("\n") + 4


def test_a_failure_amid_a_million_lines(doctor, tmp_path):
    log = tmp_path / "big.log"
    line = big_log(log, 10)
    code, answer = doctor(log)
    assert code == 1
    assert answer["verdict"]["kind"] == "runtime-oom"
    assert answer["verdict"]["evidence"] == [
        {"line": line, "text": OOM.split("\n")[3]},
    ]
    assert answer["ranks"][0]["free_before"] is not None


def test_memory_stays_bounded(tmp_path):
    log = tmp_path / "big.log"
    big_log(log, 60)
    code = (
        "import sys; from tui.cli import main; assert main(['doctor', sys.argv[1]]) == 1; "
        # Not getrusage: its peak is inherited from the process that started this one.
        "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, check=True, cwd=ROOT)
    assert int(done.stderr) < 100 * 1024
    assert log.stat().st_size > 100 << 20


def test_lines_of_any_length_and_blocks_of_any_cut(tmp_path, monkeypatch):
    """Whatever the block size, the numbers of the lines are right."""
    texts = [f"Traceback (most recent call last): {n}" if n % 7 == 0 else DECODE[:-1] for n in range(1, 400)]
    log = tmp_path / "a.log"
    log.write_text("\n".join(texts))
    for size in (64, 1000, 4096, 1 << 20):
        monkeypatch.setattr("tui.commands.doctor_read.BLOCK", size)
        reader = LogReader(str(log))
        found = dict(reader.read())
        assert reader.lines == len(texts)
        assert all(texts[number - 1] == text for number, text in found.items())
        assert {number for number in range(1, 400) if number % 7 == 0} <= set(found)
        assert 399 in found


@pytest.mark.skipif(not CORPUS, reason="SPECDECK_CORPUS names no folder of logs")
def test_a_corpus_of_other_logs(doctor):
    answers = tomllib.loads(Path(CORPUS or "", "answers.toml").read_text())
    for name, expected in answers.items():
        code, answer = doctor(Path(CORPUS or "", f"{name}.log"))
        kind = answer["verdict"]["kind"] if answer["verdict"] else "none"
        assert kind in expected["kind"], name
        assert code == {"none": 0, "unknown": 2}.get(kind, 1)
        if "floor" in expected:
            assert answer["verdict"]["numbers"]["floor"] == pytest.approx(expected["floor"], abs=0.0005)
