"""`carving.experiments`, where experiments were first: they live in `carving.lab`."""

import sys

from carving import lab
from carving.lab import experiment, measures

sys.modules |= {__name__: lab, f"{__name__}.experiment": experiment, f"{__name__}.measures": measures}
