"""The commands of the palette: what can be done on the screen below it, one row each, its keys in front."""

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from tui.app.text import pad

KEYS = 12  # cells of the column of keys


class Actions(Provider):
    """In the order of the screen, not of the alphabet: what matters most comes first."""

    async def discover(self) -> Hits:
        for words, keys, run, _ in self.app.get_system_commands(self.screen):
            yield DiscoveryHit(_row(keys, Content(words)), run, text=words)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for words, keys, run, _ in self.app.get_system_commands(self.screen):
            score = 1000.0 if query.strip() in keys.split() else matcher.match(words)
            if score > 0:
                yield Hit(score, _row(keys, matcher.highlight(words)), run, text=words)


def _row(keys: str, words: Content) -> Content:
    return Content.assemble((pad(keys, KEYS), "$primary bold"), words)
