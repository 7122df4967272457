import math
import random
import re
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carving.formats.brackets import parse_brackets, read_trees, show_brackets
from carving.formats.conllu import FIELDS, read_conllu, show_conllu
from carving.formats.documents import flatten, rebuild
from carving.formats.tables import DELIMITERS, read_table, show_table
from carving.formats.triples import read_triples, show_triple
from carving.symbols.codec import canonical, canonical_path


def numbered_dict(items):
    """A dict with the keys of a list, last first."""
    return {number: items[number] for number in reversed(range(len(items)))}


text = st.text(st.characters())  # lone surrogates too
labels = st.one_of(text, st.integers(), st.floats(), st.booleans(), st.none(), st.binary())
small = st.one_of(st.integers(-1, 3), st.booleans(), st.sampled_from([0.0, 1.0, 2.0, "0", "1", b"0", None]))
keys = st.one_of(labels, small)
documents = st.recursive(
    labels | small,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(keys, inner).filter(lambda made: sum(key != key for key in made) < 2),  # two NaN are refused
        st.dictionaries(small, inner),
        st.lists(inner).map(numbered_dict),
    ),
    max_leaves=30,
)
# A container around a document: from the inside to the outside they make a deep one.
wrappings = st.one_of(st.just([]), st.tuples(small), st.lists(small, min_size=1, max_size=2))


def same(one, other):
    """Whether two documents agree to the types of their keys and values: a strict `==` that does not recurse."""
    todo = [(one, other)]
    while todo:
        one, other = todo.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, list):
            if len(one) != len(other):
                return False
            todo += zip(one, other, strict=True)
        elif isinstance(one, dict):
            mine, theirs = ({canonical(key): (key, value) for key, value in d.items()} for d in (one, other))
            if mine.keys() != theirs.keys() or len(mine) != len(one):
                return False
            todo += ((mine[name][1], theirs[name][1]) for name in mine)
        elif one != other and not (one != one and other != other):
            return False
    return True


def wrapped(document, wrappings):
    for wrapping in wrappings:
        if isinstance(wrapping, tuple):
            document = {wrapping[0]: document}
        else:
            document = [*wrapping, document]
    return document


def lines(written):
    """A text's lines as a file has them: only a newline ends one."""
    return enumerate(re.findall(r"[^\n]*\n|[^\n]+", written), 1)


# Documents


def test_a_document_flattens_to_its_values():
    document = {"sentence 5": {"subject": "dog", "verb": "chased", "objects": ["cat", "ball"]}, "none": {}, 7: []}
    assert list(flatten(document)) == [
        (("sentence 5", "subject"), "dog"),
        (("sentence 5", "verb"), "chased"),
        (("sentence 5", "objects", 0), "cat"),
        (("sentence 5", "objects", 1), "ball"),
        (("none",), {}),
        ((7,), []),
    ]


@given(documents)
@example({0: "a"})
@example(["a"])
@example({1: "b", 0: "a"})
@example({False: "a", 1: "b"})
@example({0.0: "a", 1.0: "b"})
@example({np.int64(0): "a"})
@example([{}, [], {0: {}}, {0: []}, [[]], {"": {"": [None]}}])
@example([1, 1.0, True, "1", b"1", 0, False, 0.0, None, math.inf])
@example(math.nan)
def test_a_document_survives_flattening(document):
    assert same(rebuild(flatten(document)), document)


