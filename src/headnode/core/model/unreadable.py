"""What reading bytes of others raises when they are nothing that was agreed on."""

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""Wrong JSON or MessagePack, or of another shape; no UTF-8; too deep; a number that is too large."""
