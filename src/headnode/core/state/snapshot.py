"""What is kept of a cluster so that a restart need not read every event."""

import msgspec

from headnode.core.model.reservation import NodeReservation
from headnode.core.model.resource import BatchResource
from headnode.core.model.template import JobTemplate
from headnode.core.model.user import Receipt
from headnode.core.state.bank_ledger import BankEntry
from headnode.core.state.elastic_record import ElasticRecord
from headnode.core.state.job_record import JobRecord
from headnode.core.state.node_record import (
    InvitationRecord,
    LoginRecord,
    NodeRecord,
    StandbyRecord,
    TokenRecord,
)
from headnode.core.state.owner_usage import UsageAccount
from headnode.core.state.recurring_record import RecurringRecord, RecurringTable


class Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    """The state that a restart needs, without the events before it."""

    jobs: list[JobRecord] = []
    nodes: list[NodeRecord] = []
    parameters: dict[str, str] = {}
    templates: list[JobTemplate] = []
    reservations: list[NodeReservation] = []
    invitations: list[InvitationRecord] = []
    logins: list[LoginRecord] = []
    tokens: list[TokenRecord] = []
    receipts: list[Receipt] = []
    usage: list[UsageAccount] = []
    resources: list[BatchResource] = []
    bank: list[BankEntry] = []
    elastic: list[ElasticRecord] = []
    standbys: list[StandbyRecord] = []
    user_groups: dict[str, tuple[str, ...]] = {}  # those with limits
    recurring: list[RecurringRecord] = []
    recurring_tables: list[RecurringTable] = []
    next_recurring: int = 1
    term: int = 0
    next_token: int = 1
    next_job: int = 1
    next_order: int = 1
    version: int = 1
