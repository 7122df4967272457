"""How figures look: a color, a mark and a dash for each series, the same in every panel and figure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

# Okabe and Ito's colors, which differ in brightness too and for the color-blind.
BLACK, BLUE, ORANGE, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
PINK, SKY, YELLOW = "#CC79A7", "#56B4E9", "#E69F00"
GREY = "#8C8C8C"
STYLE = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "svg.hashsalt": "carving",
    "svg.fonttype": "path",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
MINOR = frozenset(  # architectures that are grey among many
    ("HRR", "FHRR", "GHRR", "VTB", "MBAT", "MAP-I", "MAP-B", "MAP-C", "BSC", "BSDC-CDT", "BSDC-S", "BSDC-SEG", "CGR")
)
EMPHASISED = 7  # series with a color of their own; the others are grey, with their names beside them
SIZES = 3  # of a family are emphasised: the smallest, the one in the middle, the largest
DASHES = {2: "-", 3: "--", 4: ":", 1: "-."}  # by the order of the memory


Dash = str | tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Look:
    """How one series is drawn."""

    color: str
    marker: str = ""
    dash: Dash = "-"
    hollow: bool = False  # so are marks of order 3
    labeled: bool = False  # its name stands beside it, not in the legend
    faint: bool = False  # one of the grey ones


KNOWN = {  # families that many figures have, the most important first
    "OSC": Look(BLUE, "o"),
    "OSC, compact fillers": Look(GREEN, "^"),
    "OSC, compact fillers, joint decoding": Look(ORANGE, "D"),
    "OSC, compact fillers, joint decoding, spread": Look(YELLOW, "P"),
    "OSC, compact fillers, spread": Look(YELLOW, "P"),
    "OSC, signed contexts": Look(SKY, "v"),
    "OSC, contexts without signs": Look(BLUE, "o"),
    "OSC, signed contexts, compact fillers": Look(GREEN, "^"),
    "quantized, joint": Look(GREEN, "^"),
    "the paper's OSC": Look(BLUE, "o"),
    "compact, joint": Look(ORANGE, "D"),
    "consolidated": Look(PINK, "v"),
    "OSC, causal": Look(BLUE, "o"),
    "OSC together, not causal": Look(ORANGE, "P"),
    "OSC consolidated, not causal": Look(PINK, "D"),  # which is seen below the other
    "TPR": Look(PINK, "v"),
    "HLB": Look(BLACK, "s"),
    "CliffordOSC": Look(ORANGE, "X"),
    "CliffordTPR": Look(YELLOW, "h"),
    "VSA": Look(BLACK, "s"),
    "FHRR": Look(GREEN, "<"),
    "MAP-I": Look(ORANGE, ">"),
    "VTB": Look(SKY, "h"),
}
FREE = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, BLACK)
MARKS = "os^vDPXhp<>*d"
NUMBER = r"\d+(?:,\d{3})*"
SIZE = re.compile(rf", (?:{NUMBER} x )+{NUMBER}|, {NUMBER} numbers|, (?:side|blades)[^,]*")
ORDER = re.compile(r", order \d|, context’s size rounded up")
PAIRS = re.compile(rf", {NUMBER} pairs")
LOUD = re.compile(r"spread [\d.]+")
BITS = re.compile(r", (\d+) bits?$")
BIT_DASHES: dict[int, Dash] = {32: "-", 1: "-", 2: "--", 3: ":", 4: "-.", 8: (0, (4, 1, 1, 1, 1, 1))}


def family(name: str) -> str:
    """The name of a series without its size, order, spread and bits, which its shade, dash and mark show."""
    return BITS.sub("", LOUD.sub("spread", ORDER.sub("", SIZE.sub("", name))))


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for every series of a figure; of more than seven families the least known are grey, of many sizes thin.

    >>> looks(["HLB, 4,096 numbers", "OSC, order 3"])["OSC, order 3"].dash
    '--'
    """
    every = list(dict.fromkeys(names))
    families: dict[str, list[str]] = {}
    for name in every:
        families.setdefault(family(name), []).append(name)
    chosen: dict[str, Look] = {}
    given = _of_families(families)
    for kind, members in families.items():
        sized = [name for name in members if SIZE.search(name)]
        for name in members:
            chosen[name] = _dashed(given[kind], name)
        if len({name.count(" x ") for name in sized}) == 1 < len(sized) and not given[kind].faint:
            for place, name in enumerate(sorted(sized, key=_cells)):
                share = place / (len(sized) - 1)
                color = _mixed(given[kind].color, 0.55 * (1 - share))
                chosen[name] = replace(chosen[name], color=color, labeled=len(sized) > 2)
                if len(sized) > SIZES and place not in (0, len(sized) // 2, len(sized) - 1):
                    chosen[name] = replace(chosen[name], marker="", faint=True)  # thin, and named beside its line
    return {name: chosen[name] for name in every}


def _of_families(families: Mapping[str, list[str]]) -> dict[str, Look]:
    """Known families keep their looks, others take what is free, until seven series are emphasised."""
    known = sorted((kind for kind in families if kind in KNOWN), key=list(KNOWN).index)
    ranked = [*known, *(kind for kind in families if kind not in KNOWN)]
    few, given = len(families) <= EMPHASISED, {}
    taken: dict[str, set[Look]] = {}  # a color, and how it is drawn already
    room = EMPHASISED
    for kind in ranked:
        size = 1 if all(map(SIZE.search, families[kind])) else len(families[kind])
        look = KNOWN.get(kind) or KNOWN.get(PAIRS.sub("", kind))
        if look is None or not _drawn(look, families[kind]).isdisjoint(taken.get(look.color, ())):
            look = next((Look(FREE[at], MARKS[at]) for at in range(len(FREE)) if FREE[at] not in taken), None)
        if look is None or size > room or (not few and kind in MINOR):
            look = Look(GREY, labeled=True, faint=True)
        else:
            taken.setdefault(look.color, set()).update(_drawn(look, families[kind]))
            room -= size
        given[kind] = look
    return given


def _drawn(look: Look, names: Iterable[str]) -> set[Look]:
    """How series of a family are drawn: of a color that is taken, other dashes and marks may be free."""
    return {_dashed(look, name) for name in names}


def _dashed(look: Look, name: str) -> Look:
    order = 3 if name.count(" x ") == 2 else next((order for order in DASHES if f"order {order}" in name), 2)
    rounded, bits = "rounded up" in name, BITS.search(name)
    if bits and not look.faint:
        count = int(bits[1])
        at = (MARKS.find(look.marker) + list(BIT_DASHES).index(count)) % len(MARKS) if count in BIT_DASHES else 0
        return replace(look, dash=BIT_DASHES.get(count, "-"), marker=MARKS[at])
    marker = "x" if rounded else "p" if order == 4 and look.marker else look.marker
    return replace(look, dash=":" if rounded else DASHES[order], hollow=order > 2, marker=marker)


def _cells(name: str) -> float:
    """How large the memory is that a name tells of."""
    found = SIZE.search(name)
    sides = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", found.group())] if found else [0.0]
    product = 1.0
    for side in sides:
        product *= side
    return product


def _mixed(color: str, white: float) -> str:
    """A color, paler."""
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * white):02X}" for part in parts)
