"""Results as Arrow tables and NumPy arrays: without a copy if possible."""

import gc

import numpy as np
import polars
import pyarrow
import pytest
from conftest import two_flows

import remuda


@pytest.fixture(scope="module")
def result() -> remuda.Result:
    return remuda.run(two_flows())


def addresses(column: pyarrow.ChunkedArray) -> list[int]:
    return [chunk.buffers()[1].address for chunk in column.chunks]


NAMES = ["flows", "links", "switches", "decisions", "flow_samples", "link_samples"]


@pytest.mark.parametrize("name", NAMES)
def test_arrow_reads_every_table_where_it_lies(result: remuda.Result, name: str) -> None:
    table = getattr(result, name)
    arrow = pyarrow.table(table)
    assert arrow.column_names == table.column_names
    assert arrow.shape == (len(table), table.num_columns) == (table.num_rows, table.num_columns)
    for column in arrow.schema:
        if pyarrow.types.is_string(column.type) or len(table) == 0:
            continue
        again = pyarrow.table(table)
        assert addresses(arrow[column.name]) == addresses(again[column.name]), column.name
        if arrow[column.name].null_count == 0:
            seen = table.to_numpy(column.name, zero_copy_only=True)
            assert [seen.__array_interface__["data"][0]] == addresses(arrow[column.name])
            assert np.array_equal(seen, arrow[column.name].to_numpy())


def test_one_batch_is_one_struct(result: remuda.Result) -> None:
    batch = pyarrow.record_batch(result.flow_samples)
    assert batch.num_rows == len(result.flow_samples)
    assert pyarrow.schema(result.flow_samples) == batch.schema
    frame = polars.DataFrame(result.flow_samples)
    assert frame.shape == (len(result.flow_samples), result.flow_samples.num_columns)
    assert frame["cwnd_pkts"].to_list() == result.flow_samples["cwnd_pkts"].tolist()


def test_numbers_are_seen_and_not_written(result: remuda.Result) -> None:
    one, two = result.flow_samples["cwnd_pkts"], result.flow_samples.to_numpy("cwnd_pkts")
    assert one.dtype == np.float64
    assert result.flow_samples["delivered_bytes"].dtype == np.uint64
    assert result.flow_samples["flow"].dtype == np.uint32
    assert np.shares_memory(one, two)
    assert not one.flags.writeable and not one.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
        one.flags.writeable = True
    assert np.shares_memory(one[1:], two[::2])


def test_a_view_outlives_its_result() -> None:
    table = two_flows()
    goodput = remuda.run(table).flows["goodput_mbit_per_sec"]
    before = goodput.copy()
    for _ in range(3):
        remuda.run(table)
        gc.collect()
    assert np.array_equal(goodput, before)


def test_gaps_and_texts_are_copies(result: remuda.Result) -> None:
    ends = result.flows["end_s"]
    assert ends.dtype == np.float64 and np.isnan(ends).all(), "these flows have no end"
    with pytest.raises(ValueError, match="`end_s` is of type Float64 with nulls and cannot"):
        result.flows.to_numpy("end_s", zero_copy_only=True)
    assert result.flows["arm"].dtype == object
    with pytest.raises(ValueError, match="`name` is of type Utf8 and cannot be read"):
        result.flows.to_numpy("name", zero_copy_only=True)


def test_a_table_says_what_it_is(result: remuda.Result) -> None:
    about = result.flows.metadata
    assert (about["scenario"], about["engine"], about["seed"]) == ("two windows", "sim", "3")
    assert remuda.run(remuda.Scenario.parse(about["scenario_toml"])) == result
    assert pyarrow.schema(result.flows).metadata[b"scenario"] == b"two windows"
    units = pyarrow.schema(result.flows).field("goodput_mbit_per_sec").metadata
    assert units[b"unit"] == b"Mbit/s"
    assert "goodput_mbit_per_sec" in result.flows and "goodput" not in result.flows
    assert repr(result.links).startswith("<remuda.Table: 2 rows of ")
    with pytest.raises(KeyError, match="no column goodput; the columns are: "):
        result.flows["goodput"]


def test_no_rows_are_an_empty_array() -> None:
    table = remuda.run(two_flows(sample_ms=0)).flow_samples
    assert len(table) == 0
    assert table["cwnd_pkts"].shape == (0,) and pyarrow.table(table).num_rows == 0
