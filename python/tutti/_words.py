# SPDX-License-Identifier: BSD-3-Clause
"""What ranks write for each other into stores and broadcasts, made and read. Words that are none are a ValueError."""

PLACE_BYTES = 512
_ID_BYTES = 128


def place_make(port, network, places):
    """Where the store of rank 0 is: its port, what its network is, and names of its host, in PLACE_BYTES."""
    text = " ".join([str(port), network, *places]).encode()
    if len(text) > PLACE_BYTES:
        raise ValueError(f"the places {places!r:.200} have {len(text)} bytes")
    return text.ljust(PLACE_BYTES, b"\0")


def place_read(words):
    """(port, network, places)."""
    text = bytes(words).rstrip(b"\0").decode()
    port, network, *places = text.split(" ")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535 or not places or not all(places):
        raise ValueError(f"{text!r:.200} is no place of a store")
    return int(port), network, places


def id_read(words):
    """The id of which a store has the hexadecimal digits."""
    made = bytes.fromhex(bytes(words).decode())
    if len(made) != _ID_BYTES:
        raise ValueError(f"it has {len(made)} bytes")
    return made
