"""The dialogs that ask before anything is done to a server. Cancel has the focus; y does it, n and escape do not."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button

from tui.app.glyphs import Glyphs, glyphs_of
from tui.app.screens.dialog_lines import FIT_STYLE, difference, finding_lines, forecast_lines, paragraph, server_lines
from tui.app.text import escape, fit, pad, width_of
from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows
from tui.port import Feed, Finding, Forecast
from tui.snapshot import Snapshot

Answer = TypeVar("Answer")
FRAME_ROWS = 5  # of a dialog: its border, title and buttons


class Dialog(ModalScreen[Answer]):
    """Subclasses write `body` and `answer`."""

    BINDING_GROUP_TITLE = "Dialogs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "accept", "Do it", id="dialog.accept"),
        Binding("n,escape,q", "cancel", "Cancel", id="dialog.cancel"),
        Binding("left,h", "app.focus_previous", "Previous button", id="dialog.previous", show=False),
        Binding("right,l", "app.focus_next", "Next button", id="dialog.next", show=False),
    ]
    TITLE_TEXT = ""
    DO = "Do it"

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(lambda width: [[(fit(f" {self.TITLE_TEXT}", width), "title")], []])
            yield Rows(self._fitted, id="body")
            with Horizontal(id="buttons"):
                yield Button("Cancel (n)", id="cancel", compact=True)
                yield Button(f"{self.DO} (y)", id="accept", compact=True)

    def on_mount(self) -> None:
        self.query_one("#cancel").focus()

    def _fitted(self, width: int) -> list[Line]:
        """The body in the rows that the screen has, so that the buttons stay in sight."""
        lines, room = self.body(width), max(3, self.app.size.height * 96 // 100 - FRAME_ROWS)
        return lines if len(lines) <= room else [*lines[: room - 2], [(" …", "quiet")], []]

    def body(self, width: int) -> list[Line]:
        """What is being asked."""
        raise NotImplementedError

    def answer(self) -> Answer:
        """What accepting means."""
        raise NotImplementedError

    def rebuild(self) -> None:
        """The body would say something else now."""
        if self.is_mounted:
            self.query_one("#body", Rows).rebuild()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "accept":
            self.action_accept()
        else:
            self.action_cancel()

    def action_accept(self) -> None:
        self.dismiss(self.answer())

    def action_cancel(self) -> None:
        self.dismiss(None)


class StopDialog(Dialog[bool]):
    """Names what would be stopped."""

    TITLE_TEXT = "Stop the server?"
    DO = "Stop"

    def __init__(self, snapshot: Snapshot, grace_s: float) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._grace_s = grace_s

    def body(self, width: int) -> list[Line]:
        closing = (
            f"It gets SIGTERM and {self._grace_s:.0f} s to finish its requests; what is left is then killed, and the "
            "memory is waited for. K kills at once meanwhile."
        )
        return [*server_lines(self._snapshot, width), [], *paragraph(closing, width, "quiet"), []]

    def answer(self) -> bool:
        return True


class ConfirmDialog(Dialog[bool]):
    """A question of a few sentences."""

    def __init__(self, title: str, words: Sequence[str], do: str) -> None:
        super().__init__()
        self.TITLE_TEXT, self.DO = title, do
        self._words = words

    def body(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for text in self._words:
            lines += [*paragraph(escape(text), width, "plain"), []]
        return lines

    def answer(self) -> bool:
        return True


class LaunchingDialog(Dialog[Answer]):
    """One that ends in a launch: errors of the preflight forbid it, a plan that does not fit is asked about twice.

    A `y` that comes before the checks are done counts as soon as they are.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "take", "Take over what the plan says to try", id="dialog.take"),
    ]

    def __init__(self, pending: Mapping[str, object]) -> None:
        super().__init__()
        self.pending = dict(pending)
        self.forecast: Forecast | None = None
        self.findings: tuple[Finding, ...] | None = None
        self.checked = False
        self._wanted = False
        self._warned = False
        self._said = ""

    async def look(self) -> tuple[Forecast | None, tuple[Finding, ...]]:
        """What the launch would do and what stands against it."""
        raise NotImplementedError

    def on_mount(self) -> None:
        super().on_mount()
        self.look_again()

    def look_again(self) -> None:
        """Another launch is meant now."""
        self.forecast, self.findings, self.checked = None, None, False
        self._wanted = self._warned = False
        self._said = ""
        self.run_worker(self._look, group="look", exclusive=True)  # type: ignore[arg-type]

    async def _look(self) -> None:
        try:
            self.forecast, self.findings = await self.look()
        except Exception as error:
            self._said = f"It could not be checked: {error or type(error).__name__}"
        self.checked = True
        self.rebuild()
        if self._wanted:
            self._wanted = False
            self.action_accept()

    @property
    def forbidden(self) -> bool:
        """Whether the launch would fail for certain."""
        return any(finding.severity == "error" for finding in self.findings or ())

    def check_lines(self, width: int) -> list[Line]:
        """Findings, forecast, and what was answered to an early `y`."""
        lines = paragraph(escape(self._said), width, "warn") if self._said else []
        lines += finding_lines(self.findings, width, 8 if self.app.size.height >= 30 else 2)
        lines += [*([[]] if lines else []), *forecast_lines(self.forecast, self.checked, width)]
        if self._suggested():
            lines.append([(" a ", "key"), ("takes that over", "quiet")])
        return [*lines, []]

    def _suggested(self) -> Mapping[str, object]:
        """The knobs that the plan says to try."""
        return self.forecast.suggestion if self.forecast is not None else {}

    def action_take(self) -> None:
        """The launch is meant with the plan's suggestion now."""
        if suggested := self._suggested():
            self.pending = {**self.pending, **suggested}
            self.look_again()
            self.rebuild()

    def action_accept(self) -> None:
        if not self.checked:
            self._wanted = True
            self._say("Still looking; it goes on when that is done.")
        elif self.forbidden:
            self._say("It would fail for certain: mend what is red first.")
        elif self.forecast is not None and self.forecast.fits is False and not self._warned:
            self._warned = True
            self._say("The plan says that it will not start. y once more does it all the same.")
        else:
            self.dismiss(self.answer())

    def _say(self, text: str) -> None:
        self._said = text
        self.query_one("#cancel").focus()
        self.rebuild()


