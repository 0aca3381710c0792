"""Every limit and default, once on the Python side.

The defaults of the protocol itself stand in `lua/lib/defaults.lua` too; a test compares them.
"""

from __future__ import annotations

from typing import Final

LEASE_MS: Final = 60_000
LEASE_MS_MIN: Final = 100
LEASE_MS_MAX: Final = 12 * 3_600_000
MAX_ATTEMPTS: Final = 5
MAX_EXPIRATIONS: Final = 3
COUNT_MAX: Final = 10_000

PAYLOAD_BYTES: Final = 1_048_576
RESULT_BYTES: Final = 1_048_576
CALL_BYTES: Final = 4_194_304
ERROR_BYTES: Final = 8_192
NOTE_BYTES: Final = 1_024
OUTCOME_BYTES: Final = 16_384
EFFECTS: Final = 1_000
NAME_BYTES: Final = 128
TASK_ID_CHARS: Final = 128
IDEMPOTENCY_KEY_BYTES: Final = 128
WORKER_NAME_CHARS: Final = 40
BY_BYTES: Final = 64
CREDENTIAL_BYTES: Final = 64
VALUE_BYTES: Final = 64
RESULT_REF_BYTES: Final = 1_024

PRIORITY_MAX: Final = 100
DELAY_MS_MAX: Final = 10 * 366 * 86_400_000
AT_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999

BATCH: Final = 1_000
ENQUEUE_BATCH: Final = 500
RENEW_BATCH: Final = 200
SETTLE_BATCH: Final = 500
REAP: Final = 100
PURGE: Final = 500

COMPLETED_RETENTION_MS: Final = 3_600_000
CANCELLED_RETENTION_MS: Final = 7 * 86_400_000
EVIDENCE_RETENTION_MS: Final = 30 * 86_400_000
RETENTION_MS_MAX: Final = 10 * 366 * 86_400_000

RETRY_FOR_S: Final = 30.0
HEARTBEATS_PER_LEASE: Final = 3
BLOCK_S_MIN: Final = 0.1
BLOCK_S_MAX: Final = 5.0
