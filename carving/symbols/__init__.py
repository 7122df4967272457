"""Labels and paths: their canonical bytes, checked paths, and vocabularies of many values."""
