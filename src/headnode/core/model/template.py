"""Job templates: defaults and limits for jobs of a kind.

Source: HPC Pack, job templates (TemplateItem: Default, ReadOnly, MinVal, MaxVal, ValueRange,
RequiredValues)."""

from typing import Any

import msgspec

from headnode.core.model.job import JobSpec, UnitType

DEFAULT_TEMPLATE = "Default"
"""The template of jobs that name none; there always is one."""

UNSAID = JobSpec()


class TemplateRule(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """The rule of a job template for one field of a job.

    A value is a job description of which only this field counts.

    `minimum` and `maximum` are in the unit of the field.  A rule for `minimum`, `maximum` or
    `processors_per_gpu` says what is counted: it holds for jobs of this `unit` alone.
    """

    field: str
    unit: UnitType | None = None
    default: JobSpec | None = None
    read_only: bool = False
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[JobSpec, ...] = ()  # empty: every value
    required: JobSpec | None = None  # for fields that hold several: these are among them

    @property
    def preset(self) -> Any:
        """What a job gets that says nothing."""
        return getattr(self.default or UNSAID, self.field)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that are allowed."""
        return tuple(getattr(one, self.field) for one in self.allowed)

    @property
    def demanded(self) -> tuple[Any, ...]:
        """What must be among the values."""
        return () if self.required is None else tuple(getattr(self.required, self.field))


class JobTemplate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A job template, for its `users` and `groups`; if both are empty, for every user.

    Its filters come before those of the cluster; they are written as in the parameters of these.
    """

    name: str
    description: str = ""
    rules: tuple[TemplateRule, ...] = ()
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    submission_filters: str = ""
    activation_filters: str = ""


def stated_fields(field: str, value: Any) -> JobSpec:
    """Return the description that says nothing but this."""
    return JobSpec(**{field: value})


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(JobTemplate)


def encode_template(template: JobTemplate) -> bytes:
    """Return the template as events keep it."""
    return _encoder.encode(template)


def decode_template(data: bytes) -> JobTemplate:
    """Return the template that `data` holds."""
    return _decoder.decode(data)
