"""Reading HLO, from this process and from text that other versions and backends wrote."""

import functools
from collections import Counter

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from autograder.instruments import read_hlo

X = jnp.arange(1000.0)

# jit(lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=5)[0]), compiled for CPU, from JAX 0.10.2 and
# 0.12.0.1 alike but for the numbers in names; metadata shortened.
SCAN = """\
HloModule jit__lambda, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

FileNames
1 "lesson.py"

StackFrames
1 {file_location_id=1 parent_frame_id=1}


%wrapped_add_computation (param_0: s32[], param_1: s32[]) -> s32[] {
  %param_0 = s32[] parameter(0)
  %param_1 = s32[] parameter(1)
  ROOT %add.0 = s32[] add(%param_0, %param_1), metadata={op_name="jit(<lambda>)/while/body/add" stack_frame_id=5}
}

%wrapped_sine_computation (param_0.1: f32[8]) -> f32[8] {
  %param_0.1 = f32[8]{0} parameter(0)
  ROOT %sin.2 = f32[8]{0} sine(%param_0.1), metadata={op_name="jit(<lambda>)/while/body/closed_call/sin"}
}

%region_0.2 (arg_tuple.1: (s32[], f32[8])) -> (s32[], f32[8]) {
  %arg_tuple.1 = (s32[], f32[8]{0}) parameter(0), metadata={op_name="jit(<lambda>)/while" stack_frame_id=4}
  %constant.2 = s32[] constant(1), metadata={op_name="jit(<lambda>)/while" stack_frame_id=4}
  %get-tuple-element.5 = f32[8]{0} get-tuple-element(%arg_tuple.1), index=1
  %get-tuple-element.4 = s32[] get-tuple-element(%arg_tuple.1), index=0
  %wrapped_sine = f32[8]{0} fusion(%get-tuple-element.5), kind=kLoop, calls=%wrapped_sine_computation
  %wrapped_add = s32[] fusion(%get-tuple-element.4, %constant.2), kind=kLoop, calls=%wrapped_add_computation
  ROOT %tuple.3 = (s32[], f32[8]{0}) tuple(%wrapped_add, %wrapped_sine)
}

%wrapped_compare_computation (param_0.2: s32[], param_1.1: s32[]) -> pred[] {
  %param_0.2 = s32[] parameter(0)
  %param_1.1 = s32[] parameter(1)
  ROOT %lt.0 = pred[] compare(%param_0.2, %param_1.1), direction=LT
}

%region_1.3 (arg_tuple.3: (s32[], f32[8])) -> pred[] {
  %arg_tuple.3 = (s32[], f32[8]{0}) parameter(0)
  %constant.4 = s32[] constant(5)
  %get-tuple-element.6 = s32[] get-tuple-element(%arg_tuple.3), index=0
  ROOT %wrapped_compare = pred[] fusion(%get-tuple-element.6, %constant.4), kind=kLoop, \
calls=%wrapped_compare_computation
}

%while.5_computation (tuple.4: (s32[], f32[8])) -> (s32[], f32[8]) {
  %tuple.4 = (s32[], f32[8]{0}) parameter(0)
  ROOT %while.0 = (s32[], f32[8]{0}) while(%tuple.4), condition=%region_1.3, body=%region_0.2, \
backend_config={"dynamic_variables":[],"known_trip_count":{"n":"5"}}
}

ENTRY %main.4 (x.1: f32[8]) -> f32[8] {
  %x.1 = f32[8]{0} parameter(0), metadata={op_name="x"}
  %constant.5 = s32[] constant(0)
  %copy.6 = f32[8]{0} copy(%x.1)
  %copy.7 = s32[] copy(%constant.5)
  %tuple = (s32[], f32[8]{0}) tuple(%copy.7, %copy.6)
  %call = (s32[], f32[8]{0}) call(%tuple), to_apply=%while.5_computation, \
frontend_attributes={xla_cpu_small_call="true"}
  ROOT %while.7 = f32[8]{0} get-tuple-element(%call), index=1, metadata={op_name="jit(<lambda>)/while"}
}

"""

