"""The loads under which the benchmarks measure: programs that compete for the machine, made by the script itself."""

import subprocess
import sys

HOG = "while True: pass"
BURSTS = """
import random, time
while True:
    end = time.perf_counter() + random.expovariate(1 / 0.02)
    while time.perf_counter() < end: pass
    time.sleep(random.expovariate(1 / 0.02))
"""
MEMORY = "import numpy as np\na = np.zeros(1 << 23); b = a.copy()\nwhile True: np.copyto(b, a)"
COMPILER = """
import jax
import jax.numpy as jnp
while True:
    def f(x):
        for i in range(30): x = jnp.sin(x) * i + jnp.where(x > i, x, 0) @ x
        return x
    jax.jit(f)(jnp.ones((8, 8)))
"""
LOADS = {
    "quiet": [],
    "one hog": [HOG],
    "two hogs": [HOG] * 2,
    "bursts": [BURSTS] * 2,
    "memory hog": [MEMORY],
    "compilers": [COMPILER] * 2,
}


class Load:
    """Runs the competing processes of one load."""

    def __init__(self, name: str):
        self.programs = LOADS[name]

    def __enter__(self):
        self.running = [subprocess.Popen([sys.executable, "-c", program]) for program in self.programs]

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()
