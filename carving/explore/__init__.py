"""The explorer: a local web page that shows a memory, queries it, changes a copy of it, and plans others.

`server.py` authenticates requests and serves the page, `routes.py` is the table of requests, and each other module
serves one view. docs/explore.md describes the JSON interface.
"""

from carving.explore.serving import serve
from carving.explore.sessions import MemoryDocument

__all__ = ["MemoryDocument", "serve"]
