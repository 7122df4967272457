"""The recipe of docs/distributed.md for Dask, on a cluster of this machine: a memory is a commutative monoid."""

import re
from pathlib import Path

import pytest
import torch

from carving import Memory

DOCUMENT = Path(__file__).parent.parent / "docs" / "distributed.md"


@pytest.mark.filterwarnings("ignore")  # what Dask warns of is not ours
def test_dask_stores_what_one_process_does():
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("dask.bag")
    (code,) = re.findall(r"```python\n(# Dask\n.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert code.count('scheduler="synchronous"') == 1  # or with any other: here that of a cluster
    given: dict = {}
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
    with cluster, distributed.Client(cluster):
        exec(code.replace('scheduler="synchronous"', "").replace("p=2)", "p=2), keep_paths=True"), given)
    alone = Memory.like(given["empty"])
    alone.store(given["pairs"])
    total = given["total"]
    torch.testing.assert_close(total.tensor, alone.tensor)
    assert list(total.vocabulary) == list(alone.vocabulary) and total.counts.tolist() == alone.counts.tolist()
    assert list(total) == list(alone)


def test_the_recipe_for_spark_differs_in_its_last_line_alone():
    text = DOCUMENT.read_text()
    assert "treeReduce(add)" in text and text.count("def stored(pairs):") == 1
