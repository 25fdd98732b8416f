"""Launch commands of the shapes that operators have, read into profiles, and profiles written back as commands."""

import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.errors import SpecdeckError
from tui.server.commandline import command_line
from tui.server.exporter import export_shell, export_yaml
from tui.server.importer import Imported, import_command
from tui.server.profiles import Profile, parse, save
from tui.server.shelltext import ShellTextError

MODULE = ("python3", "-m", "sglang.launch_server")


def check(found: Imported, command: tuple[str, ...], knobs: dict[str, Any], env: dict[str, str] | None = None) -> None:
    assert found.profile.command == command
    assert dict(found.profile.knobs) == knobs
    assert dict(found.profile.env) == (env or {})


def test_one_line() -> None:
    found = import_command(
        "python3 -m sglang.launch_server --model-path /models/Kimi-K2.5 --tp-size 8 --trust-remote-code"
    )
    check(found, MODULE, {"model-path": "/models/Kimi-K2.5", "tp-size": 8, "trust-remote-code": True})
    assert found.profile.name == "kimi-k2.5"
    assert found.notes == ()


def test_a_script_with_continuations_exports_and_comments() -> None:
    found = import_command(
        """#!/bin/bash
        set -euo pipefail
        # the night shift
        export NCCL_DEBUG=WARN   # be quiet
        export SGLANG_ENABLE_SPEC_V2="1" HF_HOME='/data/hf home'
        cd /srv/sglang
        python -m sglang.launch_server \\
            --model-path "/models/My Model" \\
            --mem-fraction-static 0.85 --chunked-prefill-size -1 \\
            --cuda-graph-bs 1 2 4 8 \\
            --enable-metrics
        """
    )
    knobs = {
        "model-path": "/models/My Model",
        "mem-fraction-static": 0.85,
        "chunked-prefill-size": -1,
        "cuda-graph-bs": [1, 2, 4, 8],
        "enable-metrics": True,
    }
    env = {"NCCL_DEBUG": "WARN", "SGLANG_ENABLE_SPEC_V2": "1", "HF_HOME": "/data/hf home"}
    check(found, ("python", "-m", "sglang.launch_server"), knobs, env)
    assert found.profile.cwd == "/srv/sglang"


def test_variables_and_defaults() -> None:
    found = import_command(
        'MODEL=${MODEL:-/models/k2}\nTP=8; PORT="${PORT-30001}"\nEXTRA="--enable-metrics --page-size 64"\n'
        'NAME=${TP:+tp$TP}\nsglang serve $MODEL --tp "$TP" --port ${PORT} --served-model-name "${NAME}-x" $EXTRA\n'
    )
    knobs = {
        "model-path": "/models/k2",
        "tp": 8,
        "port": 30001,
        "served-model-name": "tp8-x",
        "enable-metrics": True,
        "page-size": 64,
    }
    check(found, ("sglang", "serve"), knobs)


def test_nohup_redirections_and_background() -> None:
    found = import_command(
        "CUDA_VISIBLE_DEVICES=0,1 nohup python3 -m sglang.launch_server --model-path m > /tmp/x.log 2>&1 < /dev/null &"
    )
    check(found, MODULE, {"model-path": "m"}, {"CUDA_VISIBLE_DEVICES": "0,1"})
    assert any("`> /tmp/x.log`" in note for note in found.notes)
    assert any("2>&1" in note for note in found.notes)
    assert any("`&`" in note for note in found.notes)
    import_command("python3 -m sglang.launch_server --model-path m &> all.log")


def test_env_and_sudo_in_front_and_a_command_behind() -> None:
    found = import_command(
        "sudo -E -u sgl env A=1 B='two words' /opt/venv/bin/python -m sglang.launch_server --port 1 | tee log"
    )
    check(found, ("/opt/venv/bin/python", "-m", "sglang.launch_server"), {"port": 1}, {"A": "1", "B": "two words"})


def test_what_binds_the_server_to_cores_stays_with_it() -> None:
    found = import_command("numactl --cpunodebind=0 --membind=0 python3 -m sglang.launch_server --model-path m")
    check(found, ("numactl", "--cpunodebind=0", "--membind=0", *MODULE), {"model-path": "m"})


