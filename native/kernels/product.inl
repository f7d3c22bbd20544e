// Products with quantised weights: 16 outputs in lanes, several rows of activations at once.
//
// The sum of a block of 32 columns is an exact integer. With float steps it is that of
// q * (code - zero), and
//   total = fused(sum, step * scale of q, total)
// With whole steps it is that of q * (code - zero) * step, and over the 256 columns of a file's block
//   part = fused(sum, scale of q, part), then once total = fused(part, scale of the block, total)
// Types with an offset have for each step
//   total = fused(offset, scale * sum of q, total)
// Blocks go in ascending order. Tiles of any number of rows do the same, so a row's bits do not depend
// on its neighbours.

namespace product {

constexpr int kTotalRows = 64;  // rows whose totals are kept while a panel's columns go by
constexpr int kPanelsTogether = 8;  // their totals, 4 KB each, stay near with the rows of a chunk
constexpr int kFewRows = 8;  // with more, codes unpacked once for all tiles cost less than for each

// Up to so many rows codes are not worth folding; see few_rows.inl.
template <class Dot, class Shape>
constexpr int few_rows() {
  return Shape::kSteps == 2 && can_be_folded<Dot>() ? kFewRows / 2 : kFewRows;
}

template <class Dot>
PYRITE_INLINE const auto& head_of(const uint8_t* block) {
  using Head = std::conditional_t<is_narrow<Dot>(), PairHead, BlockHead>;
  return *reinterpret_cast<const Head*>(block);
}

template <class Dot, class Shape, int kRows>
PYRITE_INLINE void add_offsets(const Chunk<Dot>& chunk, int block, const uint8_t* heads,
                               size_t stride, Lanes* totals) {
#pragma GCC unroll 2
  for (int s = 0; s < Shape::kSteps; ++s) {
    const Lanes offset = load(chunk.offsets + (block * Shape::kSteps + s) * kPanelRows);
    for (int r = 0; r < kRows; ++r) {
      const auto& head = head_of<Dot>(heads + r * stride);
      const float value = Shape::kSteps == 1 ? head.value : head.half_values[s];
      totals[r] = fused_once(offset, broadcast(value), totals[r]);
    }
  }
}

// With whole steps, what a chunk's columns add to totals (kRows, 16): offsets, then the parts.
template <class Dot, class Shape, int kRows>
PYRITE_INLINE void add_parts(const Chunk<Dot>& chunk, int num_blocks, const uint8_t* rows,
                             size_t stride, const Lanes* parts, Lanes* totals) {
  for (int b = 0; Shape::kOffset && b < num_blocks; ++b) {
    add_offsets<Dot, Shape, kRows>(chunk, b, rows + b * Dot::kBlockBytes, stride, totals);
  }
  const Lanes scale = load(chunk.scale);
  for (int r = 0; r < kRows; ++r) totals[r] = fused_once(parts[r], scale, totals[r]);
}

// A chunk that is widened already. The source of a tile has a chunk with the steps of all blocks that
// were opened, and gives the codes of the one that was opened last.
template <class Dot>
struct Widened {
  const Chunk<Dot>& chunk;

