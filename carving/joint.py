"""`carving.joint.decode`, where it was first: it lives in `carving.answers.together`."""

from carving.answers.together import Decoded, decode

__all__ = ["Decoded", "decode"]
