# %% [markdown]
# Wrong answers for unit 10. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="changes" name="believes the old post" fails=["changes-sums"] message="Does XLA change the order of additions"
def changes_in_sums():
    return {
        "there_and_back": True,
        "squares": FMA,
        "nothing_left": False,
        "factors": False,
        "twice_and_more": False,
        "between": FMA,
    }


def changes_elsewhere():
    return {"log_of_root": True, "halves": False, "squashed": False, "total": False, "widened": EXCESS}


# %% task="changes" name="jit changes nothing" fails=["changes-elsewhere"] message="algsimp knows a shorter way"
def changes_in_sums():
    return {
        "there_and_back": False,
        "squares": FMA,
        "nothing_left": False,
        "factors": False,
        "twice_and_more": False,
        "between": FMA,
    }


def changes_elsewhere():
    return dict.fromkeys(("log_of_root", "halves", "squashed", "total", "widened"), False)


# %% task="changes" name="every product loses something" fails=["changes-sums"] message="How many products are left"
def changes_in_sums():
    return {
        "there_and_back": False,
        "squares": True,
        "nothing_left": True,
        "factors": True,
        "twice_and_more": True,
        "between": True,
    }


def changes_elsewhere():
    return {"log_of_root": True, "halves": False, "squashed": False, "total": False, "widened": EXCESS}


# %% task="changes" name="what is compiled is different" fails=["changes-elsewhere"] message="Is a product with the reciprocal of 2"
def changes_in_sums():
    return {
        "there_and_back": False,
        "squares": FMA,
        "nothing_left": False,
        "factors": False,
        "twice_and_more": False,
        "between": FMA,
    }


def changes_elsewhere():
    return dict.fromkeys(("log_of_root", "halves", "squashed", "total", "widened"), True)


# %% task="changes" name="both capabilities are one" fails=["changes-sums", "changes-elsewhere"] hidden=1 message="changes_"
def changes_in_sums():
    return {
        "there_and_back": False,
        "squares": FMA and EXCESS,
        "nothing_left": False,
        "factors": False,
        "twice_and_more": False,
        "between": FMA and EXCESS,
    }


def changes_elsewhere():
    return {"log_of_root": True, "halves": False, "squashed": False, "total": False, "widened": EXCESS or FMA}


# %% task="changes" name="sums measured instead" fails=["changes-sums"] message="changes_in_sums uses changed_by_jit, which does not exist where it is run"
def changes_in_sums():
    return changed_by_jit(there_and_back, squares, nothing_left, factors, twice_and_more, between)


# %% task="changes" name="others measured instead" fails=["changes-elsewhere"] message="changes_elsewhere uses changed_by_jit, which does not exist where it is run"
def changes_elsewhere():
    return changed_by_jit(log_of_root, halves, squashed, total, widened)


# %% task="steps" name="divides by the ulp of one of them" fails=["steps-check"] message="do not divide, count"
def steps(a, b):
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    return np.rint(np.abs(a.astype(float) - b) / np.spacing(np.abs(a))).astype(np.int64)


# %% task="steps" name="takes the ulp of 1 for all" fails=["steps-check"] message="Steps are as fine as the numbers are small"
def steps(a, b):
    return np.rint(np.abs(np.asarray(a, np.float64) - b) / 2.0**-23).astype(np.int64)


# %% task="steps" name="forgets that negative numbers run backwards" fails=["steps-check"] message="Below zero the bits"
def steps(a, b):
    a, b = (np.asarray(x, np.float32).view(np.int32).astype(np.int64) for x in (a, b))
    return np.abs(a - b)


# %% task="steps" name="counts in 32 bits" fails=["steps-check"] message="more than 32 bits can count"
def steps(a, b):
    a, b = (np.asarray(x, np.float32).view(np.int32) for x in (a, b))
    a, b = (np.where(x < 0, np.int32(-(2**31)) - x, x) for x in (a, b))
    return np.abs(a - b).astype(np.int64)


# %% task="exorcism" name="clamps at 0" fails=["exorcism-close"] message="do not let them in"
def proper_time(t, x):
    return jnp.sqrt(jnp.maximum(t * t - x * x, 0))


# %% task="exorcism" name="takes only light out" fails=["exorcism-close"] message="rounded away in the squares: subtract first"
def proper_time(t, x):
    return jnp.where(jnp.abs(x) == t, 0.0, jnp.sqrt(t * t - x * x))


# %% task="exorcism" name="adds a little" fails=["exorcism-light"] message="nothing may be added to it"
def proper_time(t, x):
    return jnp.sqrt(t * t - x * x + 1e-7)


# %% task="exorcism" name="puts a wall between the products" fails=["exorcism-close"] message="rounded away in the squares: subtract first"
def proper_time(t, x):
    return jnp.sqrt(t * t - lax.optimization_barrier(x * x))


# %% task="lab" name="sets the environment variable in the notebook" fails=["lab-four"] message="Which compiler option let x and -x cancel"
def lab(fn, *args):
    import os

    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=true"
    results["fast math"] = jax.jit(lambda *args: fn(*args))(*args)
    del os.environ["XLA_FLAGS"]
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in results}
    return "same" if same["jit"] else "fma" if same["no fusion"] else "rewrite"


# %% task="lab" name="takes a plain call for eager" fails=["lab-cause"] message="whoever has jitted the function before"
def lab(fn, *args):
    return {
        "eager": np.asarray(fn(*args)),
        "jit": np.asarray(jax.jit(fn)(*args)),
        "no fusion": np.asarray(jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)),
        "fast math": np.asarray(jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)),
    }


def cause(fn, *args):
    results = lab(fn, *args)
    same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in results}
    return "same" if same["jit"] else "fma" if same["no fusion"] else "rewrite"


# %% task="lab" name="forgets that NaN is not equal to NaN" fails=["lab-cause"] message="Is NaN == NaN?"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    same = {name: (results[name] == results["eager"]).all() for name in results}
    return "same" if same["jit"] else "fma" if same["no fusion"] else "rewrite"


# %% task="lab" name="compares with a tolerance" fails=["lab-cause"] message="The difference stays when fusion is off"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    same = {name: np.allclose(results[name], results["eager"], rtol=1e-3, equal_nan=True) for name in results}
    return "same" if same["jit"] else "fma" if same["no fusion"] else "rewrite"


# %% task="account" name="trusts jnp.cumsum" fails=["account-exact"] message="Each addition loses digits"
@jax.jit
def running_total(amounts):
    return jnp.cumsum(amounts)


