# The public names of the course, each from its home.
from .checks.equal import assert_equal as assert_equal
from .checks.hlo import assert_hlo as assert_hlo
from .checks.primitives import assert_primitives as assert_primitives
from .checks.prediction import assert_prediction as assert_prediction
from .checks.run_alone import run_alone as run_alone
from .checks.max_traces import assert_max_traces as assert_max_traces
from .checks.allclose import assert_allclose as assert_allclose
from .checks.partial_credit import partial_credit as partial_credit
from .instruments.guess import show_guess as show_guess
from .measuring.roofline import roofline as roofline
from .instruments.show import show_hlo as show_hlo
from .instruments.show import show_jaxpr as show_jaxpr
from .measuring.speedup import speedup as speedup
from .instruments.benchmark import benchmark as benchmark
from .instruments.trace_log import trace_log as trace_log
from .instruments.read_kernel import kernel_blocks as kernel_blocks
