from . import kernels as kernels
from . import program as program
from . import sampling as sampling
from . import text as text
