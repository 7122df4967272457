"""Data structures of vectors: multisets, sequences, n-grams, hash tables, graphs, trees, automata; factorization."""

from carving.structures.containers import HashTable, Multiset, Sequence, Stack
from carving.structures.graphs import Automaton, Graph, Tree
from carving.structures.resonator import Factors, factorize
from carving.structures.vectors import (
    bind_sequence,
    bundle_sequence,
    graph,
    hash_table,
    multiset,
    nearest,
    ngrams,
)

__all__ = [
    "Automaton",
    "Factors",
    "Graph",
    "HashTable",
    "Multiset",
    "Sequence",
    "Stack",
    "Tree",
    "bind_sequence",
    "bundle_sequence",
    "factorize",
    "graph",
    "hash_table",
    "multiset",
    "nearest",
    "ngrams",
]
