"""`specdeck profile`: import, export, check, list."""

import json
import tomllib
from pathlib import Path

import pytest

from tui.cli import main

SCRIPT = """#!/bin/bash
export CUDA_VISIBLE_DEVICES=0,1
MODEL=/models/some-model
exec python3 -m sglang.launch_server --model-path "$MODEL" \\
  --tp-size 2 --port 31999 --mem-fraction-static 0.8 --api-key s3cret-of-mine
"""


@pytest.fixture(autouse=True)
def _folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SPECDECK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "start.sh"
    path.write_text(SCRIPT)
    return path


def test_import_prints_a_profile(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "import", str(script), "--name", "mine"]) == 0
    profile = tomllib.loads(capsys.readouterr().out)
    assert profile["name"] == "mine"
    assert profile["env"] == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert profile["knobs"]["model-path"] == "/models/some-model"
    assert profile["knobs"]["mem-fraction-static"] == 0.8


def test_import_saves_once_and_replaces_only_when_told(script: Path, tmp_path: Path, capsys) -> None:
    command = ["profile", "import", str(script), "--name", "my own/one", "--save"]
    assert main(command) == 0
    saved = tmp_path / "config/specdeck/profiles/my-own-one.toml"
    assert tomllib.loads(saved.read_text())["name"] == "my own/one"
    assert main(command) == 2
    assert "is there already" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0
    assert main(["profile", "list"]) == 0
    assert "my own/one" in capsys.readouterr().out


def test_import_reads_standard_input(monkeypatch: pytest.MonkeyPatch, script: Path, capsys) -> None:
    with script.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["profile", "import", "-"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["knobs"]["port"] == 31999


@pytest.mark.parametrize("content", [b"echo hello\n", b"\xff\xfe"])
def test_import_refuses_what_starts_no_server(tmp_path: Path, content: bytes, capsys) -> None:
    (tmp_path / "x.sh").write_bytes(content)
    assert main(["profile", "import", str(tmp_path / "x.sh")]) == 2
    assert capsys.readouterr().err.startswith("specdeck profile: ")
    assert main(["profile", "import", str(tmp_path / "absent.sh")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_export_keeps_secrets_out(script: Path, tmp_path: Path, capsys) -> None:
    main(["profile", "import", str(script), "--name", "mine", "--save"])
    capsys.readouterr()
    assert main(["profile", "export", "mine"]) == 0
    shell = capsys.readouterr().out
    assert "CUDA_VISIBLE_DEVICES=0,1" in shell
    assert '--api-key "$API_KEY"' in shell
    assert main(["profile", "export", "mine", "--yaml"]) == 0
    yaml = capsys.readouterr().out
    assert "mem-fraction-static: 0.8" in yaml
    assert "s3cret-of-mine" not in shell + yaml


def test_check_tells_what_would_fail(script: Path, capsys) -> None:
    main(["profile", "import", str(script), "--name", "mine", "--save"])
    capsys.readouterr()
    assert main(["profile", "check", "mine"]) == 1
    told = capsys.readouterr().out
    assert "there is nothing at /models/some-model" in told
    assert "it would fail" in told
    assert main(["profile", "check", "mine", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {"severity": "error", "kind": "model-missing"}.items() <= found[0].items()


def test_check_on_the_rehearsal_looks_at_flags_and_not_at_files(script: Path, capsys) -> None:
    main(["profile", "import", str(script), "--name", "mine", "--save"])
    capsys.readouterr()
    assert main(["profile", "check", "mine", "--rehearsal"]) == 0
    assert "nothing is found" in capsys.readouterr().out
    assert main(["profile", "check", "mine", "--rehearsal", "--set", "tp-size=many"]) == 1
    assert "whole number" in capsys.readouterr().out


def test_an_unknown_profile_is_a_sentence(capsys) -> None:
    assert main(["profile", "check", "absent"]) == 2
    assert "No profile 'absent'" in capsys.readouterr().err


def test_list_tells_why_a_profile_cannot_be_used(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "broken.toml").write_text("name = ")
    assert main(["profile", "list", "--json"]) == 0
    broken = next(item for item in json.loads(capsys.readouterr().out) if item["name"] == "broken")
    assert "not valid TOML" in broken["problem"]