def test_bash_arrays() -> None:
    found = import_command(
        "ARGS=(\n  --model-path /models/x   # the model\n  --tp-size 4\n)\n"
        'ARGS+=(--speculative-algorithm EAGLE3 --json-model-override-args \'{"a": "$b c"}\')\n'
        'if [ -n "$DEBUG" ]; then ARGS+=(--log-level debug); fi\n'
        'exec python3 -m sglang.launch_server "${ARGS[@]}" --port 8000\n'
    )
    assert found.profile.command == MODULE
    assert found.profile.knobs["tp-size"] == 4
    assert found.profile.knobs["json-model-override-args"] == '{"a": "$b c"}'
    assert found.profile.knobs["port"] == 8000
    assert found.profile.name == "x-eagle3"


def test_docker_run() -> None:
    found = import_command(
        """docker run -d --rm --name sgl --gpus '"device=2,3"' --shm-size 32g --ipc=host -p 8000:30000 \\
          -v /data/models:/models:ro --mount type=bind,source=/scratch,target=/root/.cache \\
          -e HF_TOKEN=$HF_TOKEN --env NCCL_DEBUG=INFO -e OTHER lmsysorg/sglang:v0.5.9 \\
          python3 -m sglang.launch_server --model-path /models/k2 --chat-template /root/.cache/t.jinja \\
          --host 0.0.0.0 --port 30000
        """
    )
    knobs = {"model-path": "/data/models/k2", "chat-template": "/scratch/t.jinja", "host": "0.0.0.0", "port": 30000}
    check(found, MODULE, knobs, {"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "2,3"})
    notes = "\n".join(found.notes)
    assert "image lmsysorg/sglang:v0.5.9" in notes
    assert "published as 8000" in notes
    assert "--shm-size 32g" in notes
    assert "-e OTHER" in notes
    assert "/data/models/k2 on this machine" in notes


def test_docker_with_a_shell_inside() -> None:
    found = import_command(
        "docker run --gpus all image:tag "
        "bash -lc 'pip install x && export A=1 && python3 -m sglang.launch_server --model-path m'"
    )
    check(found, MODULE, {"model-path": "m"}, {"A": "1"})


def test_positional_models_and_equals_signs() -> None:
    found = import_command("sglang serve org/model --port=1234 --api-key=a=b --served-model-name=007")
    knobs = {"model-path": "org/model", "port": 1234, "api-key": "a=b", "served-model-name": "007"}
    check(found, ("sglang", "serve"), knobs)
    found = import_command("sglang serve --enable-metrics org/model")
    assert found.profile.knobs == {"enable-metrics": True, "model-path": "org/model"}


def test_windows_line_ends_and_a_prompt_of_other_commands() -> None:
    found = import_command(
        "nvidia-smi\r\nsleep 3; pkill x || true\r\npython3 -m sglang.launch_server \\\r\n --tp-size 2\r\n"
    )
    check(found, MODULE, {"tp-size": 2})


def test_nothing_is_ever_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    found = import_command(
        f"python3 -m sglang.launch_server --model-path $(touch {target}) --x `touch {target}` --y ${{NOPE}}"
    )
    assert not target.exists()
    assert found.profile.knobs["model-path"] == f"$(touch {target})"
    assert sum("only known when the script runs" in note for note in found.notes) >= 2


def test_a_repeated_flag_counts_last_and_is_told() -> None:
    found = import_command("sglang serve --port 1 --port 2")
    assert found.profile.knobs == {"port": 2}
    assert found.notes == ("--port stands twice; the last one counts.",)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "No command in the text starts SGLang"),
        ("python3 -m vllm.entrypoints.openai.api_server", "No command in the text starts SGLang"),
        ("# python3 -m sglang.launch_server", "No command in the text starts SGLang"),
        ("echo hi\npython3 -m sglang.launch_server --x 'oops", "Line 2: the quote ' is never closed."),
        ("X=${oops\nsglang serve", "never closed"),
        ("a" * (1 << 21), "larger than 1 MiB"),
        ("bash -c 'bash -c x'", "No command"),
        ("docker run", "No command"),
        ("docker run --gpus", "No command"),
    ],
)
def test_what_cannot_be_imported_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ShellTextError) as caught:
        import_command(text)
    assert sentence in str(caught.value)