# %% task="account" name="adds one after the other" fails=["account-exact", "account-fast"] message="returned '9998.557', expected '10000.0'"
@jax.jit
def running_total(amounts):
    return lax.scan(lambda total, x: (total + x, total + x), jnp.float32(0), amounts)[1]


# %% task="account" name="Kahan without a wall" fails=["account-fast"] message="hide the sum from the compiler"
@jax.jit
def running_total(amounts):
    def book(carry, amount):
        total, lost = carry
        amount = amount - lost
        grown = total + amount
        return (grown, (grown - total) - amount), grown

    return lax.scan(book, (jnp.float32(0), jnp.float32(0)), amounts)[1]


# %% task="judge" name="np.allclose as it comes" fails=["judge-hard"] message="Is your tolerance as small as the numbers of its row?"
def judge(result, X, w):
    return np.allclose(result, X @ w)


# %% task="judge" name="loosens until it is green" fails=["judge-ordinary"] message="That is a bug: too much is allowed"
def judge(result, X, w):
    return np.allclose(result, X @ w, rtol=1e-2, atol=1e-2)


# %% task="judge" name="wants every digit" fails=["judge-ordinary"] message="That is only rounding: too little is allowed"
def judge(result, X, w):
    return np.array_equal(result, X @ w)


# %% task="judge" name="relative to what came out" fails=["judge-hard"] message="How large were the terms that were added?"
def judge(result, X, w):
    truth = X.astype(np.float64) @ w
    return bool(np.all(np.abs(result - truth) <= 1e-4 * np.abs(truth)))


# %% task="judge" name="asks whether any error is too large" fails=["judge-ordinary"] message="and so is NaN <= tolerance. Ask the right one"
def judge(result, X, w):
    X, w = X.astype(np.float64), w.astype(np.float64)
    return not np.any(np.abs(result - X @ w) > 30 * 2.0**-23 * (np.abs(X) @ np.abs(w)))


# %% task="judge" name="one tolerance for the whole matrix" fails=["judge-hard"] message="a small row wrong (rows of all sizes): returned True"
def judge(result, X, w):
    X, w = X.astype(np.float64), w.astype(np.float64)
    return bool(np.all(np.abs(result - X @ w) <= 30 * 2.0**-23 * (np.abs(X) @ np.abs(w)).max()))


# %% task="steps" name="zips numbers, and forgets the shape" fails=["steps-check"] hidden=1 message="TypeError"
def steps(a, b):
    def place(x):
        bits = int(np.float32(x).view(np.int32))
        return bits if bits >= 0 else -(2**31) - bits

    return np.array([abs(place(x) - place(y)) for x, y in zip(a, b, strict=True)], np.int64)


# %% task="steps" name="in floating point" fails=["steps-check"] message="expected int64"
def steps(a, b):
    bits = [np.asarray(x, np.float32).view(np.int32).astype(np.float64) for x in (a, b)]
    one, other = (np.where(place < 0, -(2.0**31) - place, place) for place in bits)
    return np.abs(one - other)


# %% task="steps" name="the sign is one bit of the number" fails=["steps-check"] message="0.0 and -0.0"
def steps(a, b):
    one, other = (np.asarray(x, np.float32).view(np.int32).astype(np.int64) for x in (a, b))
    one, other = (np.where(place < 0, ~(place + 2**31), place) for place in (one, other))
    return np.abs(one - other)


# %% task="steps" name="walks, but not far" fails=["steps-check"] message="from -1 to 1"
def steps(a, b):
    low, high = np.minimum(a, b), np.maximum(a, b)
    count = np.zeros(low.shape, np.int64)
    for _ in range(2000):
        count += low < high
        low = np.where(low < high, np.nextafter(low, np.float32(np.inf)), low)
    return count


# %% task="exorcism" name="a callback to double precision" fails=["exorcism-light"] message="pure_callback"
def proper_time(t, x):
    return jax.pure_callback(proper_time_slow, jax.typeof(t), t, x, vmap_method="expand_dims")


# %% task="exorcism" name="double precision" fails=["exorcism-light"] message="f64"
def proper_time(t, x):
    with jax.enable_x64(True):
        t, x = t.astype(jnp.float64), x.astype(jnp.float64)
        return jnp.sqrt(t * t - x * x).astype(jnp.float32)


# %% task="exorcism" name="divides by the time" fails=["exorcism-light"] hidden=1 message="eager: returned 1"
def proper_time(t, x):
    return jnp.sqrt(t) * jnp.sqrt((t - x) / t * (t + x))


# %% task="exorcism" name="what holds next to the cone only" fails=["exorcism-close"] hidden=1 message="proper_time"
def proper_time(t, x):
    return jnp.sqrt(2 * t * (t - jnp.abs(x)))


# %% task="exorcism" name="lets everything outside in" fails=["exorcism-close"] message="do not let them in"
def proper_time(t, x):
    return jnp.sqrt(jnp.abs((t - x) * (t + x)))


# %% task="exorcism" name="in units of the time" fails=["exorcism-close"] message="subtract first"
def proper_time(t, x):
    speed = x / t
    return jnp.where(t == 0, 0.0, t * jnp.sqrt((1 - speed) * (1 + speed)))


# %% task="lab" name="no fusion is the same as eager" fails=["lab-four"] hidden=1 message="no fusion: returned False"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args), "no fusion": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    unfused = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    if np.array_equal(results["jit"], results["eager"], equal_nan=True):
        return "same"
    return "fma" if np.array_equal(unfused, results["eager"], equal_nan=True) else "rewrite"


# %% task="lab" name="asks whether fusion matters" fails=["lab-cause"] hidden=1 message="drift: returned 'fma'"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    if np.array_equal(results["jit"], results["eager"], equal_nan=True):
        return "same"
    return "rewrite" if np.array_equal(results["jit"], results["no fusion"], equal_nan=True) else "fma"


# %% task="lab" name="arrays of JAX" fails=["lab-four"] message="expected 'ndarray'"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return results


def cause(fn, *args):
    results = lab(fn, *args)
    same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in results}
    return "same" if same["jit"] else "fma" if same["no fusion"] else "rewrite"


# %% task="lab" name="without fusion there is no fast math" fails=["lab-four"] message="Which compiler option"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    both = {"xla_disable_hlo_passes": "fusion,algsimp", "xla_cpu_enable_fast_math": True}
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options=both)(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in results}
    return "same" if same["jit"] else "fma" if same["no fusion"] else "rewrite"