# The kernel of a sharded matmul: `replica_groups` as JAX 0.10.2 and as JAX 0.12.0.1 writes it.
ALL_REDUCE = """\
HloModule jit_f, is_scheduled=true, num_partitions=4

%add.clone (x.1: f32[], y.1: f32[]) -> f32[] {{
  %x.1 = f32[] parameter(0)
  %y.1 = f32[] parameter(1)
  ROOT %add.1 = f32[] add(%x.1, %y.1)
}}

ENTRY %main.0_spmd (param: f32[8,2], param.1: f32[2,8]) -> f32[8,8] {{
  %param = f32[8,2]{{1,0}} parameter(0), sharding={{devices=[1,4]<=[4]}}, metadata={{op_name="a"}}
  %param.1 = f32[2,8]{{1,0}} parameter(1), metadata={{op_name="b"}}
  %dot.1 = f32[8,8]{{1,0}} dot(%param, %param.1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT %all-reduce = f32[8,8]{{1,0}} all-reduce(%dot.1), channel_id=1, replica_groups={groups}, \
use_global_device_ids=true, to_apply=%add.clone, metadata={{op_name="jit(f)/dot_general" stack_frame_id=2}}
}}
"""

# What only other backends write: tiled layouts, memory spaces, types before operands, asynchronous pairs.
ACCELERATOR = """\
HloModule jit_g

ENTRY %main (p: bf16[128,256]) -> (bf16[128,256], f32[]) {
  %p = bf16[128,256]{1,0:T(8,128)(2,1)S(1)} parameter(0)
  %start = (bf16[128,256]{1,0}, bf16[512,256]{1,0}) all-gather-start(bf16[128,256]{1,0:T(8,128)} %p), dimensions={0}
  %done = bf16[512,256]{1,0} all-gather-done((bf16[128,256]{1,0}, bf16[512,256]{1,0}) %start)
  %kernel = (bf16[128,256]{1,0}, s8[/*index=1*/1024]{0}) custom-call(%p, %done), custom_call_target="__cublas$gemm"
  %first = bf16[128,256]{1,0} get-tuple-element(%kernel), index=0
  %zero = f32[] constant(0)
  ROOT %out = (bf16[128,256]{1,0}, f32[]) tuple(%first, %zero)
}
"""


def test_reads_text_with_a_loop():
    module = read_hlo.parse(SCAN)
    assert (module.name, module.entry) == ("jit__lambda", "main.4")
    assert module.ops == Counter({"while": 1, "sine": 1, "add": 1, "compare": 1})
    assert module.fusions == 3
    assert module.loops
    (loop,) = (i for i in module.walk() if i.opcode == "while")
    assert loop.trip_count == 5
    assert loop.called == (("condition", "region_1.3"), ("body", "region_0.2"))
    assert (loop.type, loop.operands, loop.root) == ("(s32[], f32[8]{0})", ("tuple.4",), True)


def test_a_module_is_printed_in_one_line_without_its_instructions():
    assert repr(read_hlo.parse(SCAN)) == "Module(name='jit__lambda', entry='main.4')"


@pytest.mark.parametrize("groups", ["mesh['axis_0'=1,'axis_1'=4] {'axis_1'}", "{{0,1,2,3}}", "[1,4]<=[4]"])
def test_reads_collectives(groups):
    module = read_hlo.parse(ALL_REDUCE.format(groups=groups))
    assert module.collectives == Counter({"all-reduce": 1})
    assert module.ops == Counter({"dot": 1, "all-reduce": 1}), "the scalar add inside does not count"
    reduce = next(i for i in module.walk() if i.opcode == "all-reduce")
    assert reduce.origin == "jit(f)/dot_general"


def test_reads_what_other_backends_write():
    module = read_hlo.parse(ACCELERATOR)
    assert module.ops == Counter({"all-gather": 1, "custom-call": 1}), "a start and a done are one collective"
    entry = {i.name: i for i in module.computations["main"]}
    assert entry["start"].operands == ("p",)
    assert entry["done"].operands == ("start",)
    assert entry["zero"].operands == ("0",)
    assert read_hlo.type_name(entry["p"].type) == "bfloat16[128,256]"


def test_text_that_is_no_hlo():
    with pytest.raises(ValueError, match="no ENTRY"):
        read_hlo.parse("module @jit_f {\n}\n")


@pytest.mark.parametrize(
    "hlo_type, name",
    [
        ("f32[8,4]{1,0}", "float32[8,4]"),
        ("pred[]", "bool[]"),
        ("s8[3]{0}", "int8[3]"),
        ("u32[2]", "uint32[2]"),
        ("c128[2]", "complex128[2]"),
        ("bf16[1]{0:T(256)}", "bfloat16[1]"),
        ("f8e4m3fn[2]", "float8_e4m3fn[2]"),
        ("(s32[], f32[8]{0})", "(int32[], float32[8])"),
        ("token[]", "token[]"),
    ],
)
def test_types_in_the_words_of_jax(hlo_type, name):
    assert read_hlo.type_name(hlo_type) == name


