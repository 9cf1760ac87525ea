"""Events as CloudEvents 1.0 in JSON: the form for event streams and webhooks.

Source:  CloudEvents 1.0.2, sections "Context Attributes" and "JSON Event Format"."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from headnode.protocol.event_answers import EventObject

ENVELOPE = ("number", "type", "at")
"""Fields that the envelope has; the rest is its data."""
BATCH_TYPE = "application/cloudevents-batch+json"


def cloud_event(event: EventObject, cluster: str) -> dict[str, Any]:
    """Return an event of a cluster; its id is its number, by which a receiver knows one that came twice."""
    data: dict[str, Any] = msgspec.to_builtins(event)
    for name in ENVELOPE:
        del data[name]
    subject = f"jobs/{event.job}" if event.job is not msgspec.UNSET else ""
    if event.node is not msgspec.UNSET:
        subject = f"nodes/{event.node}"
    return {
        "specversion": "1.0",
        "id": str(event.number),
        "source": f"/clusters/{cluster}",
        "type": f"headnode.{event.type}",
        "time": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"),
        **({"subject": subject} if subject else {}),
        "datacontenttype": "application/json",
        "data": data,
    }
