#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/activations.h"
#include "kernels/half.h"
#include "kernels/isa.h"
#include "kernels/layout.h"

namespace pyrite::portable {

#include "kernels/isa.inl"

const KernelTable kKernelTable = {"scalar", product::activation_forms, prepare::activation_bytes,
                                  prepare::prepare_row, product::matmul,
                                  rows::kTable, attention::kTable};

}  // namespace pyrite::portable
