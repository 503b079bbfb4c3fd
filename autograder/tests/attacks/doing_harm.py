# Cells that stop, fill or overrun what they run on. Each stands at the top of an honest answer and is run in a box.
# With `lost` in the metadata the cell costs its own task, and says in the feedback why; no other task.

# %% name="kills its parent"
import os
import signal

os.kill(os.getppid() or 1, signal.SIGKILL)

# %% name="kills every process that it may"
import os
import signal

try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass

# %% name="kills process after process" lost="died"
import os
import signal

for number in range(2, 40000):
    if number not in (1, os.getpid()):
        try:
            os.kill(number, signal.SIGKILL)
        except OSError:
            pass

# %% name="leaves processes behind"
import subprocess

subprocess.Popen(["sleep", "86399"], start_new_session=True)
subprocess.run("(setsid nohup sleep 86399 &) >/dev/null 2>&1", shell=True)

# %% name="forks without end" lost="the kernel was ended"
import os

while True:
    os.fork()

# %% name="fills the memory" lost="GiB of memory"
kept = []
while True:
    kept.append(b"x" * 2**26)

# %% name="fills the memory with many processes" lost="GiB of memory"
import os
import time

for _ in range(20):
    if os.fork() == 0:
        kept = b"x" * 2**26
        time.sleep(60)
time.sleep(60)

# %% name="fills the disk"
from pathlib import Path

for folder in ("/tmp", "/dev/shm", "/submitted", "/"):
    written = 0
    try:
        for number in range(100):
            Path(folder, f"full-{number}").write_bytes(b"x" * 2**23)
            written += 2**23
    except OSError:
        pass
    if written > 2**27:
        print("REACHED", folder, written)

# %% name="prints 100 MB"
print("x" * 100_000_000)

# %% name="prints 100 MB in lines"
import sys

for _ in range(1_000):
    sys.stdout.write("x" * 100_000 + "\n")

# %% name="prints without end" lost="longer than"
while True:
    print("x" * 10_000)

# %% name="shows large pages"
from IPython.display import HTML, display

for _ in range(10):
    display(HTML("x" * 5_000_000))

# %% name="never ends" lost="longer than"
while True:
    pass

# %% name="never ends and does not listen" lost="longer than"
import collections
import itertools

collections.deque(itertools.repeat(0), maxlen=0)

# %% name="stops itself" lost="longer than"
import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)

# %% name="ends its kernel" lost="died"
import os

os._exit(0)

# %% name="ends its kernel politely" lost="quit"
quit()

# %% name="ends its kernel later"
import signal

signal.alarm(1)