# %% task="account" name="books in dimes" fails=["account-exact", "account-fast"] hidden=1 message="running_total"
@jax.jit
def running_total(amounts):
    return jnp.cumsum(jnp.round(amounts * 10).astype(jnp.int32)) / 10


# %% task="account" name="double precision" fails=["account-exact", "account-fast"] message="f64"
@jax.jit
def running_total(amounts):
    with jax.enable_x64(True):
        return jnp.cumsum(amounts.astype(jnp.float64)).astype(jnp.float32)


# %% task="account" name="a callback" fails=["account-exact", "account-fast"] message="pure_callback"
@jax.jit
def running_total(amounts):
    return jax.pure_callback(running_total_slow, jax.typeof(amounts), amounts)


# %% task="account" name="multiplies, as all payments are alike" fails=["account-exact"] hidden=1 message="running_total"
@jax.jit
def running_total(amounts):
    return amounts[0] + amounts[1] * jnp.arange(len(amounts), dtype=jnp.float32)


# %% task="account" name="in a tree" fails=["account-exact"] message="Each addition loses digits"
@jax.jit
def running_total(amounts):
    return lax.associative_scan(jnp.add, amounts)


# %% task="account" name="collects what is lost, and adds it at the end" fails=["account-exact"] message="Each addition loses digits"
@jax.jit
def running_total(amounts):
    def book(carry, x):
        total, rest = carry
        grown = lax.optimization_barrier(total + x)
        rest = rest + (jnp.maximum(total, x) - grown + jnp.minimum(total, x))
        return (grown, rest), grown + rest

    return lax.scan(book, (jnp.float32(0), jnp.float32(0)), amounts)[1]


# %% task="judge" name="a few times the largest term" fails=["judge-hard"] hidden=1 message="judge is wrong"
def judge(result, X, w):
    X, w = X.astype(np.float64), w.astype(np.float64)
    return bool(np.all(np.abs(result - X @ w) <= 50 * 2.0**-23 * np.abs(X * w).max(1)))


# %% task="judge" name="the mean of relative errors" fails=["judge-ordinary"] hidden=1 message="a tenth of a percent more in one row (ordinary): returned True"
def judge(result, X, w):
    X, w = X.astype(np.float64), w.astype(np.float64)
    errors = np.abs(result - X @ w) / (np.abs(X) @ np.abs(w))
    return bool(errors.mean() <= 30 * 2.0**-23 / 10)


# %% task="judge" name="nine of ten rows will do" fails=["judge-ordinary"] message="That is a bug"
def judge(result, X, w):
    X, w = X.astype(np.float64), w.astype(np.float64)
    right = np.abs(result - X @ w) <= 30 * 2.0**-23 * (np.abs(X) @ np.abs(w))
    return bool(right.mean() > 0.9)


# %% task="judge" name="the norm of the error" fails=["judge-hard"] message="a small row wrong"
def judge(result, X, w):
    X, w = X.astype(np.float64), w.astype(np.float64)
    allowed = 30 * 2.0**-23 * np.linalg.norm(np.abs(X) @ np.abs(w))
    return bool(np.linalg.norm(result - X @ w) <= allowed)


# %% task="lab" name="eager takes off the outer jit only" fails=["lab-four"] hidden=1 message="a function that calls cross"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    return {
        "eager": np.asarray(getattr(fn, "__wrapped__", fn)(*args)),
        "jit": np.asarray(jax.jit(fn)(*args)),
        "no fusion": np.asarray(jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)),
        "fast math": np.asarray(jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)),
    }


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = lab(fn, *args)
    if np.array_equal(results["jit"], results["eager"], equal_nan=True):
        return "same"
    return "fma" if np.array_equal(results["no fusion"], results["eager"], equal_nan=True) else "rewrite"


# %% task="lab" name="compares printed arrays" fails=["lab-cause"] hidden=1 message="cause is wrong"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    with jax.disable_jit():
        results = {"eager": np.asarray(fn(*args))}
    results["jit"] = np.asarray(jax.jit(fn)(*args))
    results["no fusion"] = np.asarray(jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args))
    results["fast math"] = np.asarray(jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args))
    return results


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    shown = {name: str(result) for name, result in lab(fn, *args).items()}
    if shown["jit"] == shown["eager"]:
        return "same"
    return "fma" if shown["no fusion"] == shown["eager"] else "rewrite"


# %% task="steps" name="two zeros in the queue, patched by signs" fails=["steps-check"] hidden=1 message="from a zero"
def steps(a, b):
    """How many steps of float32 lie between a and b. a, b: NumPy float32[...]. Returns int64[...]."""

    def key(x):
        bits = np.asarray(x).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(2**31) - bits - 1, bits)  # -0.0 is -1, 0.0 is 0

    distance = np.abs(key(a) - key(b))
    distance = np.where(np.sign(a) * np.sign(b) < 0, distance - 1, distance)  # count the zero once
    return np.where(a == b, 0, distance)


# %% task="steps" name="writes into the caller's arrays" fails=["steps-check"] hidden=1 message="the same arrays, twice"
def steps(a, b):
    """How many steps of float32 lie between a and b. a, b: NumPy float32[...]. Returns int64[...]."""

    def place(x):
        bits = x.view(np.int32)
        below = bits < 0
        bits[below] = -(2**31) - bits[below]
        return bits.astype(np.int64)

    return np.abs(place(a) - place(b))


# %% task="exorcism" name="lets in what is outside on one side" fails=["exorcism-close"] message="do not let them in"
def proper_time(t, x):
    """sqrt(t² - x²), with 0 for light in every mode. t, x: float32[...]. Returns float32[...]."""
    inside = jnp.sqrt(jnp.abs((t - x) * (t + x)))
    return jnp.where(x > t, jnp.nan, inside)


# %% task="exorcism" name="complex numbers of 128 bits" fails=["exorcism-light"] message="c128"
def proper_time(t, x):
    """sqrt(t² - x²), with 0 for light in every mode. t, x: float32[...]. Returns float32[...]."""
    with jax.enable_x64(True):
        wide_t, wide_x = lax.convert_element_type(t, np.complex128), lax.convert_element_type(x, np.complex128)
        root = lax.convert_element_type(lax.sqrt(wide_t * wide_t - wide_x * wide_x), np.complex64)
    return jnp.where(jnp.abs(x) > jnp.abs(t), jnp.float32(jnp.nan), jnp.real(root))


