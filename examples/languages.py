"""Language identification: texts as bundles of letter trigrams, compared with three reference texts.

prints:
english: the cat sat by the window and slept
german: die katze lag am fenster und schlief
spanish: el gato duerme junto a la ventana
"""

import torch

from carving import make
from carving.structures import ngrams

TEXTS = {
    "english": "all human beings are born free and equal in dignity and rights they are endowed with reason and "
    "conscience and should act towards one another in a spirit of brotherhood everyone has the right to life",
    "german": "alle menschen sind frei und gleich an rechten geboren sie sind mit vernunft und gewissen begabt und "
    "sollen einander im geiste der solidarität begegnen jeder hat das recht auf leben und freiheit",
    "spanish": "todos los seres humanos nacen libres e iguales en dignidad y derechos y dotados como están de razón y "
    "conciencia deben comportarse fraternalmente los unos con los otros todo individuo tiene derecho a la vida",
}
scheme = make("BSC", d=8192)


def encode(text):
    """Bundle the letter trigrams of a text."""
    return ngrams(scheme, scheme.fillers(list(text)), 3)


languages = torch.stack([encode(text) for text in TEXTS.values()])
for text in (
    "the cat sat by the window and slept",
    "die katze lag am fenster und schlief",
    "el gato duerme junto a la ventana",
):
    best = scheme.similarity(encode(text), languages).argmax()
    print(f"{list(TEXTS)[best]}: {text}")