@given(documents, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_does_not_matter(document, order):
    pairs = list(flatten(document))
    order.shuffle(pairs)
    assert same(rebuild(pairs), document)


@given(documents)
def test_no_two_pairs_share_a_context_and_no_value_lies_below_another(document):
    paths = [path for path, _ in flatten(document)]
    names = sorted(canonical_path(path).partition(b":")[2] for path in paths)
    assert all(not after.startswith(before) for before, after in pairwise(names))


@given(documents, documents)
def test_documents_that_differ_have_pairs_that_differ(one, other):
    first, second = (
        {(canonical_path(path), canonical(value)) for path, value in flatten(each)} for each in (one, other)
    )
    assert (first == second) == same(one, other)


@settings(max_examples=10)
@given(documents, st.lists(wrappings, min_size=1), st.integers(1_000, 1_300))
def test_a_deep_document_survives_flattening(innermost, layers, depth):
    document = wrapped(innermost, (layers * depth)[:depth])
    pairs = list(flatten(document))
    assert max(len(path) for path, _ in pairs) >= depth
    assert same(rebuild(pairs), document)


def test_a_very_deep_document_takes_no_quadratic_time():
    """100,000 levels in ten seconds; a copy of the path at every level would take minutes."""
    document = "value"
    for _ in range(50_000):
        document = [{"a": document}]
    begun = time.process_time()
    (pair,) = flatten(document)
    assert pair == ((0, "a") * 50_000, "value")
    assert same(rebuild([pair]), document)
    assert time.process_time() - begun < 10


def test_flattening_is_lazy():
    class Endless(dict):
        def items(self):
            return ((number, "value") for number in iter(lambda: 0, 1))

    pairs = flatten(["first", Endless(a=1)])
    assert [next(pairs) for _ in range(3)] == [((0,), "first"), ((1, 0), "value"), ((1, 0), "value")]


def test_a_list_and_a_dict_with_its_keys_answer_alike_and_stay_different():
    for document in ({"x": {0: "a"}}, {"x": ["a"]}):
        assert dict(flatten(document))["x", 0] == "a"
    assert list(flatten({"x": {0: "a"}})) == [(("x", 0), "a"), (("x", ()), {})]
    assert list(flatten({"x": ["a"]})) == [(("x", 0), "a")]
    for document in ({False: "a"}, {0.0: "a"}, {"0": "a"}, {1: "a"}, {0: "a", 2: "b"}, {0: "a", "": "b"}):
        assert dict(flatten(document)) == {(key,): value for key, value in document.items()}
    assert rebuild([((0,), "a")]) == ["a"]
    assert rebuild([((), {})]) == {} and rebuild([((), [])]) == []
    assert rebuild([(((),), {})]) == {}


def test_a_list_with_a_gap_becomes_a_dict():
    assert rebuild([((0,), "a"), ((2,), "c")]) == {0: "a", 2: "c"}
    assert rebuild([((1,), "b"), ((0,), "a")]) == ["a", "b"]
    assert rebuild([((False,), "a")]) == {False: "a"}


def test_what_is_rebuilt_shares_nothing_with_the_document():
    document = {"a": {}, "b": []}
    back = rebuild(flatten(document))
    back["a"]["new"] = back["b"].append(1)
    assert document == {"a": {}, "b": []}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(("a", 1), "x"), (("a", 1), "x")], r"one value per path.*'x' at \('a', 1\).*'x' at \('a', 1\)"),
        ([(("a",), "x"), (("a",), "y")], r"'x' at \('a',\) and 'y' at \('a',\).*several values per path"),
        (
            [(("a",), "x"), (("a", "b"), "y")],
            r"\('a',\) cannot hold a value and .* such as \('a', 'b'\)",
        ),
        (
            [(("a", "b"), "y"), (("a",), "x")],
            r"\('a',\) cannot hold a value and .* such as \('a', 'b'\)",
        ),
        ([((), "x"), (("a",), "y")], r"\(\) cannot hold a value and .* such as \('a',\)"),
        ([(("a",), "y"), ((), "x")], r"\(\) cannot hold a value and .* such as \('a',\)"),
        ([(("a", 1), "x"), (("a", True), "y")], r"distinct in Python, got \('a', 1\) and \('a', True\)"),
        ([((1.0, "b"), "x"), ((1, "c"), "y")], r"got \(1.0, 'b'\) and \(1, 'c'\)"),
        ([(("a", ()), "x")], r"The role \(\) .*marks a dict.*\('a', \(\)\)"),
        ([(("a", (), "b"), {})], r"The role \(\) is reserved: it marks a dict"),
        ([], "at least one pair"),
    ],
)
def test_pairs_that_make_no_document_are_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        rebuild(pairs)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("ab", "x"), r"A path must be a tuple.*'ab'"),
        ((("a", object()), "x"), r"At \('a', .*a label must be"),
        ((("a", ["b"]), "x"), r"A role must be a label.*\('a', \['b'\]\)"),
        ((("a", {}), "x"), "A role must be a label"),
        ((("a",), ["b"]), r"At \('a',\): a label must be"),
        ((("a",), ()), r"a tuple at \('a',\)"),
    ],
)
def test_what_is_no_pair_is_refused(pair, message):
    with pytest.raises(TypeError, match=message):
        rebuild([pair])


