"""The collector over HTTP: statuses and sentences, in this process."""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import hmac
import math
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from time import monotonic

import httpx
import numpy as np
import pytest

from hushrank.flows.collecting import journal, server
from hushrank.flows.collecting.contents import TokenKey, UnknownToken
from hushrank.flows.collecting.journal import MARK_BYTES, Batch, Busy, Committer, NotKept, TokenUsed
from hushrank.flows.collecting.protocol import Bucket, Recent
from hushrank.flows.collecting.server import Collector, now
from hushrank.flows.errors import ConfigError
from hushrank.privacy.randomness import system_bits
from tests.flows.collecting.surveys import ITEMS, body, comparison, encoded, parts, survey

JSON = {"content-type": "application/json"}


@pytest.fixture
def talk(tmp_path):
    """Talks with the collector of a survey: `talk(conversation, **changes of the survey)`."""
    made = []

    def run(conversation, *, site=None, private=False, clock=now, **changes):
        config = survey(tmp_path, **changes)
        collector = Collector(config, tmp_path / "spool", print, clock)
        made.append(collector)
        app = collector.service.app(config.collect.origins, site, {"X-Frame-Options": "DENY"})
        app = collector.service.private_app() if private else app

        async def talks():
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                result = await conversation(client, collector)
            await collector.close()
            return result

        return asyncio.run(talks())

    return run


def answered(talk, content, headers=JSON, **changes):
    async def post(client, collector):
        return await client.post("/answers", content=content, headers=headers)

    return talk(post, **changes)


def test_right_answers_are_accepted(talk, tmp_path):
    response = answered(talk, encoded(body([comparison(), comparison(left="dogs")])))
    assert (response.status_code, response.json()) == (200, {"accepted": 2})
    assert set(response.headers) == {"content-length", "content-type"}  # no cookie


def test_the_same_submission_counts_once(talk):
    content = encoded(body([comparison()]))

    async def twice(client, collector):
        for _ in range(2):
            response = await client.post("/answers", content=content, headers=JSON)
            assert response.json() == {"accepted": 1}
        both = [client.post("/answers", content=other, headers=JSON) for _ in range(2)]
        assert {each.status_code for each in await asyncio.gather(*both)} == {200}
        return len(list(collector.spool.submissions()))

    other = encoded(body([comparison()]))
    assert talk(twice) == 2
    assert talk(twice) == 2  # a new process remembers


@pytest.mark.parametrize(
    ("content", "headers", "status", "sentence"),
    [
        (b"{}", {}, 415, "Content-Type must be application/json"),
        (b"{}", {"content-type": "text/plain"}, 415, "Content-Type must be application/json"),
        (b"nothing", JSON, 422, "must be JSON"),
        (encoded(body([comparison(left="wolves")])), JSON, 422, "not in the catalogue"),
        (b"x" * 200_000, JSON, 413, "at most"),
    ],
)
def test_what_is_wrong_gets_a_status_and_a_sentence(talk, content, headers, status, sentence):
    response = answered(talk, content, headers)
    assert response.status_code == status
    assert sentence in response.json()["error"]


def test_a_body_without_a_length_is_bounded_too(talk):
    async def pieces():
        for _ in range(1000):
            yield b"x" * 1000

    response = answered(talk, pieces())
    assert response.status_code == 413


def test_other_addresses_and_methods_are_refused(talk):
    async def ask(client, collector):
        return [await client.get(path) for path in ("/answers", "/elsewhere", "/metrics")]

    assert [each.status_code for each in talk(ask)] == [405, 404, 404]


def test_more_than_the_rate_has_to_wait(talk):
    async def three(client, collector):
        sent = [encoded(body([comparison()])) for _ in range(3)]
        return [await client.post("/answers", content=each, headers=JSON) for each in sent]

    responses = talk(three, collect={"folder": "answers", "rate": 1})
    assert [each.status_code for each in responses] == [200, 200, 429]
    assert int(responses[2].headers["retry-after"]) >= 1


def test_only_named_origins_may_send_from_elsewhere(talk):
    async def ask(client, collector):
        asked = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        }
        return [
            await client.options("/answers", headers=asked | {"origin": origin})
            for origin in ("https://survey.example.org", "https://evil.example.org")
        ]

    collect = {"folder": "answers", "origins": ["https://survey.example.org"]}
    right, wrong = talk(ask, collect=collect)
    allowed = "access-control-allow-origin"
    assert (right.status_code, right.headers[allowed]) == (200, "https://survey.example.org")
    assert wrong.status_code == 400
    assert allowed not in wrong.headers


