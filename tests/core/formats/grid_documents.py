"""Grid descriptions of every kind, for round trips."""

from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)
some_texts = texts.filter(bool)
words = (
    st.sampled_from(["a b", "%HOME%", "$HOME", "*", "'", '"', "a'%HOME%\"", "-n", "4", "\n", "~", "A=1"])
    | texts
)
ids = st.text("abcXYZ019-_", min_size=1, max_size=4)
hosts = st.lists(st.sampled_from(["n1", "n2", "n3"]), min_size=1, max_size=3)
amounts = st.integers(0, 2**31 - 1)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
metas = st.dictionaries(texts, anything, max_size=2) | st.dictionaries(texts, texts, max_size=2)
bases = st.sampled_from(
    ["gsiftp://example.org/my/", "file:///data/in/", "http://h/x", "s3://bucket/", "file://localhost/d%20e/"]
)
references = st.sampled_from(
    [
        "a.txt",
        "/b.txt",
        "../c",
        "d/../e",
        "x y",
        "ftp://h/f",
        "file:///data/f%25",
        "dir/",
        "gsiftp://h/d/",
        "",
    ]
)
files = st.dictionaries(some_texts | st.just("dir/"), references, max_size=2)


def keys(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


needs = keys(
    {},
    {
        "hostname": hosts,
        "lrms": texts,
        "fork": st.booleans(),
        "queue": texts,
        "os_name": texts,
        "smp_size": amounts,
        "ram_size": st.integers(0, 4),
        "cpu_hz": amounts,
        "software": texts,
    },
)
environments = st.dictionaries(st.text("ABC_", min_size=1, max_size=3), texts | st.integers(), max_size=3)
definitions = keys(
    {
        "version": st.just(2),
        "executable": some_texts | st.sampled_from(["/bin/sh", "a.out", "mpiexec", "sort"]),
    },
    {
        "description": texts,
        "arguments": st.lists(words, max_size=4),
        "environment": environments,
        "count": st.integers(-2, 5),
        "jobtype": st.sampled_from(["single", "mpi", "openmp", "hybrid"]),
        "nodes": st.integers(0, 3),
        "ppn": st.integers(0, 3),
        "stdin": references,
        "stdout": references,
        "stderr": references,
        "input_files": files,
        "output_files": files,
        "default_storage_base": bases,
        "max_success_code": st.sampled_from([0, 1, 255, 2**31 - 1, 2**31, 2**32 - 15, 2**32 - 1]),
        "max_transfer_attempts": amounts,
        "requirements": needs,
        "extensions": metas,
        "meta": metas,
    },
)
items = keys({}, {"description": texts, "definition": definitions, "meta": metas})


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Return job descriptions: graphs without circles, with everything else at random."""
    names = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    tasks = []
    for number, name in enumerate(names):
        item = {"id": name, **draw(items)}
        later = names[number + 1 :]
        if later and draw(st.booleans()):
            item["children"] = draw(st.lists(st.sampled_from(later), max_size=3))
        tasks.append(item)
    outer = {
        "description": texts,
        "default_storage_base": bases,
        "max_transfer_attempts": amounts,
        "requirements": needs,
        "meta": metas,
    }
    if len(names) > 1:
        outer["groups"] = st.lists(
            st.lists(st.sampled_from(names), min_size=2, max_size=4), min_size=1, max_size=2
        )
    return {"version": 2, "tasks": tasks, **draw(keys({}, outer))}
