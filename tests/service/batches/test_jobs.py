"""Tests of the rows of batch jobs in both databases: leases, counts, turns and lost work."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from indexer.catalog.migrations import open_database
from models.errors import BatchNotFoundError, IdempotencyError, OverloadedError, RateLimitedError
from service.access.api_keys import Keys, Scope
from service.batches.job import ChunkContent, Job, JobState, NewJob
from service.batches.jobs import LEASE_S, MAX_ATTEMPTS, Jobs
from service.batches.limits import StorageLimits


class Clock:
    """A clock in seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        """Return the time now."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return the clock of ``jobs``."""
    return Clock()


@pytest.fixture
def jobs(catalog_place: str | Path, clock: Clock) -> Iterator[Jobs]:
    """Yield the jobs of an empty catalog."""
    jobs = Jobs(open_database(catalog_place), clock=clock)
    yield jobs
    jobs.close()


def add(jobs: Jobs, *sizes: int, owner: str = "a", key: str | None = None, content: str = "x") -> Job:
    """Add a job with chunks of these sizes."""
    chunks = [ChunkContent(size, f"{content}{i}".encode()) for i, size in enumerate(sizes or (2, 2, 1))]
    return jobs.add(NewJob(owner, key, content, "000001", b"shared", chunks), most=6, most_of_owner=3)


def test_a_job_is_done_chunk_by_chunk(jobs: Jobs) -> None:
    """Chunks come in order with their content, each finished one raises the counts, the last ends the job."""
    job = add(jobs)
    assert (JobState.QUEUED, 5, 0, 0) == (job.state, job.n_queries, job.n_done, jobs.n_ready(job))
    for number, (first, n_queries) in enumerate(((0, 2), (2, 2), (4, 1))):
        chunk = jobs.claim()
        assert chunk is not None
        assert (job.id, number, first, n_queries) == (
            chunk.job_id,
            chunk.number,
            chunk.first,
            chunk.n_queries,
        )
        assert (f"x{number}".encode(), b"shared", "000001") == (chunk.queries, chunk.shared, chunk.generation)
        assert JobState.RUNNING is jobs.get(job.id, owner="a").state
        assert jobs.finish(chunk, b"results", n_problems=number)
    assert jobs.claim() is None
    done = jobs.get(job.id, owner="a")
    assert (JobState.DONE, 5, 3, 1_000_000) == (done.state, done.n_done, done.n_problems, done.finished_at)
    assert 5 == jobs.n_ready(done)


def test_results_are_ready_as_far_as_there_is_no_gap(jobs: Jobs) -> None:
    """Results are ready up to the first gap; a finished chunk is found by any of its numbers."""
    job = add(jobs)
    first, second = jobs.claim(), jobs.claim()
    assert first is not None
    assert second is not None
    assert jobs.finish(second, b"second", n_problems=0)
    assert 0 == jobs.n_ready(job)
    assert jobs.results(job.id, 1) is None
    for number in (2, 3):
        stored = jobs.results(job.id, number)
        assert stored is not None
        assert (2, 2, b"second") == (stored.first, stored.n_queries, stored.results)
    assert jobs.finish(first, b"first", n_problems=0)
    assert 4 == jobs.n_ready(job)


def test_a_lease_that_lapsed_counts_no_more(jobs: Jobs, clock: Clock) -> None:
    """A late worker loses its chunk to another, and only the latter's result counts, once."""
    job = add(jobs, 3, 1)
    late = jobs.claim()
    assert late is not None
    clock.now += LEASE_S - 1
    assert jobs.renew(late)
    clock.now += LEASE_S - 1
    after = jobs.claim()
    assert after is not None
    assert 1 == after.number
    clock.now += 2
    other = jobs.claim()
    assert other is not None
    assert not jobs.renew(late)
    assert not jobs.finish(late, b"late", n_problems=3)
    assert jobs.finish(other, b"other", n_problems=0)
    assert not jobs.finish(other, b"again", n_problems=0)
    now = jobs.get(job.id, owner="a")
    assert (3, 0, JobState.RUNNING) == (now.n_done, now.n_problems, now.state)
    stored = jobs.results(job.id, 0)
    assert stored is not None
    assert b"other" == stored.results