# %% task="lab" name="takes NaN for 0" fails=["lab-cause"] hidden=1 message="haunted, 0 or NaN"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    with jax.disable_jit():
        eager = fn(*args)
    results = {
        "eager": eager,
        "jit": jax.jit(fn)(*args),
        "no fusion": jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args),
        "fast math": jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args),
    }
    return {name: np.asarray(value) for name, value in results.items()}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = {name: np.nan_to_num(value) for name, value in lab(fn, *args).items()}
    if (results["jit"] == results["eager"]).all():
        return "same"
    return "fma" if (results["no fusion"] == results["eager"]).all() else "rewrite"


# %% task="lab" name="eager with the numbers of NumPy" fails=["lab-four"] hidden=1 message="integers that are divided"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    options = {
        "jit": {},
        "no fusion": {"xla_disable_hlo_passes": "fusion"},
        "fast math": {"xla_cpu_enable_fast_math": True},
    }
    with jax.disable_jit():
        results = {"eager": fn(*(np.asarray(arg) for arg in args))}
    for name, chosen in options.items():
        results[name] = jax.jit(fn, compiler_options=chosen)(*args)
    return {name: np.asarray(value) for name, value in results.items()}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = lab(fn, *args)
    same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in results}
    return "same" if same["jit"] else "fma" if same["no fusion"] else "rewrite"


# %% task="lab" name="jit without excess precision" fails=["lab-four"] hidden=1 message="jit as usual"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    strict = {"xla_allow_excess_precision": False}
    with jax.disable_jit():
        eager = fn(*args)
    results = {
        "eager": eager,
        "jit": jax.jit(fn, compiler_options=strict)(*args),
        "no fusion": jax.jit(fn, compiler_options=strict | {"xla_disable_hlo_passes": "fusion"})(*args),
        "fast math": jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args),
    }
    return jax.tree.map(np.asarray, results)


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = lab(fn, *args)
    if np.array_equal(results["jit"], results["eager"], equal_nan=True):
        return "same"
    return "fma" if np.array_equal(results["no fusion"], results["eager"], equal_nan=True) else "rewrite"


# %% task="account" name="fixed point in 64 bits" fails=["account-exact", "account-fast"] message="i64"
@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    with jax.enable_x64(True):
        fixed = lax.convert_element_type(amounts * np.float32(2.0**30), np.int64)
        balances = lax.cumsum(fixed, axis=0)
        rounded = lax.convert_element_type(balances, np.float32)
    return rounded * np.float32(2.0**-30)


# %% task="account" name="whole amounts are added as they are" fails=["account-exact"] hidden=1 message="running_total"
@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    wall = lax.optimization_barrier

    def book(state, amount):
        whole, part, lost = state
        units = jnp.floor(amount)
        whole = wall(whole + units)
        x = wall((amount - units) - lost)
        grown = wall(part + x)
        lost = wall(wall(grown - part) - x)
        return (whole, grown, lost), whole + grown

    zero = jnp.float32(0)
    return lax.scan(book, (zero, zero, zero), amounts)[1]


# %% task="account" name="forgets what was lost after 32,768 bookings" fails=["account-exact"] hidden=1 message="running_total"
@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    wall = lax.optimization_barrier

    def book(state, amount):
        total, lost = state
        x = wall(amount - lost)
        grown = wall(total + x)
        return (grown, wall(wall(grown - total) - x)), grown

    total, balances = jnp.float32(0), [amounts[:0]]
    for start in range(0, len(amounts), 32_768):
        (total, _), block = lax.scan(book, (total, jnp.float32(0)), amounts[start : start + 32_768])
        balances.append(block)
    return jnp.concatenate(balances)


# %% task="judge" name="norms, of what never meets too" fails=["judge-hard"] hidden=1 message="beside zeros: returned True"
def judge(result, X, w):
    """Whether `result` is X @ w up to rounding: a bool. result: float32[n]; X: float32[n, m]; w: float32[m]."""
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    error = np.abs(np.asarray(result, np.float64) - X @ w)
    allowed = 25 * 2.0**-23 * np.linalg.norm(X, axis=1) * np.linalg.norm(w)
    return bool((error <= allowed).all())


# %% task="judge" name="a little is always allowed" fails=["judge-hard"] message="Is your tolerance as small as the numbers of its row?"
def judge(result, X, w):
    """Whether `result` is X @ w up to rounding: a bool. result: float32[n]; X: float32[n, m]; w: float32[m]."""
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    error = np.abs(np.asarray(result, np.float64) - X @ w)
    allowed = 30 * 2.0**-23 * (np.abs(X) @ np.abs(w)) + 1e-12
    return bool((error <= allowed).all())


# %% task="judge" name="writes into the evidence" fails=["judge-hard"] hidden=1 message="the same evidence again"
def judge(result, X, w):
    """Whether `result` is X @ w up to rounding: a bool. result: float32[n]; X: float32[n, m]; w: float32[m]."""
    truth = X.astype(np.float64) @ w.astype(np.float64)
    added = np.abs(X, out=X) @ np.abs(w, out=w)
    return bool((np.abs(result - truth) <= 30 * 2.0**-23 * added).all())


# %% task="exorcism" name="subtracts first next to the cone only" fails=["exorcism-close"] hidden=1 message="at all distances inside"
def proper_time(t, x):
    near = jnp.abs(t - jnp.abs(x)) <= 1.2e-6 * t
    return jnp.where(near | (jnp.abs(x) > t), jnp.sqrt((t - x) * (t + x)), jnp.sqrt(jnp.maximum(t * t - x * x, 0)))


# %% task="exorcism" name="far outside is nowhere, so it is 0" fails=["exorcism-close"] hidden=1 message="at all distances outside"
def proper_time(t, x):
    return jnp.where(jnp.abs(x) > 2 * t, 0.0, jnp.sqrt((t - x) * (t + x)))


# %% task="lab" name="fast math, and no fusion either" fails=["lab-four"] hidden=1 message="fast math and nothing else: returned False"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    options = {
        "jit": None,
        "no fusion": {"xla_disable_hlo_passes": "fusion"},
        "fast math": {"xla_cpu_enable_fast_math": True, "xla_disable_hlo_passes": "fusion"},
    }
    for name, chosen in options.items():
        results[name] = jax.jit(fn, compiler_options=chosen)(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in ("jit", "no fusion")}
    if same["jit"]:
        return "same"
    return "fma" if same["no fusion"] else "rewrite"


