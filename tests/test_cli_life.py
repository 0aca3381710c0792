"""Lives of tasks, told by the program alone."""

from __future__ import annotations

import json
from typing import Any

from command_line import CommandLine
from servers import wait_until

from redislease.queue import Queue

pytest_plugins = ["cli_fixtures"]


def proof(lease: dict[str, Any]) -> list[str]:
    """A lease as the four options that prove it."""
    return [
        *("--id", lease["id"], "--owner", lease["owner"]),
        *("--generation", str(lease["generation"]), "--token", str(lease["fencing_token"])),
    ]


def test_from_enqueue_to_purge(cli: CommandLine) -> None:
    options = ["--side-effect", "read_only", "--priority", "7", "--lease", "30", "--max-attempts", "2", "--retry", "0"]
    task_id = cli.expect(0, "enqueue", "report", '{"day": "monday"}', *options).out.strip()

    (first,) = cli.expect(0, "claim").lines
    assert first["id"] == task_id
    assert first["payload"] == {"day": "monday"}
    assert first["generation"] == 1
    assert 29_000 < first["remaining_ms"] <= 30_000
    renewed = cli.expect(0, "renew", *proof(first), "--lease", "60", "--json").document
    assert renewed["expires_at"] > first["expires_at"]
    cli.expect(0, "progress", *proof(first), "--done", "1", "--total", "4", "--note", "a quarter")
    assert "is scheduled and due at" in cli.expect(0, "fail", *proof(first), "--error", "no paper").out

    cli.expect(0, "reap")
    (second,) = cli.expect(0, "claim", "--json").document
    assert (second["generation"], second["attempts"], second["failures"]) == (2, 2, 1)
    assert second["fencing_token"] > first["fencing_token"]
    assert "settled; the task is leased at generation 2" in cli.expect(3, "complete", *proof(first)).err
    answer = cli.expect(0, "complete", "--handle", second["handle"], "--result", "-", stdin=b'{"pages": 3}').out
    assert answer == f"{task_id} is completed\n"

    shown = cli.expect(0, "show", task_id, "--json").document
    assert shown["result"] == {"pages": 3}
    assert shown["progress"]["note"] == "a quarter"
    assert shown["task"]["status"] == "completed"
    assert "a quarter" in cli.expect(0, "show", task_id).out
    assert "no paper" in cli.expect(0, "evidence", task_id).out
    events = [line["event"] for line in cli.expect(0, "evidence", task_id, "--jsonl").lines]
    assert events == ["failed", "late_result"]
    assert cli.expect(0, "tasks", "completed", "--json").document[0]["id"] == task_id
    assert cli.expect(0, "queues", "--json").document
    assert cli.expect(0, "check", "--json").document["problems"] == []


def test_a_life_with_an_effect_in_doubt(cli: CommandLine) -> None:
    task_id = cli.expect(0, "enqueue", "mail", "--side-effect", "non_idempotent").out.strip()
    (lease,) = cli.expect(0, "claim").lines
    cli.expect(0, "revoke", task_id, "--token", str(lease["fencing_token"]), "--reason", "stuck")
    assert "nothing is ready" in cli.expect(4, "claim").err
    assert task_id in cli.expect(0, "reconcile", "list").out
    (doubtful,) = cli.expect(0, "reconcile", "list", "--json").document
    assert doubtful["open_effects"] == 1
    shown = cli.expect(0, "reconcile", "show", task_id)
    assert "may or may not have happened" in shown.out
    assert "revoked" in shown.out

    assert "a decision" not in cli.expect(1, "reconcile", "resolve", task_id, "retry").err
    resolved = cli.expect(
        0, "reconcile", "resolve", task_id, "retry", "--effect", "handler=not_done", "--json"
    ).document
    assert resolved["status"] == "ready"
    assert resolved["fence"] > lease["fencing_token"]
    (again,) = cli.expect(0, "claim").lines
    late = cli.expect(1, "reconcile", "resolve", task_id, "dead", "--token", str(lease["fencing_token"]))
    assert "claimed again" in late.err
    cli.expect(0, "release", "--handle", again["handle"])
    assert "nothing is in doubt" in cli.expect(0, "reconcile", "list").out