def test_a_late_worker_whose_chunk_nobody_took_is_counted(jobs: Jobs, clock: Clock) -> None:
    """A lapsed lease is only lost once another worker has taken the chunk."""
    add(jobs, 3)
    late = jobs.claim()
    assert late is not None
    clock.now += LEASE_S * 5
    assert jobs.finish(late, b"late", n_problems=0)


def test_work_given_back_is_taken_at_once(jobs: Jobs) -> None:
    """A released chunk can be claimed at once, any number of times."""
    add(jobs, 3)
    for _ in range(MAX_ATTEMPTS + 2):
        chunk = jobs.claim()
        assert chunk is not None
        jobs.release(chunk)
    assert 1 == jobs.backlog().n_waiting


def test_a_parked_chunk_waits_and_nobody_holds_it(jobs: Jobs, clock: Clock) -> None:
    """A chunk that a worker cannot do is not taken at once, and does not look as if it were worked on."""
    add(jobs, 3)
    chunk = jobs.claim()
    assert chunk is not None
    assert (0, 1) == (jobs.backlog().n_waiting, jobs.backlog().n_leased)
    jobs.release(chunk, later=True)
    assert jobs.claim() is None
    assert (1, 0) == (jobs.backlog().n_waiting, jobs.backlog().n_leased)
    assert not jobs.finish(chunk, b"late", n_problems=0)
    clock.now += LEASE_S + 1
    assert jobs.claim() is not None


def test_a_lease_of_a_clock_that_was_ahead_ends_soon(jobs: Jobs, clock: Clock) -> None:
    """If a worker with such a clock is killed, others wait for one lease, not for its clock."""
    add(jobs, 3)
    clock.now += 3600
    assert jobs.claim() is not None
    clock.now -= 3600
    assert jobs.claim() is None
    clock.now += LEASE_S + 1
    assert jobs.claim() is not None


