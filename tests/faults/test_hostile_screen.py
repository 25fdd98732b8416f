"""Everything that comes from outside tries to be more than text, through the whole program: only text gets out."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

POISON = (
    "\x1b[5;41mred\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1bP1$r0m\x1b\\\x9b31m\x9d52;c;eA==\x9c"
    "[bold red]x[/bold red][link=evil]\u202etxt\u2066i\u2069\u200b\u200d\ufeff\x00\x07\x08\x0c\x7f\u0085\u2028"
)
PLAIN = "deed"  # typed where no prompt is open, these keys do no harm
FORBIDDEN = [
    b"\x1b[5;41m", b"\x1b]52", b"\x1b]0;", b"\x1b]8;", b"\x1bP", b"\x00", b"\x08", b"\x0c", b"\x7f",
    *(char.encode() for char in "\x9b\x9d\x9c\u0085\u202e\u2066\u2069\u200b\u200d\ufeff\u2028"),
]  # fmt: skip
CONTROL = re.compile(rb"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]")


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process whose name is poison (without the NUL that no name can hold)."""
    name = POISON.replace("\x00", "")
    child = subprocess.Popen([name, "-c", "import time; print(1, flush=True); time.sleep(120)"],
                             executable=sys.executable, stdout=subprocess.PIPE)  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    yield child.pid
    child.kill()
    child.wait()
    child.stdout.close()


@pytest.fixture
def log(tmp_path: Path, faults) -> Path:
    path = tmp_path / f"{PLAIN}.log"
    poison = POISON.replace("\n", "")
    arguments = f"server_args=ServerArgs(model_path={poison!r}, served_model_name='{poison}', tp_size=1, port=1)\n"
    with path.open("w", newline="") as file:
        file.write(f"[2026-11-29 12:39:59] {arguments}")
        file.write(faults.STARTED)
        file.write("y" * 10_000_000 + POISON + "\n")
        file.write(f"[2026-11-29 12:42:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
                   f'  File "{poison}", line 1, in {poison}\nRuntimeError: {poison}\n\n')  # fmt: skip
        file.write("\x00" * 3000 + f"\n{POISON}\rover\n")
        file.write(f"{PLAIN} {POISON} {PLAIN}\n" * 3)
    return path


def hostile_server(faults):
    info = {**faults.INFO, "model_path": POISON, "version": POISON, "served_model_name": POISON,
            "internal_states": [{POISON: POISON}]}  # fmt: skip
    loads = {"loads": [{"dp_rank": 0, "num_running_reqs": POISON, POISON: 1}], "version": POISON}

    def reply(handler) -> None:
        path = handler.path.partition("?")[0]
        if path == "/metrics":
            handler.answer(200, f'sglang:gen_throughput{{model_name="{POISON}"}} 1.0\n{POISON} 2\n'.encode())
        else:
            answers = {
                "/server_info": info,
                "/get_server_info": info,
                "/v1/loads": loads,
                "/ready": b"",
                "/health": b"",
            }
            body = answers.get(path)
            handler.answer(*((404, {POISON: POISON}) if body is None else (200, body)))

    return reply


def only_text(sent: bytes, faults) -> None:
    for poison in FORBIDDEN:
        assert poison not in sent, poison
    assert CONTROL.findall(faults.OURS.sub(b"", sent)) == []


