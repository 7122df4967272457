"""Files of pairs: documents, graphs, trees, treebanks and tables, read and written; and DataFrames.

    for path, value in pairs("wn18rr_train.tsv.xz"):
        ...

Each format is one module with its reader and writer (`jsons`, `anypairs`, `tables`, `triples`, `conllu`, `brackets`),
and one row of `registry.FORMATS`.
"""

from carving.formats.brackets import parse_brackets, show_brackets
from carving.formats.documents import Document, Pair, flatten, rebuild
from carving.formats.frames import frame_pairs, is_frame
from carving.formats.parts import shared
from carving.formats.reading import Pairs, pairs
from carving.formats.registry import FORMATS, Format
from carving.formats.sources import BROKEN, COMPRESSIONS, BadLineError, Source
from carving.formats.writing import write

__all__ = [
    "BROKEN",
    "COMPRESSIONS",
    "FORMATS",
    "BadLineError",
    "Document",
    "Format",
    "Pair",
    "Pairs",
    "Source",
    "flatten",
    "frame_pairs",
    "is_frame",
    "pairs",
    "parse_brackets",
    "rebuild",
    "shared",
    "show_brackets",
    "write",
]
