"""What a newcomer may try next on the rehearsal, by what is on the screen. A pure fold of snapshots."""

from tui.snapshot import Snapshot, State

BASE, EAGLE3 = "kimi-k2.5-base", "kimi-k2.5-eagle3"
NOTHING_REAL = "This is the rehearsal: a simulated machine, nothing real is started."


class Coach:
    """`hint` is asked with every snapshot, and remembers what was tried."""

    def __init__(self) -> None:
        self._served: set[str] = set()  # runs that served
        self._died: set[str] = set()

    def hint(self, snapshot: Snapshot) -> str:
        """One or two sentences: what is seen, and which keys go on from here."""
        run = snapshot.run
        if run is not None and snapshot.state is State.RUNNING:
            self._served.add(run)
        if run is not None and snapshot.state is State.FAILED:
            self._died.add(run)
        match snapshot.state:
            case State.STARTING:
                return (
                    "It starts: the bars fill as on a real machine, weights, then KV cache, then graphs. "
                    "tab moves between the panes, i explains what is under the cursor."
                )
            case State.FAILED if snapshot.verdict is not None and snapshot.verdict.fixes:
                return "It died, and the card says why. a takes the card's fix over into the knobs, R launches with it."
            case State.FAILED:
                return "It died. v shows all that is known, e goes to the error in the log, L launches another profile."
            case State.RUNNING if self._died:
                return "Fixed: it serves. H compares it with the runs before, ? explains every key and word, q leaves."
            case State.RUNNING if snapshot.profile == EAGLE3:
                return (
                    f"It serves with speculation. S stops it, and L launches {BASE}, to compare: then H shows both. "
                    "? explains every key and word."
                )
            case State.RUNNING:
                return (
                    f"It serves. Now S stops it, and L launches {EAGLE3}, which this machine refuses: "
                    "see what the plan says of it."
                )
            case State.STOPPING:
                return "It finishes its requests and ends; then the memory is waited for."
            case _ if self._served:
                return f"Now L launches {EAGLE3}, which this machine refuses: see what the plan says of it."
            case _:
                return f"{NOTHING_REAL} L launches a profile: begin with {BASE}. esc puts these hints away."
