"""The two published versions of the SSS job object."""

from enum import StrEnum


class Version(StrEnum):
    """Which spelling a document uses.

    The job object is the same; 3.0.3 puts the name of the object before its properties (``JobId``), ends
    names of other things in ``Id`` (``UserId``), and wraps what a node is in ``NodeProperties``.
    Source:  SSS 3.1.0 and SSS 3.0.3, their examples; deployed peers speak 3.0.3.
    """

    V3_1 = "3.1.0"
    V3_0 = "3.0.3"
