"""Preflight: each finding from what was seen, and the look at a real folder, port and limit."""

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tui.facts import GpuProcess, GpuReading
from tui.server.preflight import Surroundings, findings, preflight
from tui.server.preflight_machine import runs_on
from tui.server.profiles import parse
from tui.sglang.versions import parse_version

V59, V523 = parse_version("0.5.9"), parse_version("0.5.23")
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 256,
}


def gpu(index, free=90.0, total=95.6, **more):
    return GpuReading(
        index=index, uuid=f"GPU-{index}", name="Card", total_gib=total, free_gib=free, compute_capability="9.0", **more
    )


def process(pid, gib):
    return GpuProcess(pid=pid, used_gib=gib, name="python")


def seen(knobs=None, **more):
    cards = more.pop("gpus", (gpu(0), gpu(1)))
    return Surroundings(version=V59, knobs=knobs or {"tp-size": 2}, gpus=cards, gpus_read=True, **more)


def only(surroundings):
    (found,) = findings(surroundings)
    assert found.text.endswith((".", "?"))
    assert found.fix
    return found


def test_nothing_against_a_good_launch():
    assert findings(seen(arch_list=("sm_90",), attention_heads=64, kv_heads=8, shm_bytes=1 << 34, open_files=-1,
                         log_folder="/runs", log_free_bytes=1 << 40)) == ()  # fmt: skip
    # What nobody could see is not spoken of.
    assert findings(Surroundings(knobs={"tp-size": 8})) == ()


@pytest.mark.parametrize(
    ("change", "severity", "kind", "says"),
    [
        (
            {"port_holder": "process 7 (nginx)", "address": "127.0.0.1:30000"},
            "error",
            "port-in-use",
            "process 7 (nginx)",
        ),
        ({"missing": (("model-path", "/models/x"),)}, "error", "model-missing", "nothing at /models/x"),
        ({"program_problem": "sglang is not on PATH."}, "error", "bad-flag", "not on PATH"),
        ({"checkpoint_problem": "/models/x has no config.json."}, "error", "model-missing", "config.json"),
        ({"gpus": (gpu(0),)}, "error", "does-not-fit", "takes 2 GPUs"),
        ({"gpus": (gpu(0), gpu(1, free=60.0))}, "error", "gpu-shared", "GPU 1 has 60.0 GiB free"),
        ({"gpus": (gpu(0, error="fell off the bus"), gpu(1))}, "error", "kernel", "fell off the bus"),
        ({"gpus": (gpu(0, processes=(process(9, 2.0),)), gpu(1))}, "warning", "gpu-shared", "python 9"),
        (
            {"gpus": (gpu(0, processes=(process(9, None),)), gpu(1))},
            "warning",
            "gpu-shared",
            "used by others: python 9",
        ),
        ({"gpus": (gpu(0), gpu(1, total=120.0))}, "warning", "gpu-shared", "unequal"),
        ({"arch_list": ("sm_80", "sm_86")}, "error", "kernel", "9.0"),
        ({"attention_heads": 9}, "error", "bad-flag", "9 attention heads"),
        ({"attention_heads": 6, "kv_heads": 3}, "error", "bad-flag", "3 KV heads"),
        ({"mismatches": ("They differ.",)}, "error", "draft-mismatch", "They differ."),
        ({"shm_bytes": 64 << 20}, "warning", "network", "64 MiB"),
        ({"open_files": 1024}, "warning", "unknown", "1024 files"),
        ({"log_folder": "/runs", "log_free_bytes": 500 << 20}, "warning", "unknown", "500 MiB"),
        ({"log_folder": "/runs", "log_free_bytes": 1 << 20}, "error", "unknown", "/runs has 1 MiB"),
    ],
)
def test_each_finding(change, severity, kind, says):
    base = seen()
    found = findings(replace(base, **change))
    if "arch_list" in change:
        assert len(found) == 2  # both GPUs
    assert (found[0].severity, found[0].kind) == (severity, kind)
    assert says in found[0].text


@pytest.mark.parametrize(
    ("knobs", "severity", "says"),
    [
        ({"mem-fraction-statik": 0.8}, "warning", "--mem-fraction-static?"),
        ({"cuda-graph-max-bs-decode": 8}, "error", "calls it --cuda-graph-max-bs"),
        ({"tp-size": "two"}, "error", "whole number"),
        ({"speculative-algorithm": "EAGLE3"}, "error", "no --speculative-draft-model-path"),
        ({"speculative-draft-model-path": "/d"}, "warning", "without --speculative-algorithm"),
        ({"speculative-algorithm": "EAGLE", "speculative-eagle-topk": 4}, "error", "without --speculative-num-steps"),
        (
            {"speculative-algorithm": "EAGLE", "speculative-num-steps": 3, "speculative-eagle-topk": 1,
             "speculative-num-draft-tokens": 8},
            "warning",
            "steps + 1 = 4, not 8",
        ),
        ({"tp-size": 8, "dp-size": 3, "enable-dp-attention": True}, "error", "cannot be divided by the 3"),
    ],
)  # fmt: skip
def test_flags_and_speculation(knobs, severity, says):
    found = only(Surroundings(version=V59, knobs=knobs))
    assert found.severity == severity
    assert says in found.text


