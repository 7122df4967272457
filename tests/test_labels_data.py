"""Multi-label files: what is written comes back, in every format; what is wrong is told with its line."""

import bz2
import gzip
import lzma
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix, random_array

from carving.formats import BadLineError
from carving.multilabel.data import Dataset, pooled, read
from carving.multilabel.text import read_split

TEXT = """4 6 3
0,2 1:0.5 4:2
 0:1 5:-3e-1
1
2 3:7
"""
FEATURES = [[0, 0.5, 0, 0, 2, 0], [1, 0, 0, 0, 0, -0.3], [0] * 6, [0, 0, 0, 7, 0, 0]]
LABELS = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]


def written(folder, text, name="some.txt"):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def same(data, features, labels):
    np.testing.assert_array_equal(data.features.toarray(), np.asarray(features, np.float32))
    np.testing.assert_array_equal(data.labels.toarray(), np.asarray(labels, np.float32))


# The text of the Extreme Classification Repository


def test_text_is_read(tmp_path):
    data = read(written(tmp_path, TEXT))
    same(data, FEATURES, LABELS)
    assert data.name == "some" and len(data) == 4
    for matrix in (data.features, data.labels):
        assert isinstance(matrix, csr_matrix) and matrix.dtype == np.float32 and matrix.has_canonical_format


@pytest.mark.parametrize(("ending", "pack"), [("xz", lzma), ("gz", gzip), ("bz2", bz2)])
def test_archives_are_read(tmp_path, ending, pack):
    data = read(written(tmp_path, pack.compress(TEXT.encode()), f"some.txt.{ending}"))
    same(data, FEATURES, LABELS)
    assert data.name == "some"
    assert read(written(tmp_path, TEXT, "eurlex-4.3k_train.txt")).name == "eurlex-4.3k_train"


def test_windows_line_ends_byte_order_marks_and_empty_lines_at_the_end_do_no_harm(tmp_path):
    same(read(written(tmp_path, b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode() + b"\r\n\n")), FEATURES, LABELS)
    same(read(written(tmp_path, TEXT.rstrip("\n"))), FEATURES, LABELS)


def test_a_line_without_anything_is_a_point(tmp_path):
    for empty in ("", " "):
        data = read(written(tmp_path, f"3 2 2\n{empty}\n1 0:1\n{empty}\n"))
        same(data, [[0, 0], [1, 0], [0, 0]], [[0, 0], [0, 1], [0, 0]])


def test_features_in_any_order_and_labels_named_twice_are_read(tmp_path):
    same(read(written(tmp_path, "2 4 3\n2,0,2 3:1 0:2\n1 1:1\n")), [[2, 0, 0, 1], [0, 1, 0, 0]], [[1, 0, 1], [0, 1, 0]])


def test_zeros_are_not_stored(tmp_path):
    assert read(written(tmp_path, "1 4 3\n2 0:0 3:1\n")).features.nnz == 1


def test_unlabeled_points_are_dropped_when_asked_for(tmp_path):
    data = read(written(tmp_path, TEXT)).labeled()
    same(data, [FEATURES[i] for i in (0, 2, 3)], [LABELS[i] for i in (0, 2, 3)])
    assert data.labeled() is data


rows_of_text = st.lists(
    st.tuples(
        st.sets(st.integers(0, 6)),
        st.dictionaries(st.integers(0, 9), st.floats(-1e6, 1e6, width=32).filter(bool)),
    ),
    min_size=1,
    max_size=12,
).filter(lambda rows: any(labels for labels, _ in rows))


