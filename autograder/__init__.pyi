# The public names of the course, each from its home.
from ._check_equal import assert_equal as assert_equal
from ._check_hlo import assert_hlo as assert_hlo
from ._check_jaxpr import assert_primitives as assert_primitives
from ._check_prediction import assert_prediction as assert_prediction
from ._check_traces import assert_max_traces as assert_max_traces
from ._check_values import assert_allclose as assert_allclose
from ._credit import partial_credit as partial_credit
from ._guess import show_guess as show_guess
from ._roofline import roofline as roofline
from ._show import show_hlo as show_hlo
from ._show import show_jaxpr as show_jaxpr
from ._speedup import speedup as speedup
from ._timing import benchmark as benchmark
from ._traces import trace_log as trace_log
