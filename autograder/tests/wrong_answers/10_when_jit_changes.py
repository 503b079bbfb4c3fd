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