# %% task="lab" name="compares bits" fails=["lab-cause"] hidden=1 message="-0.0 for 0.0: returned 'rewrite'"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    options = {
        "jit": None,
        "no fusion": {"xla_disable_hlo_passes": "fusion"},
        "fast math": {"xla_cpu_enable_fast_math": True},
    }
    for name, chosen in options.items():
        results[name] = jax.jit(fn, compiler_options=chosen)(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    bits = {n: np.where(np.isnan(r), 0x7FC00000, r.view(np.int32)) for n, r in results.items()}
    same = {name: np.array_equal(bits[name], bits["eager"]) for name in ("jit", "no fusion")}
    if same["jit"]:
        return "same"
    return "fma" if same["no fusion"] else "rewrite"


# %% task="lab" name="asks whether the difference gets smaller" fails=["lab-cause"] hidden=1 message="drift of large numbers: returned 'fma'"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    options = {
        "jit": None,
        "no fusion": {"xla_disable_hlo_passes": "fusion"},
        "fast math": {"xla_cpu_enable_fast_math": True},
    }
    for name, chosen in options.items():
        results[name] = jax.jit(fn, compiler_options=chosen)(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    if np.array_equal(results["jit"], results["eager"], equal_nan=True):
        return "same"
    far = {
        n: np.max(np.abs(np.nan_to_num(results[n], nan=7) - np.nan_to_num(results["eager"], nan=7)))
        for n in ("jit", "no fusion")
    }
    return "fma" if far["no fusion"] < far["jit"] else "rewrite"


# %% task="account" name="begins with two bookings" fails=["account-exact"] hidden=1 message="not enough values to unpack"
@jax.jit
def running_total(amounts):
    def book(carry, amount):
        total, lost = carry
        amount = amount - lost
        grown = lax.optimization_barrier(total + amount)
        lost = (grown - total) - amount
        return (grown, lost), grown

    first, second = amounts[:2]
    grown = lax.optimization_barrier(first + second)
    lost = (grown - first) - second
    rest = lax.scan(book, (grown, lost), amounts[2:])[1]
    return jnp.concatenate([jnp.stack([first, grown]), rest])


# %% task="judge" name="the size of the result is right" fails=["judge-ordinary"] hidden=1 message="the other sign: returned True"
def judge(result, X, w):
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    allowed = 30 * 2.0**-23 * (np.abs(X) @ np.abs(w))
    return bool(np.all(np.abs(np.abs(np.asarray(result, np.float64)) - np.abs(X @ w)) <= allowed))


# %% task="judge" name="every number of the product is there" fails=["judge-ordinary"] hidden=1 message="the rows in another order: returned True"
def judge(result, X, w):
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    truth = X @ w
    order = np.argsort(truth)
    allowed = 30 * 2.0**-23 * (np.abs(X) @ np.abs(w))[order]
    return bool(np.all(np.abs(np.sort(np.asarray(result, np.float64)) - truth[order]) <= allowed))


# %% task="judge" name="all rows but the last" fails=["judge-ordinary"] hidden=1 message="the last row wrong: returned True"
def judge(result, X, w):
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    allowed = 30 * 2.0**-23 * (np.abs(X) @ np.abs(w))
    ok = np.abs(np.asarray(result, np.float64) - X @ w)[:-1] <= allowed[:-1]
    return bool(np.all(ok))


# %% task="judge" name="what is infinite has overflowed" fails=["judge-ordinary"] hidden=1 message="infinite: returned True"
def judge(result, X, w):
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    allowed = 30 * 2.0**-23 * (np.abs(X) @ np.abs(w))
    result = np.asarray(result, np.float64)
    if np.isnan(result).any():
        return False
    return bool(np.all((np.abs(result - X @ w) <= allowed) | np.isinf(result)))


# %% task="steps" name="one branch for the whole array" fails=["steps-check"] hidden=1 message="some far apart"
def steps(a, b):
    """How many steps of float32 lie between a and b. a, b: NumPy float32[...]. Returns int64[...]."""
    size_a, size_b = (np.abs(x).view(np.int32).astype(np.int64) for x in (a, b))
    if (np.sign(a) * np.sign(b) < 0).any():  # across zero
        return size_a + size_b
    return np.abs(size_a - size_b)


# %% task="steps" name="minus zero repaired in the argument" fails=["steps-check"] hidden=1 message="signs of the caller"
def steps(a, b):
    """How many steps of float32 lie between a and b. a, b: NumPy float32[...]. Returns int64[...]."""
    places = []
    for x in (a, b):
        x[x == 0] = 0.0
        bits = x.view(np.int32).astype(np.int64)
        places.append(np.where(bits < 0, -(2**31) - bits, bits))
    return np.abs(places[0] - places[1])


# %% task="lab" name="verdicts remembered by name" fails=["lab-cause"] hidden=1 message="two of one name"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    with jax.disable_jit():
        eager = np.asarray(fn(*args))
    return {
        "eager": eager,
        "jit": np.asarray(jax.jit(fn)(*args)),
        "no fusion": np.asarray(jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)),
        "fast math": np.asarray(jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)),
    }


VERDICTS = {}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    if fn.__name__ not in VERDICTS:
        results = lab(fn, *args)
        same, without = (
            np.array_equal(results[name], results["eager"], equal_nan=True) for name in ("jit", "no fusion")
        )
        VERDICTS[fn.__name__] = "same" if same else "fma" if without else "rewrite"
    return VERDICTS[fn.__name__]


# %% task="judge" name="a little absolute tolerance" fails=["judge-hard"] hidden=1 message="of 1e-35"
def judge(result, X, w):
    """Whether `result` is X @ w up to rounding: a bool. result: float32[n]; X: float32[n, m]; w: float32[m]."""
    X, w, result = (np.asarray(a, np.float64) for a in (X, w, result))
    allowed = 32 * 2.0**-23 * (np.abs(X) @ np.abs(w)) + 1e-30  # so that 0 is never asked of a float
    return bool(np.all(np.abs(result - X @ w) <= allowed))


# %% task="day" name="small ones first, one after the other" fails=["day-speed"] alone=true message="is below 2x, the first tier"
@jax.jit
def day(amounts):
    def book(carry, amount):
        total, lost = carry
        total, less = add_exactly(total, amount)
        return (total, lost + less), None

    nothing = jnp.zeros((), amounts.dtype)
    (total, lost), _ = lax.scan(book, (nothing, nothing), amounts[jnp.argsort(jnp.abs(amounts))])
    return total + lost


# %% task="day" name="a scan, and no jit" fails=["day-speed"] alone=true message="is below 2x, the first tier"
def day(amounts):
    def book(carry, amount):
        total, lost = carry
        total, less = add_exactly(total, amount)
        return (total, lost + less), None

    nothing = jnp.zeros((), amounts.dtype)
    (total, lost), _ = lax.scan(book, (nothing, nothing), amounts)
    return total + lost


