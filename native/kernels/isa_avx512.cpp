#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <immintrin.h>
#include "kernels/activations.h"
#include "kernels/half.h"
#include "kernels/isa.h"
#include "kernels/layout.h"

namespace pyrite::avx512 {

#include "kernels/isa.inl"

const KernelTable kKernelTable = {"avx512", product::activation_forms, prepare::activation_bytes,
                                  prepare::prepare_row, product::matmul,
                                  rows::kTable, attention::kTable};

}  // namespace pyrite::avx512