def test_old_jobs_are_removed_a_few_chunks_at_a_time(
    jobs: Jobs, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction removes more than a few chunks, as others cannot write meanwhile."""
    monkeypatch.setattr("service.batches.jobs._CHUNKS_REMOVED_TOGETHER", 2)
    job = add(jobs, 1, 1, 1, 1, 1)
    jobs.fail(job.id, "no")
    clock.now += 100
    n_left, writing = [], jobs.database.writing

    @contextmanager
    def counted() -> Iterator[Connection]:
        with writing() as connection:
            yield connection
        with jobs.database.reading() as connection:
            n_left.append(connection.execute(text("SELECT count(*) FROM job_chunks")).scalar_one())

    monkeypatch.setattr(jobs.database, "writing", counted)
    assert jobs.expire(max_age_s=50)
    assert [3, 1, 0, 0] == n_left
    with pytest.raises(BatchNotFoundError):
        jobs.get(job.id, owner="a")


def test_a_chunk_that_ends_every_worker_fails_its_job(jobs: Jobs, clock: Clock) -> None:
    """After too many attempts at a chunk its job fails and says so; other jobs go on."""
    job = add(jobs, 3)
    for _ in range(MAX_ATTEMPTS):
        assert jobs.claim() is not None
        clock.now += LEASE_S + 1
    other = add(jobs, 1)
    assert jobs.claim() is None
    failed = jobs.get(job.id, owner="a")
    assert (JobState.FAILED, f"Part 0 failed {MAX_ATTEMPTS} times") == (failed.state, str(failed.error)[:22])
    chunk = jobs.claim()
    assert chunk is not None
    assert other.id == chunk.job_id


def turn(jobs: Jobs, clock: Clock) -> Job:
    """Work on the next chunk for a while, and return its job."""
    chunk = jobs.claim()
    assert chunk is not None
    clock.now += 0.02  # many chunks in a second: turns do not depend on whole seconds
    assert jobs.finish(chunk, b"results", n_problems=0)
    return jobs.get(chunk.job_id, owner=None)


def test_batches_of_one_owner_take_turns(jobs: Jobs, clock: Clock) -> None:
    """A short batch does not wait for a longer one of the same owner; the two take turns."""
    long = add(jobs, 1, 1, 1, 1)
    for _ in range(2):
        turn(jobs, clock)
    clock.now += 1
    short = add(jobs, 1, 1)
    order = [turn(jobs, clock).id for _ in range(4)]
    assert [long.id, short.id, long.id, short.id] == order
    assert (0, 0) == (jobs.backlog().n_waiting, jobs.backlog().n_leased)


@pytest.mark.parametrize("removes", [False, True], ids=["kept", "removed"])
@pytest.mark.parametrize("owner", ["a", "b"], ids=["one owner", "two owners"])
def test_short_batches_without_end_do_not_hold_up_a_long_one(
    jobs: Jobs, clock: Clock, owner: str, *, removes: bool
) -> None:
    """With short batches always waiting, even removed ones, a long batch still has every other turn."""
    long = add(jobs, 1, 1, 1, 1)
    waiting = 0
    order = []
    for _ in range(8):
        clock.now += 1  # among equals the older goes first
        while waiting < 2:
            add(jobs, 1, owner=owner)
            waiting += 1
        job = turn(jobs, clock)
        order.append(job.id == long.id)
        if job.id != long.id:
            waiting -= 1
            if removes:
                jobs.remove(job.id, owner=owner)
    assert [True, False] * 4 == order


def test_a_caller_with_many_batches_has_the_turns_of_one(jobs: Jobs, clock: Clock) -> None:
    """Owners take turns regardless of how many batches they have, and a new owner is not put first."""
    for _ in range(3):
        add(jobs, 1, 1)
    clock.now += 1
    add(jobs, 1, 1, 1, 1, owner="b")
    assert "a" == turn(jobs, clock).owner
    add(jobs, 1, owner="c")
    assert "bacbababa" == "".join(turn(jobs, clock).owner for _ in range(9))


def test_who_has_a_chunk_under_way_comes_last(jobs: Jobs, clock: Clock) -> None:
    """A worker takes a chunk of an owner without one under way, as long as there is one."""
    for owner in "ab":
        add(jobs, 1, 1, 1, owner=owner)
        clock.now += 1
    taken = [chunk for _ in range(2) if (chunk := jobs.claim()) is not None]
    assert ["a", "b"] == [jobs.get(chunk.job_id, owner=None).owner for chunk in taken]
    add(jobs, 1, owner="c")
    assert "c" == turn(jobs, clock).owner


def test_work_given_back_was_its_owners_turn(jobs: Jobs, clock: Clock) -> None:
    """A released chunk counts as its owner's turn, so it does not keep others waiting."""
    add(jobs, 1)
    clock.now += 1
    add(jobs, 1, owner="b")
    chunk = jobs.claim()
    assert chunk is not None
    assert "a" == jobs.get(chunk.job_id, owner=None).owner
    clock.now += 1
    jobs.release(chunk)
    assert ["b", "a"] == [turn(jobs, clock).owner for _ in range(2)]


def test_a_batch_that_is_cancelled_was_its_owners_turn(jobs: Jobs, clock: Clock) -> None:
    """A cancelled or failed batch counts as its owner's turn, so the owner's next batch is not first."""
    for cancelled in (True, False):
        first = add(jobs, 1)
        clock.now += 1
        second, other = add(jobs, 1), add(jobs, 1, owner="b")
        clock.now += 1
        chunk = jobs.claim()
        assert chunk is not None
        assert first.id == chunk.job_id
        if cancelled:
            jobs.remove(first.id, owner="a")
        else:
            jobs.fail(first.id, "because")
        assert [other.id, second.id] == [turn(jobs, clock).id for _ in range(2)]


def test_cancelled_batches_do_not_end_the_turns_of_others(jobs: Jobs, clock: Clock) -> None:
    """Short batches that are sent and cancelled do not stop the turns of two long ones of the owner."""
    longs = [add(jobs, 1, 1, 1, 1) for _ in range(2)]
    order = []
    for _ in range(8):
        clock.now += 1
        short = add(jobs, 1)
        job = turn(jobs, clock)
        order.append(job.id)
        if job.id != short.id:
            jobs.remove(short.id, owner="a")
    assert {4} == {order.count(long.id) for long in longs}


def test_a_clock_that_was_ahead_costs_its_owner_no_turns(jobs: Jobs, clock: Clock) -> None:
    """A chunk finished with a clock ahead of time counts as finished now, and costs no turns."""
    add(jobs, 1, 1, 1)
    clock.now += 3_600
    assert "a" == turn(jobs, clock).owner
    clock.now -= 3_600
    add(jobs, 1, 1, 1, owner="b")
    assert {"a", "b"} == {turn(jobs, clock).owner for _ in range(2)}


def test_a_removed_job_is_worked_on_no_more(jobs: Jobs) -> None:
    """No chunk of a removed job is claimed, and work under way on it does not count."""
    job = add(jobs)
    chunk = jobs.claim()
    assert chunk is not None
    jobs.remove(job.id, owner="a")
    assert jobs.claim() is None
    assert not jobs.renew(chunk)
    assert not jobs.finish(chunk, b"", n_problems=0)
    with pytest.raises(BatchNotFoundError):
        jobs.get(job.id, owner=None)


def test_a_key_starts_one_job(jobs: Jobs) -> None:
    """A key finds its job again and is refused for other content; each owner has separate keys."""
    job = add(jobs, key="k")
    assert job.id == add(jobs, key="k").id
    with pytest.raises(IdempotencyError, match="new key"):
        add(jobs, key="k", content="y")
    assert job.id != add(jobs, key="k", owner="b").id
    assert job.id != add(jobs).id


def test_a_full_queue_refuses_but_what_it_holds(jobs: Jobs) -> None:
    """An owner beyond its share and anyone beyond the whole queue are refused, except for existing keys."""
    first = add(jobs, key="k")
    for _ in range(2):
        add(jobs)
    with pytest.raises(RateLimitedError) as caught:
        add(jobs)
    assert 30 == caught.value.retry_after_s
    for _ in range(3):
        add(jobs, owner="b")
    with pytest.raises(OverloadedError):
        add(jobs, owner="c")
    assert first.id == add(jobs, key="k").id
    jobs.remove(first.id, owner="a")
    add(jobs, owner="c")


def test_what_the_jobs_of_an_owner_hold_is_limited(jobs: Jobs) -> None:
    """An owner that holds too much is refused with the amount and the remedy; others are not."""
    kept = StorageLimits(mib=2, days=3)

    def sent(*sizes: int, owner: str = "a", key: str | None = None) -> Job:
        chunks = [ChunkContent(size, b"queries") for size in sizes]
        job = NewJob(owner, key, "x", "000001", b"shared", chunks)
        return jobs.add(job, most=9, most_of_owner=9, kept=kept)

    job = sent(1, 1, key="k")
    for n_bytes in (2**20, 2**20 + 1):
        jobs.remove(sent(1, owner="b").id, owner="b")
        jobs.remove(sent(1).id, owner="a")
        chunk = jobs.claim()
        assert chunk is not None
        assert jobs.finish(chunk, bytes(n_bytes), n_problems=0)
    message = f"hold 3 MiB, and those of one caller may hold 2 MiB; .*DELETE.*finished: {job.id}.* 3 days"
    with pytest.raises(RateLimitedError, match=message) as caught:
        sent(1)
    assert 3_600 == caught.value.retry_after_s
    assert job.id == sent(1, 1, key="k").id
    sent(1, owner="b")
    jobs.remove(job.id, owner="a")
    sent(1)


def test_a_failed_job_makes_room_for_itself(jobs: Jobs) -> None:
    """A failed job sent again with its key replaces what it held."""
    kept = StorageLimits(mib=1, days=3)
    new = NewJob("a", "k", "x", "000001", bytes(2**20), [ChunkContent(1, b"queries")])
    failed = jobs.add(new, most=9, most_of_owner=9, kept=kept)
    jobs.fail(failed.id, "because")
    assert failed.id != jobs.add(new, most=9, most_of_owner=9, kept=kept).id


@pytest.mark.parametrize(("n_chunks", "n_shared"), [(512, 0), (1, 2**21)], ids=["chunks", "shared"])
def test_what_jobs_hold_beside_their_results_counts(jobs: Jobs, n_chunks: int, n_shared: int) -> None:
    """Rows of many small chunks and shared queries also count as held."""
    chunks = [ChunkContent(1, b"")] * n_chunks
    sent = partial(jobs.add, most=9, most_of_owner=9, kept=StorageLimits(mib=2, days=7))
    sent(NewJob("a", None, "x", "000001", bytes(n_shared), chunks))
    with pytest.raises(RateLimitedError, match=r"hold \d MiB"):
        sent(NewJob("a", None, "x", "000001", b"", chunks[:1]))


def test_a_job_is_its_owners(jobs: Jobs) -> None:
    """Only the owner finds a job, or a call with no owner; ids that never existed are not found."""
    job = add(jobs)
    assert job.id == jobs.get(job.id, owner=None).id
    for job_id, owner in ((job.id, "b"), ("x" * 22, None), ("\0", None), ("x" * 9_999, None), ("", None)):
        with pytest.raises(BatchNotFoundError):
            jobs.get(job_id, owner=owner)
        with pytest.raises(BatchNotFoundError):
            jobs.remove(job_id, owner=owner)


def test_jobs_are_listed_in_pages(jobs: Jobs, clock: Clock) -> None:
    """Pages list every job of an owner, or of all, once, the last started first, with what is ready."""
    started = []
    for owner in "aabba":  # two at each time
        started.append(add(jobs, 2, owner=owner))
        clock.now += len(started) % 2
    claimed = jobs.claim()
    assert claimed is not None
    assert jobs.finish(claimed, b"results", n_problems=0)

    def pages(owner: str | None, limit: int) -> list[Job]:
        listed: list[Job] = []
        page = jobs.latest(owner=owner, after=None, limit=limit)
        while page:
            listed += page
            page = jobs.latest(owner=owner, after=(page[-1].created_at, page[-1].id), limit=limit)
        return listed

    for owner in ("a", "b", None):
        own = [job for job in started if owner in {job.owner, None}]
        expected = sorted(own, key=lambda job: (job.created_at, job.id), reverse=True)
        for limit in (1, 2, 6):
            assert [job.id for job in expected] == [job.id for job in pages(owner, limit)]
    every = pages(None, 6)
    ready = dict(zip((job.id for job in every), jobs.all_ready(every), strict=True))
    assert ready == {job.id: 2 if job.id == claimed.job_id else 0 for job in started}


def test_the_jobs_of_a_revoked_key_end(jobs: Jobs) -> None:
    """No chunk of a revoked key's jobs is begun, also of one started since, and their places are free."""
    keys = Keys(jobs.database)
    leaked, good = (keys.create(name, scope=Scope.READ, expires_days=None).key.id for name in ("l", "g"))
    ended = [add(jobs, 1, 1, owner=leaked) for _ in range(3)]
    under_way = jobs.claim()
    assert under_way is not None
    other = add(jobs, 1, owner=good)
    keys.revoke(leaked)
    chunk = jobs.claim()
    assert chunk is not None
    assert other.id == chunk.job_id
    assert not jobs.renew(under_way)
    ended.append(add(jobs, 1, owner=leaked))
    assert jobs.claim() is None
    for job in ended:
        now = jobs.get(job.id, owner=None)
        assert (JobState.FAILED, True) == (
            now.state,
            "key that started the batch was revoked" in str(now.error),
        )
    assert JobState.RUNNING is jobs.get(other.id, owner=None).state


def test_finished_jobs_are_removed_in_time(jobs: Jobs, clock: Clock) -> None:
    """A finished job is removed after its maximum age; an unfinished one stays."""
    ended, unfinished = add(jobs), add(jobs)
    jobs.fail(ended.id, "because")
    assert "because" == jobs.get(ended.id, owner="a").error
    clock.now += 100
    assert jobs.expire(max_age_s=100)
    assert ended.id == jobs.get(ended.id, owner="a").id
    assert jobs.expire(max_age_s=99)
    assert unfinished.id == jobs.get(unfinished.id, owner="a").id
    with pytest.raises(BatchNotFoundError):
        jobs.get(ended.id, owner="a")


def test_however_many_old_jobs_are_removed(jobs: Jobs, clock: Clock) -> None:
    """More old jobs than a statement takes values are removed in portions; young ones stay."""
    copied, young = add(jobs), add(jobs)
    jobs.fail(copied.id, "because")
    copies = text(
        "WITH RECURSIVE copy(number) AS "
        "(SELECT 1 UNION ALL SELECT number + 1 FROM copy WHERE number < 70000) "
        "INSERT INTO jobs (id, owner, body_hash, generation, state, "
        "n_queries, n_done, n_problems, created_at, finished_at, shared) "
        "SELECT 'copy-' || number, owner, body_hash, generation, state, "
        "n_queries, n_done, n_problems, created_at, finished_at, shared FROM jobs, copy WHERE id = :copied"
    )
    with jobs.database.writing() as connection:
        connection.execute(copies, {"copied": copied.id})
    clock.now += 100
    jobs.fail(young.id, "because")
    n_lots = 1
    while not jobs.expire(max_age_s=99):
        n_lots += 1
    assert 141 == n_lots
    with pytest.raises(BatchNotFoundError):
        jobs.get(copied.id, owner="a")
    assert young.id == jobs.get(young.id, owner="a").id