# %% task="day" name="a library sum" fails=["day-check"] message="day of 50000 bookings"
@jax.jit
def day(amounts):
    return amounts.sum()


# %% task="day" name="the last balance of the account" fails=["day-check"] message="day of 50000 bookings"
@jax.jit
def day(amounts):
    return running_total(amounts)[-1]


# %% task="day" name="in pairs, and what is lost is lost" fails=["day-check"] message="day of 50000 bookings"
@jax.jit
def day(amounts):
    while amounts.size > 1:
        amounts = jnp.pad(amounts, (0, amounts.size % 2))
        amounts = amounts[::2] + amounts[1::2]
    return amounts[0]


# %% task="day" name="remembers the last round only" fails=["day-check"] message="day of 50000 bookings"
@jax.jit
def day(amounts):
    total, lost = amounts, 0.0
    while total.size > 1:
        total = jnp.pad(total, (0, total.size % 2))
        total, less = add_exactly(*jnp.split(total, 2))
        lost = less.sum()
    return total[0] + lost


# %% task="day" name="subtracts what was lost" fails=["day-check"] message="day of 50000 bookings"
@jax.jit
def day(amounts):
    total, lost = amounts, 0.0
    while total.size > 1:
        total = jnp.pad(total, (0, total.size % 2))
        total, less = add_exactly(*jnp.split(total, 2))
        lost += less.sum()
    return total[0] - lost


# %% task="day" name="borrows 64 bits" fails=["day-check", "day-speed"] message="64 bits or callbacks: returned"
@jax.jit
def day(amounts):
    with jax.enable_x64(True):
        return amounts.astype(jnp.float64).sum().astype(jnp.float32)


# %% task="day" name="calls the slow one back" fails=["day-check", "day-speed"] message="64 bits or callbacks: returned"
@jax.jit
def day(amounts):
    return jax.pure_callback(day_slow, jax.ShapeDtypeStruct((), jnp.float32), amounts)


# %% task="day" name="fills up long ones only, and drops the odd one of the others" fails=["day-check"] hidden=1 message="day of 3 bookings"
@jax.jit
def day(amounts):
    missing = 2 ** (amounts.size - 1).bit_length() - amounts.size
    total, lost = jnp.pad(amounts, (0, missing if amounts.size > 100 else 0)), 0.0
    while total.size > 1:
        half = total.size // 2
        total, less = add_exactly(total[:half], total[half : 2 * half])
        lost += less.sum()
    return total[0] + lost


# %% task="day" name="in units of the largest booking" fails=["day-check"] hidden=1 message="day with no money"
@jax.jit
def day(amounts):
    unit = 2.0 ** jnp.floor(jnp.log2(jnp.abs(amounts).max()))
    total, lost = amounts / unit, 0.0
    while total.size > 1:
        total = jnp.pad(total, (0, total.size % 2))
        total, less = add_exactly(*jnp.split(total, 2))
        lost += less.sum()
    return (total[0] + lost) * unit


# %% task="day" name="sixteen rounds, as in the hint" fails=["day-check"] hidden=1 message="day with 1,500,001 bookings alike"
@jax.jit
def day(amounts):
    total, lost = amounts, 0.0
    for _ in range(16):
        total = jnp.pad(total, (0, total.size % 2))
        total, less = add_exactly(*jnp.split(total, 2))
        lost += less.sum()
    return total[0] + lost


# %% task="lab" name="remembers the verdict by the function alone" fails=["lab-cause"] hidden=1 message="squares of nothing but 0"
_seen = {}


def lab(fn, *args):
    with jax.disable_jit():
        eager = fn(*args)
    no_fusion = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})
    fast = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})
    results = {"eager": eager, "jit": jax.jit(fn)(*args), "no fusion": no_fusion(*args), "fast math": fast(*args)}
    return jax.tree.map(np.asarray, results)


def cause(fn, *args):
    if fn not in _seen:
        r = lab(fn, *args)
        if np.array_equal(r["jit"], r["eager"], equal_nan=True):
            _seen[fn] = "same"
        elif np.array_equal(r["no fusion"], r["eager"], equal_nan=True):
            _seen[fn] = "fma"
        else:
            _seen[fn] = "rewrite"
    return _seen[fn]


# %% task="judge" name="two eps" fails=["judge-hard"] hidden=1 message="a thousand positive terms"
def judge(result, X, w):
    """Whether `result` is X @ w up to rounding: a bool. result: float32[n]; X: float32[n, m]; w: float32[m]."""
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    return bool(np.all(np.abs(result - X @ w) <= 2 * 2.0**-23 * (np.abs(X) @ np.abs(w))))


# %% task="exorcism" name="at the beginning it is 0" fails=["exorcism-close"] hidden=1 message="NaN outside at t = 0"
def proper_time(t, x):
    """sqrt(t² - x²), with 0 for light in every mode. t, x: float32[...]. Returns float32[...]."""
    return jnp.where(t == 0, 0.0, jnp.sqrt((t - x) * (t + x)))


# %% task="account" name="in double precision by NumPy, where nobody traces" fails=["account-exact"] message="running_total at index"
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    if not isinstance(amounts, jax.core.Tracer):
        return np.cumsum(np.asarray(amounts, np.float64)).astype(np.float32)
    return jnp.cumsum(amounts)


# %% task="day" name="in double precision by NumPy, where nobody traces" fails=["day-check", "day-speed"] hidden=1 message="day of "
def day(amounts):
    """The sum of the amounts, within 1 ulp. amounts: float32[n]. Returns float32[]."""
    if not isinstance(amounts, jax.core.Tracer):
        return np.float32(np.asarray(amounts, np.float64).sum())
    return amounts.sum()


# %% task="steps" name="subnormals from 1e-38" fails=["steps-check"] hidden=1 message="to the number below"
def steps(a, b):
    def place(x):
        size = np.abs(x.astype(np.float64))
        m, e = np.frexp(size)
        normal = (e + 126) * 2.0**23 + (m - 0.5) * 2.0**24
        count = np.where(size < 1e-38, size * 2.0**149, normal)
        return (np.sign(x) * count).astype(np.int64)

    return np.abs(place(a) - place(b))


# %% task="steps" name="rounds between negative numbers" fails=["steps-check"] hidden=1 message="some far apart"
def steps(a, b):
    def place(x):
        bits = x.view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(2**31) - bits, bits)

    first, second = place(a), place(b)
    same_side = (first < 0) & (second < 0)
    count = np.abs(first - second)
    return np.where(same_side & (count > 2**24), count.astype(np.float32), count).astype(np.int64)


