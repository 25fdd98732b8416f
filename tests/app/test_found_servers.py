"""The hint that a server runs here: only while nothing is watched, as looking for one costs a scan of the machine."""

import pytest

from tui.app.main import SpecdeckApp
from tui.port import SeenServer

SERVER = SeenServer(
    pid=4711, title="tiny", url="http://127.0.0.1:30000", ranks=1, command="sglang serve", log="", ours=""
)


@pytest.mark.parametrize(("log", "told"), [(False, "An SGLang server runs here"), (True, "")])
async def test_it_is_looked_for_while_no_log_is_followed(fake, log: bool, told: str) -> None:
    feed = fake.FakeFeed(fake.empty())
    feed.servers = (SERVER,)
    if log:
        feed.log = fake.written("serving")
    app = SpecdeckApp(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await app.dashboard.look_for_servers()
        assert app.dashboard.found_servers.startswith(told)
        assert bool(app.dashboard.found_servers) is bool(told)
