"""Job templates as files: TOML that reads back as the same, and the XML of HPC Pack."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.formats import job_template_xml, job_templates
from headnode.core.formats.job_templates import PROPERTIES
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.template import JobTemplate, TemplateRule, stated_fields

SOLVER = """name = "Solver"
description = "runs of the solver"
users = ["ann", "bob"]

[run_time]
default = "1h"
most = "2d"

[priority]
default = "BelowNormal"
read_only = true

[node_groups]
allowed = ["a", "b"]
required = "a"

[minimum_nodes]
default = 2
least = 2
"""
HPC = """<?xml version="1.0" encoding="utf-8"?>
<JobTemplate Name="Solver" Description="runs" CreateTime="2010-01-01">
  <TemplateItem PropertyName="Runtime" Default="3600" MinVal="60" MaxVal="86400" ReadOnly="false"/>
  <TemplateItem PropertyName="Priority" Default="Normal" ValueRange="Lowest,Normal" />
  <TemplateItem PropertyName="MinCores" MinVal="2" />
  <TemplateItem PropertyName="NodeGroups" ValueRange="a,b" RequiredValues="a" />
  <TemplateItem PropertyName="IsExclusive" Default="True" ReadOnly="True" />
  <TemplateItem PropertyName="AutoCalculateMax" Default="True" />
  <TemplateItem PropertyName="Pool" Default="Default" />
</JobTemplate>"""


def by_field(template: JobTemplate) -> dict[str, TemplateRule]:
    return {rule.field: rule for rule in template.rules}


def test_a_template_of_toml_has_its_rules() -> None:
    template = job_templates.read_template(SOLVER)
    rules = by_field(template)
    assert (template.name, template.users) == ("Solver", ("ann", "bob"))
    assert (rules["run_time"].preset, rules["run_time"].maximum) == (3600.0, 2 * 86400)
    assert (rules["priority"].preset, rules["priority"].read_only) == (1000, True)
    assert rules["node_groups"].choices == (("a",), ("b",))
    assert rules["node_groups"].demanded == ("a",)
    assert (rules["minimum"].unit, rules["minimum"].minimum) == (UnitType.NODE, 2.0)


def test_a_template_of_hpc_pack_has_its_rules_and_what_has_none_here_is_reported() -> None:
    template, report = job_template_xml.read_template(HPC)
    rules = by_field(template)
    assert (template.name, template.description) == ("Solver", "runs")
    assert (rules["run_time"].preset, rules["run_time"].minimum, rules["run_time"].maximum) == (
        3600.0,
        60,
        86400,
    )
    assert rules["priority"].choices == (0, 2000)
    assert (rules["minimum"].unit, rules["minimum"].minimum) == (UnitType.PROCESSOR, 2)
    assert (rules["exclusive"].preset, rules["exclusive"].read_only) == (True, True)
    assert [(item.where, item.line) for item in report] == [("AutoCalculateMax", 8), ("Pool", 9)]


def test_what_hpc_pack_says_is_written_back_in_its_words() -> None:
    template, _ = job_template_xml.read_template(HPC)
    text, report = job_template_xml.write_template(template)
    assert report == ()
    assert job_template_xml.read_template(text) == (template, ())


def test_what_the_xml_has_no_words_for_is_reported() -> None:
    template = job_templates.read_template(SOLVER + "\n[suspendable]\nread_only = true\n")
    _, report = job_template_xml.write_template(template)
    assert {item.where for item in report} == {"users", "suspendable"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("description = 'x'", "has no name"),
        ("name = 'x'\n[runtime]\ndefault = '1h'", "line 2.*did you mean 'run_time'"),
        ("name = 'x'\n[run_time]\nmax = '1h'", "line 3"),
        ("name = 'x'\n[run_time]\nmost = 'long'", "line 3.*run_time.most"),
        ("name = 'x'\n[project]\nleast = 'a'", "project has no least value"),
        ("name = 'x'\n[priority]\nrequired = 'Normal'", "priority has a single value"),
        ("name = 'x'\nrun_time = '1h'", r"write \[run_time\]"),
        ("name = 'x'\n[unit]\ndefault = 'cores'", "unit.default"),
        ("name = 'x'\n[exclusive]\nread_only = 1", "exclusive.read_only"),
        ("name = ", "line 1"),
        ("[]", "line 1"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, says: str) -> None:
    with pytest.raises(BadRequest, match=f"(?s){says}"):
        job_templates.read_template(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<Job/>", "begins with Job"),
        ("<JobTemplate/>", "has no Name"),
        (
            '<JobTemplate Name="x">\n<TemplateItem PropertyName="Priority" Default="high"/></JobTemplate>',
            "line 2",
        ),
        ('<!DOCTYPE x [<!ENTITY a "b">]><JobTemplate Name="&a;"/>', "DOCTYPE|doctype"),
        ("<JobTemplate", "line 1"),
    ],
)
def test_what_is_wrong_with_xml_is_said_with_its_place(text: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        job_template_xml.read_template(text)


VALUES: dict[str, Any] = {
    "run_time": st.integers(1, 10**6).map(float),
    "priority": st.integers(0, 4000),
    "project": st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1),
    "exclusive": st.booleans(),
    "minimum": st.integers(1, 1000),
    "process_memory": st.integers(1, 10**6),
    "node_groups": st.lists(st.sampled_from("abc"), min_size=1, unique=True).map(tuple),
    "task_retry_limit": st.integers(0, 100),
}


@st.composite
def rules(draw: st.DrawFn, field: str) -> TemplateRule:
    values, number = VALUES[field], field not in ("project", "exclusive", "node_groups")
    bounds = sorted(draw(st.lists(values, min_size=2, max_size=2))) if number else [None, None]
    return TemplateRule(
        field=field,
        unit=draw(st.sampled_from(UnitType)) if field == "minimum" else None,
        default=draw(st.none() | values.map(lambda value: stated_fields(field, value))),
        read_only=draw(st.booleans()),
        minimum=None if bounds[0] is None else float(bounds[0]),
        maximum=None if bounds[1] is None else float(bounds[1]),
        allowed=tuple(draw(st.lists(values.map(lambda value: stated_fields(field, value)), max_size=3))),
        required=stated_fields(field, draw(values)) if field == "node_groups" else None,
    )


@given(st.data())
def test_every_template_reads_back_from_toml_as_it_was(data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True))
    template = JobTemplate(name="x", users=("a",), rules=tuple(data.draw(rules(field)) for field in fields))
    again = job_templates.read_template(job_templates.write_template(template))
    assert (again.users, by_field(again)) == (template.users, by_field(template))


def test_every_property_is_a_field_of_jobs_and_each_is_there_once() -> None:
    assert {one.field for one in PROPERTIES.values()} <= set(JobSpec.__struct_fields__)
    pairs = [(one.field, one.unit) for one in PROPERTIES.values()]
    assert len(pairs) == len(set(pairs))


def test_the_template_of_the_documentation_is_understood_and_every_property_is_in_it() -> None:
    page = (Path(__file__).parents[3] / "docs" / "templates.md").read_text()
    template = job_templates.read_template(page.split("```toml\n")[1].split("```")[0])
    assert template.name == "Solver"
    missing = [key for key in PROPERTIES if f"`{key}`" not in page]
    assert not missing, f"add them to the properties in docs/templates.md: {missing}"
