# SPDX-License-Identifier: Apache-2.0
# A thin front: CMake and Ninja do the work, CMakePresets.json says what each build/<preset> is.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 15

.DEFAULT_GOAL = help
.PHONY: help bootstrap build run run-cluster run-multi-worker test test-python notebooks growth listings python check asan asan-python tsan far interop interop-python chaos test-slurm fuzz tidy bench bench-input bench-canned bench-cluster bench-coordinator bench-fit bench-predictor bench-python bench-allreduce bench-multi-worker cuda check-cuda install format size clean

help:     ## this list
	@echo 'Estoc: make <target>'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

bootstrap: ## install the Debian packages the build needs, if any is missing
	@scripts/bootstrap

build:    ## compile everything into build/release
build: build/release/build.ninja
	@cmake --build build/release

run:      ## train, evaluate and export a CNN on Fashion-MNIST; names the directories of the curves and of the model
run: build/release/build.ninja
	@cmake --build build/release --target examples/fashion_mnist_cnn
	build/release/examples/fashion_mnist_cnn

run-cluster: ## the same on a cluster of processes on this machine, over TLS: chief, worker, parameter server, evaluator
run-cluster: build/release/build.ninja
	@cmake --build build/release --target estoc examples/fashion_mnist_cnn
	build/release/estoc launch --ps 1 --workers 1 --evaluator -- \
	    build/release/examples/fashion_mnist_cnn --model-dir "$$(mktemp -d -t estoc-cluster-XXXXXX)"

run-multi-worker: ## the same with two workers that make every step together (multi_worker_mirrored): an epoch, evaluated by both
run-multi-worker: build/release/build.ninja
	@cmake --build build/release --target estoc examples/fashion_mnist_cnn
	build/release/estoc launch --no-chief --workers 2 -- \
	    build/release/examples/fashion_mnist_cnn --epochs 1 --strategy multi_worker_mirrored \
	    --model-dir "$$(mktemp -d -t estoc-multi-worker-XXXXXX)"

test:     ## build, then run the suite, and that of the Python package
test: build
	@scripts/run-tests build/release -LE interop
	@$(MAKE) --no-print-directory test-python

test-python: ## the tests of the Python package on build/release (sets up build/python-venv); TESTS="-k dataset" selects
test-python: build/release/build.ninja
	@cmake --build build/release --target libestoc.so libestoc_cuda_on_cpu.so
	@scripts/python-env --tests
	@build/python-venv/bin/python python/build_native.py build/python --library build/release
	@PYTHONPATH="$(CURDIR)/build/python" build/python-venv/bin/python -m pytest -q -p no:cacheprovider python/tests $(TESTS)

notebooks: ## the notebooks of docs/notebooks in a kernel of IPython (sets up build/notebook-venv)
notebooks: build/release/build.ninja
	@cmake --build build/release --target libestoc.so
	@scripts/python-env --tests
	@scripts/python-env --notebooks
	@build/python-venv/bin/python python/build_native.py build/python --library build/release
	@ESTOC_NOTEBOOK_PYTHON="$(CURDIR)/build/notebook-venv/bin/python" PYTHONPATH="$(CURDIR)/build/python" \
	    build/python-venv/bin/python -m pytest -q -p no:cacheprovider python/tests/test_notebooks.py

growth:   ## 200000 iterations of training, predicting and reading datasets in Python, whose memory must not grow; N=5000
growth: build/release/build.ninja
	@cmake --build build/release --target libestoc.so
	@scripts/python-env
	@build/python-venv/bin/python python/build_native.py build/python --library build/release
	@PYTHONPATH=build/python build/python-venv/bin/python python/tests/growth.py $(or $(N),200000)

listings: ## programs for TensorFlow, run with estoc.tf in place of it: DIR has harness/run.py; ONLY="06 07" selects
listings: build/release/build.ninja
	@cmake --build build/release --target libestoc.so
	@scripts/python-env
	@build/python-venv/bin/python python/build_native.py build/python --library build/release
	@build/python-venv/bin/python "$(DIR)/harness/run.py" --backend estoc --python "$(CURDIR)/build/python-venv/bin/python" \
	    --pythonpath "$(CURDIR)/build/python" $(ONLY)

