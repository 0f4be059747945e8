# Thin on purpose: each target is one or two plain commands, and README shows them.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
VENDOR := book/node_modules/.ready
PLAIN := _build/plain/packages

# A file's tests stay together, and files come in their order: chapters, which take longest, first.
TWO_AT_A_TIME := -n 2 --dist loadscope --no-loadscope-reorder

FITS := 'import sys; print("yes" if (3, 11) <= sys.version_info[:2] <= (3, 13) else "")'
NEEDS_PYTHON = Python 3.11, 3.12 or 3.13 is needed, and '$(PYTHON)' is none of them. Name yours: make PYTHON=python3.12
NEEDS_COMPILER = A C++ compiler is needed (torch.compile calls one). Install g++: 'apt install g++', on macOS 'xcode-select --install'

.PHONY: book serve test test-all quick lab execute colab t4 record slides pdf epub grade lint repository release check clean

ifneq ($(filter-out plain,$(SPHINX)),)
$(error SPHINX is '$(SPHINX)', and there is 'plain' alone: make book SPHINX=plain builds without Jupyter Book)
endif
ifndef SPHINX
book: $(READY) $(VENDOR)            ## the site, from the stored outputs, into _build/html
	$(BIN)/jupyter-book build . -W -n --keep-going
	@echo "Open _build/html/index.html, or run 'make serve' and open http://127.0.0.1:8000"
else
book: $(PLAIN)/.ready $(VENDOR)
	PYTHONPATH=$(PLAIN) $(BIN)/python -m sphinx -W -n --keep-going -c book/sphinx -d _build/plain/doctrees . _build/plain/html
endif

serve: book                         ## the site on loopback
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

quick: $(READY)                     ## while typing: the packages and the notebook rules, nothing that starts other programs
	$(BIN)/python -m pytest --ring quick $(TWO_AT_A_TIME) --ignore=tests/site tests $(ARGS)

test: book                          ## before a commit: every notebook, the packages, the site in a browser
	$(BIN)/python -m pytest --nbval $(TWO_AT_A_TIME) --durations=12 $(ARGS)

test-all: book                      ## before a release: that, each notebook twice, and what is slow or one case of many
	$(BIN)/python -m pytest --nbval --ring all $(TWO_AT_A_TIME) --durations=30 $(ARGS)

lab: $(READY)                       ## JupyterLab on the notebooks
	$(BIN)/jupyter trust notebooks/*.ipynb > /dev/null && $(BIN)/jupyter lab notebooks

execute: $(READY)                   ## run notebooks, store their outputs, mark which code folds; ONLY=01_graph_breaks for one
	$(BIN)/python book/tools/execute.py $(ONLY) && $(BIN)/python book/tools/folds.py

colab: $(READY)                     ## run notebooks with Colab's versions, installed as there; ONLY=01_graph_breaks for one
	$(BIN)/python book/tools/colab.py $(ONLY)

t4: $(READY)                        ## run notebooks on this machine's GPU as if it were a T4; ONLY=01_graph_breaks for one
	PYTHONPATH=book/tools/as_t4 $(BIN)/python book/tools/rehearse.py $(ONLY)

record: $(READY)                    ## measure on this machine's GPU: NAMES="machine"
	$(BIN)/python -m chapters.record $(NAMES)

slides: $(READY) $(VENDOR)          ## slides from chapters, into _build/slides; ONLY=01_graph_breaks for one
	$(BIN)/python book/tools/slides.py $(ONLY)

pdf: book                           ## the book as one file a language, into _build/print; Chromium or Chrome prints it
	$(BIN)/python book/tools/print_book.py pdf && $(BIN)/python book/tools/print_book.py pdf --site _build/html/es

epub: book                          ## the same for readers of e-books
	$(BIN)/python book/tools/print_book.py epub && $(BIN)/python book/tools/print_book.py epub --site _build/html/es

grade: $(READY)                     ## run notebooks that students handed in, list their marks: FILES="handed_in/*.ipynb"
	$(BIN)/python book/tools/grade.py $(FILES)

lint: $(READY)                      ## ruff, notebooks included; who may import whom; types; code that nothing reaches
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python book/tools/unused.py

repository: $(READY)                ## make repository URL=https://github.com/OWNER/NAME
	$(BIN)/python book/tools/repository.py $(URL)

release: $(if $(VERSION),$(READY),book) ## is everything there? VERSION=1.0.0 writes the version and its tag before
	$(BIN)/python book/tools/release.py $(VERSION)

check:                              ## is there a Python and a C++ compiler to work with?
	@$(if $(shell $(PYTHON) -c $(FITS) 2>/dev/null),,$(error $(NEEDS_PYTHON)))
	@$(if $(shell command -v $${CXX:-g++} || command -v clang++),,$(error $(NEEDS_COMPILER)))

$(READY): requirements.txt pyproject.toml | check
	$(PYTHON) -m venv .venv && $(BIN)/pip install -q -r requirements.txt
	$(BIN)/pip install -q --no-deps --no-build-isolation -e . && touch $@

$(PLAIN)/.ready: book/sphinx/requirements.txt $(READY)
	rm -rf $(PLAIN) && $(BIN)/pip install -q --no-deps --target $(PLAIN) -r $< && touch $@

$(VENDOR): book/package-lock.json $(READY)
	$(BIN)/npm ci --prefix book --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@

clean:                              ## forget what was built; the environment stays
	rm -rf _build book/node_modules