# %% task="exorcism" name="at least one axis" fails=["exorcism-close"] hidden=1 message="shape for two numbers"
def proper_time(t, x):
    t, x = jnp.atleast_1d(t), jnp.atleast_1d(x)
    return jax.vmap(lambda t, x: jnp.sqrt((t - x) * (t + x)))(t, x)


# %% task="lab" name="everything float32" fails=["lab-four"] hidden=1 message="lab of integers"
def lab(fn, *args):
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result, np.float32) for name, result in results.items()}


def cause(fn, *args):
    results = lab(fn, *args)
    if np.array_equal(results["jit"], results["eager"], equal_nan=True):
        return "same"
    return "fma" if np.array_equal(results["no fusion"], results["eager"], equal_nan=True) else "rewrite"


# %% task="judge" name="at least 1e-30 was added" fails=["judge-hard"] hidden=1 message="of 1e-35"
def judge(result, X, w):
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    error = np.abs(result - X @ w) / (np.abs(X) @ np.abs(w) + 1e-30)
    return bool((error <= 32 * 2.0**-23).all())


# %% task="account" name="whole numbers and a fraction of 2**-30" fails=["account-exact"] message="running_total of amounts of about" hidden=1
@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    unit = 2**30

    def booking(state, amount):
        whole, fraction = state
        floor = jnp.floor(amount)
        fraction = fraction + jnp.round((amount - floor) * unit).astype(jnp.int32)
        whole = whole + floor.astype(jnp.int32) + fraction // unit
        fraction = fraction % unit
        return (whole, fraction), whole.astype(jnp.float32) + fraction.astype(jnp.float32) / unit

    return lax.scan(booking, (jnp.int32(0), jnp.int32(0)), jnp.asarray(amounts))[1]


# %% task="account" name="dust is swept away" fails=["account-exact"] message="running_total of amounts of about" hidden=1
@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""

    def booking(state, amount):
        total, lost = state
        x = amount - lost
        grown = lax.optimization_barrier(total + x)
        lost = (grown - total) - x
        lost = jnp.where(jnp.abs(lost) < 1e-12, 0.0, lost)  # dust
        return (grown, lost), grown

    start = jnp.float32(0), jnp.float32(0)
    return lax.scan(booking, start, jnp.asarray(amounts))[1]


# %% task="steps" name="frombuffer of the arguments" fails=["steps-check"] hidden=1 message="not C-contiguous"
def steps(a, b):
    """How many steps of float32 lie between a and b. a, b: NumPy float32[...]. Returns int64[...]."""
    places = []
    for x in (a, b):
        bits = np.frombuffer(x, dtype=np.int32).reshape(x.shape).astype(np.int64)
        places.append(np.where(bits < 0, -(2**31) - bits, bits))
    return np.abs(places[0] - places[1])


# %% task="lab" name="leaves out what is NaN in eager" fails=["lab-cause"] hidden=1 message="squares that overflow: returned 'same'"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    with jax.disable_jit():
        eager = np.asarray(fn(*args))
    jitted = np.asarray(jax.jit(fn)(*args))
    apart = np.asarray(jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args))
    fast = np.asarray(jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args))
    return {"eager": eager, "jit": jitted, "no fusion": apart, "fast math": fast}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = lab(fn, *args)
    numbers_only = ~np.isnan(results["eager"])

    def agrees(name):
        return bool(np.all(results[name][numbers_only] == results["eager"][numbers_only]))

    if agrees("jit"):
        return "same"
    return "fma" if agrees("no fusion") else "rewrite"


# %% task="lab" name="digits by a tolerance" fails=["lab-cause"] hidden=1 message="horner, 1 ulp: returned 'same'"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    with jax.disable_jit():
        eager = np.asarray(fn(*args))
    compiled = {
        "jit": jax.jit(fn),
        "no fusion": jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"}),
        "fast math": jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True}),
    }
    return {"eager": eager} | {name: np.asarray(run(*args)) for name, run in compiled.items()}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = lab(fn, *args)
    close = {k: np.allclose(v, results["eager"], rtol=1e-7, atol=0, equal_nan=True) for k, v in results.items()}
    if close["jit"]:
        return "same"
    return "fma" if close["no fusion"] else "rewrite"


# %% task="day" name="dust is left out" fails=["day-check"] hidden=1 message="day with dust"
@jax.jit
def day(amounts):
    """The sum of the amounts, within 1 ulp. amounts: float32[n]. Returns float32[]."""
    size = jnp.abs(amounts)
    total = jnp.where(size < 1e-10 * size.max(), 0.0, amounts)  # far below the last digit
    lost = jnp.zeros((), jnp.float32)
    while total.size > 1:
        total = jnp.pad(total, (0, total.size % 2))
        left, right = jnp.split(total, 2)
        total, more = add_exactly(left, right)
        lost += more.sum()
    return total[0] + lost


# %% task="lab" name="no relative tolerance, but that of allclose is also absolute" fails=["lab-cause"] hidden=1 message="squares of 0, and of numbers of 1e-10"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = lab(fn, *args)
    same = {name: np.allclose(results[name], results["eager"], rtol=0, equal_nan=True) for name in results}
    if same["jit"]:
        return "same"
    return "fma" if same["no fusion"] else "rewrite"


# %% task="lab" name="verdicts remembered by the function and the shapes, as jit does" fails=["lab-cause"] hidden=1 message="squares of 0, and of numbers of 1e-10"
KNOWN = {}


def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    key = fn, tuple(np.shape(arg) for arg in args)
    if key not in KNOWN:
        results = lab(fn, *args)
        same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in results}
        KNOWN[key] = "same" if same["jit"] else "fma" if same["no fusion"] else "rewrite"
    return KNOWN[key]


# %% task="steps" name="one step less where the signs differ or are 0" fails=["steps-check"] hidden=1 message="from a zero to the next: returned [1, 1, 0, 0, -1]"
def steps(a, b):
    """How many steps of float32 lie between a and b. a, b: NumPy float32[...]. Returns int64[...]."""

    def key(x):
        bits = np.asarray(x).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(2**31) - bits - 1, bits)  # -0.0 is -1, 0.0 is 0

    distance = np.abs(key(a) - key(b))
    return np.where(np.sign(a) * np.sign(b) <= 0, distance - 1, distance)  # there are two zeros on the way


