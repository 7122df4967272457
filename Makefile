# Every target sets up what it needs: Python 3.11 with pip and venv is enough to start.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo reproduce test test-slow check wheel docs figures format bench bench-large bench-structures bench-labels campaign campaign-table clean

demo: $(READY)
	$(BIN)/carving demo

reproduce: $(READY)
	$(BIN)/carving reproduce --all --scale small

# One process a core, each with one thread (tests/conftest.py).
test: $(READY)
	$(BIN)/pytest -n auto --dist loadgroup

test-slow: $(READY)
	$(BIN)/pytest -m slow

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

wheel: $(READY)
	.ci/wheel $(BIN)/python

# The site, in build/docs: a warning is an error.
docs: $(READY)
	$(BIN)/python docs/pages.py build/pages
	$(BIN)/sphinx-build -W --keep-going -q -j auto -c docs build/pages build/docs

# The figures and the report of results/paper, from the rows that lie there: nothing is run.
figures: $(READY)
	$(BIN)/python docs/reports.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# `make bench BEFORE=../before` also sets this version beside an earlier one, in another checkout.
bench: $(READY)
	$(BIN)/python benchmarks/osc_speed.py
	$(BIN)/python benchmarks/vsa_speed.py
	$(BIN)/python benchmarks/kit_speed.py
	$(BIN)/python benchmarks/clifford_speed.py
	$(BIN)/python benchmarks/labels_speed.py
	$(BIN)/python benchmarks/journal_speed.py
	$(if $(BEFORE),$(BIN)/python benchmarks/against.py "$(BEFORE)")
	$(BIN)/python benchmarks/tables.py

# Experiments that are about this machine or about our theory, anew: an hour or two. The memory that large-vsa
# takes is that of its process, so it comes first and alone.
bench-large: $(READY)
	$(BIN)/carving reproduce large-vsa --scale paper --out build/large
	$(BIN)/carving reproduce calibration capacity-prediction joint-prediction joint-capacity \
		--scale paper --out build/large

bench-structures: $(READY)
	$(BIN)/python benchmarks/structures.py "$(DATA)"

bench-labels: $(READY)
	$(BIN)/python benchmarks/labels_accuracy.py "$(DATA)"

# Attacks on everything that reads or writes files, in two processes: under an hour, `CAMPAIGN=long` ten times as many.
# `make campaign-table` puts its figures into results/campaign.json, and from there into docs/campaign.md and the README.
campaign: $(READY)
	PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(BIN)/python -m pip install -q -c constraints.txt -e .[campaign]
	PYTHONPATH=tests $(BIN)/python -m campaign --out build/campaign --results build/campaign.json \
		$(if $(filter long,$(CAMPAIGN)),--long)

campaign-table: $(READY)
	cp build/campaign.json results/campaign.json
	$(BIN)/python benchmarks/tables.py

clean:
	rm -rf .venv build dist *.egg-info .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# Made last, so that an interrupted installation starts again.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(BIN)/python -m pip install -q -c constraints.txt -e .[dev]
	touch $@
