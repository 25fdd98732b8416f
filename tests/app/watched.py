"""The app on a feed that needs no server, watched through pipes: `python watched.py COMMANDS REPORTS` (descriptors).

A command is a line of JSON that names a state, keys and a focus: the app goes there and reports which keys mean
something there. After each key that came from the terminal it reports where it is.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "support")]

import fakes  # noqa: E402
from textual import events  # noqa: E402
from textual.pilot import Pilot  # noqa: E402

from tui.app import keys, main  # noqa: E402

main.TWICE_S = 0.0  # ctrl+c is pressed on many screens; here it never counts as the second time
COMMANDS, REPORTS = int(sys.argv[1]), int(sys.argv[2])


class Watched(main.SpecdeckApp):
    """Tells where it is."""

    CSS_PATH = str(Path(main.__file__).with_name("specdeck.tcss"))
    playing = False  # the keys come from a command

    def tell(self, **words: object) -> None:
        os.write(REPORTS, (json.dumps(words) + "\n").encode())

    async def rest(self) -> None:
        """Until what was asked for is done."""
        pilot = Pilot(self)
        for _ in range(500):
            await pilot._wait_for_screen()
            if all(worker.is_finished or worker.group == "feed" for worker in self.workers):
                break
            await asyncio.sleep(0.01)
        await pilot._wait_for_screen()

    def where(self) -> dict[str, object]:
        focused = self.focused
        stack = [type(screen).__name__ for screen in self.screen_stack[1:]]
        return {"stack": stack, "focus": "" if focused is None else focused.id or type(focused).__name__}

    async def tell_where(self, key: str) -> None:
        await self.rest()
        self.tell(key=key, **self.where())

    async def on_event(self, event: events.Event) -> None:
        typed = isinstance(event, events.Key) and not event.is_forwarded and not self.playing
        await super().on_event(event)
        if typed:
            self.run_worker(self.tell_where(event.key), group="feed")

    def on_ready(self) -> None:
        asyncio.get_running_loop().add_reader(COMMANDS, self.obey)
        self.tell(ready=True)

    def obey(self) -> None:
        for line in os.read(COMMANDS, 65536).decode().splitlines():
            self.run_worker(self.go(**json.loads(line)), group="feed")

    async def go(self, state: str, press: list[str], focus: str) -> None:
        """Without a state: from where it is."""
        await self.rest()
        if state:
            while len(self.screen_stack) > 2:
                await self.pop_screen()
            self.frozen = False
            feed.servers = (fakes.SeenServer(pid=4100, title="sglang", url="http://127.0.0.1:30000"),)
            feed.history = fakes.FakeHistory()
            feed.push(getattr(fakes, state)())
            self.dashboard.forget_pending()
            self.dashboard.query_one("#" + (focus or "log-pane")).focus()
            await self.rest()
        self.playing = True
        for key in press:
            await Pilot(self).press(key)
            await self.rest()
        self.playing = False
        self.tell(bound=self.bound(), **self.where())

    def bound(self) -> list[tuple[str, str, str, bool, bool]]:
        """(class, key, action, whether help lists it, whether the palette offers it or need not) of every binding."""
        found = []
        offered = {command.title for command in self.get_system_commands(self.screen)}
        for node, bindings in self.screen._modal_binding_chain:
            own = [binding for group in keys.groups() if isinstance(node, group.owner) for binding in group.bindings]
            for key, binding in bindings:
                listed = any(one.action == binding.action and key in one.key.replace(" ", "").split(",") for one in own)
                usable = self._check_action_state(binding.action, node) is not False
                needless = binding.id is None or not usable or binding.action.endswith("command_palette")
                found.append(
                    (type(node).__name__, key, binding.action, listed, needless or binding.description in offered)
                )
        return found


feed = fakes.FakeFeed(fakes.serving(), fakes.fitting())
feed.log = fakes.written("crash")
app = Watched(feed)
code = app.run()
os._exit(code if code is not None else app.return_code or 0)