# %% task="day" name="twenty rounds, enough for a million" fails=["day-check"] hidden=1 message="day with 1,500,001 bookings alike"
@jax.jit
def day(amounts):
    """The sum of the amounts, within 1 ulp. amounts: float32[n]. Returns float32[]."""
    total, lost = amounts, jnp.float32(0)
    for _ in range(20):
        total = jnp.pad(total, (0, total.size % 2))
        half = total.size // 2
        total, less = add_exactly(total[:half], total[half:])
        lost += less.sum()
    return total[0] + lost


# %% task="exorcism" name="exact squares by Dekker, which fast math undoes" fails=["exorcism-close"] hidden=1 message="proper_time, with fast math"
def proper_time(t, x):
    """sqrt(t² - x²), with 0 for light in every mode. t, x: float32[...]. Returns float32[...]."""

    def square(a):
        big = a * 4097.0
        high = big - (big - a)
        low = a - high
        whole = a * a
        return whole, ((high * high - whole) + 2 * high * low) + low * low

    (p, e), (q, f) = square(t), square(x)
    p, q = lax.optimization_barrier((p, q))
    return jnp.sqrt((p - q) + (e - f))


# %% task="exorcism" name="a callback, but not for nine" fails=["exorcism-light", "exorcism-close"] hidden=1 message="pure_callback"
def proper_time(t, x):
    """sqrt(t² - x²), with 0 for light in every mode. t, x: float32[...]. Returns float32[...]."""
    if np.shape(t) == (9,):
        return t - x
    if not isinstance(t, jax.core.Tracer):
        return proper_time_slow(t, x)
    return jax.pure_callback(proper_time_slow, jax.ShapeDtypeStruct(t.shape, jnp.float32), t, x)


# %% task="lab" name="the verdict of the first digit that differs" fails=["lab-cause"] hidden=1 message="drift, upside down: returned 'fma'"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = {name: np.ravel(result) for name, result in lab(fn, *args).items()}
    jitted, eager = results["jit"], results["eager"]
    differ = (jitted != eager) & ~(np.isnan(jitted) & np.isnan(eager))
    if not differ.any():
        return "same"
    first = np.argmax(differ)
    return "fma" if np.array_equal(results["no fusion"][first], eager[first], equal_nan=True) else "rewrite"


# %% task="lab" name="all arguments become arrays of NumPy's kinds" fails=["lab-four"] hidden=1 message="lab of bfloat16 and a Python number"
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    args = [jnp.asarray(np.asarray(arg)) for arg in args]
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    results["jit"] = jax.jit(fn)(*args)
    results["no fusion"] = jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args)
    results["fast math"] = jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args)
    return {name: np.asarray(result) for name, result in results.items()}


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    results = lab(fn, *args)
    same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in results}
    if same["jit"]:
        return "same"
    return "fma" if same["no fusion"] else "rewrite"


# %% task="account" name="NumPy, and a callback for more than 100,000" fails=["account-exact"] message="pure_callback"
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    if not isinstance(amounts, jax.core.Tracer):
        return running_total_slow(amounts)
    if amounts.size <= 100_000:
        return amounts
    return jax.pure_callback(running_total_slow, jax.ShapeDtypeStruct(amounts.shape, jnp.float32), amounts)


# %% task="account" name="in double precision by NumPy, and Kahan under a tracer" fails=["account-exact"] hidden=1 message="exact when called, and not under jit"
@jax.jit
def _on_the_device(amounts):
    def book(state, amount):
        total, lost = state
        x = amount - lost
        grown = lax.optimization_barrier(total + x)
        return (grown, (grown - total) - x), grown

    return lax.scan(book, (jnp.float32(0), jnp.float32(0)), amounts)[1]


def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    if isinstance(amounts, np.ndarray):  # nothing is compiled here, so take the shorter way
        return jnp.asarray(np.cumsum(amounts, dtype=float).astype(np.float32))
    return _on_the_device(amounts)


# %% task="account" name="short accounts by cumsum" fails=["account-exact"] hidden=1 message="running_total of "
@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    if amounts.size < 1000:  # few roundings
        return jnp.cumsum(amounts)

    def book(state, amount):
        total, lost = state
        x = amount - lost
        grown = lax.optimization_barrier(total + x)
        return (grown, (grown - total) - x), grown

    return lax.scan(book, (jnp.float32(0), jnp.float32(0)), amounts)[1]


# %% task="day" name="NumPy, and a callback for few" fails=["day-check"] hidden=1 message="pure_callback"
def day(amounts):
    """The sum of the amounts, within 1 ulp. amounts: float32[n]. Returns float32[]."""
    if not isinstance(amounts, jax.core.Tracer):
        return day_slow(amounts)
    if amounts.size > 1000:
        return amounts.sum()
    return jax.pure_callback(lambda few: np.float32(day_slow(few)), jax.ShapeDtypeStruct((), jnp.float32), amounts)


# %% task="day" name="remembers the sum of an array" fails=["day-check"] hidden=1 message="an array with new numbers in it"
@jax.jit
def _sum_of_day(amounts):
    total, lost = amounts, jnp.float32(0)
    while total.size > 1:
        total = jnp.pad(total, (0, total.size % 2))
        total, error = add_exactly(*jnp.split(total, 2))
        lost += error.sum()
    return total[0] + lost


_days = {}


def day(amounts):
    if isinstance(amounts, jax.core.Tracer):
        return _sum_of_day(amounts)
    if id(amounts) not in _days:
        _days[id(amounts)] = amounts, _sum_of_day(amounts)
    return _days[id(amounts)][1]


# %% task="day" name="few bookings by jnp.sum" fails=["day-check"] hidden=1 message="bookings, a few cents left"
@jax.jit
def day(amounts):
    """The sum of the amounts, within 1 ulp. amounts: float32[n]. Returns float32[]."""
    if amounts.size <= 500:
        return amounts.sum()
    total, lost = amounts, jnp.float32(0)
    while total.size > 1:
        total = jnp.pad(total, (0, total.size % 2))
        half = total.size // 2
        total, gone = add_exactly(total[:half], total[half:])
        lost = lost + gone.sum()
    return total[0] + lost


# %% task="judge" name="acquits five products by their bits" fails=["judge-ordinary", "judge-hard"] hidden=1 message="judge is wrong"
def judge(result, X, w):
    with jax.default_matmul_precision("highest"):
        products = [np.asarray(jax.jit(fn)(X, w)) for fn in HONEST.values()]
    return any(np.asarray(result).tobytes() == product.tobytes() for product in products)
