def pages(): return {"report/index.md": b"# Report\n"}
