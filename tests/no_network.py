"""A command that runs another one without a network, where the system permits that."""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP = 0x1  # IFF_UP


def no_network() -> list[str]:
    """The words before a command that leave it no network device; none if that is refused."""
    command = [shutil.which("unshare") or "", "--map-root-user", "--net"]
    allowed = command[0] and subprocess.run([*command, "true"], check=False).returncode == 0
    return command if allowed else []


def loopback_alone() -> list[str]:
    """The words before a command that leave it 127.0.0.1 alone; none if that is refused."""
    command = no_network()
    return [*command, sys.executable, __file__] if command else []


def main(words: list[str]) -> None:
    """Raises the loopback device of this network namespace, and becomes another command."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        fcntl.ioctl(asking, _SET_FLAGS, struct.pack("16sH22x", b"lo", _UP))
    os.execv(words[0], words)


if __name__ == "__main__":
    main(sys.argv[1:])