@given(rows_of_text, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_what_is_written_comes_back_whatever_the_chunks(tmp_path_factory, rows, chunk):
    lines = [f"{len(rows)} 10 7"]
    features, labels = np.zeros((len(rows), 10), np.float32), np.zeros((len(rows), 7))
    for i, (names, values) in enumerate(rows):
        lines.append(",".join(map(str, names)) + " " + " ".join(f"{k}:{v!r}" for k, v in values.items()))
        labels[i, list(names)] = 1
        for k, v in values.items():
            features[i, k] = v
    file = written(tmp_path_factory.mktemp("text"), "\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("carving.multilabel.text.CHUNK", chunk)
        same(read(file), features, labels)


def test_features_and_labels_in_two_files_are_read(tmp_path):
    features = written(tmp_path, "3 4\n0:1 3:2\n\n1:1\n", "trn_X_Xf.txt")
    labels = written(tmp_path, "3 2\n1:1\n0:1 1:1\n\n", "trn_X_Y.txt")
    same(read(features, labels=labels), [[1, 0, 0, 2], [0] * 4, [0, 1, 0, 0]], [[0, 1], [1, 1], [0, 0]])
    fewer = written(tmp_path, "2 2\n1:1\n0:1\n", "fewer.txt")
    with pytest.raises(BadLineError, match=r"fewer.txt, line 1.*expected 3 points.*got 2"):
        read(features, labels=fewer)


def bad(file, text, line):
    """What the error says, whose line must be this."""
    with pytest.raises(BadLineError) as caught:
        read(written(file, text))
    assert caught.value.line == line
    assert f"line {line}" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "empty"),
        ("\n1 0:1\n", 1, "header"),
        ("1 0:1\n", 1, "header"),
        ("3 4\n1 0:1\n", 1, "points features labels"),
        ("a b c\n1 0:1\n", 1, "header"),
        ("0 4 3\n", 1, "points .*got 0"),
        ("1 0 3\n1\n", 1, "features .*got 0"),
        ("1 4 0\n 0:1\n", 1, "labels .*got 0"),
        ("-1 4 3\n 0:1\n", 1, "points .*got -1"),
        ("2 4 3\n1 0:1\n1 4:1\n", 3, "from 0 to 3.*got 4"),
        ("2 4 3\n1 0:1\n1 -1:1\n", 3, "got -1"),
        ("2 4 3\n1 0:1\n1 99999999999999999999:1\n", 3, "got 99999999999999999999"),
        ("2 4 3\n1 0:1\n3 0:1\n", 3, "from 0 to 2.*got 3"),
        ("2 4 3\n1 0:1\n0,-1 0:1\n", 3, "got -1"),
        ("2 4 3\n1 0:1\n1.5 0:1\n", 3, "got 1.5"),
        ("2 4 3\n1 0:1\nnan 0:1\n", 3, "got nan"),
        ("2 4 3\n1 0:1\ninf 0:1\n", 3, "got inf"),
        ("2 4 3\n1 0:1\n1,,2 0:1\n", 3, "1,,2"),
        ("2 4 3\n1 0:1\n1, 2 0:1\n", 3, "1,"),
        ("2 4 3\n1 0:1\ncat 0:1\n", 3, "cat"),
        ("2 4 3\n1 0:1\n1 0:cat\n", 3, "0:cat"),
        ("2 4 3\n1 0:1\n1 0\n", 3, "'0'"),
        ("2 4 3\n1 0:1\n1 0:\n", 3, "'0:'"),
        ("2 4 3\n1 0:1\n1 0:1:2\n", 3, "0:1:2"),
        ("2 4 3\n1 0:1\n1 1:nan\n", 3, "feature 1 must be finite, got nan"),
        ("2 4 3\n1 0:1\n1 1:1e60\n", 3, "feature 1 must be finite, got inf"),
        ("2 4 3\n1 0:1\n1 1:2 1:3\n", 3, "feature 1 is given twice"),
        ("2 4 3\n1 0:1\n1 1:2 # four\n", 3, "#"),
        ("2 4 3\n1 0:1\n1 qid:1 1:2\n", 3, "qid:1"),
        ("2 4 3\n1 0:1\n1 1:\xff\n", 3, "1:"),
        ("3 4 3\n1 0:1\n1 1:1\n", 3, "after 2 points.*says 3"),
        ("1 4 3\n1 0:1\n1 1:1\n", 3, "more points than the 1 of"),
        ("2 4 3\n\n1 0:1\n1 1:1\n", 4, "more points than"),
    ],
)
def test_bad_lines_are_refused_with_their_number(tmp_path, text, line, says):
    assert re.search(says, bad(tmp_path, text, line))


def test_the_number_of_a_bad_line_counts_over_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("carving.multilabel.text.CHUNK", 2)
    for wrong in ("7 0:1", "1 9:1", "1 0:nan"):
        bad(tmp_path, "5 4 3\n" + "1 0:1\n" * 3 + f"{wrong}\n1 0:1\n", 5)


def test_damaged_archives_and_missing_files_are_told(tmp_path):
    many = TEXT.replace("4 6 3\n", "") * 1000
    with pytest.raises(BadLineError, match="is truncated or corrupt"):
        read(written(tmp_path, lzma.compress(f"4000 6 3\n{many}".encode())[:-40], "some.txt.xz"))
    with pytest.raises(BadLineError, match="damaged"):
        read(written(tmp_path, TEXT, "some.txt.gz"))
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.txt")


def test_a_file_without_any_label_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no labels"):
        read(written(tmp_path, "2 4 3\n 0:1\n 1:1\n"))


# Split files


