"""The application: themes, keys, the feed, and leaving cleanly. Imported only when a screen is wanted."""

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, Provider
from textual.notifications import SeverityLevel
from textual.screen import Screen

from tui.app import clipboard, keymap, keys, terminal, themes
from tui.app.dump import screen_text
from tui.app.frame import Frame
from tui.app.glyphs import glyphs
from tui.app.screens.dashboard import CONTROL, Dashboard
from tui.app.widgets.verdict_card import VerdictCard, as_text
from tui.errors import SpecdeckError
from tui.port import Feed
from tui.snapshot import Snapshot

if TYPE_CHECKING:
    from tui.app.screens.reader import Entry

# Seconds between two drawings of ordinary news, slowest first.
RATES = (10.0, 5.0, 2.0, 1.0, 0.5, 0.25)
WATCHDOG_S = 5.0
TRIM_LOOKS = 6  # after so many looks the heap gives back what it does not use, which takes it a millisecond or two
# How soon a thread that reads a flood of lines lets the screen go on: Python's 5 ms add up to half-second stalls.
SWITCH_S = 0.0005
M_ARENA_MAX = -8  # of <malloc.h>
STANDS_S = 0.5  # after this time nothing of the start is still being made
HANGUP = 129  # what a shell reports of a process ended by SIGHUP
TWICE_S = 2.0  # ctrl+c pressed again within this time leaves


def _actions() -> type[Provider]:
    from tui.app.palette import Actions

    return Actions


