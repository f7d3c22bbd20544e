// All quantizers of one instruction set, in the order of use. See kernels/isa.inl: an isa_*.cpp names
// its instruction set in PYRITE_ISA, includes this, and is compiled for it.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/half.h"
#include "quantize/isa.h"

#define PYRITE_QUOTED(word) #word
#define PYRITE_NAME_OF(word) PYRITE_QUOTED(word)

#if !defined(PYRITE_PORTABLE)
namespace pyrite::PYRITE_ISA {

#include "kernels/lanes.h"

}  // namespace pyrite::PYRITE_ISA
#endif

namespace pyrite::PYRITE_ISA {

namespace quantize {

#if defined(PYRITE_PORTABLE)
#include "quantize/lanes_plain.inl"
#endif

#include "quantize/choose.inl"

#include "quantize/tile.inl"

#include "quantize/levels.inl"

#include "quantize/searches.inl"

#include "quantize/symmetric.inl"

#include "quantize/affine.inl"

#include "quantize/blocks.inl"

#include "quantize/superblocks.inl"

#include "quantize/layouts.inl"

template <class Blocks>
void write_tile(const float* values, const float* importance, uint8_t* blocks) {
  if (importance == nullptr) return Blocks::template write<false>(values, importance, blocks);
  Blocks::template write<true>(values, importance, blocks);
}

template <class Blocks>
constexpr Quantizer row(WeightType type) {
  return {type, Blocks::kTileColumns, Blocks::kTileBytes, write_tile<Blocks>};
}

constexpr Quantizer kRows[] = {
    row<Float16>(WeightType::F16),
    row<BrainFloat16>(WeightType::BF16),
    row<ScaledBlocks<SearchQ4_0>>(WeightType::Q4_0),
    row<LineBlocks<SearchQ4_1>>(WeightType::Q4_1),
    row<ScaledBlocks<SearchQ5_0>>(WeightType::Q5_0),
    row<LineBlocks<SearchQ5_1>>(WeightType::Q5_1),
    row<Q8_0>(WeightType::Q8_0),
    row<LineSuperblocks<SearchQ2K, LayoutQ2K, 16>>(WeightType::Q2_K),
    row<ScaledSuperblocks<SearchQ3K, LayoutQ3K, 16>>(WeightType::Q3_K),
    row<LineSuperblocks<SearchQ4K, LayoutQ4K, 32>>(WeightType::Q4_K),
    row<LineSuperblocks<SearchQ5K, LayoutQ5K, 32>>(WeightType::Q5_K),
    row<ScaledSuperblocks<SearchQ6K, LayoutQ6K, 16>>(WeightType::Q6_K),
    row<ScaledBlocks<SearchIQ4NL>>(WeightType::IQ4_NL),
    row<ScaledSuperblocks<SearchIQ4XS, LayoutIQ4XS, 32>>(WeightType::IQ4_XS),
};

float largest_of(const float* values, size_t count) {
  Lanes most = broadcast(0.0f), broken = most;  // 0, or NaN once a value is not finite
  for (size_t i = 0; i < count; ++i) {
    const Lanes value = load(values + 16 * i);
    most = maximum(magnitude(value), most);
    broken = broken + (value - value);
  }
  return largest(most) + sum(broken);
}

}  // namespace quantize

const QuantizerTable kQuantizers = {PYRITE_NAME_OF(PYRITE_ISA), quantize::kRows,
                                    int(std::size(quantize::kRows)), quantize::largest_of};

}  // namespace pyrite::PYRITE_ISA