def test_a_disk_that_refuses_is_told_and_the_same_may_be_sent_again(talk, monkeypatch):
    content = encoded(body([comparison()]))

    async def ask(client, collector):
        def fails(group):
            collector.spool.broken = True
            raise OSError(28, "No space left on device")

        real, collector.committer._append = collector.committer._append, fails
        refused = await client.post("/answers", content=content, headers=JSON)
        sick = await client.get("/health")
        collector.committer._append = real
        kept = await client.post("/answers", content=content, headers=JSON)
        return refused, sick, kept, await client.get("/health")

    refused, sick, kept, well = talk(ask)
    assert [each.status_code for each in (refused, sick, kept, well)] == [503, 503, 200, 200]
    assert refused.headers["retry-after"] == "30"


def test_health_recovers_without_a_request(talk, monkeypatch, capfd):
    """Behind a balancer that reads /health no answer comes until it says that all is well."""
    monkeypatch.setattr(server, "TEND_SECONDS", 0.01)

    async def ask(client, collector):
        async def health(wanted):
            async with asyncio.timeout(60):
                while (await client.get("/health")).status_code != wanted:
                    await asyncio.sleep(0.01)

        tending = asyncio.create_task(collector.tend())
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", refuse)
            content = encoded(body([comparison()]))
            refused = await client.post("/answers", content=content, headers=JSON)
            assert refused.status_code == 503
            await asyncio.sleep(0.1)  # some writes are tried
            await health(503)
        await health(200)
        tending.cancel()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(collector._writer, collector.spool.seal)
        return await loop.run_in_executor(collector._sealer, collector.spool.write_parts)

    assert talk(ask) == 0  # what was tried is in no part
    told = capfd.readouterr().out
    assert told.count("answers cannot be kept: Input/output error") == 1
    assert told.count("answers can be kept again") == 1


def refuse(*arguments):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), RuntimeError("ants")])
def test_the_tending_task_outlives_every_error_and_tells_it_once(talk, monkeypatch, capfd, error):
    monkeypatch.setattr(server, "TEND_SECONDS", 0.001)
    monkeypatch.setattr(server, "RETRY_SECONDS", 0.001)

    async def ask(client, collector):
        enough, tries = asyncio.Event(), []
        loop = asyncio.get_running_loop()

        def fails():
            tries.append(1)
            if len(tries) == 5:
                loop.call_soon_threadsafe(enough.set)
            if len(tries) < 5:
                raise error

        monkeypatch.setattr(collector.spool, "write_parts", fails)
        tending = asyncio.create_task(collector.tend())
        async with asyncio.timeout(60):
            await enough.wait()
        tending.cancel()

    talk(ask)
    told = capfd.readouterr().out
    assert told.count("A part cannot be written: ") == 1
    assert "ants" not in told


def test_it_ends_well_however_closing_fails(talk, monkeypatch):
    async def ask(client, collector):
        content = encoded(body([comparison()]))
        assert (await client.post("/answers", content=content, headers=JSON)).status_code == 200
        real = os.close

        def close_and_refuse(descriptor):
            real(descriptor)
            refuse()

        ends = collector.close

        async def close():
            with monkeypatch.context() as patched:
                patched.setattr(os, "close", close_and_refuse)
                await ends()

        collector.close = close
        return True

    assert talk(ask)


def test_a_fault_of_the_program_is_a_sentence_and_nothing_else(talk, capfd):
    async def ask(client, collector):
        def fails(content):
            raise RuntimeError("ants bees")

        object.__setattr__(collector.service.reader, "batch", fails)
        return await client.post("/answers", content=b"{}", headers=JSON)

    response = talk(ask)
    assert response.status_code == 500
    assert "ants" not in response.text + "".join(capfd.readouterr())