def test_a_chain_of_steps_and_their_tokens_is_right():
    knobs = {"speculative-algorithm": "EAGLE", "speculative-num-steps": 3, "speculative-eagle-topk": 1,
             "speculative-num-draft-tokens": 4}  # fmt: skip
    assert findings(Surroundings(version=V59, knobs=knobs)) == ()


def test_the_server_that_a_restart_ends_is_not_in_its_own_way():
    ours = (gpu(0, free=5.0, processes=(process(70, 85.0),)), gpu(1))
    assert findings(seen(gpus=ours, own_pids=frozenset({70}))) == ()
    assert {found.kind for found in findings(seen(gpus=ours))} == {"gpu-shared"}


def test_gpus_say_nothing_about_a_cpu_server():
    assert findings(seen({"tp-size": 2, "device": "cpu"}, gpus=(gpu(0),))) == ()


def test_certain_failures_come_first():
    found = findings(seen(shm_bytes=1, missing=(("model-path", "/x"),), open_files=10))
    assert [finding.severity for finding in found] == ["error", "warning", "warning"]


@pytest.mark.parametrize(
    ("capability", "arch_list", "runs"),
    [
        ("9.0", ["sm_80", "sm_90"], True),
        ("9.0", ["sm_90a"], True),
        ("8.9", ["sm_80", "sm_86"], True),
        ("8.0", ["sm_86", "sm_90"], False),
        ("12.0", ["sm_90", "sm_100"], False),
        ("12.0", ["sm_90", "compute_90"], True),
        ("12.1", ["sm_90a", "sm_120"], True),
        ("10.3", ["sm_100a"], False),
        ("7.5", ["compute_80"], False),
        ("unknown", ["sm_90"], True),
    ],
)
def test_architectures(capability, arch_list, runs):
    assert runs_on(capability, arch_list) is runs


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """profile(knobs) -> a profile whose program exists, in a folder with a checkpoint named model."""
    monkeypatch.setenv("SPECDECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MODEL))
    header = json.dumps({"model.norm.weight": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)

    def make(**knobs):
        lines = [f"{name.replace('_', '-')} = {json.dumps(value)}" for name, value in knobs.items()]
        text = '[server]\ncommand = ["/bin/sh"]\nsglang-version = "0.5.23"\n[knobs]\n' + "\n".join(lines)
        return parse(text, tmp_path / "p.toml")

    return make


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_taken_port_is_found_with_its_holder(profile):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = [finding for finding in preflight(profile(port=port)) if finding.kind == "port-in-use"]
        assert len(found) == 1
        assert str(port) in found[0].text
        # A restart frees its own port.
        assert all(f.kind != "port-in-use" for f in preflight(profile(port=port), own_port=True))


def test_the_checkpoint_is_looked_at(profile):
    texts = [finding.text for finding in preflight(profile(model_path="./model", tp_size=3, port=free_port()))]
    assert any("16 attention heads" in text for text in texts)
    assert not any("attention heads" in f.text for f in preflight(profile(model_path="./model", port=free_port())))


def test_missing_paths_are_told_but_hub_names_are_not(profile):
    found = preflight(profile(model_path="./nothing", tokenizer_path="org/name", port=free_port()))
    assert [finding.kind for finding in found if finding.severity == "error"] == ["model-missing"]
    assert "./nothing" not in found[0].text  # the whole path
    assert found[0].text.endswith("/nothing.")


def test_a_broken_checkpoint_is_told_by_its_reader(profile, tmp_path):
    (tmp_path / "model" / "config.json").write_text("{")
    found = preflight(profile(model_path="./model", port=free_port()))
    assert any("is not JSON" in finding.text for finding in found)


def test_the_draft_is_held_against_its_target(profile, tmp_path):
    folder = tmp_path / "draft"
    folder.mkdir()
    changed = {**MODEL, "architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 64, "intermediate_size": 128}
    (folder / "config.json").write_text(json.dumps(changed))
    knobs = {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "./draft"}
    found = preflight(profile(model_path="./model", port=free_port(), **knobs))
    assert any(finding.kind == "draft-mismatch" and "hidden size 64" in finding.text for finding in found)


def test_overrides_and_hidden_gpus_count(profile):
    base = profile(port=free_port())
    cards = [gpu(0), gpu(1)]
    assert not any(f.kind == "does-not-fit" for f in preflight(base, {"tp-size": 2}, gpus=cards))
    hidden = preflight(base, {"tp-size": 2}, gpus=cards, environ={"CUDA_VISIBLE_DEVICES": "1", "PATH": "/bin"})
    assert any(f.kind == "does-not-fit" for f in hidden)


def test_a_program_that_is_not_there(profile):
    base = profile(port=free_port())
    found = preflight(replace(base, command=("no-such-program",)))
    assert any("no-such-program is not on PATH" in finding.text for finding in found)


def test_room_for_a_log_is_asked_where_its_folder_will_be_made(profile, tmp_path, monkeypatch):
    def usage(place):
        if not Path(place).exists():
            raise FileNotFoundError
        return shutil._ntuple_diskusage(1 << 40, 0, (1 << 20) if Path(place) == tmp_path else (1 << 40))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    found = preflight(profile(port=free_port()), log_folder=tmp_path / "a" / "b")
    assert [f.text for f in found if "left for the log" in f.text] == [f"{tmp_path}/a/b has 1 MiB left for the log."]