@pytest.mark.parametrize(
    ("document", "error", "message"),
    [
        ({"a": ["b", object()]}, TypeError, r"At \('a', 1\): a label must be"),
        ({"a": {"b": {1, 2}}}, TypeError, r"At \('a', 'b'\)"),
        ({"a": ("b", "c")}, TypeError, r"a tuple at \('a',\). Use list"),
        ({"a": ()}, TypeError, r"a tuple at \('a',\). Use list"),
        ({"a": {("b", 1): 2}}, TypeError, r"got a tuple: \('a', \('b', 1\)\)"),
        ({"a": {(): 2}}, TypeError, r"got a tuple: \('a', \(\)\)"),
        ({"a": {frozenset(): 2}}, TypeError, r"At \('a', frozenset\(\)\)"),
        ({"a": [10**5_000]}, ValueError, r"At \('a', 0\).*10,000 bits"),
        ({"a": {float("nan"): 1, -float("nan"): 2}}, ValueError, r"NaN keys at \('a',\)"),
        (np.zeros(3), TypeError, r"At \(\)"),
    ],
)
def test_what_is_no_document_is_refused_with_its_path(document, error, message):
    with pytest.raises(error, match=message):
        list(flatten(document))


def test_a_document_that_contains_itself_is_refused_but_one_that_repeats_a_part_is_not():
    part = ["x"]
    assert rebuild(flatten({"a": part, "b": [part, part]})) == {"a": ["x"], "b": [["x"], ["x"]]}
    part.append({"c": part})
    with pytest.raises(ValueError, match=r"contain itself, got the container at \('a',\) again at \('a', 1, 'c'\)"):
        list(flatten({"a": part}))


def test_the_path_in_an_error_stays_short():
    with pytest.raises(TypeError) as error:
        list(flatten(wrapped(object(), [[]] * 5_000 + [("k" * 5_000,)])))
    assert len(str(error.value)) < 1_000 and "4,991 more" in str(error.value)


# Bracket notation

words = st.one_of(text, st.text(st.sampled_from("()\\ \t\n\r\f\v\"'entrfva/-")))
trees = st.recursive(st.lists(words), lambda inner: st.lists(words | inner), max_leaves=30)


def test_brackets_are_nested_lists():
    assert parse_brackets("(S (NP the dog) (VP barked))") == ["S", ["NP", "the", "dog"], ["VP", "barked"]]
    assert parse_brackets("((a b)\t(c\n (d)))") == [["a", "b"], ["c", ["d"]]]
    assert parse_brackets("()") == []
    assert show_brackets(["S", ["NP", "the", "dog"], [], ["VP", "barked"]]) == "(S (NP the dog) () (VP barked))"


def test_what_treebanks_write_stays_as_it_is():
    written = r"""( (S (-LRB- -LRB-) (CD 1\/2) (NN \*) ($*LRB* ") (`` ``) ('' '') (NN d'art)))"""
    assert show_brackets(parse_brackets(written)) == written.replace("( (", "((")
    assert parse_brackets(r'(CD 1\/2 ")') == ["CD", r"1\/2", '"']
    assert parse_brackets("(NN 1\xa0000)") == ["NN", "1\xa0000"]


def test_special_characters_are_escaped_readably():
    tree = ["New York", "(", "", "a\\b", "\\", "x\ty\n"]
    assert show_brackets(tree) == r"(New\ York \( \e a\b \\ x\ty\n)"
    assert parse_brackets(show_brackets(tree)) == tree


@given(trees)
def test_a_tree_survives_brackets(tree):
    written = show_brackets(tree)
    assert parse_brackets(written) == tree
    assert "\n" not in written
    assert show_brackets(parse_brackets(written)) == written


@given(st.lists(trees, max_size=5), st.sampled_from([" ", "\n", "\n\n  ", ""]))
def test_trees_one_after_the_other_are_read_one_by_one(many, between):
    assert list(read_trees(lines(between.join(map(show_brackets, many))))) == many


@given(trees)
def test_a_tree_may_be_spread_over_lines(tree):
    # after a bracket that no backslash escapes
    spread = re.sub(r"(?<!\\)((?:\\\\)*)\(", r"\1(\n  ", show_brackets(tree))
    assert parse_brackets(spread) == tree
    assert list(read_trees((number, line + "\n") for number, line in enumerate(spread.split("\n"), 1))) == [tree]