class SpecdeckApp(App[int], inherit_bindings=False):
    """One feed on one screen. Textual's ctrl+q is not taken over: after a ctrl+s it means something else to a hand."""

    CSS_PATH = "specdeck.tcss"
    TITLE = "specdeck"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-home"), (150, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    COMMANDS: ClassVar[set[Any]] = {_actions}
    BINDING_GROUP_TITLE = "On every screen"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Keys and words", id="app.keys", show=False, priority=True),
        Binding("ctrl+p", "command_palette", "All commands", id="app.commands", show=False, priority=True),
        Binding("ctrl+c", "hint_leave", "Leave when pressed twice", id="app.interrupt", show=False),
    ]

    def __init__(
        self,
        feed: Feed,
        *,
        read_only: bool = False,
        ascii_only: bool = False,
        theme: str | None = None,
        mouse: bool = True,
        open_feed: Callable[[], Feed] | None = None,
    ) -> None:
        """`open_feed` makes the feed that takes the place of `feed` when the first frame is seen."""
        # Textual chooses between no colour and grey before there is a theme of ours: True here makes it no colour.
        super().__init__(ansi_color=True if terminal.no_colour(os.environ) else None)
        self.set_reactive(App.ansi_color, None)
        self.animation_level = "none"
        self._feed = feed
        self._open_feed = open_feed
        self.problem: SpecdeckError | None = None  # why there is nothing to show
        self._asked_read_only = read_only
        self.read_only = read_only or feed.read_only
        environ = dict(os.environ)
        plainly = ascii_only or terminal.few_glyphs(environ)
        self.glyphs = glyphs(plainly, terminal.no_colour(environ))
        if plainly:
            from tui.app.plain import Plain

            self._filters.append(Plain())
        self.frozen = False
        self._mouse_on = mouse
        self._frame = Frame()
        self._rate = RATES.index(0.5)
        self._latest = feed.snapshot
        self._caption = ""
        self._drawn_at = 0.0
        self._pressed_at = 0.0
        self._environ = environ
        for ours in themes.themes():
            self.register_theme(ours)
        self.theme = terminal.choose_theme(theme, environ)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.variable_defaults()

    def on_mount(self) -> None:
        self._load_keymap()
        self.dashboard = self._make_dashboard()
        self.push_screen(self.dashboard)
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        self.call_after_refresh(self.run_worker, self._follow, group="feed")
        if not self.is_headless and not self.is_web:
            threading.Thread(target=leave_with_the_terminal, name="terminal", daemon=True).start()

    def _make_dashboard(self) -> Dashboard:
        if self._feed.playback is None:
            return Dashboard(self._feed)
        from tui.app.screens.replay import ReplayDashboard

        return ReplayDashboard(self._feed)

    # ---- the feed

    @property
    def feed(self) -> Feed:
        """What the screen shows now."""
        return self._feed

    async def _follow(self) -> None:
        try:
            if self._open_feed is not None:
                feed = await asyncio.to_thread(self._open_feed)
                if self._exit:  # the operator left meanwhile
                    return
                self._take(feed)
            if not gc.isenabled():
                self.set_timer(STANDS_S, stand)
            await self._feed.run(self.receive)
        except SpecdeckError as error:
            self.problem = error
            self.exit(2)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.notify(f"The data stream stopped: {error or type(error).__name__}", severity="error", timeout=3600)

    def _take(self, feed: Feed) -> None:
        self._feed = feed
        self.read_only = self._asked_read_only or feed.read_only
        self.dashboard.take(feed)

    def receive(self, snapshot: Snapshot) -> None:
        """News from the feed. Ordinary news is drawn at the chosen rate, great news at once."""
        if self._exit:  # its widgets are being taken away
            return
        if self._feed.greeting:
            greeting, self._feed.greeting = self._feed.greeting, ""
            self.notify(greeting, timeout=15.0)
        great = _great(self._latest, snapshot) or self._caption != self._feed.caption
        self._caption = self._feed.caption
        self._latest = snapshot
        now = time.monotonic()
        if self.frozen or (not great and now - self._drawn_at < RATES[self._rate] * 0.9):
            return
        self._drawn_at = now
        self.dashboard.show(snapshot)

    # ---- the wire

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Send what changed and no more."""
        thrifty: Any = None if renderable is None else self._frame.thrifty(renderable)
        super()._display(screen, thrifty)

    def on_resize(self) -> None:
        self._frame.forget()

    def action_redraw(self) -> None:
        self._frame.forget()
        self.screen.refresh()

    # ---- actions

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Messages go to the last line: a toast would repaint a corner of the screen twice."""
        text = f"{title}: {message}" if title else message
        say = getattr(self.screen, "say", self.dashboard.say)
        say(text, severity, timeout or 6.0)

    def action_leave(self) -> None:
        self.exit(0)

    def action_hint_leave(self) -> None:
        now = time.monotonic()
        if now - self._pressed_at < TWICE_S:
            self.exit(0)
            return
        self._pressed_at = now
        self.notify(f"ctrl+c again, or q, leaves the dashboard. {self._feed.leaving}")

    async def action_quit(self) -> None:
        self.exit(0)

    def action_help_quit(self) -> None:
        self.action_hint_leave()

    def action_help(self) -> None:
        from tui.app.screens.reader import HelpScreen

        if isinstance(self.screen, (HelpScreen, CommandPalette)):
            return
        path = keymap.config_folder(self._environ) / "keymap.toml"
        self.push_screen(HelpScreen(self.key_entries(), str(path)))

    def action_freeze(self) -> None:
        self.frozen = not self.frozen
        self.dashboard.show(self._latest)

    def action_rate(self, by: int) -> None:
        self._rate = max(0, min(len(RATES) - 1, self._rate + by))
        self.notify(
            f"The screen is drawn every {RATES[self._rate]:g} s, and at once when something happens.", timeout=3
        )

    def action_mouse(self) -> None:
        driver: Any = self._driver
        if not hasattr(driver, "_enable_mouse_support"):
            return
        driver._mouse = True  # Textual's own switch: without it the two calls below do nothing
        self._mouse_on = not self._mouse_on
        if self._mouse_on:
            driver._enable_mouse_support()
            self.notify("The mouse is specdeck's; m gives it back.")
        else:
            driver._disable_mouse_support()
            self.notify("The mouse is the terminal's: select text as usual; m takes it back.")

    def action_copy(self) -> None:
        focused = self.focused
        text = getattr(focused, "copied_text", None)
        if callable(text):
            self.copy_text(text())
        elif (verdict := self.dashboard.query_one(VerdictCard).verdict) is not None:
            self.copy_text(as_text(verdict))
        elif focused is not None and hasattr(focused, "text"):
            self.copy_text(focused.text())
        else:
            self.copy_text(screen_text(self))

    def copy_text(self, text: str) -> None:
        """To the clipboard by OSC 52; what is too much for that goes to a file."""
        lines = text.count("\n") + 1
        what = f"{lines} lines" if lines > 1 else "1 line"
        if clipboard.fits(text):
            self.copy_to_clipboard(text)
            self.notify(f"{what} {clipboard.hint()}", timeout=4)
            return
        self._save(text, "copied.txt", what)

    def action_dump(self) -> None:
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
        svg = self.export_screenshot()
        self._save(svg, f"screen-{stamp}.svg", "the screen")
        self._save(screen_text(self), f"screen-{stamp}.txt", "the screen (.txt and .svg)")

    def _save(self, text: str, name: str, what: str) -> None:
        try:
            path = clipboard.save(text, keymap.state_folder(self._environ) / "screens", name)
        except OSError as error:
            self.notify(f"{what} could not be saved: {error}", severity="error")
            return
        self.notify(f"{what} saved as {path}", timeout=10)

    # ---- keys and commands

    def key_entries(self) -> list["Entry"]:
        """(group, keys, words) of every binding that can be used, those of the screen as it is first."""
        near = [type(node) for node in (self.screen, self.focused) if node is not None]
        return [
            (
                group.title,
                keys.shown(self, self._keymap.get(binding.id or "", binding.key).split(",")),
                binding.description,
            )
            for group in keys.groups(near)
            for binding in group.bindings
            if not (self.read_only and binding.action in CONTROL)
        ]

    def binding_ids(self) -> list[str]:
        """Ids that a keymap may name."""
        return [binding.id for group in keys.groups() for binding in group.bindings if binding.id]

    def _load_keymap(self) -> None:
        path = keymap.config_folder(self._environ) / "keymap.toml"
        if not path.exists():
            return
        try:
            self.set_keymap(keymap.load(path, self.binding_ids()))
        except keymap.KeymapError as error:
            problem = str(error)
            self.call_after_refresh(lambda: self.notify(problem, severity="error", timeout=20))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        for command in keys.commands(self, screen):
            run = partial(self.run_action, command.action, command.node)
            yield SystemCommand(command.words, command.keys, run)
        yield SystemCommand("Choose the colours", "", self.action_change_theme)


