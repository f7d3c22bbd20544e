// Products with quantised weights: 16 outputs in lanes, several rows of activations at once.
//
// For each step's columns (32, or 16) the sum of q * code is an exact integer; then
//   total = fused(sum - zero * sum of q, step * scale, total)
//   total = fused(offset, scale * sum of q, total)          for types with an offset
// in ascending order of columns. Tiles of any number of rows do the same, so a row's bits do not
// depend on its neighbours.

namespace product {

constexpr int kTotalRows = 64;  // rows whose totals are kept while a panel's columns go by

// The parts of a prepared row that a tile reads.
template <class Dot>
struct Operand {
  typename Dot::Row row;
  const float* scales;
  const int32_t* sums;   // of q, for each step
  const float* values;   // scale * sum of q
};

template <class Dot, int kSteps>
inline Operand<Dot> operand(const uint8_t* data, const ActivationAreas& areas) {
  const size_t sums = kSteps == 1 ? areas.sums : areas.half_sums;
  const size_t values = kSteps == 1 ? areas.values : areas.half_values;
  return {Dot::row(data, areas), reinterpret_cast<const float*>(data + areas.scales),
          reinterpret_cast<const int32_t*>(data + sums),
          reinterpret_cast<const float*>(data + values)};
}

// Adds a chunk's columns to the totals (kRows, 16) of some rows. `kSteps` is the steps of a block.
template <class Dot, int kSteps, bool kOffset, int kRows>
[[gnu::always_inline]] inline void tile(const Chunk<Dot>& chunk, int first_block, int num_blocks,
                                        int zero, const Activations& in,
                                        const ActivationAreas& areas, int first_row,
                                        float* totals) {
  Operand<Dot> operands[kRows];
  typename Dot::Row rows[kRows];
  Lanes total[kRows];
  for (int r = 0; r < kRows; ++r) {
    operands[r] = operand<Dot, kSteps>(in.data + size_t(first_row + r) * in.row_bytes, areas);
    rows[r] = operands[r].row;
    total[r] = load(totals + r * kPanelRows);
  }
  const uint8_t* codes = chunk.codes;
  for (int b = 0; b < num_blocks; ++b) {
    const int block = first_block + b;
#pragma GCC unroll 2
    for (int s = 0; s < kSteps; ++s) {
      typename Dot::Sum sums[kRows] = {};
#pragma GCC unroll 8
      for (int g = 0; g < kGroups / kSteps; ++g) {
        const int column = block * kBlock + (s * kGroups / kSteps + g) * 4;
        Dot::template add<kRows>(sums, codes, rows, column);
        codes += Dot::kGroupBytes;
      }
      const int at = b * kSteps + s;
      const Lanes step = load(chunk.steps + at * kPanelRows);
      for (int r = 0; r < kRows; ++r) {
        const int index = block * kSteps + s;
        const Ints whole = subtract_all(Dot::whole(sums[r]), zero * operands[r].sums[index]);
        const Lanes scaled = step * broadcast(operands[r].scales[block]);
        total[r] = fused_once(to_floats(whole), scaled, total[r]);
        if constexpr (kOffset) {
          const Lanes offset = load(chunk.offsets + at * kPanelRows);
          total[r] = fused_once(offset, broadcast(operands[r].values[index]), total[r]);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) store(totals + r * kPanelRows, total[r]);
}

// Tiles of kRows rows, then of half as many, down to one.
template <class Dot, int kSteps, bool kOffset, int kRows>
inline void tiles(const Chunk<Dot>& chunk, int first_block, int num_blocks, int zero,
                  const Activations& in, const ActivationAreas& areas, int first_row,
                  int num_rows, float* totals) {
  for (; num_rows >= kRows; num_rows -= kRows, first_row += kRows) {
    tile<Dot, kSteps, kOffset, kRows>(chunk, first_block, num_blocks, zero, in, areas, first_row,
                                      totals);
    totals += kRows * kPanelRows;
  }
  if constexpr (kRows > 1) {
    if (num_rows > 0) {
      tiles<Dot, kSteps, kOffset, kRows / 2>(chunk, first_block, num_blocks, zero, in, areas,
                                             first_row, num_rows, totals);
    }
  }
}

inline void put_totals(const float* totals, int num_rows, int lanes, float* out, size_t stride) {
  for (int r = 0; r < num_rows; ++r) {
    const Lanes total = load(totals + r * kPanelRows);
    if (lanes >= kPanelRows) {
      store(out + r * stride, total);
    } else {
      store_part(out + r * stride, total, lanes);
    }
  }
}

template <class Dot>
using Widen = void (*)(const uint8_t* panel, const PanelAreas& areas, int first_block,
                       int num_blocks, Chunk<Dot>& chunk);

template <class Dot, int kSteps, bool kOffset>
[[gnu::noinline]] void multiply_panel(Widen<Dot> widen, const uint8_t* panel,
                                      const PanelAreas& panel_places, int zero,
                                      const Activations& in, const ActivationAreas& places,
                                      int first_row, int num_rows, float* totals) {
  Chunk<Dot> chunk;
  const int blocks = in.columns / kBlock;
  std::memset(totals, 0, size_t(num_rows) * kPanelRows * sizeof(float));
  for (int block = 0; block < blocks; block += kChunkBlocks) {
    const int count = blocks - block < kChunkBlocks ? blocks - block : kChunkBlocks;
    widen(panel, panel_places, block, count, chunk);
    tiles<Dot, kSteps, kOffset, Dot::kMostRows>(chunk, block, count, zero, in, places, first_row,
                                                num_rows, totals);
  }
}

template <WeightType kType, int kPlaneCount>
void multiply(const PackedMatrix& matrix, int first_panel, int num_panels, const Activations& in,
              int first_row, int num_rows, float* out, size_t stride) {
  constexpr WeightTraits kTraits = traits_of(kType);
  using Dot = DotFor<code_bits(kType), kPlaneCount>;
  const PanelAreas panel_places = panel_areas(kType, matrix.columns);
  const ActivationAreas places = activation_areas(in.columns, in.planes, in.forms);
  alignas(64) float totals[kTotalRows * kPanelRows];
  for (int p = 0; p < num_panels; ++p) {
    const uint8_t* panel = matrix.data + size_t(first_panel + p) * matrix.panel_bytes;
    const int lanes = matrix.rows - (first_panel + p) * kPanelRows;
    for (int row = 0; row < num_rows; row += kTotalRows) {
      const int count = num_rows - row < kTotalRows ? num_rows - row : kTotalRows;
      multiply_panel<Dot, kBlock / kTraits.step_columns, kTraits.has_offset()>(
          widen<kType, Dot>, panel, panel_places, kTraits.zero, in, places, first_row + row, count,
          totals);
      put_totals(totals, count, lanes, out + size_t(row) * stride + p * kPanelRows, stride);
    }
  }
}

}  // namespace product