class RestartDialog(LaunchingDialog[dict[str, object]]):
    """Shows the difference in knobs, the forecast, and the requests that would be cut off."""

    TITLE_TEXT = "Restart the server?"
    DO = "Restart"

    def __init__(self, feed: Feed, snapshot: Snapshot, pending: Mapping[str, object]) -> None:
        super().__init__(pending)
        self._feed = feed
        self._snapshot = snapshot
        if snapshot.exited_at is not None:
            self.TITLE_TEXT, self.DO = "Launch it again?", "Launch"

    async def look(self) -> tuple[Forecast | None, tuple[Finding, ...]]:
        return await self._feed.forecast(self.pending), await self._feed.preflight(None, self.pending)

    def body(self, width: int) -> list[Line]:
        lines = server_lines(self._snapshot, width)
        lines += [[], *difference(self._snapshot, self.pending, width), []]
        return lines + self.check_lines(width)

    def answer(self) -> dict[str, object]:
        return self.pending


class LaunchDialog(LaunchingDialog[str]):
    """Offers the profiles, each with what the plan says of it; arrows choose."""

    TITLE_TEXT = "Launch a server: arrows choose, y launches"
    DO = "Launch"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "choose(1)", "Next profile", id="dialog.next-profile", show=False),
        Binding("up,k", "choose(-1)", "Previous profile", id="dialog.previous-profile", show=False),
    ]

    def __init__(self, feed: Feed, snapshot: Snapshot, pending: Mapping[str, object]) -> None:
        super().__init__(pending)
        self._feed = feed
        self._snapshot = snapshot
        self._profiles = feed.profiles()
        self._plans: dict[str, Forecast | None] = {}
        self._asked = dict(pending)
        names = [profile.name for profile in self._profiles]
        self._chosen = names.index(snapshot.profile) if snapshot.profile in names else 0

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._plan_all, group="plans")  # type: ignore[arg-type]

    async def look(self) -> tuple[Forecast | None, tuple[Finding, ...]]:
        if not self._profiles or self._profiles[self._chosen].problem:
            return None, ()
        name = self._profiles[self._chosen].name
        found = await self._feed.preflight(name, self.pending)
        if name not in self._plans:
            self._plans[name] = await self._feed.forecast_launch(name, self.pending)
        return self._plans[name], found

    async def _plan_all(self) -> None:
        for profile in self._profiles:
            if profile.problem or profile.name in self._plans:
                continue
            try:
                plan = await self._feed.forecast_launch(profile.name, self.pending)
            except Exception:
                plan = None
            self._plans.setdefault(profile.name, plan)
            self.rebuild()

    def action_choose(self, by: int) -> None:
        if self._profiles:
            self._chosen = (self._chosen + by) % len(self._profiles)
            self.query_one("#accept").focus()  # who has chosen means it: enter launches
            self.pending = dict(self._asked)  # what was taken over was for the other profile
            self.look_again()
            self.rebuild()

    def action_take(self) -> None:
        if self._suggested():
            self._plans.pop(self._profiles[self._chosen].name, None)
            super().action_take()

    def body(self, width: int) -> list[Line]:
        if not self._profiles:
            words = (
                "There are no profiles yet. `specdeck profile import` makes one of the command that starts your server."
            )
            return [*paragraph(words, width, "plain"), []]
        room = min(max(width_of(escape(profile.name)) for profile in self._profiles), width // 2)
        lines = [self._row(at, room, width) for at in range(len(self._profiles))]
        return [*lines, [], *self._details(width)]

    def _row(self, at: int, room: int, width: int) -> Line:
        glyphs = glyphs_of(self.app)
        profile, here = self._profiles[at], at == self._chosen
        mark, style = (pad("", 10), "bad") if profile.problem else self._mark(profile.name, glyphs)
        return [
            (f" {glyphs.cursor if here else ' '} ", "key"),
            (pad(escape(profile.name), room), "cursor" if here else "strong"),
            (f"  {mark} ", style),
            (
                fit(escape(profile.problem or profile.description), width - room - 16),
                "bad" if profile.problem else "quiet",
            ),
        ]

    def _mark(self, name: str, glyphs: Glyphs) -> tuple[str, str]:
        """What the plan says of a profile, in ten cells."""
        if name not in self._plans:
            return pad("", 10), "quiet"
        plan = self._plans[name]
        fits = None if plan is None else plan.fits
        words = {True: "fits", False: f"{glyphs.cross} too big", None: "?"}[fits]
        return pad(words, 10), "quiet" if fits is None else FIT_STYLE[fits]

    def _details(self, width: int) -> list[Line]:
        profile = self._profiles[self._chosen]
        if profile.problem:
            return [*paragraph(escape(profile.problem), width, "bad"), self._path(profile.path, width), []]
        lines = [*paragraph(escape(profile.description), width, "plain"), self._path(profile.path, width), []]
        if self.pending:
            lines += [[(" with the changed knobs", "quiet")], *difference(self._snapshot, self.pending, width), []]
        return lines + self.check_lines(width)

    def _path(self, path: str, width: int) -> Line:
        return [(fit(f" {escape(path)}", width - 1), "quiet")]

    def action_accept(self) -> None:
        if not self._profiles:
            self.dismiss(None)
        elif problem := self._profiles[self._chosen].problem:
            self._say(problem)
        else:
            super().action_accept()

    def answer(self) -> str:
        return self._profiles[self._chosen].name
