"""The explorer: a page on this machine that shows a memory, asks it, changes a copy of it, and plans others.

`server.py` guards the door, `routes.py` is the table of what can be asked, and every other file translates one view's
questions to the library and its answers to JSON. docs/explore.md describes that JSON.
"""

from carving.explore.exhibit import Exhibit
from carving.explore.serving import serve

__all__ = ["Exhibit", "serve"]