def test_resolved_as_done_with_a_result(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("mail", side_effect="non_idempotent").id
    (lease,) = cli.expect(0, "claim").lines
    cli.expect(0, "fail", "--handle", lease["handle"], "--error", "connection reset")
    cli.expect(0, "reconcile", "resolve", task_id, "done", "--effect", "handler=done", "--result", '"sent"')
    assert plain_queue.detail(task_id).result == "sent"


def test_failures(cli: CommandLine, plain_queue: Queue) -> None:
    for name, more, status in (
        ("fatal", ["--fatal"], "dead"),
        ("not done", ["--not-done", "--delay", "600"], "scheduled"),
        ("in doubt", [], "reconciling"),
    ):
        plain_queue.enqueue(name, side_effect="non_idempotent")
        (lease,) = cli.expect(0, "claim").lines
        options = ["--not-done"] if name == "fatal" else []
        cli.expect(0, "fail", "--handle", lease["handle"], "--error", name, *more, *options)
        task = plain_queue.get(lease["id"])
        assert task.status == status
        assert task.last_error == name
        if name == "not done":
            assert 599_000 < (task.available_at or 0) - plain_queue.stats().now <= 600_000


def test_a_failure_waits_by_the_backoff_of_its_task(cli: CommandLine, plain_queue: Queue) -> None:
    cli.expect(0, "enqueue", "slow", "--side-effect", "read_only", "--retry", "1000:2:9000:0", "--max-attempts", "9")
    for failures in (1, 2):
        (lease,) = cli.expect(0, "claim").lines
        handle = {"handle": lease["handle"]}
        line = lease if failures == 1 else handle  # what claim printed tells the backoff, or the server does
        (answer,) = cli.expect(0, "fail", "--jsonl", "-", "--error", "x", stdin=json.dumps(line)).lines
        waits = answer["due_at"] - plain_queue.stats().now
        assert failures * 1_000_000 - 5_000 < waits <= failures * 1_000_000
        if failures == 1:
            token = plain_queue.get(lease["id"]).fencing_token
            assert token
            plain_queue._transport.read("ZADD", plain_queue.keys.index("scheduled"), 1, lease["id"])


def test_claims_of_separate_processes_under_one_identity(cli: CommandLine, plain_queue: Queue) -> None:
    plain_queue.enqueue_many([{"name": "job", "side_effect": "read_only"} for _ in range(20)])
    owner = cli.expect(0, "register", "robot").out.strip()
    assert owner.startswith("robot-")
    leases = [lease for _ in range(20) for lease in cli.expect(0, "claim", "--owner", owner).lines]
    assert {lease["owner"] for lease in leases} == {owner}
    assert len({lease["id"] for lease in leases}) == 20
    cli.expect(4, "claim", "--owner", owner, "--wait", "0.3")
    assert owner in cli.expect(0, "workers").out


def test_claim_waits_for_a_task(cli: CommandLine, plain_queue: Queue) -> None:
    plain_queue.enqueue("later", side_effect="read_only", delay=0.2)
    owner = cli.expect(0, "register", "--json").document["name"]
    (lease,) = cli.expect(0, "claim", "--wait", "10", "--owner", owner).lines
    assert lease["name"] == "later"


def test_an_expired_lease_is_recovered_by_hand(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("short", side_effect="read_only", lease_duration=0.1).id
    (lease,) = cli.expect(0, "claim").lines
    wait_until(lambda: plain_queue.stats().expired, what="the expiry")
    assert "1 lease to recover" in cli.expect(0, "reap", "--dry-run").out
    assert cli.expect(0, "reap", "--dry-run", "--json").document == {"expired": 1, "overdue": 0}
    assert "1 lease recovered" in cli.expect(0, "reap").out
    assert "is lost: expired" in cli.expect(3, "complete", "--handle", lease["handle"]).err
    assert plain_queue.get(task_id).status == "ready"


def test_dates_and_every_other_field(cli: CommandLine, plain_queue: Queue) -> None:
    arguments = [
        "--at",
        "2999-01-31T09:00:00+01:00",
        "--max-expirations",
        "4",
        "--max-runtime",
        "90",
        "--records-effects",
    ]
    more = ["--max-same-error", "2", "--credential", "smtp", "--idempotency-key", "k", "--id", "mine"]
    cli.expect(0, "enqueue", "mail", "--side-effect", "non_idempotent", *arguments, *more)
    task = plain_queue.get("mine")
    assert task.available_at == 32_474_764_800_000
    assert (task.max_expirations, task.max_runtime_ms, task.records_effects) == (4, 90_000, True)
    assert (task.max_same_error, task.credential, task.idempotency_key) == (2, "smtp", "k")
    again = cli.expect(0, "enqueue", "mail", "--side-effect", "non_idempotent", "--idempotency-key", "k", "--json")
    assert again.document == {"id": "mine", "created": False, "status": "scheduled"}


def test_scripts_can_be_read(cli: CommandLine, plain_queue: Queue) -> None:
    assert "The queue at a glance." in cli.expect(0, "lua").out
    source = cli.expect(0, "lua", "stats").out
    assert "-- KEYS[1]  meta" in source
    assert plain_queue._transport.read("EVAL", source, 2, plain_queue.keys.meta, plain_queue.keys.never)[0] == b"ok"
    assert cli.expect(0, "lua", "claim", "--json").document["name"] == "claim"