python:   ## a self-contained wheel of the Python package with libestoc and the tool inside, in build/wheel
python: bootstrap
	@scripts/python-env
	@scripts/python-env --wheel
	@rm -rf build/wheel && mkdir -p build/wheel/linked
	@build/python-venv/bin/python -c 'import sys; sys.path.insert(0, "python"); import backend; backend.build_wheel("build/wheel/linked")'
	@PATH="$$PWD/build/wheel-venv/bin:$$PATH" auditwheel repair -w build/wheel build/wheel/linked/*.whl >build/wheel/auditwheel.log 2>&1 || { cat build/wheel/auditwheel.log; exit 1; }
	@ls build/wheel/*.whl

check:    ## format, layers, banned functions, headers, gcc and clang warnings, the ABI, scripts, manifests
check: bootstrap
	@scripts/check

asan:     ## the suite under AddressSanitizer and UndefinedBehaviorSanitizer; SHORT=1: without what takes long
asan: build/asan/build.ninja
	@cmake --build build/asan
	@$(if $(SHORT),ESTOC_TEST_SHORT=1) scripts/run-tests build/asan -LE 'interop$(if $(SHORT),|long)'

asan-python: ## the tests of the Python package on libestoc under both sanitizers, with a search for leaks; TESTS="-k dataset" selects
asan-python: build/asan/build.ninja
	@cmake --build build/asan --target libestoc.so
	@scripts/python-env --tests
	@scripts/asan-python $(TESTS)

tsan:     ## the tests that use threads, under ThreadSanitizer; SHORT=1 likewise
tsan: build/tsan/build.ninja
	@cmake --build build/tsan
	@$(if $(SHORT),ESTOC_TEST_SHORT=1) scripts/run-tests build/tsan -L threads $(if $(SHORT),-LE long)

far:      ## the tests that run on a far device (CPU kernels, memory that the host cannot touch), in release, asan and tsan
far: build/release/build.ninja build/asan/build.ninja build/tsan/build.ninja
	@for kind in release asan tsan; do cmake --build build/$$kind && \
	    scripts/run-tests build/$$kind -L far || exit 1; done

interop:  ## exchange files of every format with TensorFlow (sets it up under build/), and compare values; SHORT=1: files alone
interop: build
	@scripts/tensorflow-env
	@scripts/run-tests build/release -L interop
	@ESTOC_TENSORFLOW=build/bench-venv/bin/python $(MAKE) --no-print-directory test-python TESTS="-k tensorflow"
	@$(if $(SHORT),,$(MAKE) --no-print-directory interop-python)

interop-python: ## the part of it that compares estoc.tf with TensorFlow, value by value; CASES="tf.pow fit" selects
interop-python: build/release/build.ninja
	@cmake --build build/release --target libestoc.so
	@scripts/tensorflow-env
	@scripts/python-env
	@build/python-venv/bin/python python/build_native.py build/python --library build/release
	@PYTHONPATH="$(CURDIR)/build/python" build/python-venv/bin/python python/tests/interop.py "$(CURDIR)/build/bench-venv/bin/python" $(CASES)

chaos:    ## 20 jobs a mode whose tasks are killed, stopped and cut off at random moments; MODE=async|sync_replicas|consistent|tls|ucx|evaluator|keys|sync_replicas_keys|term|multi_worker|multi_worker_keys|coordinator, SEED=7: only these; SEEDS=1000: as many
chaos: build
	@ESTOC_CHAOS_MODE=$(MODE) ESTOC_CHAOS_SEED=$(SEED) ESTOC_CHAOS_SEEDS=$(if $(SEEDS),$(SEEDS),$(if $(SEED),1,20)) \
	    build/release/tests/test_cluster_chaos

test-slurm: ## run deploy/slurm under a Slurm of its own on this machine (installs slurm-wlm, needs root)
test-slurm: build
	@scripts/test-slurm

fuzz:     ## run every fuzzer of tests/fuzz for FUZZ_SECONDS (15); FUZZ="wire event" runs only these
fuzz: build/fuzz/build.ninja
	@cmake --build build/fuzz
	@scripts/fuzz $(FUZZ_SECONDS) $(FUZZ)

tidy:     ## clang-tidy over the library and the examples
tidy: build/clang/build.ninja
	@scripts/tidy

bench:    ## compare with TensorFlow and PyTorch (sets both up under build/); BENCH="gemm" runs single programs instead
bench: build/dist/build.ninja
	@cmake --build build/dist
ifdef BENCH
	@for name in $(BENCH); do echo "== $$name"; "build/dist/bench/$$name" || exit 1; done
else
	@scripts/bench-env
	@bench/compare
endif

bench-input: ## compare files and input with tf.data and pandas; CENSUS=adult.data adds that file
bench-input: build/dist/build.ninja
	@cmake --build build/dist
	@scripts/bench-env
	@bench/compare-input $(if $(CENSUS),--census $(CENSUS))

bench-canned: ## compare the canned wide & deep model with TensorFlow's, from files to updated variables
bench-canned: build/dist/build.ninja
	@cmake --build build/dist
	@scripts/bench-env
	@bench/compare-canned

bench-cluster: ## compare clusters with TensorFlow's; BENCH="null_step" (or push_pull, sparse_rows, cluster, scaling) answers one question
bench-cluster: build/dist/build.ninja
	@cmake --build build/dist
	@scripts/bench-env
	@bench/compare-cluster $(if $(BENCH),--only $(BENCH))

bench-coordinator: ## compare calls of a coordinator with TensorFlow's; BENCH="calls" (or model, scaling, floor) answers one question
bench-coordinator: build/dist/build.ninja
	@cmake --build build/dist --target bench/coordinator bench/cluster bench/wake
	@scripts/bench-env
	@bench/compare-coordinator $(if $(BENCH),--only $(BENCH))

bench-predictor: ## compare calls of a predictor with TensorFlow's of the same SavedModel
bench-predictor: build/dist/build.ninja
	@cmake --build build/dist --target bench/predictor
	@scripts/bench-env
	@bench/compare-predictor

bench-fit: ## compare a network's fit with the bare step and with Keras' fit
bench-fit: build/dist/build.ninja
	@cmake --build build/dist --target bench/fit
	@scripts/bench-env
	@bench/compare-fit

bench-python: ## compare what Python programs wait for with TensorFlow; BENCH="eager_op,fit_line" selects, DIR adds whole programs
bench-python: build/dist/build.ninja
	@cmake --build build/dist --target libestoc.so bench/fit
	@scripts/bench-env
	@scripts/python-env --tests
	@build/python-venv/bin/python python/build_native.py build/python-dist --library build/dist
	@build/python-venv/bin/python bench/compare-python $(if $(BENCH),--only $(BENCH)) $(if $(DIR),--listings "$(DIR)")

bench-allreduce: ## compare all-reduce between processes with Open MPI and Gloo, where they are installed; NETWORKS=1: between network namespaces
bench-allreduce: build/dist/build.ninja
	@cmake --build build/dist --target bench/all_reduce bench/net
	@bench/compare-allreduce $(if $(NETWORKS),--networks)

bench-multi-worker: ## compare two workers of multi-worker training with one, with TensorFlow's and with PyTorch's
bench-multi-worker: build/dist/build.ninja
	@cmake --build build/dist --target bench/multi_worker
	@scripts/bench-env
	@bench/compare-multi-worker

cuda:     ## build libestoc_cuda.so, the plug-in with the GPUs, into build/dist, where nvcc is found
cuda: build/dist/build.ninja
	@cmake --build build/dist --target estoc_cuda

check-cuda: ## compile and link the plug-in for its errors and warnings alone, not optimised: a third less time
check-cuda: build/cuda/build.ninja
	@cmake --build build/cuda --target estoc_cuda

install:  ## install the libraries, headers, tool and man pages under PREFIX (/usr/local)
install: bootstrap
	@cmake --preset dist -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	@cmake --build build/dist --target estoc_installed
	@cmake --install build/dist

format:   ## clang-format every C file in place
	@scripts/format

size:     ## what is longer than it should be
	@scripts/size

clean:    ## remove what was built (what scripts/tensorflow-env and scripts/bench-env downloaded stays)
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name 'bench-*' -exec rm -rf {} +

# Ninja runs CMake again by itself when a CMake file or the list of sources changes.
build/%/build.ninja: CMakePresets.json | bootstrap
	@cmake --preset $*
