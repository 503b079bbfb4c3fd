"""The lists: what an answer may use. A module, a builtin or a kind of syntax that stands in none of them is refused."""

import ast
import builtins
import importlib
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path


def _words(text: str) -> set[str]:
    return set(text.split())


EVERYTHING = None  # of a module: whatever FORBIDDEN and HIDDEN_MODULES do not name

# Modules that an answer may import, and what of each. One with a list is used by its names, and never handed around.
MODULES: dict[str, frozenset[str] | None] = dict.fromkeys(
    (
        *("abc", "bisect", "cmath", "collections", "collections.abc", "copy", "dataclasses", "datetime", "decimal"),
        *("enum", "fractions", "functools", "heapq", "itertools", "math", "numbers", "operator", "random", "re"),
        *("statistics", "string", "struct", "textwrap", "time", "typing", "__future__"),
        *("jax", "jax.ad_checkpoint", "jax.custom_derivatives", "jax.debug", "jax.dtypes", "jax.errors"),
        *("jax.flatten_util", "jax.image", "jax.lax", "jax.lax.linalg", "jax.nn", "jax.nn.initializers", "jax.numpy"),
        *("jax.numpy.fft", "jax.numpy.linalg", "jax.ops", "jax.random", "jax.scipy", "jax.scipy.linalg"),
        *("jax.scipy.signal", "jax.scipy.sparse", "jax.scipy.sparse.linalg", "jax.scipy.special", "jax.scipy.stats"),
        *("jax.sharding", "jax.stages", "jax.tree", "jax.tree_util", "jax.typing", "jax.experimental.pallas"),
        *("jax.experimental.pallas.tpu", "jax.experimental.pallas.triton"),
        *("numpy", "numpy.fft", "numpy.linalg", "numpy.random", "numpy.typing", "numpy.polynomial"),
        *("flax.linen", "flax.nnx", "optax"),
        *("jax.custom_batching", "jax.ref", "jax.scipy.cluster.vq", "jax.scipy.fft", "jax.scipy.integrate"),
        *("jax.scipy.interpolate", "jax.scipy.ndimage", "numpy.char", "numpy.exceptions", "numpy.strings"),
        *("flax.linen.initializers",),
        *(f"optax.{name}" for name in ("assignment", "contrib", "losses", "projections", "schedules", "second_order")),
        *(f"optax.{name}" for name in ("transforms", "tree", "tree_utils")),
        *(f"numpy.polynomial.{name}" for name in ("chebyshev", "hermite", "laguerre", "legendre", "polynomial")),
        *(f"jax.scipy.stats.{name}" for name in ("bernoulli", "beta", "binom", "cauchy", "chi2", "dirichlet", "expon")),
        *(f"jax.scipy.stats.{name}" for name in ("gamma", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic")),
        *(f"jax.scipy.stats.{name}" for name in ("multinomial", "multivariate_normal", "nbinom", "norm", "pareto")),
        *(f"jax.scipy.stats.{name}" for name in ("poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy")),
    ),
    EVERYTHING,
) | {
    name: frozenset(names.split())
    for name, names in {
        "concurrent.futures": "ThreadPoolExecutor as_completed wait",
        "contextlib": "AbstractContextManager ContextDecorator ExitStack closing contextmanager nullcontext suppress",
        "flax": "linen nnx",
        "flax.jax_utils": "replicate unreplicate",
        "flax.training.train_state": "TrainState",
        "gc": "collect disable enable isenabled",
        "glob": "escape glob iglob",
        "hashlib": "blake2b blake2s md5 sha1 sha224 sha256 sha384 sha512 sha3_256",
        "inspect": "Parameter Signature getdoc isclass isfunction ismethod signature",
        "io": "BytesIO StringIO",
        "IPython.display": "HTML Image Latex Markdown SVG display",
        "jax.core": "Atom ClosedJaxpr Jaxpr JaxprEqn Literal ShapedArray Tracer Var get_aval",
        "jax.experimental": "enable_x64 io_callback pallas",
        "jax.experimental.buffer_callback": "buffer_callback",
        "jax.experimental.compilation_cache.compilation_cache": "reset_cache set_cache_dir",
        "jax.experimental.jet": "jet",
        "jax.experimental.mesh_utils": "create_device_mesh create_hybrid_device_mesh",
        "jax.experimental.multihost_utils": "assert_equal broadcast_one_to_all process_allgather sync_global_devices",
        "jax.experimental.shard_map": "shard_map",
        "jax.extend.core": "ClosedJaxpr Jaxpr JaxprEqn Literal Var jaxpr_as_fun",
        "jax.monitoring": "register_event_duration_secs_listener register_event_listener "
        "unregister_event_duration_listener unregister_event_listener",
        "jax.profiler": "ProfileData ProfileOptions StepTraceAnnotation TraceAnnotation annotate_function trace",
        "json": "JSONDecodeError dumps loads",
        "matplotlib.pyplot": "annotate arrow autoscale axes axhline axhspan axis axline axvline axvspan bar "
        "bar_label barh box boxplot broken_barh cla clf clim close colorbar contour contourf "
        "draw errorbar figimage figlegend figtext figure fill fill_between fill_betweenx gca "
        "gcf grid hexbin hist hist2d hlines imshow ioff ion legend locator_params loglog "
        "margins matshow minorticks_off minorticks_on pause pcolor pcolormesh pie plot polar "
        "quiver quiverkey savefig sca scatter semilogx semilogy show specgram spy stackplot "
        "stairs stem step streamplot subplot subplot_mosaic subplots subplots_adjust suptitle "
        "table text tick_params ticklabel_format tight_layout title tricontour tricontourf "
        "tripcolor triplot twinx twiny violinplot vlines xlabel xlim xscale xticks ylabel ylim "
        "yscale yticks",
        "numpy.lib.stride_tricks": "sliding_window_view",
        "numpy.testing": "assert_allclose assert_almost_equal assert_array_equal assert_equal",
        "os": "cpu_count environ fspath getenv listdir path",
        "pathlib": "Path PurePath",
        "pickle": "dumps",
        "pprint": "pformat pp pprint",
        "shutil": "rmtree",
        "sys": "float_info getsizeof maxsize platform version version_info",
        "tempfile": "TemporaryDirectory gettempdir mkdtemp",
        "timeit": "default_timer repeat timeit",
        "types": "MappingProxyType NoneType SimpleNamespace",
        "warnings": "catch_warnings filterwarnings simplefilter warn",
        "weakref": "WeakKeyDictionary WeakMethod WeakSet WeakValueDictionary ref",
    }.items()
}

# Those that an answer may hand on, as in `def f(x, xp=np)`: whatever is asked of them is as harmless as they are.
HANDED_ON = {"numpy", "jax.numpy", "math", "cmath"}

_ERRORS = {n for n, v in vars(builtins).items() if isinstance(v, type) and issubclass(v, BaseException)}
BUILTINS = (
    _ERRORS - {"SystemExit", "GeneratorExit"}
    | _words("Ellipsis False None NotImplemented True abs all any ascii bin bool bytearray bytes callable")
    | _words("chr classmethod complex dict divmod enumerate filter float format frozenset hash hex id int")
    | _words("isinstance issubclass iter len list map max min next object oct ord pow print property range")
    | _words("repr reversed round set slice sorted staticmethod str sum super tuple type zip __name__ __debug__")
)
READ_MODES = ("r", "rt", "rb")  # with which an answer may open a file
ATTRIBUTE_FUNCTIONS = {"getattr", "hasattr", "setattr", "delattr"}  # called with a name that can be read here
# With two leading underscores, and only said: nobody looks for anything there.
SIGNATURES = _words(
    "__all__ __author__ __copyright__ __credits__ __date__ __email__ __license__ __maintainer__ __status__ __version__"
)
ALL_BUILTINS = set(dir(builtins)) | {"get_ipython", "exit", "quit", "display", "In", "Out"}

# Those that no answer may use, and by whose names it may call a function of its own: see `names_of_answers`.
OTHER_BUILTINS = _words("breakpoint compile dir eval exec exit globals help input locals memoryview open quit vars")
RUN_TEXTS = {"eval", "exec"}
# Attributes with a leading underscore that an answer may read or call; its own classes' are added.
UNDERSCORE = _words(
    "__name__ __qualname__ __doc__ __version__ __version_info__ __call__ __wrapped__ __len__ __iter__ __next__ "
    "__enter__ __exit__ __float__ __int__ __bool__ __index__ __hash__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ "
    "__contains__ __getitem__ __add__ __sub__ __mul__ __truediv__ __neg__ __pow__ __matmul__ __abs__ __array__ "
    "_replace _asdict _fields _make _cache_size"
)
# Of `super()`, or of a class with the method's own object first.
OF_A_PARENT = {"__init__", "__post_init__", "__new__", "__setattr__", "__setitem__", "__init_subclass__"}
# Special methods that an answer's class may have: every other one would let it pass for what it is not.
SPECIAL_METHODS = (
    (UNDERSCORE - {"__wrapped__"})
    | (OF_A_PARENT - {"__init_subclass__"})
    | _words(
        "__repr__ __str__ __format__ __missing__ __delitem__ __reversed__ __complex__ __round__ __trunc__ __floor__ "
        "__ceil__ __pos__ __invert__ __floordiv__ __mod__ __divmod__ __lshift__ __rshift__ __and__ __or__ __xor__ "
        "__radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rmod__ __rpow__ __rmatmul__ __rdivmod__ __rand__ "
        "__ror__ __rxor__ __rlshift__ __rrshift__ __iadd__ __isub__ __imul__ __itruediv__ __imatmul__ __ifloordiv__ "
        "__imod__ __ipow__ __iand__ __ior__ __ixor__ __getattr__ __delattr__ __class_getitem__ __length_hint__ "
        "__copy__ __deepcopy__ __jax_array__ __slots__ __hash__ __get__ __set__ _"
    )
)
# Names that a class body may give a value to, beside its special methods.
CLASS_NAMES = {"__slots__", "__hash__", "__eq__", "__call__", "__repr__", "__doc__", "__radd__", "__rmul__"}

# Modules inside allowed modules that lead out of them: not to be had from anything.
HIDDEN_MODULES = _words(
    "pickle npyio _npyio_impl "
    "sys os posix nt builtins bltns importlib imp inspect gc ctypes ctypeslib subprocess threading multiprocessing "
    "copyreg socket mmap marshal cloudpickle codeop runpy linecache tracemalloc traceback atexit asyncio weakref "
    "pathlib shutil tempfile zipimport pkgutil IPython ipykernel autograder matplotlib cbook mlab mtrand f2py "
    "distutils extbuild mpl interpreters xla_client xla_bridge jaxlib api_util proxy_caller kw_only_dataclasses"
)
# The same, of modules alone: elsewhere these are names like any other. A test holds them to what is in MODULES.
OF_MODULES = _words(
    "code codecs concurrent contextlib core dis distributed dlpack emath export extend "
    "ffi glob io keyword lib logging ma overrides process "
    "signal site thread tools types version warnings xla "
    "betabinom bit_generator dtypes gennorm hermite_e microbatching perturbations polyutils pu rec"
)
# Those that lead on from the modules which may be handed on. A test holds them to what these have in them.
OF_HANDED_ON = _words("bit_generator core dtypes emath hermite_e lib ma overrides polyutils pu rec version")
# What is a module in these packages, which have many and hide none.
OF_PACKAGES = {
    "flax": _words(
        "activation attention batch_apply bridge combinators compat deprecations dtypes extract filterlib fp8_ops "
        "graph graphlib helpers linear meta metrics module nn normalization object optimizer pooling pytreelib "
        "recurrent reprlib rnglib spmd statelib stochastic summary tracers training transforms traversals "
        "variablelib visualization wrappers"
    ),
    "optax": _words("experimental"),
    "matplotlib": _words("cm mpl rcsetup style"),
}
# Modules that are allowed by their own names alone: the rules know `functools.wraps`, and no `typing.functools.wraps`.
UNDER_ANOTHER_NAME = {
    f"{module}.{name}"
    for module, names in {
        "dataclasses": "abc copy functools itertools re",
        "fractions": "functools math numbers operator re",
        "re": "enum functools",
        "statistics": "math numbers random",
        "textwrap": "re",
        "typing": "collections functools operator stdlib_re",
        "numpy.char": "functools np",
        "optax.tree_utils": "functools typing",
        **{f"numpy.polynomial.{n}": "np" for n in _words("chebyshev hermite laguerre legendre polynomial")},
    }.items()
    for name in names.split()
}
# Names that are not to be had from anything: frames and code, other ways to the same, what runs or reads a text,
# and what changes for everybody what only the course may change.
FORBIDDEN = HIDDEN_MODULES | _words(
    "f_back f_globals f_locals f_builtins f_code f_trace gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_origin "
    "ag_frame ag_code tb_frame tb_next tb_lasti func_globals func_code cell_contents "
    "co_code co_consts co_names co_varnames co_freevars co_cellvars raw_frames as_python_traceback "
    "FunctionType LambdaType CodeType MethodType FrameType TracebackType CellType ModuleType new_class GeneratorType "
    "BuiltinFunctionType resolve_bases prepare_class FunctionWrapper "
    "eval exec system popen breakpoint register_debugger bmat matrixlib default_registry register_node dispatch_table "
    "attrgetter methodcaller setitem delitem Formatter formatter_parser get_type_hints get_origin evaluate_forward_ref "
    "ForwardRef "
    "singledispatch singledispatchmethod update_wrapper global_enum make_dataclass new_type "
    "set_local swap_local set_global swap_global "
    "redirect_stdout redirect_stderr register_at_fork "
    "load save savez savez_compressed loadtxt genfromtxt savetxt memmap open_memmap fromfile tofile dump fromregex "
    "DataSource as_strided runstring rundocs seterrcall setbufsize set_string_function set_array_function_like_doc "
    "asfortranarray_ getbufsize from_dlpack get_include "
    "as_ctypes as_array ctypes load_library "
    "def_impl def_abstract_eval def_effectful_abstract_eval def_custom_bind def_bind_with_trace "
    "register_lowering primitive_jvps primitive_batchers primitive_transposes Primitive "
    "clear_event_listeners record_event record_event_duration_secs record_scalar "
    "start_server start_trace stop_trace save_device_memory_profile device_memory_profile "
    "set_xla_profiler xla_computation backend_compile register_backend_factory "
    "switch_backend get_ipython register getweakrefs finalize EnumMeta EnumType NamedTupleMeta "
    "measure NpzFile read_array readinto readinto1 pack_into cffi state_address recarray chararray "
    "iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor "
    "set_major_formatter set_minor_formatter StrMethodFormatter FormatStrFormatter "
    "write_text write_bytes symlink_to hardlink_to rename chmod lchmod open putenv unsetenv obj"
)
# In a block of these JAX forbids something, in this thread: a check asks for it, and an answer may ask for it, too. It
# may not lift it, by `no_tracing(False)` or `transfer_guard("allow")`.
BANS = _words(
    "no_tracing transfer_guard transfer_guard_host_to_device transfer_guard_device_to_device "
    "transfer_guard_device_to_host checking_leaks check_tracer_leaks debug_key_reuse debug_nans debug_infs "
    "enable_checks numpy_rank_promotion"
)
FORBIDS = (True, "disallow", "disallow_explicit", "raise", "log", "warn")
NOT_IN_A_THREAD = {name for name in BANS if name.startswith(("no_tracing", "transfer_guard"))}
# Of these, an answer's own classes may have methods: the value is asked whose it is when it is there.
OF_FILES = _words("load save dump open")
OF_OWN = OF_FILES | _words("eval exec finalize inspect measure obj register rename system")
# Of what is no import, these may be modules that lead to others.
PATHS = _words("testing lib ABCMeta functools")
# Methods that change a list, a dict, a set or an array: not for the course's own.
MUTATORS = _words(
    "append extend insert remove pop popitem clear update setdefault sort reverse add discard appendleft popleft "
    "extendleft rotate fill put itemset resize setflags partition byteswap difference_update intersection_update "
    "symmetric_difference_update subtract delete set_value cache_clear __setitem__ __delitem__ "
    "defjvp defjvps defvjp def_vmap"
)
# NumPy's functions that write into their first argument.
WRITES_INTO = {"copyto", "put", "put_along_axis", "place", "putmask", "fill_diagonal", "shuffle"}

# What arrays, tracers, jaxprs and programs are asked for: not to be redefined on what is not the answer's own.
# A test holds this to the classes of the installed JAX.
ASKED_OF_VALUES = _words(
    "abstract_eval abstract_mesh add_option addressable_data addressable_devices addressable_devices_indices_map "
    "addressable_memories addressable_shards alignment all all_invars any are_all_axes_auto are_all_axes_explicit "
    "are_all_axes_explicit_or_manual are_all_axes_manual argmax argmin argpartition args_info argsort "
    "array_abstraction_level as_text astype at at_least_vspace auto_axes aval aval_mutable_qdd axis_sizes base "
    "batch_dim bind bind_with_trace block_until_ready broadcast byteorder byteswap call call_primitive char "
    "check_compatible_aval check_vma children choose clear_cache client clip clone closure_convert committed compile "
    "compiler_ir complete_absl_config compose compress config_with_absl conj conjugate consts constvars copy "
    "copy_to_host_async cost_analysis count ctx ctypes cumprod cumsum cur_qdd data debug_info dec_rank "
    "def_abstract_eval def_bind_with_trace def_effectful_abstract_eval def_effectful_abstract_eval2 def_impl "
    "default_memory delete descr deserialize_using_proto device device_buffer device_buffers device_ids device_kind "
    "device_set devices devices_indices_map diagonal dimension_as_value donate_argnums dot dtype dump dumps "
    "eager_constant_folding effects empty eqns eval_shape explicit_axes fields fill final_aval_qdds final_qdd flags "
    "flat flatten flatten_up_to format from_iterable_tree from_node_data_and_children full_lower fun_name "
    "get_bind_params get_const get_referent get_stream_for_external_ready_events getfield global_shards "
    "has_addressable_devices has_qdd hasobject host_id id imag impl in_aval_qdds in_avals in_tree inc_rank index "
    "initial_qdd input_formats input_shardings invars is_deleted is_effectful is_equivalent_to is_fully_addressable "
    "is_fully_replicated is_high is_multi_process is_ready is_ref is_scalar isalignedstruct isbuiltin isnative item "
    "itemsize jaxpr kind layout leading_axis_spec like literals live_buffers lo_ty lo_ty_qdd local_devices "
    "local_hardware_id local_mesh lojax lower lower_val lower_val2 manual_axes manual_axis_type map_jaxpr mat max "
    "mean memory memory_analysis memory_kind memory_space memory_stats mesh metadata min mT multiple_results "
    "mutable_qdd name name_stack names nbytes ndim newbyteorder node_data nonzero normalize nospec num num_consts "
    "num_devices num_leaves num_nodes on_device_size_in_bytes out_avals out_info out_tree output_formats "
    "output_shardings outvars params parent parse_flags_with_absl partition partitions physicalize platform "
    "poison_execution pretty_print primal primitive process_index prod ptp put raise_val raise_val2 ravel read real "
    "reduced ref_allocating ref_primitive repeat replace replicated_axes reshape reshard resize round "
    "runtime_executable searchsorted serialize_using_proto setfield setflags shape shape_tuple shard shard_shape "
    "sharding size skip_canonicalization sort source_info spec squeeze std str str_short strides strip_weak_type "
    "subdtype sum swapaxes T take tangent task_id to_concrete_value to_ct_aval to_ct_spec to_device to_lo to_lojax "
    "to_tangent_aval to_tangent_spec tobytes tofile tolist trace traceback transpose type UNCONSTRAINED unflatten "
    "unreduced unreduced_kind unsafe_buffer_pointer unsafe_raw_buffer unshard update update_manual_axis_type "
    "update_weak_type val values var view vspace_add walk weak_type with_consts with_consts_as_arg with_memory_kind "
    "x64_enabled "
)
# Not even on its own object: a method's may turn out to be a module.
CLOCKS = _words(
    "perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time thread_time_ns "
    "block_until_ready"
)

STATEMENTS = (
    *(ast.FunctionDef, ast.ClassDef, ast.Return, ast.Delete, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For),
    *(
        ast.While,
        ast.If,
        ast.With,
        ast.Match,
        ast.Raise,
        ast.Try,
        ast.TryStar,
        ast.Assert,
        ast.Import,
        ast.ImportFrom,
        ast.Global,
    ),
    *(ast.Nonlocal, ast.Expr, ast.Pass, ast.Break, ast.Continue),
)
EXPRESSIONS = (
    *(ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.Lambda, ast.IfExp, ast.Dict, ast.Set, ast.ListComp),
    *(ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Yield, ast.YieldFrom, ast.Compare, ast.Call, ast.JoinedStr),
    *(ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred, ast.Name, ast.List, ast.Tuple),
    *(ast.Slice,),
)
OTHER = (
    *(ast.Module, ast.Expression, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop),
    *(ast.comprehension, ast.ExceptHandler, ast.arguments, ast.arg, ast.keyword, ast.alias, ast.withitem),
    *(ast.match_case, ast.MatchValue, ast.MatchSingleton, ast.MatchSequence, ast.MatchMapping, ast.MatchClass),
    *(ast.MatchStar, ast.MatchAs, ast.MatchOr),
)
# Of Python 3.12: `type X = int`, `def f[T](x: T)`.
OF_TYPES = tuple(
    getattr(ast, name) for name in ("TypeAlias", "TypeVar", "ParamSpec", "TypeVarTuple") if hasattr(ast, name)
)
KNOWN = STATEMENTS + EXPRESSIONS + OTHER + OF_TYPES

# Settings of JAX that an answer may change. Others make the course's own programs slow, or the tools blind.
SETTINGS = _words(
    "jax_dump_ir_to jax_dump_ir_modes jax_compilation_cache_dir jax_enable_compilation_cache "
    "jax_persistent_cache_min_compile_time_secs jax_persistent_cache_min_entry_size_bytes "
    "jax_default_matmul_precision jax_enable_x64 jax_numpy_dtype_promotion jax_default_prng_impl "
    "jax_threefry_partitionable jax_raise_persistent_cache_errors"
)
# Those of JAX's folder of programs, where another program may lie than JAX looks for: only in a unit that speaks of it.
OF_PROGRAMS = frozenset(name for name in SETTINGS if "cache" in name)
# What their names have in common, where a name is put together.
OTHER_SETTINGS = ("disable", "optimization", "debug", "check", "log_", "platform", "guard", "explain", "trace", "eager")
# Of what is imported, these may be read although they begin with an underscore.
OF_IMPORTED = {"__name__", "__doc__", "__version__", "__version_info__", "__wrapped__"}


# What these magics of IPython's show or measure is for the one who sits there: it is left out.
MAGICS_LEFT_OUT = _words(
    "alias autoreload cd colors conda config debug env history load_ext ls lsmagic matplotlib memit page pdb pinfo"
    " pinfo2 pip pprint precision prun psource pwd reload_ext set_env store tb timeit who who_ls whos xmode"
)
# And so it is what these builtins show, where one of them is all that a statement calls: `help(f)` is as `f?`.
SHOWS = _words("breakpoint dir help")
# Decorators that change what they stand above, and return it: used with an @ alone.
AS_DECORATOR = {"functools.wraps", "functools.total_ordering", "dataclasses.dataclass", "typing.runtime_checkable"}

# What may be used in one way alone: `with ThreadPoolExecutor(…) as …:`, `with redirect_stdout(text):`,
# `print(..., file=sys.stderr)`, a class as a wrapper, `warn(text, kind)`, `timeit(lambda: …)`,
POOL = "concurrent.futures.ThreadPoolExecutor"
STREAMS = {"contextlib.redirect_stdout", "contextlib.redirect_stderr"}
FITTING = STREAMS | {"sys.stdout", "sys.stderr", "functools.update_wrapper", "warnings.warn"}
TIMERS = {"timeit.timeit", "timeit.repeat"}
# what asks, where it is called by its name, what it is given,
CALLED_BY_NAME = {"functools.wraps", "functools.update_wrapper", "warnings.warn"}
# what is asked for attributes by its first arguments, their names,
GETTERS = {"operator.attrgetter", "operator.methodcaller"}
# and what changes settings, of NumPy's printing and of JAX.
PRINTING = {"set_printoptions", "printoptions"}
SETTING_FUNCTIONS = {"jax.config.update"}

# And what functions are asked for that JAX or Python has wrapped: not to be redefined on one's own either.
ASKED_OF_JITTED = _words(
    "lower trace eval_shape clear_cache compile as_text cost_analysis memory_analysis jaxpr fun func args keywords "
    "cache_info cache_clear cache_parameters defvjp defjvp defjvps def_vmap traces jitted_fn traced"
)
# Of these, functions of an answer may have some: nothing but a task's own text asks a function for them.
OF_A_FUNCTION = _words("cache_info cache_clear cache_parameters traces")
# What no answer may say by a keyword, and why.
ASKS = {
    "stacklevel": "that shows who calls",
    "eval_str": "texts in annotations may be run",
    "allow_pickle": "what is read may be run",
    "prop_cycle": "a text there is run",
    "refcheck": "another array may still use the memory",
}
# Names that must stand in the text as they are: asked for by a name that is put together, they are refused.
LEADS_OUT = (FORBIDDEN | BANS | PATHS | CLOCKS | {"format", "format_map", "loads", "disable_jit", "keywords"}) | {
    name
    for name in dir(types.FrameType) + dir(types.TracebackType) + dir(types.GeneratorType) + dir(types.CodeType)
    if not name.startswith("_") and "_" in name
}
# Of Pallas, whose references and grids these names belong to.
OF_PALLAS = _words("load")
RULES = _words("defjvp defjvps defvjp def_vmap")  # what gives a function rules of its own
# Attributes of which the value is asked first, while the cell runs: to be read with a dot.
ASKED_FIRST = OF_OWN | RULES | _words("update replace environ keywords")
# What these return is a type.
MAKE_TYPES = {"typing.TypeVar", "typing.ParamSpec", "typing.NewType", "collections.namedtuple"}

# Of these, private functions only calculate.
_CALCULATE = _words(
    "operator math cmath bisect heapq itertools statistics fractions decimal random time functools glob"
)


def is_private(name: str) -> bool:
    """Whether a name has one leading underscore; `_` alone is a name for what nobody reads."""
    return name.startswith("_") and not name.startswith("__") and len(name) > 1


def is_mangled(name: str) -> bool:
    """Whether Python puts the class before a name that stands in one: `self.__start`."""
    return name.startswith("__") and not name.endswith("__")


def _private_of_libraries() -> Iterator[str]:
    """Names with one underscore of what Python's allowed modules keep: modules, functions and classes."""
    for name in MODULES:
        if name.partition(".")[0] not in sys.stdlib_module_names or name == "__future__":
            continue
        for inner, value in vars(importlib.import_module(name)).items():
            if isinstance(value, types.ModuleType) or (callable(value) and name not in _CALCULATE):
                yield inner


def _private_of_the_course() -> Iterator[str]:
    for path in Path(__file__).parents[2].rglob("*.py"):
        if "tests" not in path.parts:
            yield from re.findall(r"\b_[a-z]\w*", path.read_text(encoding="utf-8"))


# On objects that are not seen to be an answer's own, these are not to be had, whatever its classes have,
PRIVATE_OF_LIBRARIES = _words("_src _core _getframe _current_frames _globals _make_predicate _inst _os _sys") | set(
    filter(is_private, _private_of_libraries())
)
# and these are not to be written.
PRIVATE = PRIVATE_OF_LIBRARIES | set(_private_of_the_course())