def test_a_deep_tree_survives_brackets():
    tree = ["x"]
    for _ in range(20_000):
        tree = ["S", tree]
    assert same(parse_brackets(show_brackets(tree)), tree)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("(a (b c)", r"for every \(, got 1 unclosed after character 0"),
        ("(a) b)", r"begins with \(, got 'b' at character 4"),
        ("(a))", r"got '\)' at character 3"),
        ("dog", "got 'dog' at character 0"),
        ("(a) (b)", "must contain one tree, got 2"),
        ("", "must contain one tree, got 0"),
    ],
)
def test_bad_brackets_are_refused_with_their_place(written, message):
    with pytest.raises(ValueError, match=message):
        parse_brackets(written)


def test_what_is_no_tree_has_no_brackets():
    for thing in ("dog", ["a", None], ["a", 1], [{"a": "b"}]):
        with pytest.raises(TypeError, match="list"):
            show_brackets(thing)
    tree = ["a"]
    tree.append([tree])
    with pytest.raises(ValueError, match="contain itself"):
        show_brackets(tree)


# Triples

fields = st.text(st.characters(exclude_characters="\t\n\r"), min_size=1)


@given(st.lists(st.tuples(st.tuples(fields, fields), fields)), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_triples_survive_writing(pairs, end):
    written = [show_triple(pair) + end for pair in pairs]
    assert list(read_triples(enumerate(written, 1))) == pairs


def test_a_triple_is_a_context_and_a_tail():
    assert list(read_triples([(1, "dog.n.01\t_hypernym\tcanine.n.02\n")])) == [
        (("dog.n.01", "_hypernym"), "canine.n.02")
    ]


@pytest.mark.parametrize("line", ["a\tb\n", "a\tb\tc\td\n", "a b c\n", "a\t\tc\n", "\t\t\n", " \n"])
def test_a_line_that_is_no_triple_is_refused(line):
    with pytest.raises(ValueError, match="line 2: expected head TAB relation TAB tail, got"):
        list(read_triples([(1, "a\tb\tc\n"), (2, line)]))


@pytest.mark.parametrize("pair", [(("a",), "b"), (("a", 1), "b"), (("a", "b\t"), "c"), (("a", "b"), ""), ((), None)])
def test_what_is_no_triple_is_not_written(pair):
    with pytest.raises(ValueError, match="A triple must be"):
        show_triple(pair)


# CoNLL-U

SENTENCE = """\
# sent_id = s-1
# text = I don't_
1\tI\tI\tPRON\tPRP\tCase=Nom|Person=1\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\t_\t_\t_\t_\t2:dep\t_
4\t_\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_

"""


def test_a_sentence_is_a_document_of_its_tokens():
    assert dict(read_conllu(lines(SENTENCE))) == {
        "s-1": {
            1: {"form": "I", "upos": "PRON", "head": 2, "deprel": "nsubj"},
            "2-3": {"form": "don't"},
            2: {"form": "do", "upos": "AUX", "head": 0, "deprel": "root"},
            3: {"form": "n't", "upos": "PART", "head": 2, "deprel": "advmod"},
            "3.1": {"form": "go", "upos": "VERB"},
            4: {"form": "_", "upos": "PUNCT", "head": 2, "deprel": "punct"},
        }
    }


def test_all_fields_give_the_text_back():
    sentences = dict(read_conllu(lines(SENTENCE), FIELDS[1:]))
    assert show_conllu(rebuild(flatten(sentences))) == SENTENCE.replace("# text = I don't_\n", "")


def test_without_a_sent_id_a_sentence_has_its_number():
    line = "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n"
    written = f"{line}\n\n# sent_id = x\n{line}\n{line.strip()}"
    assert list(read_conllu(lines(written), ["form"])) == [
        (0, {1: {"form": "a"}}),
        ("x", {1: {"form": "a"}}),
        (2, {1: {"form": "a"}}),
    ]
    assert list(read_conllu(lines(line), ["lemma"])) == [(0, {1: {}})]


values = st.text(st.characters(exclude_characters="\t\n\r"), min_size=1).filter(lambda value: value != "_")
names = values.map(str.strip).filter(bool)
tokens = st.fixed_dictionaries(
    {"form": values},
    optional={field: values for field in FIELDS[2:] if field != "head"} | {"head": st.integers(0, 99)},
)
ids = st.integers(1, 99) | st.builds("{}-{}".format, st.integers(1, 9), st.integers(10, 12))
sentence = st.dictionaries(ids, tokens, min_size=1, max_size=4)


@given(st.dictionaries(names, sentence, max_size=3) | st.lists(sentence, min_size=1, max_size=3))
def test_sentences_survive_writing(sentences):
    back = read_conllu(lines(show_conllu(sentences)), FIELDS[1:])
    assert dict(back) == (sentences if isinstance(sentences, dict) else dict(enumerate(sentences)))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("1\tdog\n", "line 2: expected 10 fields separated by tabs, got 2"),
        ("0\tdog" + "\t_" * 8, "line 2: the id of a token must be a number from 1.*'0'"),
        ("x\tdog" + "\t_" * 8, "line 2: the id of a token must be"),
        ("1\tdog\t_\t_\t_\t_\tx\t_\t_\t_", "line 2: the head of a token must be .*'x'"),
        ("1\tdog\t_\t_\t_\t_\t-1\t_\t_\t_", "line 2: the head of a token must be"),
        ("1\tdog" + "\t_" * 8 + "\n1\tcat" + "\t_" * 8, "line 3: the ids of a sentence must be unique, got 1 again"),
        ("1\ta" + "\t_" * 8 + "\n\n# sent_id = a\n1\tb" + "\t_" * 8, "line 4: sent_id must be unique.*line 1 already"),
    ],
)
def test_bad_conllu_is_refused_with_its_line(written, message):
    with pytest.raises(ValueError, match=message):
        list(read_conllu(lines("# sent_id = a\n" + written)))