def test_logs_names_answers_and_profiles(
    screen, server, driver: Path, stranger: int, log: Path, tmp_path: Path, faults
) -> None:
    server.reply = hostile_server(faults)
    gpus = tmp_path / "gpus"
    line = POISON.replace("\n", " ").replace("\x00", "")
    gpus.write_text(
        f"gpu 0 name {line[:60]}\ngpu 0 uuid {line[:60]}\ngpu 0 total 97887\ngpu 0 used 75000\n"
        f"proc 0 compute {stranger} 5000 -1\ngpu 1 name x\ngpu 1 fail all 15\n"
    )
    profiles = tmp_path / "config" / "specdeck" / "profiles"
    profiles.mkdir(parents=True)
    toml = POISON.encode("unicode_escape").decode().replace("\\x", "\\u00").replace('"', '\\"').replace("\\u2028", "")
    (profiles / "evil.toml").write_text(
        f'description = "{toml}"\n[server]\ncommand = ["{toml}"]\n[env]\nX = "{toml}"\n[knobs]\nmodel-path = "{toml}"\n'
    )
    (profiles / f"{line[:40].replace('/', '')}.toml").write_text("[")
    shown = screen("attach", "--log", str(log), "--url", server.url,
                   LD_LIBRARY_PATH=str(driver), FAKE_NVML_STATE=str(gpus))  # fmt: skip
    assert shown.shows(PLAIN)
    # Every key that opens something, draws something else, or searches for it.
    for keys in ("e", "v", "\x1b", "w", "z", "#", "E", "\t", "\r", "\x1b", "\t", "\r", "\x1b", "L", "\x1b", "?", "\x1b",
                 f"/{PLAIN}\r", "n", f"&{PLAIN}\r", "\x1b", "f", "<", ">", "p", "p", "G", "g", "G"):  # fmt: skip
        shown.keys(keys)
        shown.read(lambda _: False, 0.15)
    shown.resize(80, 24)
    shown.read(lambda _: False, 0.5)
    shown.resize(200, 60)
    shown.read(lambda _: False, 1.0)
    only_text(shown.sent, faults)
    shown.keys("q")
    status = shown.ended(5.0)
    for _ in range(10):  # dialogs were open: escape, alone in its read so that no key joins it, closes one
        if status is not None:
            break
        shown.keys("\x1b")
        shown.read(lambda _: False, 1.0)
        shown.keys("q")
        status = shown.ended(3.0)
    assert status == 0
    assert b"Traceback (most recent" not in shown.sent.rpartition(b"\x1b[?1049l")[2]


@pytest.mark.parametrize("arguments", [["--once"], ["--once", "--json"]])
def test_words_on_standard_output(
    server, log: Path, driver: Path, stranger: int, tmp_path: Path, faults, arguments: list[str]
) -> None:
    server.reply = hostile_server(faults)
    gpus = tmp_path / "gpus"
    line = POISON.replace("\n", " ").replace("\x00", "")
    gpus.write_text(f"gpu 0 name {line[:60]}\ngpu 0 total 97887\nproc 0 compute {stranger} 5000 -1\n")
    told = {**os.environ, "SPECDECK_STATE_DIR": str(tmp_path / "s"), "PYTHONPATH": str(faults.ROOT),
            "LD_LIBRARY_PATH": str(driver), "FAKE_NVML_STATE": str(gpus)}  # fmt: skip
    command = [sys.executable, "-m", "tui", "attach", "--log", str(log), "--url", server.url, *arguments]
    done = subprocess.run(command, env=told, capture_output=True, timeout=60, check=False)
    assert b"Traceback (most recent" not in done.stderr
    assert done.stdout
    for output in (done.stdout, done.stderr):
        assert CONTROL.findall(output) == []
        assert [poison for poison in FORBIDDEN if poison in output] == []


def test_doctor_and_plan(log: Path, tmp_path: Path, faults) -> None:
    told = {**os.environ, "SPECDECK_STATE_DIR": str(tmp_path / "s"), "PYTHONPATH": str(faults.ROOT)}
    for arguments in (["doctor", str(log)], ["doctor", str(log), "--json"], ["plan", "--from-log", str(log)]):
        done = subprocess.run(
            [sys.executable, "-m", "tui", *arguments], env=told, capture_output=True, timeout=60, check=False
        )
        assert b"Traceback (most recent" not in done.stderr, arguments
        for output in (done.stdout, done.stderr):
            assert CONTROL.findall(output) == [], arguments
            assert [poison for poison in FORBIDDEN if poison in output] == [], arguments