def test_the_page_is_served_with_its_headers(talk, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<title>Survey</title>")
    (tmp_path / "secret").write_text("private")

    async def ask(client, collector):
        return [await client.get(path) for path in ("/", "/%2e%2e/secret", "/health")]

    page, outside, health = talk(ask, site=site)
    assert page.text == "<title>Survey</title>"
    assert page.headers["x-frame-options"] == "DENY"
    assert outside.status_code == 404
    assert health.json() == {"status": "ok"}


def test_metrics_count_answers_and_tell_no_time(talk):
    async def ask(client, collector):
        collector.meters.answers.inc(3)
        return (await client.get("/metrics")).text

    text = talk(ask, private=True)
    assert "hushrank_collect_answers_total 3.0" in text
    assert "created" not in text


def test_tokens_are_taken_once(talk, tmp_path):
    settings = {"collect": {"folder": "answers", "tokens": True}}
    config = survey(tmp_path, **settings)
    key = TokenKey.of(config.confidential, system_bits())
    first, second = (key.new(system_bits()) for _ in range(2))
    forged = first[:-3] + ("AAA" if first[-3:] != "AAA" else "BBB")

    async def ask(client, collector):
        found = []
        for token in (first, first, forged, "", "é" * 43, second):
            content = encoded(body([comparison()], token=token))
            response = await client.post("/answers", content=content, headers=JSON)
            found.append(response.status_code)
        without = await client.post("/answers", content=encoded(body([comparison()])), headers=JSON)
        return [*found, without.status_code]

    assert talk(ask, **settings) == [200, 409, 403, 403, 403, 200, 422]
    assert talk(ask, **settings) == [409, 409, 403, 403, 403, 409, 422]  # a new process knows
    for path in (tmp_path / "spool").rglob("*"):
        if path.is_file():
            assert first.encode() not in path.read_bytes()


def test_tokens_are_of_one_survey(tmp_path):
    keys = [TokenKey.of(tmp_path / name, system_bits()) for name in "ab"]
    token = keys[0].new(system_bits())
    assert keys[0].mark(token) == TokenKey.of(tmp_path / "a", system_bits()).mark(token)
    with pytest.raises(UnknownToken):
        keys[1].mark(token)


def batch(number, size=10, token=None):
    return Batch(bytes(size), 1, number.to_bytes(8, "little"), token)


class Disk:
    """Takes groups once it is told to."""

    def __init__(self):
        self.groups, self.fails = [], False

    def append(self, group):
        if self.fails:
            raise OSError(5, "Input/output error")
        self.groups.append(group)


def committed(steps):
    """Run `steps(committer, disk)`."""

    async def run():
        disk = Disk()
        with ThreadPoolExecutor(1) as thread:
            committer = Committer(disk.append, thread, Recent(()), set())
            await steps(committer, disk)
            await committer.finish()

    asyncio.run(run())


def test_batches_that_come_together_are_written_together():
    async def steps(committer, disk):
        assert await asyncio.gather(*(committer.keep(batch(n)) for n in range(50))) == [True] * 50
        assert len(disk.groups) <= 2
        assert sum(len(group.rows) for group in disk.groups) == 500

    committed(steps)


def test_too_much_that_waits_is_refused(monkeypatch):
    monkeypatch.setattr(journal, "MOST_WAITING", 35)

    async def steps(committer, disk):
        kept = await asyncio.gather(
            *(committer.keep(batch(n)) for n in range(5)), return_exceptions=True
        )
        assert [type(each) for each in kept] == [bool, bool, bool, Busy, Busy]
        assert await committer.keep(batch(4))

    committed(steps)


def test_a_token_whose_answers_were_not_kept_may_be_used_again():
    async def steps(committer, disk):
        disk.fails = True
        one, other = batch(1, token=b"12345678"), batch(2, token=b"12345678")
        kept = await asyncio.gather(
            committer.keep(one), committer.keep(other), return_exceptions=True
        )
        assert [type(each) for each in kept] == [NotKept, TokenUsed]
        disk.fails = False
        assert await committer.keep(one)
        assert not await committer.keep(one)
        with pytest.raises(TokenUsed):
            await committer.keep(other)

    committed(steps)


def test_after_a_fault_of_the_program_the_next_group_is_written():
    async def steps(committer, disk):
        real, broken = disk.groups, asyncio.Event()

        class Once(list):
            def append(self, group):
                if not broken.is_set():
                    broken.set()
                    raise RuntimeError
                real.append(group)

        disk.groups = Once()
        first = asyncio.create_task(committer.keep(batch(1)))
        await asyncio.sleep(0)
        second = asyncio.create_task(committer.keep(batch(2)))  # gathers while the first fails
        with pytest.raises(NotKept):
            await first
        assert await second
        assert len(real) == 1

    committed(steps)


def test_a_sender_that_goes_away_does_not_take_others_along():
    async def steps(committer, disk):
        first = asyncio.create_task(committer.keep(batch(1)))
        second = asyncio.create_task(committer.keep(batch(2)))
        await asyncio.sleep(0)
        first.cancel()
        assert await second
        assert sum(len(group.rows) for group in disk.groups) == 20

    committed(steps)


def test_a_bucket_fills_again():
    now = monotonic()
    bucket = Bucket(10, now)
    assert bucket.take(20, now) == 0
    assert bucket.take(5, now) == pytest.approx(0.5)
    assert bucket.take(5, now + 0.5) == 0
    assert bucket.take(1000, now + 10) == 0  # a batch above what fits is not refused for ever


def test_the_memory_of_submissions_is_bounded(monkeypatch):
    monkeypatch.setattr("hushrank.flows.collecting.protocol.REMEMBERED", 3)
    recent = Recent([b"1", b"2"])
    for mark in (b"3", b"3", b"4"):
        recent.add(mark)
    assert [mark in recent for mark in (b"1", b"2", b"3", b"4")] == [False, True, True, True]


LONGEST_COMMON = 4  # bytes: more have a chance of 1e-6 at most in the tokens of this test


def parts_of(content):
    return {content[at : at + LONGEST_COMMON] for at in range(len(content) - LONGEST_COMMON + 1)}


def test_the_mark_of_a_token_tells_nothing_of_it(tmp_path):
    """No part of the token, as text or as bytes, is in its mark; nor is the mark a plain digest.

    Whoever has a token and no key cannot make its mark.
    """
    key = TokenKey.of(tmp_path, system_bits())
    for _ in range(20):
        token = key.new(system_bits())
        content, mark = base64.urlsafe_b64decode(token + "="), key.mark(token)
        assert len(mark) == MARK_BYTES
        shown = {mark, mark.hex().encode(), base64.urlsafe_b64encode(mark)}
        known = {token.encode(), content, content.hex().encode(), content[::-1], content[:16]}
        for form in shown:
            assert not any(parts_of(form) & parts_of(each) for each in known)
        for name in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s", "sha3_256"):
            for each in (*known, content[16:]):
                plain = hashlib.new(name, each).digest()
                empty = hmac.new(b"", each, name).digest()
                assert not any(mark in digest for digest in (plain, empty))
    assert len({key.mark(key.new(system_bits())) for _ in range(100)}) == 100


def test_nothing_in_a_commit_follows_the_order_of_arrival():
    """Marks of submissions and of tokens are sorted, whichever batch came first."""
    marks = [system_bits().take(MARK_BYTES) for _ in range(60)]
    stored = []
    for order in (range(60), range(59, -1, -1)):

        async def steps(committer, disk, order=order):
            batches = [Batch(bytes(10), 1, marks[n], marks[n][::-1]) for n in order]
            await asyncio.gather(*(committer.keep(each) for each in batches))
            stored.append(disk.groups)

        committed(steps)
    for groups in stored:
        for group in groups:
            assert list(group.submissions) == sorted(group.submissions)
            assert list(group.tokens) == sorted(group.tokens)
    assert max(len(group.tokens) for group in stored[0]) > 50  # of which no order is sorted by luck


ALL_NIGHTS = {
    "kind": "comparisons",
    "paths": ["answers/**/*.parquet"],
    "columns": {"left": "left", "right": "right", "outcome": "outcome", "epsilon": "eps"},
}


def test_it_shows_progress_to_the_target_and_stops_there(talk, tmp_path, capfd):
    """Three answers of epsilon 1.5 have 3 tanh(.75)^2 = 1.21 of the information; 2 are needed."""
    target = math.sqrt(15 / 6 * 4 / 2 * 5 / 6) * mean_largest_of_normals(
        6
    )  # error at information 2
    goal = {"folder": "answers", "target_error": target, "stop_at_target": True}
    changes = {"collect": goal, "input": ALL_NIGHTS}
    first, second, late = (
        encoded(body([comparison(right=other) for other in ITEMS[1:4]])) for _ in range(3)
    )

    async def begin(client, collector):
        kept = await client.post("/answers", content=first, headers=JSON)
        # Each has its own epsilon, so a count that moved now would tell when this one came.
        assert "\nhushrank_collect_information 0.0\n" in collector.meters.text().decode()
        return kept

    async def reach(client, collector):
        loop = asyncio.get_running_loop()
        statuses = [await client.post("/answers", content=second, headers=JSON)]
        assert "\nhushrank_collect_information 0.0\n" in collector.meters.text().decode()
        statuses += [await client.post("/answers", content=each, headers=JSON)
                     for each in (late, second, first)]  # fmt: skip
        await loop.run_in_executor(collector._writer, collector.spool.seal)
        await loop.run_in_executor(collector._sealer, collector._write_parts)
        return statuses, collector.meters.text().decode()

    async def again(client, collector):
        return await client.post("/answers", content=late, headers=JSON)

    assert talk(begin, **changes).status_code == 200
    statuses, metrics = talk(reach, **changes)  # another process: it counts the journal
    assert [each.status_code for each in statuses] == [200, 410, 200, 200]
    assert statuses[1].json()["error"] == (
        "this survey has enough answers; what you sent was not kept now"
    )
    information = 6 * math.tanh(0.75) ** 2
    assert f"hushrank_collect_information {information}"[:40] in metrics
    needed = float(metrics.partition("\nhushrank_collect_information_needed ")[2].split()[0])
    assert needed == pytest.approx(2, rel=0.01)
    assert len(parts(tmp_path / "answers")) == 6
    assert talk(again, **changes).status_code == 410  # a third one: it counts the part
    told = capfd.readouterr().out
    assert "carry 0 % of the information" in told
    assert "carry 60 % of the information" in told
    assert told.count("carry 121 % of the information") == 3  # reached, part, next start
    assert "New answers are refused; hushrank collect --seal writes those that wait." in told
    assert told.count("whoever sends very many answers ends the survey for everybody") == 3
    with pytest.raises(ConfigError, match=r"needs collect\.target_error"):
        survey(tmp_path, collect={"folder": "answers", "stop_at_target": True})
    with pytest.raises(ConfigError, match="is for method: debiased-rr"):
        survey(tmp_path, **changes, method="rr-counts")


def test_after_its_last_day_a_survey_takes_nothing_new(talk, time):
    """The day ends in the survey's time zone; what was kept before is still acknowledged."""
    asker = {"organisation": "University of Example", "contact": "survey@example.org"}
    changes = {
        "collect": {"folder": "answers", "about": asker | {"closes": "2026-11-20"}},
        "schedule": {"timezone": "America/New_York"},
    }
    kept, late = encoded(body([comparison()])), encoded(body([comparison()]))

    time.now = datetime(2026, 11, 21, 4, 59, 59, tzinfo=UTC)
    (first,) = talk(lambda client, _: post_all(client, [kept]), clock=time, **changes)
    assert first.status_code == 200
    time.now = datetime(2026, 11, 21, 5, tzinfo=UTC)
    again, refused = talk(lambda client, _: post_all(client, [kept, late]), clock=time, **changes)
    assert (again.status_code, refused.status_code) == (200, 410)
    assert refused.json()["error"] == "this survey is closed; what you sent was not kept"


async def post_all(client, contents):
    return [await client.post("/answers", content=each, headers=JSON) for each in contents]


def test_a_target_is_refused_where_what_is_counted_is_not_what_a_night_ranks(talk, tmp_path):
    goal = {"collect": {"folder": "answers", "target_error": 0.5}}
    for paths, more in (
        ("answers/{date}/*.parquet", {}),
        ("answers/2026-11-20/*.parquet", {}),
        ("answers", {"schedule": {"partition": "date"}}),
    ):
        with pytest.raises(ConfigError, match="needs one ranking of all that is collected"):
            survey(tmp_path, **goal, **more, input=ALL_NIGHTS | {"paths": [paths]})
    with pytest.raises(ConfigError, match=r"adds up what answers tell with model\.weights: prec"):
        survey(tmp_path, **goal, input=ALL_NIGHTS, model={"weights": "equal"})
    content = encoded(body([comparison()]))
    whole = goal | {"input": ALL_NIGHTS}
    fixed = goal | {
        "input": ALL_NIGHTS | {"columns": dict(list(ALL_NIGHTS["columns"].items())[:3])},
        "privacy": {"unit": "local", "already_private": True, "epsilon": 1.5},
    }
    for kept, later in ((whole, fixed), (fixed, whole)):
        assert answered(talk, content, **kept).status_code == 200
        with pytest.raises(ConfigError, match="spool/0: holds answers with other columns"):
            talk(None, **later)
        spool = Collector(survey(tmp_path, **kept), tmp_path / "spool", print).spool
        spool.seal()
        spool.write_parts()
        spool.close()
        (part,) = (tmp_path / "answers").rglob("*.parquet")
        with pytest.raises(ConfigError, match=f"{part.name}: holds answers with other columns"):
            talk(None, **later)
        part.unlink()
    answered(talk, content)
    (tmp_path / "spool/0").rename(tmp_path / "spool/1")
    with pytest.raises(ConfigError, match="spool/1: holds answers of a collector that ran beside"):
        talk(None, **whole)


def mean_largest_of_normals(n):
    """Mean of the largest of n absolute normal values, to 0.1 % (deterministic)."""
    return float(np.abs(np.random.default_rng(1).normal(size=(400_000, n))).max(axis=1).mean())
