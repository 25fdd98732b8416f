"""Settings, machines, scenarios, and the command that is started instead of the real one."""

import json

import pytest

from tui.errors import SpecdeckError
from tui.rehearsal.machine import (
    ENVIRONMENT,
    MODULE,
    Machine,
    RehearsalError,
    Settings,
    parse_machine,
    rehearse,
    settings_from,
)
from tui.rehearsal.scenarios import SCENARIOS


@pytest.mark.parametrize(
    ("spec", "gpus", "mib"),
    [("8x97887MiB", 8, 97887), ("4 x 80 GiB", 4, 81920), ("24564MiB", 1, 24564), ("2X1GiB", 2, 1024)],
)
def test_machines_are_read(spec: str, gpus: int, mib: int) -> None:
    machine = parse_machine(spec)
    assert (machine.gpus, machine.mib) == (gpus, mib)
    assert "rehearsal" in machine.name


@pytest.mark.parametrize("spec", ["", "8", "8x", "x96GiB", "0x96GiB", "100x96GiB", "8x500MiB", "8x96GB", "-1x96GiB"])
def test_what_is_no_machine_is_refused(spec: str) -> None:
    with pytest.raises(RehearsalError, match=r"machine|GPUs"):
        parse_machine(spec)


def test_settings_travel_through_the_environment() -> None:
    settings = Settings(
        speed=60, seed=7, sglang_version="0.5.12", machine=Machine(gpus=2, mib=81559), state_file="/tmp/x",
        scenario="hang", concurrency=3,
    )  # fmt: skip
    assert settings_from({ENVIRONMENT: settings.to_json()}) == settings
    assert settings_from({}) == Settings()
    assert settings_from({ENVIRONMENT: '{"machine": "2x80GiB"}'}).machine.gpus == 2


@pytest.mark.parametrize(
    "bad",
    [
        "{", "[]", '{"speeed": 3}', '{"speed": 0}', '{"speed": "fast"}', '{"scenario": "none"}', '{"machine": "8"}',
        '{"concurrency": -1}', '{"speed": 1e999}', '{"machine": {"cards": 3}}',
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(bad: str) -> None:
    with pytest.raises(SpecdeckError):
        settings_from({ENVIRONMENT: bad})


@pytest.mark.parametrize(
    "argv",
    [
        ("python3", "-m", "sglang.launch_server", "--model-path", "m", "--port", "1"),
        ("/opt/venv/bin/sglang", "serve", "--model-path", "m", "--port", "1"),
        ("docker", "exec", "box", "python", "-m", "sglang.launch_server", "--model-path", "m", "--port", "1"),
        ("my-launcher", "--model-path", "m", "--port", "1"),
    ],
)
def test_a_command_is_rehearsed_with_its_own_flags(argv: tuple[str, ...]) -> None:
    settings = Settings(speed=60)
    command, env = rehearse(argv, {"PATH": "/bin", "PYTHONPATH": "/mine"}, settings)
    assert command[-5:] == (MODULE, "--model-path", "m", "--port", "1")
    assert json.loads(env[ENVIRONMENT])["speed"] == 60
    assert env["PATH"] == "/bin"
    assert env["PYTHONPATH"].endswith(":/mine")
    again, _ = rehearse(command, env, settings)
    assert again == command


def test_a_positional_model_stays() -> None:
    command, _ = rehearse(("sglang", "serve", "org/model", "--tp", "2"), {}, Settings())
    assert command[-3:] == ("org/model", "--tp", "2")


def test_rehearse_refuses_settings_that_make_no_sense() -> None:
    with pytest.raises(RehearsalError, match="scenario"):
        rehearse(("sglang", "serve"), {}, Settings(scenario="nothing"))


def test_every_scenario_has_a_caption() -> None:
    assert {"story", "capture-oom", "dead-dp-rank", "foreign", "retract", "low-acceptance", "hang"} == set(SCENARIOS)
    assert all(name == scenario.name and scenario.caption for name, scenario in SCENARIOS.items())


def test_a_server_says_why_it_cannot_be_rehearsed(start) -> None:
    server = start("0.3.0", ("--model-path", "m"))
    assert server.wait_end() == 2
    assert "0.3.0" in server.text()