def _great(old: Snapshot, new: Snapshot) -> bool:
    """Whether somebody at the screen should see this at once."""
    return (
        old.state != new.state
        or old.progress.phase != new.progress.phase
        or old.verdict != new.verdict
        or old.run != new.run
        or len(old.warnings) != len(new.warnings)
    )


def prepare() -> None:
    """Before the app is made: how its threads share the interpreter, and no search for garbage during the start."""
    sys.setswitchinterval(SWITCH_S)
    gc.disable()
    # Each thread's own heap keeps its own holes: after a minute of a busy log they held 7 MiB.
    _libc("mallopt", M_ARENA_MAX, 1)


def leave_with_the_terminal() -> None:
    """A dropped SSH connection must not leave a dashboard behind, also where its shell ignores SIGHUP. The server is
    another session: untouched. On a thread of its own: Textual's writer dies of the dead terminal, and then the event
    loop waits for it for ever. What the heap does not use is given back at times, as somebody must who has a clock."""
    looks = 0
    while terminal.alive():
        time.sleep(WATCHDOG_S)
        looks += 1
        if looks % TRIM_LOOKS == 0:
            _libc("malloc_trim", 0)
    os._exit(HANGUP)  # nothing can be drawn or restored any more


def _libc(function: str, *arguments: int) -> None:
    """A hint to glibc's heap. Elsewhere there is no such choice."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        getattr(ctypes.CDLL(None), function)(*arguments)


def stand() -> None:
    """What the start made stays: looked through once more, and never again, which would take a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.enable()


def run(
    feed: Feed,
    *,
    read_only: bool,
    mouse: bool,
    ascii_only: bool,
    theme: str | None,
    open_feed: Callable[[], Feed] | None = None,
) -> int:
    """The dashboard until the operator leaves it; the exit code. Raises SpecdeckError when no feed could be made."""
    prepare()
    app = SpecdeckApp(feed, read_only=read_only, ascii_only=ascii_only, theme=theme, mouse=mouse, open_feed=open_feed)
    code = play(app, mouse)
    feed = app.feed
    if code == 0 and feed.snapshot.controlled and feed.snapshot.exited_at is None:
        sys.stderr.write(feed.leaving + "\n")
    return code


def play(app: SpecdeckApp, mouse: bool) -> int:
    """An app until the operator leaves it; the exit code. Raises the SpecdeckError that ended it."""
    code = app.run(mouse=mouse)
    if app.problem is not None:
        raise app.problem
    return code if code is not None else app.return_code or 0
