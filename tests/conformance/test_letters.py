"""Dead letters: runs that gave up, what they have in common, and what people do with them (I12, I13)."""

from tests.support.builders import one_shot, settlement
from timeball.domain.fingerprint import fingerprint
from timeball.domain.lifecycle import LOST, Failed, Failure, Lost, Outcome, Status, Succeeded
from timeball.domain.retry import NonRetryable, Retry
from timeball.domain.run import Run
from timeball.ports.store import Store, Want

NEVER = Retry(max_retries=0)
BROKEN = Failure(kind="exit", message="exit code 3: row 17 is bad", exit_code=3)


async def ended(store: Store, *outcomes: Outcome, **fields: object) -> list[Run]:
    """A one-shot for each outcome, ended by it."""
    by_run: dict[str, Outcome] = {}
    for outcome in outcomes:
        sent = one_shot(store.now(), **{"retry": NEVER, **fields})
        await store.submit([sent])
        by_run[sent.runs[0].id] = outcome
    while claims := (await store.claim([Want("w_1", "", 100)], 0)).claims:
        await store.settle([settlement(got, by_run[got.run_id]) for got in claims])
    runs = await store.runs(list(by_run))
    return [runs[run_id] for run_id in by_run]


async def test_a_run_that_gave_up_has_the_fingerprint_of_its_error(store: Store) -> None:
    same = Failed(Failure(kind="exit", message="exit code 3: row 4711 is bad", exit_code=3))
    first, second, lost, fine = await ended(store, Failed(BROKEN), same, Lost(), Succeeded())
    assert first.fingerprint == second.fingerprint == fingerprint(BROKEN)
    assert lost.fingerprint == fingerprint(LOST)
    assert fine.fingerprint is None
    (refused,) = await ended(store, same, retry=Retry(non_retryable=NonRetryable(exit_codes=[3])))
    assert (refused.status, refused.fingerprint) == (Status.FAILED, fingerprint(BROKEN))
