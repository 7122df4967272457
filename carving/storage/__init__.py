"""Everything that puts bytes on disk: locks, atomic writes, files of tensors, journals, and files of memories."""
