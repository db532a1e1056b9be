# Thin front: each target is one line that calls the build system or a script.
BUILD ?= build
SEED ?= 1

.PHONY: all deps demo check check-fresh check-serve-sanitized check-tsan sim soak fuzz bench bench-copy lint format install clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD)

deps:
	scripts/install-packages.sh check

demo:
	scripts/install-packages.sh build
	$(MAKE) --no-print-directory all
	demo/demo.sh

check: deps
	scripts/check.sh

check-fresh:
	scripts/check-fresh.sh

check-serve-sanitized: deps
	scripts/check-serve-sanitized.sh

check-tsan: deps
	scripts/check-tsan.sh

sim: all
	$(BUILD)/tests/sim/test_crash --seed $(SEED) -v

soak: all
	BUILD=$(BUILD) scripts/soak.sh

fuzz: deps
	scripts/fuzz.sh

bench:
	scripts/install-packages.sh build
	$(MAKE) --no-print-directory all
	perf/bench.py --build $(BUILD)

bench-copy: all
	perf/copy.sh

lint: deps all
	scripts/lint.sh

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	meson install -C $(BUILD)

clean:
	rm -rf $(BUILD) $(BUILD)-*
