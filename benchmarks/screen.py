"""Wire cost, CPU and memory of the screen, whole and in parts, beside other monitors on the same machine."""

from collections.abc import Iterator

from benchmarks.peers import program
from benchmarks.pty_meter import measure
from benchmarks.scene import Scene, growing
from benchmarks.table import Row

LINES_PER_S = 10.0
Figures = dict[str, float]


def figures(
    scene: Scene,
    seconds: float,
    *,
    size: tuple[int, int] = (40, 120),
    lines: float = 0.0,
    moves: bool = False,
    url: bool = False,
    gpus: int = 8,
) -> Figures:
    """specdeck attached to a log of a started server. `url`: its endpoints too, so that the plot moves."""
    log = scene.log(ranks=gpus)
    command = scene.attach("--log", str(log), *(["--url", scene.url] if url else []))
    with growing(log, lines):
        return measure(command, seconds, 8.0, *size, scene.environ(gpus=gpus, moves=moves))[0]


def rows(scene: Scene, quick: bool) -> Iterator[Row]:
    seconds = 8.0 if quick else 12.0
    whole = figures(scene, seconds, lines=LINES_PER_S, moves=True, url=True)
    nothing = figures(scene, seconds)
    peers = {name: peer for name, peer in _peers(scene, seconds).items() if peer is not None}
    wire = {name: peer["bytes_per_s"] / 1000 for name, peer in peers.items()}
    yield Row("wire, whole screen, 120x40", whole["bytes_per_s"] / 1000, "kB/s", 4.0, wire)
    if not quick:
        parts = {
            "bars": figures(scene, seconds, moves=True),
            "plot and status": figures(scene, seconds, url=True),
            "log, 10 lines/s": figures(scene, seconds, lines=LINES_PER_S),
        }
        for name, part in parts.items():
            yield Row(f"wire, {name} alone", part["bytes_per_s"] / 1000, "kB/s")
    small = figures(scene, seconds, size=(24, 80), lines=LINES_PER_S, moves=True, url=True)
    yield Row("wire, whole screen, 80x24", small["bytes_per_s"] / 1000, "kB/s", 2.5)
    yield Row("wire, nothing changes", nothing["bytes_per_s"] / 1000, "kB/s", 0.2)
    cpu = {name: peer["cpu_percent"] for name, peer in peers.items()}
    yield Row("CPU, whole screen", whole["cpu_percent"], "% of a core", 2.0, cpu)
    yield Row("CPU, nothing changes", nothing["cpu_percent"], "% of a core", 1.0)
    memory = {name: peer["rss_mib"] for name, peer in peers.items()}
    yield Row("resident memory at start", whole["rss_mib"], "MiB", 60.0, memory)
    if not quick:
        yield from _many(scene, seconds, whole)


def _many(scene: Scene, seconds: float, whole: Figures) -> Iterator[Row]:
    many = figures(scene, seconds, lines=LINES_PER_S, moves=True, url=True, gpus=64)
    for what, name in (("wire", "bytes_per_s"), ("CPU", "cpu_percent")):
        yield Row(f"{what}, 64 GPUs instead of 8", many[name] / max(0.1, whole[name]), "x", 4.0)


def _peers(scene: Scene, seconds: float) -> dict[str, Figures | None]:
    """sgtop on the same endpoints, nvitop on the same driver, a plain Textual Log on the same log."""
    environ = scene.environ(moves=True)
    found: dict[str, Figures | None] = {"nvitop": None, "sgtop": None}
    if (nvitop := program("nvitop")) is not None:
        found["nvitop"] = measure(
            [str(nvitop), "--monitor", "full", "--interval", "1"], seconds, 5.0, 40, 120, environ
        )[0]
    if (sgtop := program("sgtop")) is not None:
        found["sgtop"] = measure(
            [str(sgtop), "--port", scene.url.rpartition(":")[2], "--mode", "direct", "--no-full-scan"],
            seconds,
            5.0,
            40,
            120,
            environ,
        )[0]
    log = scene.log("textual.log")
    with growing(log, LINES_PER_S):
        command = [*scene.specdeck[:1], "-m", "benchmarks.textual_log", str(log)]
        found["Textual Log"] = measure(command, seconds, 5.0, 40, 120, environ)[0]
    return found
