# SPDX-License-Identifier: BSD-2-Clause
"""Completion in bash: commands, options and values, as the command's own help has them."""
import os
import subprocess

import tap

SCRIPT = os.path.join(os.environ["BRAID_SOURCE"], "completions/braid.bash")


def complete(*words):
    """What bash offers for the last of the words."""
    program = (
        f'source "{SCRIPT}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _braid;'
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    output = subprocess.run(
        ["bash", "-c", program, "bash", os.environ["BRAID"], *words],
        check=True, capture_output=True, text=True,
    ).stdout
    return output.split()


with tap.case("commands"):
    tap.equal({"examine", "detail", "read"} <= set(complete("")), True, "all")
    tap.equal(complete("ex"), ["examine"], "one")

with tap.case("options of a command"):
    tap.equal("--offset" in complete("read", "--"), True, "read --offset")
    tap.equal("--offset" in complete("detail", "--"), False, "detail --offset")
    tap.equal(complete("read", "--read-p"), ["--read-policy"], "read --read-policy")
    tap.equal(complete("detail", "--js"), ["--json"], "detail --json")
    tap.equal({"--input", "--offset", "--force"} <= set(complete("write", "--")), True, "write")
    tap.equal("--shared" in complete("write", "--"), False, "write --shared")
    tap.equal(complete("scrub", "--re"), ["--repair"], "scrub --repair")
    tap.equal(complete("rebuild", "--sp"), ["--speed-max"], "rebuild --speed-max")

with tap.case("workloads of the bench and their options"):
    tap.equal({"mixed", "rawio"} <= set(complete("bench", "")), True, "all")
    tap.equal(complete("bench", "ra"), ["rawio"], "one")
    tap.equal(complete("bench", "rawio", "--proc"), ["--processes"], "rawio --processes")
    tap.equal(complete("bench", "mixed", "--proc"), [], "mixed --processes")
    tap.equal(complete("bench", "mixed", "--data", "z"), ["zero"], "--data")
    tap.equal(complete("bench", "mixed", "--depth", "1"), [], "--depth")

with tap.case("values"):
    tap.equal(complete("read", "--bad", ""), ["fail", "zero"], "--bad")
    tap.equal(complete("detail", "--layout", "a"), ["alternate"], "--layout")
    policies = ["expected-time", "first", "md", "round-robin"]
    tap.equal(sorted(complete("read", "--read-policy", "")), policies, "--read-policy")
    tap.equal(complete("rebuild", "--speed-max", "1"), [], "--speed-max")

with tap.case("members are files"):
    found = complete("read", os.environ["BRAID_SOURCE"] + "/READ")
    tap.equal(found, [os.environ["BRAID_SOURCE"] + "/README.md"], "files")
    found = complete("write", "-i", os.environ["BRAID_SOURCE"] + "/READ")
    tap.equal(found, [os.environ["BRAID_SOURCE"] + "/README.md"], "input")

tap.done()