def test_a_split_names_rows_from_one(tmp_path):
    file = written(tmp_path, "4 1\n1 2\n\n", "split.txt")
    assert read_split(file, 4).tolist() == [3, 0]
    assert read_split(file, 4, column=1).tolist() == [0, 1]
    data = read(written(tmp_path, TEXT), split=file)
    same(data, [FEATURES[3], FEATURES[0]], [LABELS[3], LABELS[0]])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1\n5\n", "line 2.*from 1 to 4.*'5'"),
        ("1\n0\n", "line 2.*'0'"),
        ("1\nx\n", "line 2.*'x'"),
        ("1 1\n2\n", "line 2.*column 1.*1 columns"),
        ("1\n1\n", "line 2.*first in line 1"),
        ("", "empty"),
    ],
)
def test_bad_splits_are_refused(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        read_split(written(tmp_path, text), 4, column=1 if "1 1" in text else 0)


# ARFF

HEAD = """% a comment
@relation 'some{relation}'
@attribute 'a word' numeric
@attribute it\\'s {{0,1}}
@ATTRIBUTE 'isn\\'t' REAL
@attribute TAG_x {{0, 1}}
@attribute "TAG y" {{'0','1'}}

@data
"""
XML = """<?xml version="1.0"?><labels xmlns="http://mulan.sourceforge.net/labels">
<label name="TAG_x"><label name="TAG y"></label></label></labels>"""
SPARSE, DENSE = "{0 2.5,3 1}\n% why not\n{1 1, 4 '1'}\n\n{}\n", "2.5,0,0,1,0\n0, 1, 0, 0, '1'\n0,0.0,0,0,0\n"
ARFF_FEATURES, ARFF_LABELS = [[2.5, 0, 0], [0, 1, 0], [0, 0, 0]], [[1, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize("body", [SPARSE, DENSE, DENSE.replace("\n", "\r\n")])
def test_arff_is_read_labels_named_by_xml(tmp_path, body):
    xml = written(tmp_path, XML, "names.xml")
    file = written(tmp_path, lzma.compress((HEAD.format(relation="") + body).encode()), "some-train.arff.xz")
    same(read(file, labels=xml), ARFF_FEATURES, ARFF_LABELS)
    xml.rename(tmp_path / "some.xml")
    same(read(file), ARFF_FEATURES, ARFF_LABELS)  # found beside the file


def test_arff_labels_may_be_a_number(tmp_path):
    file = written(tmp_path, HEAD.format(relation="") + SPARSE, "some.arff")
    same(read(file, labels=-2), ARFF_FEATURES, ARFF_LABELS)
    meka = written(tmp_path, HEAD.format(relation=": -C -2") + SPARSE, "meka.arff")
    same(read(meka), ARFF_FEATURES, ARFF_LABELS)
    first = "@relation x\n@attribute a {0,1}\n@attribute b numeric\n@data\n1,0.5\n"
    same(read(written(tmp_path, first, "first.arff"), labels=1), [[0.5]], [[1]])


def test_words_of_arff_stand_for_their_places(tmp_path):
    head = "@relation x\n@attribute a {no,maybe,'for sure'}\n@attribute b {0,1}\n@data\n"
    for body in ("'for sure',1\nno,1\nmaybe,0\n", "{0 'for sure',1 1}\n{1 1}\n{0 maybe}\n"):
        same(read(written(tmp_path, head + body, "words.arff"), labels=-1), [[2], [0], [1]], [[1], [1], [0]])


def test_arff_and_text_agree_on_random_data(tmp_path):
    data = random_array((30, 12), density=0.3, rng=np.random.default_rng(4), dtype=np.float32).toarray().round(3)
    tags = (np.random.default_rng(5).random((30, 4)) < 0.4).astype(np.float32)
    text = ["30 12 4"]
    sparse = [f"@attribute f{i} numeric" for i in range(12)] + [f"@attribute l{i} {{0,1}}" for i in range(4)]
    sparse, dense = ["@relation r", *sparse, "@data"], ["@relation r", *sparse, "@data"]
    for x, y in zip(data, tags, strict=True):
        row = np.concatenate([x, y])
        text.append(",".join(map(str, y.nonzero()[0])) + " " + " ".join(f"{i}:{x[i]}" for i in x.nonzero()[0]))
        sparse.append("{" + ",".join(f"{i} {row[i]}" for i in row.nonzero()[0]) + "}")
        dense.append(",".join(str(value) for value in row))
    same(read(written(tmp_path, "\n".join(text))), data, tags)
    same(read(written(tmp_path, "\n".join(sparse), "s.arff"), labels=-4), data, tags)
    same(read(written(tmp_path, "\n".join(dense), "d.arff"), labels=-4), data, tags)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the file is empty"),
        ("@relation x\n", "no @data section"),
        ("@relation x\n@data\n1\n", "line 2.*expected at least one @attribute"),
        ("@relation x\nnonsense\n", "line 2.*nonsense"),
        ("@attribute a {red,red}\n", "line 1.*red"),
        (
            "@attribute a {red,green}\n@attribute b {0,1}\n@data\nblue,1\n",
            "line 4: attribute 0 must be one of red, green, got",
        ),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n{0 1,1 1\n", "line 4: .* must end with }"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n{0}\n", "line 4: expected `column value`, got '0'"),
        ("@attribute a {1,0}\n", "line 1"),
        ("@attribute a {0,many}\n", "line 1: expected .*, got '@attribute a {0,many}'"),
        ("@attribute a string\n", "line 1.*string"),
        ("@attribute a numeric\n@attribute a numeric\n", "line 2.*first in line 1"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n", "no rows after @data"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n1,1\n1\n", "line 5: expected 2 values.*got 1"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n1,1\n\n?,1\n", "line 6.*missing"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n{0 1,1 1}\n{2 1}\n", "line 5.*got 2"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n{0 1,1 1}\n{0 x}\n", "line 5.*x"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\nnan,1\n", "line 4.*nan"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n1,0\n", "no labels"),
        ("@attribute a numeric\n@attribute b {0,1}\n@data\n1,3\n", "line 4: attribute 1 must be one of 0, 1, got '3'"),
        ("@attribute a numeric\n@data\n1\n", "does not fit"),
    ],
)
def test_bad_arff_is_refused(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        read(written(tmp_path, text, "some.arff"), labels=-1)


def test_labels_of_arff_that_cannot_be_told_are_asked_for(tmp_path):
    file = written(tmp_path, HEAD.format(relation="") + SPARSE, "some.arff")
    with pytest.raises(ValueError, match="Set labels to an XML file"):
        read(file)
    with pytest.raises(ValueError, match="TAG_z"):
        read(file, labels=written(tmp_path, XML.replace("TAG_x", "TAG_z"), "names.xml"))
    with pytest.raises(BadLineError, match=r"names\.xml, line 1: not valid XML"):
        read(file, labels=written(tmp_path, "TAG_x", "names.xml"))
    with pytest.raises(ValueError, match="every label exactly once"):
        read(file, labels=written(tmp_path, "<labels/>", "names.xml"))
    with pytest.raises(ValueError, match="ARFF"):
        read(written(tmp_path, TEXT), labels=3)


# Matrices


def test_matrices_of_any_kind_become_csr_of_float32_and_stay_as_they_were():
    features = csr_array((np.array([1.0, 0.0, 2.0, 3.0]), np.array([1, 0, 0, 0]), np.array([0, 2, 4])), (2, 3))
    before = features.copy()
    data = Dataset(features, np.array([[True, False], [False, True]]), "own")
    same(data, [[0, 1, 0], [5, 0, 0]], [[1, 0], [0, 1]])
    assert data.features.nnz == 2
    assert (features.data == before.data).all() and (features.indices == before.indices).all()


@pytest.mark.parametrize(
    ("features", "labels", "says"),
    [
        (np.ones((2, 3)), np.ones((3, 2)), "2 and 3 rows"),
        (np.ones((0, 3)), np.ones((0, 2)), "at least one row"),
        (np.array([[0, 1], [1, math.nan]]), np.ones((2, 1)), "NaN in row 1, column 1"),
        (np.ones((2, 3)), np.array([[1, 0], [1, 2]]), "2.0 in row 1, column 1"),
        (np.ones((2, 3)), np.zeros((2, 2)), "no point has a label"),
        (np.ones(3), np.ones((3, 2)), "shape"),
    ],
)
def test_bad_matrices_are_refused(features, labels, says):
    with pytest.raises(ValueError, match=says):
        Dataset(features, labels)


@pytest.mark.parametrize("width", [1, 3, 7])
def test_pooling_is_the_mean_of_neighbors(width):
    features = csr_matrix(random_array((20, 24), density=0.3, rng=np.random.default_rng(1), dtype=np.float32))
    columns = (24 - width) // width + 1
    wanted = features.toarray()[:, : columns * width].reshape(20, columns, width).mean(-1)
    found = Dataset(features, np.ones((20, 1))).pooled(width).features
    np.testing.assert_allclose(found.toarray(), wanted, atol=1e-6)
    assert found.has_canonical_format and found.dtype == np.float32


def test_the_largest_sets_are_pooled_to_the_published_sizes():
    for wide, narrow in ((203_882, 29_126), (782_585, 111_797)):
        assert pooled(csr_matrix((1, wide), dtype=np.float32)).shape == (1, narrow)


def test_the_sizes_of_the_largest_set_fit():
    """As wide as Delicious-200K, in kilobytes: nothing is made dense."""
    features = csr_matrix(([1.0], ([0], [782_584])), (2, 782_585))
    data = Dataset(features, csr_matrix(([1.0], ([1], [205_442])), (2, 205_443)))
    assert data.labeled().pooled().features.shape == (1, 111_797)
    assert data.features.indices.dtype == np.int32
