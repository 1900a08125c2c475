# SPDX-License-Identifier: BSD-3-Clause
"""The options of a communicator."""
from . import _library
from ._arrays import type_code
from ._library import INT_MOST, THREAD, TuttiUsageError, refusal, whole

_WHOLE = {"timeout_ms": (0, INT_MOST), "init_timeout_ms": (1, INT_MOST), "deterministic": (0, 1), "learn": (0, 2),
          "fault_level": (0, 3)}


def config_of(options):
    """The options of a communicator, made without waiting for it: so that Ctrl-C can end that."""
    if THREAD.group is not None:
        raise refusal("a communicator cannot be made inside a group: leave the group first", TuttiUsageError)
    config = _library.make(_library.Config)
    config.blocking = 0
    for name, value in options.items():
        if name in _WHOLE:
            setattr(config, name, whole(name, value, *_WHOLE[name]))
        elif name in ("name", "transports") and isinstance(value, str):
            setattr(config, name, value.encode())
        elif name == "wire_type":
            config.wire_type = type_code(value, "wire_type")
        elif name in ("name", "transports"):
            raise refusal(f"{name} is {value!r}: it must be a text")
        else:
            raise refusal(f"there is no option {name}: {', '.join(_WHOLE)}, name, transports, wire_type")
    return config
