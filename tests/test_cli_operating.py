"""The verbs of operators: who decided, what is counted first, and what is left alone."""

from __future__ import annotations

import json

import pytest
from command_line import CommandLine
from virtual_clock import VirtualClock

from redislease.queue import Queue

pytest_plugins = ["cli_fixtures"]


def store(queue: Queue, amount: int, side_effect: str = "read_only") -> list[str]:
    """Stores tasks, and answers their ids in order."""
    return [queue.enqueue("job", side_effect=side_effect).id for _ in range(amount)]


def test_who_decided_is_recorded(cli: CommandLine, plain_queue: Queue) -> None:
    task_id, other = store(plain_queue, 2)
    cli.expect(0, "pause", "--by", "ann", "--reason", "deploy")
    cli.expect(0, "--by", "bob", "resume", "--reason", "done")
    cli.expect(0, "cancel", task_id, "--reason", "wrong number")
    cli.expect(0, "cancel", other, REDISLEASE_BY=None, LOGNAME="carol")
    lines = cli.expect(0, "audit", "--jsonl").lines
    assert [(line["event"], line["by"], line["reason"]) for line in lines] == [
        ("pause", "ann", "deploy"),
        ("resume", "bob", "done"),
        ("cancel", "tester", "wrong number"),
        ("cancel", "carol", ""),
    ]
    assert plain_queue.get(task_id).decided_by == "tester"
    assert "tester" in cli.expect(0, "evidence", task_id).out
    assert "wrong number" in cli.expect(0, "audit").out
    assert cli.expect(0, "stats", "--json").document["paused_by"] == "bob"


def test_nobody_can_be_named(cli: CommandLine, plain_queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    (task_id,) = store(plain_queue, 1)

    def nobody() -> str:
        raise KeyError("uid")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert "who decides?" in cli.expect(2, "cancel", task_id, REDISLEASE_BY=None).err
    assert plain_queue.get(task_id).status == "ready"


def test_several_ids_of_which_some_are_refused(cli: CommandLine, plain_queue: Queue) -> None:
    first, second = store(plain_queue, 2)
    cli.expect(0, "cancel", first)
    result = cli.expect(1, "cancel", first, "unknown", second)
    assert f"{second} is cancelled" in result.out
    assert "1 of 3 tasks done" in result.out
    assert f"redislease: {first}: the task is cancelled; tester decided cancel" in result.err
    answers = cli.expect(1, "cancel", first, "unknown", "--json").document
    assert [answer["error"] for answer in answers] == ["NotAllowedNow", "TaskUnknown"]
    assert cli.expect(1, "cancel", first, second, "--jsonl").lines[1]["decided_by"] == "tester"


def test_cancel_a_whole_state(cli: CommandLine, plain_queue: Queue) -> None:
    store(plain_queue, 5)
    plain_queue.claim(1)
    told = cli.expect(0, "cancel", "--status", "ready", "--dry-run")
    assert "4 tasks would be decided about; nothing was changed" in told.out
    assert len(cli.expect(0, "cancel", "--status", "ready", "--dry-run", "--json").document) == 4
    assert plain_queue.stats().states["ready"] == 4
    assert "3 of 3 tasks done" in cli.expect(0, "cancel", "--status", "ready", "--limit", "3").out
    assert plain_queue.stats().states["ready"] == 1
    cli.expect(0, "cancel", "--status", "ready")
    assert "no task is ready" in cli.expect(0, "cancel", "--status", "ready").out
    assert plain_queue.stats().states["leased"] == 1


def test_a_state_larger_than_one_page(cli: CommandLine, plain_queue: Queue) -> None:
    plain_queue.enqueue_many([{"name": "job", "side_effect": "read_only"}] * 1003)
    assert "1,003 tasks would be" in cli.expect(0, "cancel", "--status", "ready", "-n", "5000", "--dry-run").out
    assert "1,003 entries looked at, nothing found" in cli.expect(0, "check").out


def test_requeue_and_revoke_all(cli: CommandLine, plain_queue: Queue) -> None:
    store(plain_queue, 4)
    for lease in plain_queue.claim(3):
        lease.fail("x", retry=False)
    assert "3 tasks would be" in cli.expect(0, "requeue", "--all", "--dry-run").out
    assert "3 of 3 tasks done" in cli.expect(0, "requeue", "--all").out
    leases = plain_queue.claim(4)
    assert "4 of 4 tasks done" in cli.expect(0, "revoke", "--all", "--reason", "bad image").out
    assert all(reply.reason == "revoked" for reply in plain_queue.renew_many(leases))  # type: ignore[union-attr]
    assert plain_queue.stats().states["ready"] == 4


def test_a_decision_about_an_attempt_that_is_over(cli: CommandLine, plain_queue: Queue) -> None:
    (task_id,) = store(plain_queue, 1)
    old = plain_queue.claim()[0]
    old.release()
    plain_queue.claim()
    result = cli.expect(1, "revoke", task_id, "--token", str(old.fencing_token))
    assert "claimed again since it was looked at" in result.err
    assert plain_queue.get(task_id).status == "leased"


def test_pause_at_two_levels(cli: CommandLine, plain_queue: Queue) -> None:
    assert cli.expect(0, "pause").out.endswith("is paused (claims)\n")
    assert cli.expect(0, "pause", "--level", "effects", "--json").document == {"level": "effects", "epoch": 2}
    assert "effects by tester" in cli.expect(0, "stats").out
    assert plain_queue.stats().pause == "effects"
    cli.expect(0, "resume")
    assert plain_queue.stats().pause == ""


@pytest.mark.usefixtures("virtual_time")
def test_purge_counts_first(cli: CommandLine, plain_queue: Queue, clock: VirtualClock) -> None:
    done, cancelled, doubtful = store(plain_queue, 2) + store(plain_queue, 1, "non_idempotent")
    leases = {lease.id: lease for lease in plain_queue.claim(3)}
    leases[done].complete()
    plain_queue.cancel(cancelled, by="me")
    plain_queue.cancel(doubtful, by="me")
    clock.advance_ms(30_000)
    assert cli.expect(0, "purge", "--completed", "0", "--dry-run", "--json").document == {"completed": 0}
    clock.advance_ms(40_000)
    options = ["--completed", "0", "--cancelled", "0"]
    assert "1 completed, 1 cancelled; nothing was changed" in cli.expect(0, "purge", *options, "--dry-run").out
    assert cli.expect(0, "purge", "--json").document["completed"] == 0
    cli.expect(0, "purge", *options, "--evidence", "0", "--reason", "tidy")
    assert plain_queue.stats().states | {"completed": 0} == dict.fromkeys(plain_queue.stats().states, 0) | {
        "cancelled": 1
    }
    cli.expect(4, "show", done)
    assert plain_queue.get(doubtful).status == "cancelled"
    (line,) = [line for line in cli.expect(0, "audit", "--jsonl").lines if line["event"] == "purge"]
    assert (line["by"], line["reason"], line["completed"], line["cancelled"]) == ("tester", "tidy", 1, 1)


@pytest.mark.parametrize(
    ("given", "name", "outcome"),
    [
        ('mail={"id":"a=b"}', "mail", {"id": "a=b"}),
        ("mail=to=ada=7", "mail=to=ada", 7),
        ('mail="x=1"', "mail", "x=1"),
        ("mail=null", "mail", None),
    ],
)
def test_names_of_effects_may_hold_an_equals_sign(
    cli: CommandLine, plain_queue: Queue, given: str, name: str, outcome: object
) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent", records_effects=True).id
    (lease,) = plain_queue.claim()
    lease.effect(name).__enter__()
    assert lease.fail("x").status == "reconciling"
    cli.expect(0, "reconcile", "resolve", task_id, "done", "--outcome", given)
    (record,) = plain_queue.effects(task_id)
    assert (record.key, record.state, record.outcome) == (name, "done", outcome)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("mail=1e400", "1e400 is too large"),
        ("mail=NaN", "NaN is not JSON"),
        ("handler=7", "the implicit effect keeps no outcome"),
        ("mail", "--outcome takes NAME=JSON"),
        ("=7", "--outcome takes NAME=JSON"),
    ],
)
def test_outcomes_that_could_not_be_kept_are_refused(
    cli: CommandLine, plain_queue: Queue, given: str, why: str
) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    (lease,) = plain_queue.claim()
    lease.effect("mail").__enter__()
    assert lease.fail("x").status == "reconciling"
    assert why in cli.expect(2, "reconcile", "resolve", task_id, "done", "--outcome", given).err
    assert plain_queue.get(task_id).open_effects == 2