  PYRITE_INLINE ChunkCodes<Dot> open(int b) const {
    return {chunk.codes + b * kGroups * Dot::kGroupBytes};
  }
};

// Adds some blocks' columns to the totals (kRows, 16) of some rows.
template <class Dot, class Shape, int kRows, class Source>
PYRITE_INLINE void tile(const Source& source, int num_blocks, int zero_bits, const uint8_t* rows,
                        size_t stride, float* totals) {
  const Chunk<Dot>& chunk = source.chunk;
  constexpr int kSections = count_sections<Dot, Shape>();
  constexpr int kSumSections = kSections / Shape::kSums;
  Lanes total[kRows];  // with whole steps: the parts
  for (int r = 0; r < kRows; ++r) {
    total[r] = Shape::kWhole ? broadcast(0.0f) : load(totals + r * kPanelRows);
  }
  const uint8_t* heads = rows;
  for (int b = 0; b < num_blocks; ++b) {
    const auto codes = source.open(b);
    const int step = b * Shape::kSteps * kPanelRows;
    Ints sums[kRows];
#pragma GCC unroll 2
    for (int s = 0; s < kSections; ++s) {
      Ints whole[kRows];
      sum_section<Dot, Shape, kRows>(codes, heads, stride, s, zero_bits, chunk.whole_steps + step,
                                     whole);
      for (int r = 0; r < kRows; ++r) {
        sums[r] = s % kSumSections == 0 ? whole[r] : sums[r] + whole[r];
        if ((s + 1) % kSumSections != 0) continue;
        Lanes factor = broadcast(head_of<Dot>(heads + r * stride).scale);
        if constexpr (!Shape::kWhole) {
          factor = load(chunk.steps + step + s / kSumSections * kPanelRows) * factor;
        }
        total[r] = fused_once(to_floats(sums[r]), factor, total[r]);
      }
    }
    if constexpr (Shape::kOffset && !Shape::kWhole) {
      add_offsets<Dot, Shape, kRows>(chunk, b, heads, stride, total);
    }
    heads += Dot::kBlockBytes;
  }
  if constexpr (Shape::kWhole) {
    Lanes parts[kRows];
    for (int r = 0; r < kRows; ++r) {
      parts[r] = total[r];
      total[r] = load(totals + r * kPanelRows);
    }
    add_parts<Dot, Shape, kRows>(chunk, num_blocks, rows, stride, parts, total);
  }
  for (int r = 0; r < kRows; ++r) store(totals + r * kPanelRows, total[r]);
}

// Tiles of kRows rows, then of half as many, down to one.
template <class Dot, class Shape, int kRows>
inline void tiles(const Chunk<Dot>& chunk, int num_blocks, int zero_bits, const uint8_t* rows,
                  size_t stride, int num_rows, float* totals) {
  for (; num_rows >= kRows; num_rows -= kRows) {
    tile<Dot, Shape, kRows>(Widened<Dot>{chunk}, num_blocks, zero_bits, rows, stride, totals);
    rows += kRows * stride;
    totals += kRows * kPanelRows;
  }
  if constexpr (kRows > 1) {
    if (num_rows > 0) {
      tiles<Dot, Shape, kRows / 2>(chunk, num_blocks, zero_bits, rows, stride, num_rows, totals);
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
using Widen = void (*)(const uint8_t* unit, int num_blocks, Chunk<Dot>& chunk);

// Adjacent panels.
template <class Dot>
struct Panels {
  Widen<Dot> widen;
  size_t unit_bytes;
  size_t panel_bytes;
  int columns;
  int zero_bits;
};

// Totals (num_panels, kTotalRows, 16) of panels with rows that start at `rows`, where their form has
// its place. The rows' part of a chunk stays in a near cache while it meets each panel.
template <class Dot, class Shape>
[[gnu::noinline]] void multiply_panels(const Panels<Dot>& panels, const uint8_t* first,
                                       int num_panels, const uint8_t* rows, size_t stride,
                                       int num_rows, float* totals) {
  constexpr int kPanelTotals = kTotalRows * kPanelRows;
  Chunk<Dot> chunk;
  const int blocks = panels.columns / kBlock;
  for (int p = 0; p < num_panels; ++p) {
    std::memset(totals + p * kPanelTotals, 0, size_t(num_rows) * kPanelRows * sizeof(float));
  }
  for (int block = 0; block < blocks; block += kChunkBlocks, first += panels.unit_bytes) {
    const int count = blocks - block < kChunkBlocks ? blocks - block : kChunkBlocks;
    for (int p = 0; p < num_panels; ++p) {
      panels.widen(first + p * panels.panel_bytes, count, chunk);
      tiles<Dot, Shape, Dot::kMostRows>(chunk, count, panels.zero_bits,
                                        rows + block * Dot::kBlockBytes, stride, num_rows,
                                        totals + p * kPanelTotals);
    }
  }
}

// With many rows several panels go together; with few, each is read from memory in one stream.
template <WeightType kType, class Dot, class Shape>
void multiply_with(const PackedMatrix& matrix, int first_panel, int num_panels,
                   const Activations& in, int first_row, int num_rows, float* out,
                   size_t out_stride) {
  constexpr WeightTraits kTraits = traits_of(kType);
  const Panels<Dot> panels{widen<kType, Dot>, unit_bytes(kType), matrix.panel_bytes,
                           matrix.columns, std::countr_zero(unsigned(kTraits.zero))};
  const size_t place = Dot::place(activation_areas(in.columns, in.planes, in.forms));
  const uint8_t* rows = in.data + size_t(first_row) * in.row_bytes + place;
  const int together = num_rows > kFewRows ? kPanelsTogether : 1;
  alignas(64) float totals[kPanelsTogether * kTotalRows * kPanelRows];
  for (int p = 0; p < num_panels; p += together) {
    const uint8_t* data = matrix.data + size_t(first_panel + p) * matrix.panel_bytes;
    const int some = std::min(together, num_panels - p);
    for (int row = 0; row < num_rows; row += kTotalRows) {
      const int count = std::min(num_rows - row, kTotalRows);
      multiply_panels<Dot, Shape>(panels, data, some, rows + row * in.row_bytes, in.row_bytes,
                                  count, totals);
      for (int i = 0; i < some; ++i) {
        put_totals(totals + i * kTotalRows * kPanelRows, count,
                   matrix.rows - (first_panel + p + i) * kPanelRows,
                   out + row * out_stride + (p + i) * kPanelRows, out_stride);
      }
    }
  }
}

#if defined(PYRITE_PORTABLE)
constexpr bool kReadsAhead = false;  // plain C++ does not outrun memory
#else
constexpr bool kReadsAhead = true;
#endif

template <WeightType kType, class Dot, class Shape>
void multiply_few(const PackedMatrix& matrix, int first_panel, int num_panels,
                  const Activations& in, int first_row, int num_rows, float* out,
                  size_t out_stride);

template <WeightType kType, int kPlaneCount>
void multiply(const PackedMatrix& matrix, int first_panel, int num_panels, const Activations& in,
              int first_row, int num_rows, float* out, size_t out_stride) {
  using Dot = DotOf<kType, kPlaneCount>;
  using Shape = ShapeOf<kType, kPlaneCount>;
  using Many = std::conditional_t<can_be_folded<Dot>(), Folded<Dot>, Dot>;
  if (num_rows > few_rows<Dot, Shape>()) {
    multiply_with<kType, Many, Shape>(matrix, first_panel, num_panels, in, first_row, num_rows, out,
                                      out_stride);
  } else if constexpr (kReadsAhead && !takes_steps<Dot>()) {
    multiply_few<kType, Dot, Shape>(matrix, first_panel, num_panels, in, first_row, num_rows, out,
                                    out_stride);
  } else {
    multiply_with<kType, Dot, Shape>(matrix, first_panel, num_panels, in, first_row, num_rows, out,
                                     out_stride);
  }
}

}  // namespace product
