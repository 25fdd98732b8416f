"""Every key that does something, read from the bindings themselves: for help, the palette and the keymap file."""

from collections.abc import Iterable, Sequence
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from tui.app.screens.steering import CONTROL
from tui.frozen import frozen


@frozen
class Group:
    """The bindings of a screen, or of a part of one."""

    title: str
    owner: type[DOMNode]

    @property
    def bindings(self) -> list[Binding]:
        """The owner's own, in the order of its source."""
        own = self.owner.__dict__.get("BINDINGS", ())
        return [binding if isinstance(binding, Binding) else Binding(*binding) for binding in own]


@frozen
class Command:
    """An action that can be run now, on `node`."""

    words: str
    keys: str
    group: str
    action: str
    node: DOMNode


def owners() -> list[type[DOMNode]]:
    """Ours: whatever can have the keyboard. Imported only when somebody asks."""
    from tui.app.log_prompt import LogPrompt
    from tui.app.main import SpecdeckApp
    from tui.app.screens.dashboard import Dashboard
    from tui.app.screens.dialog import Dialog, LaunchDialog, LaunchingDialog
    from tui.app.screens.flag_search import FlagSearch
    from tui.app.screens.knob_editor import KnobEditor
    from tui.app.screens.reader import HelpScreen, Reader
    from tui.app.screens.replay import ReplayDashboard, SeekDialog
    from tui.app.screens.runs import NoteEditor, RunsScreen
    from tui.app.screens.save_profile import SaveProfile
    from tui.app.screens.servers import ServersScreen
    from tui.app.screens.sweep import SweepScreen
    from tui.app.widgets.gpu_bars import GpuBars
    from tui.app.widgets.knobs import Knobs
    from tui.app.widgets.log_pane import LogPane
    from tui.app.widgets.runs_table import RunsTable
    from tui.app.widgets.sweep_cases import SweepCases

    dashboard: list[type[DOMNode]] = [Dashboard, LogPane, LogPrompt, GpuBars, Knobs]
    dialogs: list[type[DOMNode]] = [
        Dialog,
        LaunchingDialog,
        LaunchDialog,
        KnobEditor,
        FlagSearch,
        SaveProfile,
        ServersScreen,
        Reader,
        HelpScreen,
    ]
    history: list[type[DOMNode]] = [
        RunsScreen,
        RunsTable,
        NoteEditor,
        SweepScreen,
        SweepCases,
        ReplayDashboard,
        SeekDialog,
    ]
    return [SpecdeckApp, *dashboard, *dialogs, *history]


def groups(first: Sequence[type[DOMNode]] = ()) -> list[Group]:
    """Ours, those of the classes `first` (and of what they inherit) before all others; then what Textual adds."""
    from textual.command import CommandPalette
    from textual.containers import ScrollableContainer
    from textual.widgets import Button, Input

    found = [
        Group(title=getattr(owner, "BINDING_GROUP_TITLE", "") or owner.__name__, owner=owner) for owner in owners()
    ]
    near = [cls for one in first for cls in one.__mro__]
    found.sort(key=lambda group: near.index(group.owner) if group.owner in near else len(near))
    added: tuple[tuple[str, type[DOMNode]], ...] = (
        ("Any screen", Screen),
        ("Buttons", Button),
        ("Command palette", CommandPalette),
        ("Scrolling", ScrollableContainer),
        ("Typing", Input),
    )
    return [*found, *(Group(title=title, owner=owner) for title, owner in added)]


def shown(app: App[Any], keys: Iterable[str]) -> str:
    """Keys as they are called on the screen."""
    return " ".join(dict.fromkeys(app.get_key_display(Binding(key, "", "")) for key in keys))


def commands(app: App[Any], screen: Screen[Any]) -> list[Command]:
    """What can be done on a screen as it is: its own actions, those of the part that has the focus, the app's."""
    keys: dict[tuple[int, str], list[str]] = {}
    found: dict[tuple[int, str], tuple[DOMNode, Binding]] = {}
    taken: set[str] = set()  # a key means what the part with the focus makes of it
    for node, bindings in screen._modal_binding_chain:
        own = [
            (key, binding) for key, binding in bindings if app._check_action_state(binding.action, node) is not False
        ]
        for key, binding in own:
            if binding.id is None or binding.action.endswith("command_palette"):
                continue  # what Textual's own widgets know is for typing, not for choosing
            mark = (id(node), binding.action)
            found.setdefault(mark, (node, binding))
            keys.setdefault(mark, []).extend([] if key in taken else [key])
        taken |= {key for key, _ in own}
    rank = {id(screen): 0, id(app): 2}
    ordered = sorted(found, key=lambda mark: (rank.get(mark[0], 1), not found[mark][1].show))
    read_only = getattr(app, "read_only", False)
    return [
        Command(
            words=binding.description,
            keys=shown(app, keys[mark]),
            group=getattr(node, "BINDING_GROUP_TITLE", "") or "",
            action=binding.action,
            node=node,
        )
        for mark in ordered
        for node, binding in [found[mark]]
        if not (read_only and binding.action in CONTROL)
    ]