def test_an_id_is_never_taken_for_an_option(cli: CommandLine, plain_queue: Queue) -> None:
    told = cli.expect(2, "enqueue", "mail", "--side-effect", "read_only", "--id", "--help").err
    assert "not begin with -" in told
    assert sum(plain_queue.stats().states.values()) == 0


def test_reconcile_list_holds_both_kinds(cli: CommandLine, plain_queue: Queue) -> None:
    waiting, ended = store(plain_queue, 2, "non_idempotent")
    plain_queue.claim(2)
    plain_queue.revoke(waiting, by="me")
    plain_queue.cancel(ended, by="me")
    assert [task["id"] for task in cli.expect(0, "reconcile", "list", "--json").document] == [waiting, ended]
    assert [task["id"] for task in cli.expect(0, "tasks", "unsettled", "--jsonl").lines] == [ended]
    assert cli.expect(0, "queues", "--json").document
    assert json.dumps(waiting) in cli.expect(0, "reconcile", "show", waiting, "--json").out
    assert "no open effect" in cli.expect(2, "reconcile", "resolve", waiting, "done", "--effect", "smtp=done").err
    contradiction = ["--effect", "handler=done", "--effect", "handler=not_done"]
    assert "given twice" in cli.expect(2, "reconcile", "resolve", waiting, "done", *contradiction).err
    cli.expect(0, "reconcile", "resolve", ended, "dead", "--effect", "handler=not_done")
    cli.expect(0, "reconcile", "resolve", waiting, "dead")
    assert [task["id"] for task in cli.expect(0, "reconcile", "list", "--json").document] == [waiting]
