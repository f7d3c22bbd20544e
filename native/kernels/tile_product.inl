// Products of 16 rows at once on AMX: the codes of a block are a B tile as they lie in a chunk, the
// planes of 16 prepared rows are A tiles, and sixteen vectors of totals stay in registers. The integers
// and the order of float operations are those of product.inl, so the bits are the same. For types with
// one step in a block: with two, tiles of half the depth were measured to be no faster than vectors.

namespace tiles {

using product::Chunk;
using product::kGroups;
using product::Panels;

constexpr int kTileRows = 16;

// Shapes: accumulators 0 and 1 (16 rows of 16 int32), planes 4 and 5, codes 6.
struct alignas(64) Shapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// A matrix product sets the shapes anew each time it starts, and gives the tiles back when it ends,
// so that nobody else's use of them can disturb it.
inline void set_shapes() {
  Shapes shapes;
  for (int tile = 0; tile < 7; ++tile) {
    shapes.row_bytes[tile] = uint16_t(tile == 4 || tile == 5 ? kBlock : 64);
    shapes.rows[tile] = uint8_t(tile == 6 ? kGroups : kTileRows);
  }
  asm volatile("" : : "m"(shapes));  // the next line tells GCC of the first bytes alone
  _tile_loadconfig(&shapes);
}

// Sums of one block for 16 rows, a plane each: int32 (planes, rows, outputs).
struct alignas(64) Sums {
  int32_t low[kTileRows * kPanelRows];
  int32_t high[kTileRows * kPanelRows];
};

// The tile registers are renamed by the processor: two accumulators are enough to work ahead.
template <int kPlaneCount>
[[gnu::always_inline]] inline void multiply_block(const uint8_t* codes, const uint8_t* planes,
                                                 size_t stride, Sums& sums) {
  _tile_loadd(6, codes, 64);
  _tile_zero(0);
  _tile_loadd(4, planes, stride);
  _tile_dpbsud(0, 4, 6);
  if constexpr (kPlaneCount == 2) {
    _tile_zero(1);
    _tile_loadd(5, planes + kBlock, stride);
    _tile_dpbsud(1, 5, 6);
    _tile_stored(1, sums.high, 64);
  }
  _tile_stored(0, sums.low, 64);
}

template <int kPlaneCount>
[[gnu::always_inline]] inline Ints whole(const Sums& sums, int row) {
  const __m512i low = _mm512_load_si512(sums.low + row * kPanelRows);
  if constexpr (kPlaneCount == 1) return {low};
  const __m512i high = _mm512_load_si512(sums.high + row * kPanelRows);
  return {_mm512_add_epi32(_mm512_slli_epi32(high, 8), low)};
}

// Adds one block's sums to the totals of 16 rows, or to their parts; `heads` is its head in the first
// row. See product.inl.
template <int kPlaneCount, class Shape>
[[gnu::always_inline]] inline void scale_block(const Sums& sums,
                                              const Chunk<ByteDot<kPlaneCount>>& chunk, int block,
                                              int zero_bits, const uint8_t* heads, size_t stride,
                                              Lanes* totals) {
  const Lanes step = load(chunk.steps + block * kPanelRows);
  const Lanes offset = load(chunk.offsets + block * kPanelRows);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    const BlockHead& head = *reinterpret_cast<const BlockHead*>(heads + r * stride);
    Ints sum = whole<kPlaneCount>(sums, r);
    if constexpr (!Shape::kOffset) sum = subtract_raised(sum, &head.sum, zero_bits);
    Lanes factor = broadcast(head.scale);
    if constexpr (Shape::kWhole) {
      sum = sum * load_ints(chunk.whole_steps + block * kPanelRows);
    } else {
      factor = step * factor;
    }
    totals[r] = fused_once(to_floats(sum), factor, totals[r]);
    if constexpr (Shape::kOffset && !Shape::kWhole) {
      totals[r] = fused_once(offset, broadcast(head.value), totals[r]);
    }
  }
}

// A chunk's columns for 16 rows. The tiles work one block ahead of the vectors.
template <int kPlaneCount, class Shape>
[[gnu::noinline]] void multiply_chunk(const Chunk<ByteDot<kPlaneCount>>& chunk, int num_blocks,
                                      int zero_bits, const uint8_t* rows, size_t stride,
                                      float* out) {
  using Dot = ByteDot<kPlaneCount>;
  Sums sums[2];
  Lanes totals[kTileRows];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    totals[r] = Shape::kWhole ? broadcast(0.0f) : load(out + r * kPanelRows);
  }
  const auto heads = [&](int b) { return rows + b * Dot::kBlockBytes; };
  const auto start = [&](int b) {
    multiply_block<kPlaneCount>(chunk.codes + b * kGroups * Dot::kGroupBytes,
                                heads(b) + sizeof(BlockHead), stride, sums[b % 2]);
  };
  start(0);
  for (int b = 0; b < num_blocks; ++b) {
    if (b + 1 < num_blocks) start(b + 1);
    scale_block<kPlaneCount, Shape>(sums[b % 2], chunk, b, zero_bits, heads(b), stride, totals);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    Lanes total = totals[r];
    if constexpr (Shape::kWhole) {
      total = load(out + r * kPanelRows);
      product::add_parts<Dot, Shape, 1>(chunk, num_blocks, rows + r * stride, 0, &totals[r], &total);
    }
    store(out + r * kPanelRows, total);
  }
}

// `num_rows` is a multiple of 16 and at most product::kTotalRows.
template <int kPlaneCount, class Shape>
void multiply_panel(const Panels<ByteDot<kPlaneCount>>& panels, const uint8_t* unit,
                    const uint8_t* rows, size_t stride, int num_rows, float* totals) {
  using Dot = ByteDot<kPlaneCount>;
  Chunk<Dot> chunk;
  const int blocks = panels.columns / kBlock;
  std::memset(totals, 0, size_t(num_rows) * kPanelRows * sizeof(float));
  for (int block = 0; block < blocks; block += product::kChunkBlocks, unit += panels.unit_bytes) {
    const int count = std::min(blocks - block, product::kChunkBlocks);
    panels.widen(unit, count, chunk);
    for (int row = 0; row < num_rows; row += kTileRows) {
      multiply_chunk<kPlaneCount, Shape>(
          chunk, count, panels.zero_bits, rows + row * stride + block * Dot::kBlockBytes, stride,
          totals + row * kPanelRows);
    }
  }
}

}  // namespace tiles