def test_a_comment_of_many_spaces_is_read_at_once():
    """40,000 took nine seconds."""
    begun = time.process_time()
    comment = "# sent_id =" + " " * 1_000_000
    assert list(read_conllu(lines(f"{comment}\n{comment}x\n1\ta" + "\t_" * 8))) == [("x", {1: {"form": "a"}})]
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("head", ["9" * 3_500, "9" * 5_000])
def test_a_number_that_is_no_label_can_be_skipped(head):
    bad = []
    written = f"1\ta\t_\t_\t_\t_\t{head}\t_\t_\t_\n{head}\tb" + "\t_" * 8
    assert list(read_conllu(lines(written), refuse=lambda *what: bad.append(what[0]))) == []
    assert bad == [1, 2]


@pytest.mark.parametrize("chosen", [["word"], ["id"], "form", []])
def test_unknown_fields_are_refused(chosen):
    with pytest.raises(ValueError, match="fields must be a list of names from form, lemma"):
        list(read_conllu([], chosen))


@pytest.mark.parametrize(
    "sentences",
    [{"a\nb": {1: {}}}, {" a": {}}, {"": {}}, {"a": {1: {"form": "x\ty"}}}, {"a": {"x": {}}}, {"a": {0: {}}}],
)
def test_what_conllu_cannot_say_is_not_written(sentences):
    with pytest.raises(ValueError, match="must"):
        show_conllu(sentences)


# Tables


def test_a_table_has_its_rows_by_number_or_by_key():
    written = 'name,age,city\nAnna,7,"Bad ""X"", Y"\n\nBen,,\n'
    rows = [{"name": "Anna", "age": "7", "city": 'Bad "X", Y'}, {"name": "Ben", "age": "", "city": ""}]
    assert list(read_table(lines(written))) == list(enumerate(rows))
    assert dict(read_table(lines(written), key="name")) == {
        row["name"]: {"age": row["age"], "city": row["city"]} for row in rows
    }
    assert list(read_table(lines("name\tage\nA,B\t7\n"))) == [(0, {"name": "A,B", "age": "7"})]
    assert list(read_table([])) == []


cells = st.text(st.characters(codec="utf-8"))
awkward = st.text(st.sampled_from("\t;,\"'\r\n a"))
headers = st.lists(cells | awkward, min_size=1, max_size=4, unique=True)


@given(headers, st.data())
def test_a_table_survives_writing(header, data):
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(header, cells | awkward)), min_size=1))
    for delimiter in DELIMITERS:  # rows may have the columns in another order
        back = list(read_table(lines(show_table(rows, delimiter=delimiter))))
        assert back == list(enumerate(rows))
        assert rebuild(((number, *path), value) for number, row in back for path, value in flatten(row)) == rows


@given(headers, st.data())
def test_a_table_with_a_key_survives_writing(header, data):
    key, *columns = header
    rows = data.draw(st.dictionaries(cells, st.fixed_dictionaries(dict.fromkeys(columns, cells)), min_size=1))
    assert dict(read_table(lines(show_table(rows, key)), key)) == rows


