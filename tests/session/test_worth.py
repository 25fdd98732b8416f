"""What speculation and the pinned baseline are worth, folded from facts."""

from dataclasses import replace

from tui.facts import DecodeBatch, Launched, PastSpeeds, ServerReady, SpeedAt
from tui.session import Session

LAUNCHED = Launched(at=0.0, run="r", profile="p", command=("sglang",), knobs={"speculative-algorithm": "EAGLE3"})
READY = ServerReady(at=10.0, line=1)


def plain(tok_s: float, batch: int = 8, samples: int = 9) -> PastSpeeds:
    speed = SpeedAt(batch=batch, tok_s=tok_s, samples=samples, low=tok_s - 1, high=tok_s + 1)
    return PastSpeeds(at=0.0, role="plain", run="before", speeds=(speed,))


def decode(count: int, tok_s: float = 400.0, batch: int = 8, accept: float = 2.2) -> list[DecodeBatch]:
    return [
        DecodeBatch(at=11.0 + i, line=2 + i, running=batch, gen_tok_s=tok_s, accept_len=accept, queue=0)
        for i in range(count)
    ]


def session(*facts) -> Session:
    made = Session()
    made.extend(facts)
    return made


def test_it_pays_when_it_is_faster_at_this_batch_size() -> None:
    text = session(plain(300.0), LAUNCHED, READY, *decode(8)).snapshot().economy
    assert text.startswith("Batch 8: pays, +33%")
    assert "accept length 2.20 against 1.65 to break even" in text


def test_it_does_not_pay_when_it_is_slower() -> None:
    assert "does not pay" in session(plain(500.0), LAUNCHED, READY, *decode(8)).snapshot().economy


def test_few_samples_are_not_enough_data() -> None:
    text = session(plain(300.0, samples=1), LAUNCHED, READY, *decode(8)).snapshot().economy
    assert "Not enough data" in text


def test_without_a_plain_run_it_says_what_is_missing() -> None:
    told = session(PastSpeeds(at=0.0, role="plain"), LAUNCHED, READY, *decode(8)).snapshot()
    assert "launch this model once without it" in told.economy
    assert session(LAUNCHED, READY, *decode(8)).snapshot().economy == ""


def test_a_server_that_does_not_speculate_has_no_economy() -> None:
    quiet = replace(LAUNCHED, knobs={})
    assert session(plain(300.0), quiet, READY, *decode(8, accept=1.0)).snapshot().economy == ""


def test_the_baseline_counts_at_the_batch_size_of_now_only() -> None:
    base = replace(plain(377.0), role="baseline")
    assert session(base, LAUNCHED, READY, *decode(3)).snapshot().baseline_tok_s == 377.0
    assert session(base, LAUNCHED, READY, *decode(3, batch=4)).snapshot().baseline_tok_s is None
    gone = PastSpeeds(at=20.0, role="baseline")
    assert session(base, LAUNCHED, READY, *decode(3), gone).snapshot().baseline_tok_s is None


def test_another_launch_begins_with_no_samples() -> None:
    text = session(plain(300.0), LAUNCHED, READY, *decode(8), replace(LAUNCHED, at=99.0)).snapshot().economy
    assert "nothing was decoded" in text
