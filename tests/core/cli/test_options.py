"""The option parser: two spellings, paths left alone, slips refused with the right name."""

import pytest

from headnode.apps.cli.catalogue import COMMON_OPTIONS
from headnode.apps.cli.commands.job_submit import OPTIONS
from headnode.apps.cli.options import Arguments, CliOption, read_arguments
from headnode.core.model.errors import BadRequest

KNOWN = (*OPTIONS, *COMMON_OPTIONS)


def read(*arguments: str, positionals: int | None = 0) -> Arguments:
    return read_arguments(arguments, KNOWN, positionals)


@pytest.mark.parametrize(
    "spelling",
    [
        ["/runtime:1:30"],
        ["/RunTime:1:30"],
        ["--runtime", "1:30"],
        ["--runtime=1:30"],
        ["--run-time=1:30"],
        ["--RUNTIME", "1:30"],
    ],
)
def test_every_spelling_of_an_option_means_the_same(spelling: list[str]) -> None:
    asked = read(*spelling, "/bin/true")
    assert (asked.options, asked.words) == ({"runtime": ["1:30"]}, ["/bin/true"])


@pytest.mark.parametrize("alias", ["/numcores:4", "--numcores=4", "/numprocessors:4"])
def test_an_alias_is_known_by_the_name_of_its_option(alias: str) -> None:
    assert read(alias).options == {"numprocessors": ["4"]}


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("/exclusive", "true"),
        ("--exclusive", "true"),
        ("/exclusive:false", "false"),
        ("--exclusive=false", "false"),
    ],
)
def test_a_flag_without_a_value_is_true(spelling: str, value: str) -> None:
    asked = read(spelling, "prog")
    assert (asked.text("exclusive"), asked.words) == (value, ["prog"])


@pytest.mark.parametrize("path", ["/bin/true", "/a", "/opt/app:1/run", "/usr/bin/runtime:3", "/run"])
def test_what_is_no_option_before_its_colon_is_a_program(path: str) -> None:
    assert read(path, "/runtime:1").words == [path, "/runtime:1"]


@pytest.mark.parametrize("wrong", ["/data:/x", "/x:1"])
def test_a_word_with_a_colon_that_is_no_option_is_no_program_either(wrong: str) -> None:
    with pytest.raises(BadRequest, match="is unknown"):
        read(wrong)


def test_everything_behind_the_program_is_its_own() -> None:
    asked = read("/priority:10", "/bin/app", "/priority:20", "--wait", "/?", "--", "-x")
    assert asked.options == {"priority": ["10"]}
    assert asked.words == ["/bin/app", "/priority:20", "--wait", "/?", "--", "-x"]


def test_two_dashes_end_the_options() -> None:
    assert read("--", "/runtime:3", "x").words == ["/runtime:3", "x"]


def test_words_before_the_program_may_be_followed_by_options() -> None:
    asked = read("12", "/name:a", "prog", "/name:b", positionals=1)
    assert (asked.words, asked.options) == (["12", "prog", "/name:b"], {"jobname": ["a"]})


def test_without_a_program_options_may_stand_anywhere() -> None:
    asked = read("12", "--json", "13", positionals=None)
    assert (asked.words, asked.flag("json")) == (["12", "13"], True)


@pytest.mark.parametrize("word", ["/?", "-h", "--help", "-?"])
def test_help_has_every_spelling_people_try(word: str) -> None:
    assert read(word).flag("help")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("/runtme:30", "/runtime"),
        ("--prioritty=3", "--priority"),
        ("/numprocesors:3", "/numprocessors"),
        ("/exclusve", "/exclusive"),
        ("--exclusve", "--exclusive"),
        ("-runtime", "--runtime"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_right_one(wrong: str, right: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read(wrong, "prog")
    assert f"did you mean {right}?" in refused.value.fix
    assert refused.value.exit_status == 2


def test_an_option_like_nothing_we_know_is_refused_too() -> None:
    with pytest.raises(BadRequest, match="option '--zzzz' is unknown"):
        read("--zzzz")


@pytest.mark.parametrize("last", [["--runtime"], ["/runtime"]])
def test_a_value_that_is_missing_is_asked_for(last: list[str]) -> None:
    with pytest.raises(BadRequest, match="needs a value"):
        read(*last)


def test_a_value_may_be_empty_and_may_look_like_an_option() -> None:
    assert read("/holduntil:").options == {"holduntil": [""]}
    assert read("--jobname", "--x").options == {"jobname": ["--x"]}


def test_two_different_values_for_one_option_are_refused_but_not_the_same_twice() -> None:
    assert read("/priority:1", "--priority", "1").options == {"priority": ["1", "1"]}
    with pytest.raises(BadRequest, match="given before as '1'"):
        read("/priority:1", "/priority:2")


def test_an_option_that_may_repeat_keeps_all_its_values() -> None:
    assert read("/env:A=1", "/env:B=2").options == {"env": ["A=1", "B=2"]}


def test_where_two_options_share_a_spelling_the_first_has_it() -> None:
    first, second = CliOption("one", "X", "", ("same",)), CliOption("two", "X", "", ("same",))
    assert read_arguments(["/same:1"], (first, second)).options == {"one": ["1"]}


def test_a_flag_or_a_number_that_is_none_is_refused() -> None:
    asked = read("/wait:perhaps", "/id:-1")
    with pytest.raises(BadRequest, match="true or false"):
        asked.flag("wait")
    for wrong in ("-1", "x", "１", "9" * 30, ""):
        with pytest.raises(BadRequest, match="whole number"):
            read(f"/id:{wrong}").number("id")
    assert read("/id:12").number("id") == 12
    assert read().number("id") is None


@pytest.mark.parametrize(
    ("typed", "megabytes"), [("64G", 65536), ("1.5 TB", 1572864), ("512", 512), ("0", 0)]
)
def test_an_amount_of_memory_has_its_unit_or_is_in_megabytes(typed: str, megabytes: int) -> None:
    asked = Arguments()
    asked.options["memory"] = [typed]
    assert (asked.memory("memory"), asked.memory("disk")) == (megabytes, None)


@pytest.mark.parametrize("typed", ["64Q", "G", "-1", "", "3.00001G"])
def test_what_is_no_amount_of_memory_is_refused_with_an_example(typed: str) -> None:
    asked = Arguments()
    asked.options["memory"] = [typed]
    with pytest.raises(BadRequest) as refused:
        asked.memory("memory")
    assert refused.value.fix == "write --memory 64G, for example"
