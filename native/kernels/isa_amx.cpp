// AMX: the AVX-512 table, with products of many rows on tiles.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/activations.h"
#include "kernels/half.h"
#include "kernels/isa.h"
#include "kernels/layout.h"
#include "kernels/small_floats.h"

namespace pyrite::amx {

#include "kernels/lanes.h"

#include "kernels/codes.h"

#include "kernels/chunk.inl"

#include "kernels/block_sums.inl"

#include "kernels/product.inl"

#include "kernels/tile_product.inl"

namespace {

// Panels of some rows of activations, a multiple of 16.
template <WeightType kType, int kPlaneCount>
void multiply(const PackedMatrix& matrix, int first_panel, int num_panels, const Activations& in,
              int first_row, int num_rows, float* out, size_t out_stride) {
  constexpr WeightTraits kTraits = traits_of(kType);
  using Dot = ByteDot<kPlaneCount>;
  const product::Panels<Dot> panels{product::widen<kType, Dot>, unit_bytes(kType),
                                    matrix.panel_bytes, matrix.columns,
                                    std::countr_zero(unsigned(kTraits.zero))};
  const size_t place = Dot::place(activation_areas(in.columns, in.planes, in.forms));
  const uint8_t* rows = in.data + size_t(first_row) * in.row_bytes + place;
  alignas(64) float totals[product::kTotalRows * kPanelRows];
  static_assert(kTraits.step_columns == kBlock);
  tiles::set_shapes();
  for (int p = 0; p < num_panels; ++p) {
    const uint8_t* panel = matrix.data + size_t(first_panel + p) * matrix.panel_bytes;
    const int lanes = matrix.rows - (first_panel + p) * kPanelRows;
    for (int row = 0; row < num_rows; row += product::kTotalRows) {
      const int count = std::min(num_rows - row, product::kTotalRows);
      tiles::multiply_panel<kPlaneCount, product::ShapeOf<kType, kPlaneCount>>(
          panels, panel, rows + row * in.row_bytes, in.row_bytes, count, totals);
      product::put_totals(totals, count, lanes, out + row * out_stride + p * kPanelRows,
                          out_stride);
    }
  }
  _tile_release();
}

using Multiply = decltype(&multiply<WeightType::Q4_0, 1>);

// Null for what vectors do better: floats, and types with two steps in a block.
template <int kPlaneCount>
Multiply multiply_of(WeightType type) {
  switch (type) {
    case WeightType::F32:
    case WeightType::F16:
    case WeightType::BF16:
    case WeightType::E4M3:
    case WeightType::E5M2:
    case WeightType::Q2_K:
    case WeightType::Q3_K:
    case WeightType::Q6_K:
    case WeightType::IQ1_M:
    case WeightType::IQ2_XS:
    case WeightType::IQ2_S:
    case WeightType::NVFP4: return nullptr;
    case WeightType::Q4_0: return multiply<WeightType::Q4_0, kPlaneCount>;
    case WeightType::Q4_1: return multiply<WeightType::Q4_1, kPlaneCount>;
    case WeightType::Q5_0: return multiply<WeightType::Q5_0, kPlaneCount>;
    case WeightType::Q5_1: return multiply<WeightType::Q5_1, kPlaneCount>;
    case WeightType::Q8_0: return multiply<WeightType::Q8_0, kPlaneCount>;
    case WeightType::Q4_K: return multiply<WeightType::Q4_K, kPlaneCount>;
    case WeightType::Q5_K: return multiply<WeightType::Q5_K, kPlaneCount>;
    case WeightType::IQ4_NL: return multiply<WeightType::IQ4_NL, kPlaneCount>;
    case WeightType::IQ4_XS: return multiply<WeightType::IQ4_XS, kPlaneCount>;
    case WeightType::IQ1_S: return multiply<WeightType::IQ1_S, kPlaneCount>;
    case WeightType::IQ2_XXS: return multiply<WeightType::IQ2_XXS, kPlaneCount>;
    case WeightType::IQ3_XXS: return multiply<WeightType::IQ3_XXS, kPlaneCount>;
    case WeightType::IQ3_S: return multiply<WeightType::IQ3_S, kPlaneCount>;
    case WeightType::TQ1_0:
    case WeightType::TQ2_0: return multiply<WeightType::TQ2_0, kPlaneCount>;
    case WeightType::MXFP4: return multiply<WeightType::MXFP4, kPlaneCount>;
    case WeightType::Q1_0: return multiply<WeightType::Q1_0, kPlaneCount>;
    case WeightType::Q2_0: return multiply<WeightType::Q2_0, kPlaneCount>;
  }
  return nullptr;
}

void matmul(const PackedMatrix& matrix, int first_panel, int num_panels,
            const Activations& activations, int first_row, int num_rows, float* out,
            size_t out_stride) {
  const Multiply on_tiles = activations.planes == 1 ? multiply_of<1>(matrix.type)
                                                    : multiply_of<2>(matrix.type);
  const int tiled = on_tiles == nullptr ? 0 : num_rows / tiles::kTileRows * tiles::kTileRows;
  if (tiled > 0) {
    on_tiles(matrix, first_panel, num_panels, activations, first_row, tiled, out, out_stride);
  }
  if (tiled < num_rows) {
    avx512::kKernelTable.matmul(matrix, first_panel, num_panels, activations, first_row + tiled,
                                num_rows - tiled, out + size_t(tiled) * out_stride, out_stride);
  }
}

}  // namespace

// Linux hands out the tiles' state on request, once for all threads of the process.
bool request_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

const KernelTable& kernel_table() {
  static const KernelTable table = [] {
    KernelTable made = avx512::kKernelTable;
    made.isa = "amx";
    made.matmul = matmul;
    return made;
  }();
  return table;
}

}  // namespace pyrite::amx
