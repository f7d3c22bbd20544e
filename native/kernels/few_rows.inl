// Products of few rows, which wait for the weights: codes go from the packed panel to registers and
// into the products of some rows at once, and what is needed soon is asked for in between, evenly. So
// reading and multiplying go on together, where a chunk that is widened first and multiplied then
// takes the time of both. The arithmetic is that of product.inl.

namespace product {

// Bytes ahead that are asked for into the second cache, and into the first: there are too few places
// for lines on their way into the first one to wait for memory in them.
constexpr int kFarAhead = 8192;
constexpr int kNearAhead = 2048;

// The groups of a packed block. While they are used, what lies ahead is asked for, each line once: a
// second time would take a place among those that are on their way. Where a unit ends amid a line, that
// one is left to its load, which is as fast.
template <WeightType kType, class Dot>
struct PackedCodes {
  static constexpr int kUnitLines = int(unit_bytes(kType) / 64);
  static constexpr int kLines = (kUnitLines + kUnitBlocks - 1) / kUnitBlocks;  // for a block at most

  PackedBlock<kType> block;
  const uint8_t* start;
  int num_lines;

  static constexpr int first_line(int b) { return b * kUnitLines / kUnitBlocks; }

  // `room` is for the codes as the Dot keeps them; compilers leave them in registers.
  PYRITE_INLINE const uint8_t* group(int g, uint8_t* room) const {
#pragma GCC unroll 2
    for (int line = g * kLines / kGroups; line < (g + 1) * kLines / kGroups; ++line) {
      if (kUnitLines % kUnitBlocks != 0 && line >= num_lines) continue;
      __builtin_prefetch(start + kFarAhead + 64 * line, 0, 2);
      __builtin_prefetch(start + kNearAhead + 64 * line, 0, 3);
    }
    constexpr WeightTraits kTraits = traits_of(kType);
    if constexpr (kTraits.low_bits == 4 && kTraits.high_bits == 0 && kTraits.values == nullptr &&
                  requires(Codes codes) { Dot::put_nibbles(room, codes, true); }) {
      Dot::put_nibbles(room, load_codes(block.low + 64 * (g % 4)), g >= 4);
    } else {
      Dot::put(room, group_codes<kType>(block.low, block.high, g));
    }
    return room;
  }
};

// A unit as the source of a tile; the chunk has its steps, but no codes.
template <WeightType kType, class Dot>
struct Packed {
  const Chunk<Dot>& chunk;
  const uint8_t* unit;
  int num_blocks;

  PYRITE_INLINE PackedCodes<kType, Dot> open(int b) const {
    using Block = PackedCodes<kType, Dot>;
    const int line = Block::first_line(b);
    return {PackedBlock<kType>(unit, num_blocks, b), unit + 64 * line,
            Block::first_line(b + 1) - line};
  }
};

// Tiles of `size` rows, at most kRows, then what is left.
template <WeightType kType, class Dot, class Shape, int kRows>
inline void few_tiles(const Packed<kType, Dot>& source, int zero_bits, const uint8_t* rows,
                      size_t stride, int num_rows, int size, float* totals) {
  for (; size >= kRows && num_rows >= kRows; num_rows -= kRows) {
    tile<Dot, Shape, kRows>(source, source.num_blocks, zero_bits, rows, stride, totals);
    rows += kRows * stride;
    totals += kRows * kPanelRows;
  }
  if constexpr (kRows > 1) {
    constexpr int kNext = kRows > 4 ? kRows / 2 : kRows - 1;
    if (num_rows > 0) {
      few_tiles<kType, Dot, Shape, kNext>(source, zero_bits, rows, stride, num_rows, size, totals);
    }
  }
}

// Totals (num_rows, 16) of a panel.
template <WeightType kType, class Dot, class Shape>
[[gnu::noinline]] void multiply_few_of_panel(const uint8_t* unit, int blocks, const uint8_t* rows,
                                             size_t stride, int num_rows, float* totals) {
  constexpr int kZeroBits = std::countr_zero(unsigned(traits_of(kType).zero));
  constexpr int kMost = Dot::kMostRows;
  Chunk<Dot> chunk;
  const int tiles = (num_rows + kMost - 1) / kMost;
  const int size = (num_rows + tiles - 1) / tiles;
  std::memset(totals, 0, size_t(num_rows) * kPanelRows * sizeof(float));
  for (int block = 0; block < blocks; block += kUnitBlocks, unit += unit_bytes(kType)) {
    const int count = blocks - block < kUnitBlocks ? blocks - block : kUnitBlocks;
    widen_unit_steps<kType>(unit, count, chunk);
    const Packed<kType, Dot> source{chunk, unit, count};
    few_tiles<kType, Dot, Shape, kMost>(source, kZeroBits, rows + block * Dot::kBlockBytes, stride,
                                        num_rows, size, totals);
  }
}

template <WeightType kType, class Dot, class Shape>
void multiply_few(const PackedMatrix& matrix, int first_panel, int num_panels,
                  const Activations& in, int first_row, int num_rows, float* out,
                  size_t out_stride) {
  const size_t place = Dot::place(activation_areas(in.columns, in.planes, in.forms));
  const uint8_t* rows = in.data + size_t(first_row) * in.row_bytes + place;
  alignas(64) float totals[kFewRows * kPanelRows];
  for (int p = first_panel; p < first_panel + num_panels; ++p) {
    multiply_few_of_panel<kType, Dot, Shape>(matrix.data + size_t(p) * matrix.panel_bytes,
                                             matrix.columns / kBlock, rows, in.row_bytes, num_rows,
                                             totals);
    put_totals(totals, num_rows, matrix.rows - p * kPanelRows, out, out_stride);
    out += kPanelRows;
  }
}

}  // namespace product
