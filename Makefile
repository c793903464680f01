# The few commands of the project; each installs what is missing first (scripts/setup says what). GRADWIRE_TORCH=2.15.0
# before one of them chooses that version of torch.
.PHONY: demo test bench check docs format build
ROWS ?= *

build:
	@scripts/setup
	@scripts/build release

demo:
	@scripts/setup
	@scripts/build release digits gradwire_program
	@scripts/demo $(if $(KILL),--kill)

test: build
	@scripts/test $$(scripts/build_folder)

bench: build
	@bench/run $(if $(BESIDE),--beside '$(BESIDE)') $(if $(KEEP),--keep '$(KEEP)') '$(ROWS)'

check:
	@scripts/setup lint
	@scripts/check all

docs:
	@scripts/docs

format:
	@scripts/setup lint
	@scripts/sources | xargs clang-format-19 -i