@given(st.text(st.sampled_from("ab $'\"\\\n;&|#(){}=-<>`~*x"), max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        found = import_command(text + "\nsglang serve --a 1 " + text)
    except SpecdeckError:  # an open quote, or a flag whose name cannot be one
        return
    tomllib.loads(found.profile.text)


def test_quoting_agrees_with_a_real_shell() -> None:
    line = "--a 'x y' --b \"q \\\"w\\\" $V\" --c a\\ b --d 'it'\\''s' --e \"$V\"/z --f '$V' --g \\$V --h \"a\\\\b\""
    shell = subprocess.run(["bash", "-c", f'V=val; printf "%s\\0" {line}'], capture_output=True, check=True)
    words = shell.stdout.decode().split("\0")[:-1]
    knobs = import_command(f"V=val; sglang serve --model-path m {line}").profile.knobs
    assert list(knobs.values())[1:] == words[1::2]


SAFE = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs"), exclude_characters="\0"),
    min_size=1,
    max_size=12,
)


@given(
    st.dictionaries(
        st.from_regex(r"x[a-z0-9]{0,6}(-[a-z0-9]{1,5}){0,2}", fullmatch=True),
        st.just(True) | st.integers(-(2**40), 2**40) | SAFE | st.lists(st.integers(0, 99), min_size=2, max_size=4),
        max_size=5,
    ),
    st.dictionaries(st.from_regex(r"E[A-Z_]{0,6}", fullmatch=True), SAFE, max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_an_exported_profile_imports_as_the_same_command(knobs: dict[str, Any], env: dict[str, str]) -> None:
    profile = Profile(name="p", command=MODULE, knobs=knobs, env=env)
    exported = export_shell(profile)
    back = import_command(exported).profile
    before, after = command_line(profile, {}, {}), command_line(back, {}, {})
    assert list(after.argv) == list(before.argv)
    # A variable handed through under its own name is the environment's.
    assert after.env == {name: value for name, value in env.items() if value not in (f"${name}", f"${{{name}}}")}
    assert shlex.split(exported.replace("\\\n", ""))[len(env) :] == list(before.argv)


def test_export_shell() -> None:
    profile = parse(
        'name = "p"\n[server]\ncwd = "/srv/x y"\ncommand = ["python3", "-m", "sglang.launch_server"]\n'
        '[env]\nHF_TOKEN = "s3cret"\nA = "b c"\n'
        '[knobs]\nmodel-path = "~/models/x"\napi-key = "s3cret"\noff = false\non = true\nd = {a = 1}\n'
    )
    assert export_shell(profile, {"port": 1}) == (
        "cd '/srv/x y'\n"
        'HF_TOKEN="$HF_TOKEN" \\\n'
        "  A='b c' \\\n"
        "  python3 -m sglang.launch_server \\\n"
        "  --model-path ~/models/x \\\n"
        '  --api-key "$API_KEY" \\\n'
        "  --on \\\n"
        "  --d '{\"a\": 1}' \\\n"
        "  --port 1\n"
    )


def test_export_yaml() -> None:
    profile = parse(
        'name = "p"\n[server]\ncommand = ["sglang", "serve"]\n[env]\nA = "b c"\nHF_TOKEN = "s3cret"\n'
        '[knobs]\nmodel-path = "no"\nadmin-api-key = "s3cret"\noff = false\non = true\n'
        "l = [1, 2]\nd = {a = 1}\nf = 0.85\n"
    )
    assert export_yaml(profile) == (
        "# p: sglang serve --config FILE.yaml\n"
        "# environment: A='b c'\n"
        '# environment: HF_TOKEN="$HF_TOKEN"\n'
        'model-path: "no"\n'
        "# admin-api-key: left out, for it is a secret\n"
        "on: true\n"
        "l: [1, 2]\n"
        'd: {"a": 1}\n'
        "f: 0.85\n"
    )


def test_an_imported_profile_can_be_saved_and_tells_its_notes(tmp_path: Path) -> None:
    found = import_command("nohup sglang serve m > x.log &", name="mine")
    save(found.profile, tmp_path / "mine.toml")
    text = (tmp_path / "mine.toml").read_text()
    assert text.startswith("# Imported from a shell command.\n# Left out: redirection `> x.log`.\n")
    assert 'name = "mine"' in text
