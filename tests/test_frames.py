"""DataFrames become pairs: those of pandas, and of polars by a stand-in with its interface."""

import datetime
import decimal
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carving.formats import frame_pairs, is_frame, pairs

pandas = pytest.importorskip("pandas")


class Polars:
    """What a DataFrame of polars offers: columns, shape, iter_rows; there is no index."""

    def __init__(self, columns):
        self._columns = columns

    @property
    def columns(self):
        return list(self._columns)

    @property
    def shape(self):
        return len(next(iter(self._columns.values()), [])), len(self._columns)

    def iter_rows(self):
        return zip(*self._columns.values(), strict=True)


MAKERS = [pandas.DataFrame, Polars]
PEOPLE = {"name": ["Anna", "Ben"], "age": [7, 9], "tall": [True, False], "size": [1.5, 1.25]}


@pytest.mark.parametrize("make", MAKERS)
def test_a_frame_has_a_pair_a_cell(make):
    frame = make(PEOPLE)
    assert is_frame(frame)
    expected = [
        (("Anna", "age"), 7),
        (("Anna", "tall"), True),
        (("Anna", "size"), 1.5),
        (("Ben", "age"), 9),
        (("Ben", "tall"), False),
        (("Ben", "size"), 1.25),
    ]
    reader = pairs(frame, key="name")
    for _ in range(2):  # every iteration reads it anew
        assert list(reader) == list(frame_pairs(frame, "name")) == expected
    assert [type(value) for _, value in expected] == [type(value) for _, value in reader]
    assert list(pairs(frame))[:2] == [((0, "name"), "Anna"), ((0, "age"), 7)]
    assert reader.name == "a DataFrame" and reader.bad == 0


def test_other_things_are_no_frames():
    for thing in ({"a": [1]}, [1], "abc", None, np.zeros((2, 2)), pandas.Series([1]), iter([]), object()):
        assert not is_frame(thing)


@pytest.mark.parametrize("make", MAKERS)
def test_cells_without_a_value_are_left_out(make):
    frame = make({"a": [None, "x"], "b": [math.nan, 1.0], "c": [pandas.NaT, pandas.NaT], "d": [pandas.NA, "y"]})
    assert list(frame_pairs(frame)) == [((1, "a"), "x"), ((1, "b"), 1.0), ((1, "d"), "y")]


def test_what_pandas_keeps_in_types_of_its_own_becomes_plain():
    frame = pandas.DataFrame(
        {
            "category": pandas.Categorical(["x", "x"]),
            "integer": pandas.array([1, None], dtype="Int64"),
            "boolean": pandas.array([True, None], dtype="boolean"),
            "text": pandas.array(["t", None], dtype="string"),
            "time": pandas.to_datetime(["2024-01-02 03:04:05", None]),
            "float": np.array([0.5, np.nan], dtype=np.float32),
            "small": np.array([1, 2], dtype=np.uint8),
            "day": pandas.Series([datetime.date(2024, 1, 2), None], dtype=object),
        }
    )
    row = {path[1]: value for path, value in frame_pairs(frame) if path[0] == 0}
    assert row == {
        "category": "x",
        "integer": 1,
        "boolean": True,
        "text": "t",
        "time": "2024-01-02 03:04:05",
        "float": 0.5,
        "small": 1,
        "day": "2024-01-02",
    }
    assert {type(value) for value in row.values()} == {str, int, bool, float}
    assert [path for path, _ in frame_pairs(frame) if path[0] == 1] == [(1, "category"), (1, "small")]


def test_what_polars_has_in_its_cells_becomes_plain():
    frame = Polars(
        {
            "time": [datetime.datetime(2024, 1, 2, 3, 4)],
            "duration": [datetime.timedelta(days=1)],
            "price": [decimal.Decimal("1.25")],
            "list": [["a", "b"]],
            "struct": [{"x": 1, "y": None}],
            "bytes": [b"z"],
            "empty": [[]],
            "numpy": [np.datetime64("2024-01-02")],
        }
    )
    assert list(frame_pairs(frame)) == [
        ((0, "time"), "2024-01-02 03:04:00"),
        ((0, "duration"), "1 day, 0:00:00"),
        ((0, "price"), 1.25),
        ((0, "list", 0), "a"),
        ((0, "list", 1), "b"),
        ((0, "struct", "x"), 1),
        ((0, "struct", "y"), None),
        ((0, "bytes"), b"z"),
        ((0, "empty"), []),
        ((0, "numpy"), "2024-01-02"),
    ]


def test_an_index_counts_if_the_key_names_it():
    frame = pandas.DataFrame(PEOPLE).set_index("name")
    assert list(frame_pairs(frame, "name")) == list(frame_pairs(pandas.DataFrame(PEOPLE), "name"))
    assert next(frame_pairs(frame)) == ((0, "age"), 7)
    shuffled = pandas.DataFrame(PEOPLE).iloc[::-1]
    assert next(frame_pairs(shuffled)) == ((0, "name"), "Ben")


def test_columns_may_have_numbers_for_names():
    assert list(frame_pairs(pandas.DataFrame([["a", "b"]]))) == [((0, 0), "a"), ((0, 1), "b")]
    assert list(frame_pairs(pandas.DataFrame([["a", "b"]]), key=0)) == [(("a", 1), "b")]


@pytest.mark.parametrize(
    ("frame", "options", "error", "message"),
    [
        (Polars(PEOPLE), {"key": "city"}, ValueError, r"key must be one of the columns \['name', .*got 'city'"),
        (Polars(PEOPLE), {"delimiter": ";"}, ValueError, "a DataFrame has no option delimiter. Its options: key"),
        (Polars(PEOPLE), {"format": "table"}, ValueError, "does not apply to a DataFrame"),
        (Polars({"a": ["x", "x"], "b": [1, 2]}), {"key": "a"}, ValueError, "must be unique, got 'x' in rows 0 and 1"),
        (Polars({"a": ["x", None]}), {"key": "a"}, ValueError, "a label in the column 'a', got None in row 1"),
        (Polars({"a": [["x"]]}), {"key": "a"}, ValueError, r"a label in the column 'a', got \['x'\] in row 0"),
        (
            Polars({"a": [1, object()]}),
            {},
            TypeError,
            r"of type object in row 1, column 'a'. Convert the column to text with astype\(str\)",
        ),
        (Polars({"a": [1 + 2j]}), {}, TypeError, "of type complex in row 0"),
        (
            pandas.DataFrame({("a", "b"): [1]}),
            {},
            TypeError,
            r"one name, got \('a', 'b'\). Rename the columns with frame.columns = ",
        ),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), {}, ValueError, "unique names"),
        (pandas.DataFrame({"a": [pandas.Interval(0, 1)]}), {}, TypeError, "of type Interval in row 0, column 'a'"),
    ],
)
def test_what_is_no_table_of_labels_is_refused(frame, options, error, message):
    with pytest.raises(error, match=message):
        list(pairs(frame, **options))


cells = st.one_of(st.text(max_size=3), st.integers(-9, 9), st.booleans(), st.none())


@pytest.mark.parametrize("make", MAKERS)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=4))
def test_the_cells_come_as_they_are(make, rows):
    columns = {name: list(column) for name, column in zip("ab", zip(*rows, strict=True), strict=True)}
    if make is pandas.DataFrame:  # which makes floats of integers beside missing cells
        columns = {name: pandas.Series(column, dtype=object) for name, column in columns.items()}
    expected = [((i, name), row[j]) for i, row in enumerate(rows) for j, name in enumerate("ab") if row[j] is not None]
    assert list(map(repr, frame_pairs(make(columns)))) == list(map(repr, expected))