@pytest.mark.parametrize(
    ("header", "delimiter", "columns"),
    [
        ("a,b", ",", ["a", "b"]),
        ("a;b", ";", ["a", "b"]),
        ("a\tb", "\t", ["a", "b"]),
        ("a", ",", ["a"]),
        ("a, b, c\td", "\t", ["a, b, c", "d"]),  # a tab wins
        ("height, cm;weight, kg;age;sex", ";", ["height, cm", "weight, kg", "age", "sex"]),  # else the more frequent
        ("a;b,c,d", ",", ["a;b", "c", "d"]),
        ("a;b,c", ";", ["a", "b,c"]),
        ('a;"b,c,d"', ";", ["a", "b,c,d"]),  # what is quoted does not count
        ('"a\tb;c;d",e', ",", ["a\tb;c;d", "e"]),
        ('"a ""b;c"";d",e', ",", ['a "b;c";d', "e"]),
        ('5" disk;a', ";", ['5" disk', "a"]),  # within a cell, a quotation mark quotes nothing
        ('"a,\nb,";c', ";", ["a,\nb,", "c"]),  # a header may span lines
    ],
)
def test_the_header_tells_the_delimiter(header, delimiter, columns):
    written = header + "\n" + delimiter.join("x" for _ in columns)
    assert list(read_table(lines(written))) == [(0, dict.fromkeys(columns, "x"))]


def test_a_delimiter_can_be_chosen():
    assert list(read_table(lines("a,b|c\n1,2|3\n"), delimiter="|")) == [(0, {"a,b": "1,2", "c": "3"})]
    for tab in ("\t", "tab", r"\t"):
        assert list(read_table(lines("a,b\tc\n1,2\t3\n"), delimiter=tab)) == [(0, {"a,b": "1,2", "c": "3"})]
    for bad in ("", ";;", '"', "\n"):
        with pytest.raises(ValueError, match="delimiter must be one character"):
            list(read_table(lines("a,b\n1,2\n"), delimiter=bad))


def test_a_header_that_never_ends_is_not_read_to_the_end():
    def endless():
        yield 1, 'a,"b\n'
        yield from ((number, "x" * 1_000 + "\n") for number in range(2, 1_000))
        raise AssertionError

    with pytest.raises(ValueError, match="line 1: expected a row of a table: field larger"):
        list(read_table(endless()))


@pytest.mark.parametrize(
    ("written", "key", "message"),
    [
        ("a,b\n1,2\n3\n", None, "line 3: expected 2 cells, as in the header, got 1"),
        ("\n\na,b\n1,2,3\n", None, "line 4: expected 2 cells"),
        ('a,b\n1,"2\n3,4\n', None, "line 2: expected a row of a table"),
        ('a,b\n1,"2"x\n', None, "line 2: expected a row of a table"),
        ('a,"b\n', None, "line 1: expected a row of a table"),
        ("a,a\n1,2\n", None, "unique names"),
        ("a,b\n1,2\n", "c", r"key must be one of the columns \['a', 'b'\], got 'c'"),
        ('a,b\n1,"2\n"\n1,2\n', "a", "line 4: a must be unique, got '1', which is on line 2 already"),
    ],
)
def test_bad_tables_are_refused_with_their_line(written, key, message):
    with pytest.raises(ValueError, match=message):
        list(read_table(lines(written), key))


def test_a_bad_row_keeps_its_number():
    bad = []
    written = 'a,b\n1,2\n3\n4,"5"x\n6,7\n'
    assert dict(read_table(lines(written), refuse=lambda *what: bad.append(what[0]))) == {
        0: {"a": "1", "b": "2"},
        3: {"a": "6", "b": "7"},
    }
    assert bad == [3, 4]


def test_tables_of_unequal_rows_are_not_written():
    with pytest.raises(ValueError, match=r"Every row must have the columns \['a'\]"):
        show_table([{"a": "1"}, {"b": "1"}])
    for rows, key in (({"x": {"a": "1"}}, None), ([{"a": "1"}], "a")):
        with pytest.raises(ValueError, match="key must be given"):
            show_table(rows, key)


def test_flattening_a_hundred_thousand_values_is_quick():
    """A second or so; ten are allowed on a busy machine."""
    chance = random.Random(0)
    document = {f"row {i}": {f"column {j}": chance.random() for j in range(10)} for i in range(10_000)}
    begun = time.process_time()
    assert rebuild(flatten(document)) == document
    assert time.process_time() - begun < 10
