# SPDX-License-Identifier: BSD-2-Clause
"""The random driver over seeds that nobody has seen: they begin with a number that changes with the
commit, or with BRAID_SEED.

    run_crash.py DRIVER PART    PART 0, 1, ... of the seeds, each BRAID_SIM_SEEDS long"""
import os
import sys

import runner

count = int(os.environ.get("BRAID_SIM_SEEDS") or 50000)
driver, part = sys.argv[1], int(sys.argv[2])
os.execv(driver, [driver, "--again", "--from", str(runner.seed() + part * count), "--count", str(count)])