def test_parts_of_a_tuple_type():
    assert read_hlo.tuple_types("(s32[], (f32[2,3]{1,0}, pred[]), f32[8]{0})") == [
        "s32[]",
        "(f32[2,3]{1,0}, pred[])",
        "f32[8]{0}",
    ]
    assert read_hlo.tuple_types("f32[8]{0}") == ["f32[8]{0}"]
    assert read_hlo.tuple_types("()") == []


def test_tidy_keeps_the_program_only():
    tidy = read_hlo.tidy(SCAN)
    assert tidy.startswith("HloModule jit__lambda\n")
    for noise in ("metadata", "FileNames", "lesson.py", "StackFrames", "backend_config", "frontend_attributes"):
        assert noise not in tidy
    assert read_hlo.parse(tidy).ops == read_hlo.parse(SCAN).ops


def test_before_and_after_xla():
    def fn(a, b, c):
        return a + b - c

    before = read_hlo.hlo(fn, X, X, X, stage="lowered")
    after = read_hlo.hlo(fn, X, X, X)
    assert before.module.ops == after.module.ops == Counter(add=1, subtract=1)
    assert before.module.fusions == 0
    assert after.module.fusions == 1
    assert before.flops == after.flops == 2 * X.size
    assert after.bytes == 4 * X.nbytes < before.bytes
    assert before.temp_bytes is None and after.temp_bytes == 0


def test_inner_functions_are_walked_into():
    before = read_hlo.hlo(jax.nn.selu, X, stage="lowered")
    assert before.module.ops["exponential-minus-one"] == 1
    assert "call" not in before.module.ops


def test_a_loop_is_found_and_its_estimate_counts_once():
    def fn(x):
        return lax.scan(lambda c, _: (c * 2, None), x, None, length=10)[0]

    found = read_hlo.hlo(fn, X)
    assert found.module.loops
    assert found.flops < 2 * X.size


def test_no_estimate_is_none_and_no_work_is_zero():
    assert read_hlo.hlo(lambda x: jax.pure_callback(lambda x: x, x, x), X).flops is None
    assert read_hlo.hlo(lambda x: x.T.T, X, stage="lowered").flops == 0


def test_a_stage_that_does_not_exist():
    with pytest.raises(ValueError, match='"lowered" or "optimized", not \'after\''):
        read_hlo.hlo(jnp.sin, X, stage="after")


def norm(x):
    x = x - x.mean(0)
    return x / x.std(0)


def test_modules_are_counted_afresh_every_time():
    eager = [read_hlo.modules_built(norm, X) for _ in range(2)]
    assert eager[0] == eager[1]
    assert len(eager[0]) == 4
    assert read_hlo.modules_built(jax.jit(norm), X) == ["jit(norm)"]


def test_equal_eager_operations_are_one_module():
    assert read_hlo.modules_built(lambda x: x * x * x, X) == ["jit(multiply)"]


def test_counting_modules_changes_no_cache():
    runs = []

    @jax.jit
    def fn(x):
        runs.append(x)
        return x + 1

    fn(X)
    read_hlo.modules_built(fn, X)
    read_hlo.hlo(fn, X)
    assert len(runs) == 3
    fn(X)
    assert len(runs) == 3


def test_counting_modules_does_not_use_up_a_donated_argument():
    fn = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = X + 1
    read_hlo.modules_built(fn, x)
    assert not x.is_deleted()


def test_static_arguments():
    fn = jax.jit(lambda x, n: sum(x * i for i in range(n)), static_argnums=1)
    assert read_hlo.hlo(fn, X, 3).module.fusions >= 1
    assert len(read_hlo.modules_built(fn, X, 3)) == 1


def test_a_bound_method_that_is_jitted():
    class Model:
        @functools.partial(jax.jit, static_argnums=(0, 2))
        def grow(self, x, n):
            for _ in range(n):
                x = jnp.sin(x)
            return x

    model, x = Model(), jnp.ones(8)
    assert read_hlo.hlo(model.grow, x, 3).module.ops["sine"] == 3
    assert read_hlo.modules_built(model.grow, x, 3) == ["jit(grow)"]
