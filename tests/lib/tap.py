# SPDX-License-Identifier: BSD-2-Clause
"""TAP output for tests written in Python: the counterpart of tests/harness.h.

    import tap
    with tap.case("adds two numbers"):
        tap.equal(1 + 1, 2, "sum")
    tap.done()

A case fails when an exception leaves it; the run goes on with the next one.
"""
import contextlib
import sys
import traceback

_count = 0
_failures = 0


class Skip(Exception):
    """Raise inside a case, with the reason, when this machine cannot run it."""


def say(text):
    for line in str(text).splitlines():
        print("# " + line)
    sys.stdout.flush()


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: found {found!r}, expected {expected!r}")


@contextlib.contextmanager
def case(name):
    global _count, _failures
    _count += 1
    name = name.replace("#", "\\#")
    try:
        yield
    except Skip as reason:
        print(f"ok {_count} - {name} # SKIP {reason}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: a test may fail in any way
        _failures += 1
        print(f"not ok {_count} - {name}")
        if isinstance(error, AssertionError):
            say(error)
        else:
            say("".join(traceback.format_exception(error)))
    else:
        print(f"ok {_count} - {name}")
    sys.stdout.flush()


def done():
    print(f"1..{_count}")
    sys.exit(1 if _failures else 0)
