"""`why` says where a task is, since when, who held it, what moves it, and what to type next."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from command_line import CommandLine
from virtual_clock import VirtualClock

from redislease.commands.claim import claim
from redislease.commands.settle import release
from redislease.errors import EffectNotRecorded, LeaseLost
from redislease.queue import Queue

pytest_plugins = ["cli_fixtures"]
pytestmark = pytest.mark.usefixtures("virtual_time", "clock")


def why(cli: CommandLine, task_id: str) -> dict[str, Any]:
    """The explanation, which people are told in the same words."""
    told: dict[str, Any] = cli.expect(0, "why", task_id, "--json").document
    people = cli.expect(0, "why", task_id, COLUMNS="100000").out.splitlines()
    assert people[0] == told["text"]
    assert [line.strip().partition("  # ")[0] for line in people[1:]] == [step["command"] for step in told["next"]]
    assert told["next"]
    narrow = cli.expect(0, "why", task_id, COLUMNS="40").out
    assert all(
        step["command"] in narrow.splitlines()[-len(told["next"]) + number] for number, step in enumerate(told["next"])
    )
    return told


def follow(cli: CommandLine, told: dict[str, Any], number: int = 0) -> None:
    """Types what it says."""
    program, *arguments = shlex.split(told["next"][number]["command"])
    assert program == "redislease"
    cli.expect(0, *arguments)


def test_ready(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    for _ in range(2):
        task = plain_queue.enqueue("mail", side_effect="idempotent")
    clock.advance_ms(90_000)
    told = why(cli, task.id)
    assert told["status"] == "ready"
    assert told["since"] == task.created_at
    assert "(90 s ago). The next free worker takes it; 1 task ahead of it. Nobody has held it yet." in told["text"]
    follow(cli, told)


def test_ready_in_a_paused_queue(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="idempotent").id
    cli.expect(0, "pause", "--by", "ann", "--reason", "deploy")
    told = why(cli, task_id)
    assert "The queue is paused by ann (deploy) since" in told["text"]
    follow(cli, told)
    assert plain_queue.stats().pause == ""


def test_ready_again(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="idempotent").id
    (lease,) = plain_queue.claim()
    at = clock.advance_ms(60_001)
    plain_queue.reap()
    told = why(cli, task_id)
    assert f"It was last held by {lease.owner} under generation 1; lease expired." in told["text"]
    assert told["since"] == at


def test_what_has_begun_and_has_no_outcome(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="idempotent", records_effects=True).id
    (lease,) = plain_queue.claim()
    with pytest.raises(ZeroDivisionError), lease.effect("pay"):
        1 / 0  # noqa: B018
    said = "Begun, and without an outcome: pay (generation 1)."
    assert said in why(cli, task_id)["text"]
    lease.fail("no", delay=10)
    assert said in why(cli, task_id)["text"]
    clock.advance_ms(10_001)
    plain_queue.reap()
    assert said in why(cli, task_id)["text"]
    plain_queue.claim()[0].run_effect("pay", lambda effect: 1)
    assert "Begun" not in why(cli, task_id)["text"]


def test_an_earlier_task_of_the_same_id_is_another(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    plain_queue.enqueue("mail", side_effect="non_idempotent", task_id="mine")
    plain_queue.claim()
    clock.advance_ms(60_001)
    plain_queue.reap()
    plain_queue.resolve("mine", "done", by="ann", reason="seen", effects={"handler": "done"})
    clock.advance_ms(61_000)
    plain_queue.purge(completed=0)
    plain_queue.enqueue("mail", side_effect="read_only", task_id="mine")
    plain_queue.claim()[0].complete()
    assert "ann" not in why(cli, "mine")["text"]


def test_scheduled(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="idempotent").id
    plain_queue.claim()[0].fail("boom", delay=100)
    told = why(cli, task_id)
    assert told["status"] == "scheduled"
    assert "(in 100 s). It then becomes ready by itself. It failed 1 of 5 times." in told["text"]
    assert "boom" in told["text"]
    clock.advance_ms(100_001)
    told = why(cli, task_id)
    assert "The next claim or reap makes it ready." in told["text"]
    follow(cli, told)
    assert plain_queue.get(task_id).status == "ready"


def test_leased(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="idempotent", max_runtime=300).id
    (lease,) = plain_queue.claim()
    clock.advance_ms(20_000)
    lease.renew()
    told = why(cli, task_id)
    assert f"{lease.owner} under generation 1 holds it since" in told["text"]
    assert "renewed 1 time. The lease ends at" in told["text"]
    assert "at the latest, renewed or not" in told["text"]
    follow(cli, told)
    assert plain_queue.get(task_id).status == "ready"


@pytest.mark.parametrize(
    ("side_effect", "max_expirations", "to"),
    [
        ("idempotent", 3, "it goes back to ready"),
        ("idempotent", 1, "it goes to dead"),
        ("non_idempotent", 3, "it goes to reconciling"),
    ],
)
def test_leased_but_expired(
    cli: CommandLine, plain_queue: Queue, clock: VirtualClock, side_effect: str, max_expirations: int, to: str
) -> None:
    task_id = plain_queue.enqueue("mail", side_effect=side_effect, max_expirations=max_expirations).id
    plain_queue.claim()
    clock.advance_ms(72_000)
    told = why(cli, task_id)
    assert told["status"] == "leased"
    assert "the lease ended at" in told["text"]
    assert "(12 s ago) and gives no authority any more" in told["text"]
    assert to in told["text"]
    follow(cli, told)
    assert plain_queue.get(task_id).status == to.rpartition(" ")[2]


@pytest.mark.parametrize(("number", "status"), [(0, "completed"), (1, "ready"), (2, "dead")])
def test_reconciling(cli: CommandLine, plain_queue: Queue, clock: VirtualClock, number: int, status: str) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent", idempotency_key="order-7").id
    (lease,) = plain_queue.claim()
    at = clock.advance_ms(61_000)
    plain_queue.reap()
    clock.advance_ms(3_600_000)
    told = why(cli, task_id)
    assert told["since"] == at
    assert f"1 effect (handler) may or may not have happened. {lease.owner} under generation 1 had it" in told["text"]
    assert "Nothing moves it but a decision" in told["text"]
    assert "order-7" in told["text"]
    follow(cli, told, number)
    assert plain_queue.get(task_id).status == status


def test_dead(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    for options, more, cause in (
        ({"max_attempts": 1}, {}, "it failed 1 of 1 times"),
        ({}, {"retry": False}, "its last failure was final"),
    ):
        task_id = plain_queue.enqueue("mail", side_effect="idempotent", **options).id  # type: ignore[arg-type]
        plain_queue.claim()[0].fail("no such address", **more)
        told = why(cli, task_id)
        assert f"It is given up: {cause}." in told["text"]
        assert "no such address" in told["text"]
        assert told["since"] == clock.now_ms
        follow(cli, told)
        assert plain_queue.get(task_id).status == "ready"
        plain_queue.cancel(task_id, by="me")
    task_id = plain_queue.enqueue("mail", side_effect="idempotent", max_expirations=1).id
    plain_queue.claim()
    clock.advance_ms(60_001)
    plain_queue.reap()
    assert "its lease expired 1 of 1 times" in why(cli, task_id)["text"]


def test_dead_by_decision(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    plain_queue.claim()[0].release(interrupted=True)
    plain_queue.resolve(task_id, "dead", by="ann", effects={"handler": "not_done"})
    assert "It is given up: ann decided so at" in why(cli, task_id)["text"]


def test_dead_after_a_decision(cli: CommandLine, plain_queue: Queue) -> None:
    """A decision that put it back is not why it is dead now."""
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    plain_queue.claim()[0].release(interrupted=True)
    plain_queue.resolve(task_id, "retry", by="ann", effects={"handler": "not_done"})
    plain_queue.claim()[0].fail("no such address", retry=False, not_done=True)
    assert "It is given up: its last failure was final." in why(cli, task_id)["text"]


@pytest.mark.parametrize("evidence", ["kept", "lost"])
def test_completed_by_decision(cli: CommandLine, plain_queue: Queue, evidence: str) -> None:
    """Who decided did it, not the worker that lost the task; without evidence the hash still knows."""
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    (lease,) = plain_queue.claim()
    lease.release(interrupted=True)
    plain_queue.resolve(task_id, "done", by="ann", reason="it is in the outbox", effects={"handler": "done"})
    if evidence == "lost":
        plain_queue._transport.read("DEL", plain_queue.keys.evidence(task_id))
    text = why(cli, task_id)["text"]
    assert "ann decided that it is done at" in text
    assert ("it is in the outbox" in text) == (evidence == "kept")
    assert f"It was last held by {lease.owner} under generation 1" in text
    assert "did it" not in text


@pytest.mark.parametrize("side_effect", ["read_only", "idempotent", "non_idempotent"])
def test_completed_after_a_decision(cli: CommandLine, plain_queue: Queue, side_effect: str) -> None:
    """A decision that put it back does not take the credit from the worker that did it then."""
    task_id = plain_queue.enqueue("mail", side_effect=side_effect).id
    plain_queue.claim()[0].fail("boom", retry=False, not_done=True)
    plain_queue.requeue(task_id, by="ann")
    (lease,) = plain_queue.claim()
    lease.complete()
    text = why(cli, task_id)["text"]
    assert f"{lease.owner} under generation 2 did it." in text
    assert "ann" not in text


def test_cancelled_and_decided_about_later(cli: CommandLine, plain_queue: Queue) -> None:
    """Who closed an effect of it afterwards did not cancel it."""
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    plain_queue.claim()
    plain_queue.cancel(task_id, by="ann", reason="wrong number")
    plain_queue.resolve(task_id, "dead", by="bob", effects={"handler": "not_done"})
    text = why(cli, task_id)["text"]
    assert "ann cancelled it at" in text
    assert ": wrong number." in text
    assert "bob" not in text


@pytest.mark.parametrize("side_effect", ["read_only", "idempotent"])
def test_given_back_unstarted(cli: CommandLine, plain_queue: Queue, side_effect: str) -> None:
    """A worker without a handler for it leaves no trace but two counts that differ."""
    task_id = plain_queue.enqueue("mail", side_effect=side_effect).id
    for _ in range(3):
        (lease,) = plain_queue.claim()
        assert "before anything was begun" not in why(cli, task_id)["text"]
        plain_queue.run(release([lease.giving_back(never_started=True)]))
    text = why(cli, task_id)["text"]
    assert "It was given back 3 times before anything was begun" in text
    assert "no handler named mail" in text


def test_completed(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    (lease,) = plain_queue.claim()
    at = clock.advance_ms(1_000)
    lease.complete()
    told = why(cli, task_id)
    assert told["since"] == at
    assert f"{lease.owner} under generation 1 did it. Nothing more happens to it" in told["text"]
    follow(cli, told)


def test_cancelled(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="idempotent").id
    cli.expect(0, "cancel", task_id, "--by", "ann")
    told = why(cli, task_id)
    assert "is cancelled since" in told["text"]
    assert "ann cancelled it at" in told["text"]
    follow(cli, told)


@pytest.mark.parametrize("number", [0, 1])
def test_unsettled(cli: CommandLine, plain_queue: Queue, clock: VirtualClock, number: int) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    plain_queue.claim()
    plain_queue.cancel(task_id, by="ann")
    at = clock.now_ms
    clock.advance_ms(10_000)
    told = why(cli, task_id)
    assert told["since"] == at
    assert "1 effect (handler) may or may not have happened. It is unsettled since" in told["text"]
    follow(cli, told, number)
    assert plain_queue.stats().unsettled == 0
    assert plain_queue.get(task_id).status == "cancelled"


def test_dead_and_unsettled(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    plain_queue.claim()[0].release(interrupted=True)
    plain_queue.resolve(task_id, "dead", by="ann")
    told = why(cli, task_id)
    assert "may or may not have happened" in told["text"]
    follow(cli, told)
    assert plain_queue.stats().unsettled == 0


def test_unknown(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="idempotent").id
    plain_queue.claim()[0].complete()
    clock.advance_ms(10_000_000)
    plain_queue.purge()
    told = cli.expect(4, "why", task_id).err
    assert "its retention has ended; its evidence is left: redislease evidence" in told
    assert "its evidence is left" not in cli.expect(4, "why", "never").err


def test_commands_are_safe_to_paste(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = "$(touch${IFS}x)';&".replace("{", "").replace("}", "")
    plain_queue.enqueue("mail", side_effect="idempotent", task_id=task_id)
    told = why(cli, task_id)
    follow(cli, told, 1)
    assert plain_queue.get(task_id).status == "cancelled"


@pytest.mark.parametrize("number", [0, 1, 3])
def test_effects_in_doubt_are_named(cli: CommandLine, plain_queue: Queue, clock: VirtualClock, number: int) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent", records_effects=True).id
    (lease,) = plain_queue.claim()
    lease.run_effect("draft", lambda _: "hello")
    with pytest.raises(LeaseLost), lease.effect("smtp.send", request={"to": "ann"}) as effect:
        clock.advance_ms(61_000)
        plain_queue.reap()
        effect.record({"receipt": "\x1b[31m7"})
    told = why(cli, task_id)
    assert "1 effect (smtp.send) may or may not have happened." in told["text"]
    assert "After the lease was lost, its worker said that smtp.send is done." in told["text"]
    shown = cli.expect(0, "reconcile", "show", task_id).out
    assert "said too late" in shown
    assert '"hello"' in shown
    (draft, sent) = cli.expect(0, "show", task_id, "--json").document["effects"]
    assert (draft["outcome"], sent["state"], sent["testimony"]["verdict"]) == ("hello", "open", "done")
    assert plain_queue.get(task_id).status == "reconciling"
    follow(cli, told, number)
    (_, sent) = cli.expect(0, "show", task_id, "--json").document["effects"]
    assert (sent["state"], plain_queue.get(task_id).status) == (
        ("not_done", "ready") if number == 1 else ("done", "completed")
    )
    assert sent["outcome"] == ({"receipt": "\x1b[31m7"} if number == 3 else None)


def test_an_outcome_that_an_operator_found(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent", records_effects=True).id
    (lease,) = plain_queue.claim()
    with pytest.raises(EffectNotRecorded), lease.effect("smtp.send"):
        plain_queue.revoke(task_id, by="me")
    wrong = ["--effect", "smtp.send=not_done", "--outcome", "smtp.send=1"]
    assert "--outcome takes NAME=JSON" in cli.expect(2, "reconcile", "resolve", task_id, "done", *wrong).err
    cli.expect(0, "reconcile", "resolve", task_id, "done", "--outcome", 'smtp.send={"id": "a=b"}')
    (sent,) = cli.expect(0, "show", task_id, "--json").document["effects"]
    assert (sent["state"], sent["outcome"]) == ("done", {"id": "a=b"})


def test_a_task_that_waits_for_its_turn(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    """Its worker has claimed it and has not begun; what ends so does not count, and nobody gave it back."""
    task_id = plain_queue.enqueue("mail", side_effect="idempotent", max_expirations=1).id
    owner = plain_queue.register("w").name
    plain_queue.run(claim(owner, 1, started=False))
    told = why(cli, task_id)
    assert "Its handler has not begun: it waits for its turn" in told["text"]
    clock.advance_ms(60_001)
    plain_queue.reap()
    told = why(cli, task_id)
    assert "Its lease expired 1 time before its handler had begun, which does not count." in told["text"]
    assert "given back" not in told["text"]
    assert plain_queue.stats().counters["unstarted"] == 1
