// All that one instruction set has, in the order of use. An isa_*.cpp names its instruction set in
// PYRITE_ISA, includes this, and is compiled for it; no other file is. Nothing here may be shared
// between instruction sets, for a linker would keep one copy of it.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/activations.h"
#include "kernels/half.h"
#include "kernels/isa.h"
#include "kernels/layout.h"
#include "kernels/small_floats.h"

#define PYRITE_QUOTED(word) #word
#define PYRITE_NAME_OF(word) PYRITE_QUOTED(word)

namespace pyrite::PYRITE_ISA {

#include "kernels/lanes.h"

#include "kernels/curves.inl"

#include "kernels/rows.inl"

#include "kernels/recurrence.inl"

#include "kernels/turn.h"

#include "kernels/attention_blocks.inl"

#include "kernels/attention_products.inl"

#include "kernels/attention_softmax.inl"

#include "kernels/attention.inl"

#include "kernels/codes.h"

#include "kernels/prepare.inl"

#include "kernels/chunk.inl"

#include "kernels/block_sums.inl"

#include "kernels/product.inl"

#include "kernels/few_rows.inl"

#include "kernels/float_product.inl"

#include "kernels/scaled_product.inl"

#include "kernels/matmul.inl"

const KernelTable kKernelTable = {PYRITE_NAME_OF(PYRITE_ISA), product::activation_forms,
                                  prepare::activation_bytes, prepare::prepare_row, product::matmul,
                                  rows::kTable, attention::kTable, recurrence::kTable};

}  // namespace pyrite::PYRITE_ISA
