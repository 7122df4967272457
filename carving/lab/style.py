"""How every figure looks: a colour and a mark for each series, the same in all of them, and words for what is measured."""

# Okabe and Ito's colours, which differ in brightness too and for the colour-blind.
BLACK, BLUE, ORANGE, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
PINK, SKY, YELLOW = "#CC79A7", "#56B4E9", "#E69F00"
GREY = "#9A9A9A"
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "svg.hashsalt": "carving",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
