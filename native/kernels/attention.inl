// Attention over blocks of 32 keys, written against Lanes. See attention.h.
//
// For each block: scores (keys in lanes, columns of the head in ascending order), then the running
// softmax, then the weighted sum of values (columns in lanes, keys in ascending order). That order
// is the same for a query whatever is computed beside it: how many queries or lanes a kernel takes
// at once, and whether keys were widened beforehand, changes no bit. A position that a query does
// not see has weight 0, and positions after the last one written are never read as values.

namespace attention {

// Queries of a kernel at most, queries that still leave registers for twice the lanes, and lanes
// for a query alone.
#if defined(__AVX512F__)
constexpr int kMostQueries = 12, kWideQueries = 12, kLoneLanes = 4;
#elif defined(__AVX2__)
constexpr int kMostQueries = 6, kWideQueries = 2, kLoneLanes = 4;
#elif defined(__aarch64__) && !defined(PYRITE_PORTABLE)
constexpr int kMostQueries = 6, kWideQueries = 2, kLoneLanes = 4;
#else
constexpr int kMostQueries = 4, kWideQueries = 1, kLoneLanes = 2;
#endif

constexpr float kLowest = -3.4e38f;  // below every score, and finite: differences are not NaN

inline Lanes load_lanes(const float* from) { return load(from); }
inline Lanes load_lanes(const uint16_t* from) { return load_half(from); }
inline Lanes load_lanes(const int8_t* from) { return load_bytes(from); }

// What a tile keeps between blocks, in its scratch. `sums` is the tile's `out`.
struct State {
  float* scores;   // (num_queries, 32), then weights
  float* maxima;   // (num_queries,)
  float* weights;  // (num_queries, 16) sums of weights, by lane
  float* keys;     // (head_width, 32) widened
  float* values;   // (32, padded_width) widened
  float* sums;     // (num_queries, padded_width)
};

inline size_t scratch_floats(int num_queries, int head_width) {
  return size_t(num_queries) * (kBlockKeys + 16 + 1) + 16 +
         size_t(kBlockKeys) * (head_width + padded_width(head_width));
}

inline State state_of(const AttendTile& tile) {
  const size_t queries = size_t(tile.num_queries);
  State state;
  state.scores = tile.scratch;
  state.weights = state.scores + queries * kBlockKeys;
  state.keys = state.weights + queries * 16;
  state.values = state.keys + size_t(kBlockKeys) * tile.head_width;
  state.maxima = state.values + size_t(kBlockKeys) * padded_width(tile.head_width);
  state.sums = tile.out;
  return state;
}

// totals[q] = query q . key over `columns` columns; queries are `stride` apart.
template <int kQueries, int kLanes, class Source>
PYRITE_INLINE void dot(const float* queries, int stride, const Source* keys, int columns,
                       Lanes (&totals)[kQueries][kLanes]) {
  for (int q = 0; q < kQueries; ++q) {
    for (int l = 0; l < kLanes; ++l) totals[q][l] = broadcast(0.0f);
  }
  for (int column = 0; column < columns; ++column) {
    Lanes key[kLanes];
    for (int l = 0; l < kLanes; ++l) key[l] = load_lanes(keys + column * kBlockKeys + 16 * l);
    for (int q = 0; q < kQueries; ++q) {
      const Lanes all = broadcast(queries[q * stride + column]);
      for (int l = 0; l < kLanes; ++l) totals[q][l] = fused(all, key[l], totals[q][l]);
    }
  }
}

// scores[q, 16 lanes by kLanes] = query q . key
template <int kQueries, int kLanes, class Source>
inline void score(const float* queries, int head_width, const Source* keys, Unscaled,
                  float* scores) {
  Lanes totals[kQueries][kLanes];
  dot<kQueries, kLanes>(queries, head_width, keys, head_width, totals);
  for (int q = 0; q < kQueries; ++q) {
    for (int l = 0; l < kLanes; ++l) store(scores + q * kBlockKeys + 16 * l, totals[q][l]);
  }
}

// The same, where each group of columns has scales (groups, 32).
template <int kQueries, int kLanes, class Source>
inline void score(const float* queries, int head_width, const Source* keys, const float* scales,
                  float* scores) {
  for (int start = 0; start < head_width; start += kKeyGroup) {
    Lanes totals[kQueries][kLanes];
    dot<kQueries, kLanes>(queries + start, head_width, keys + start * kBlockKeys,
                          std::min(kKeyGroup, head_width - start), totals);
    for (int l = 0; l < kLanes; ++l) {
      const Lanes scale = load(scales + start / kKeyGroup * kBlockKeys + 16 * l);
      for (int q = 0; q < kQueries; ++q) {
        float* out = scores + q * kBlockKeys + 16 * l;
        store(out, start == 0 ? totals[q][l] * scale : fused(totals[q][l], scale, load(out)));
      }
    }
  }
}

// sums[q, 16 columns by kLanes] += sum over keys of weight * value
template <int kQueries, int kLanes, class Source>
inline void gather(const float* weights, int num_keys, const Source* values, int width,
                   float* sums) {
  Lanes totals[kQueries][kLanes];
  for (int q = 0; q < kQueries; ++q) {
    for (int l = 0; l < kLanes; ++l) totals[q][l] = load(sums + q * width + 16 * l);
  }
  for (int key = 0; key < num_keys; ++key) {
    Lanes value[kLanes];
    for (int l = 0; l < kLanes; ++l) value[l] = load_lanes(values + key * width + 16 * l);
    for (int q = 0; q < kQueries; ++q) {
      const Lanes all = broadcast(weights[q * kBlockKeys + key]);
      for (int l = 0; l < kLanes; ++l) totals[q][l] = fused(all, value[l], totals[q][l]);
    }
  }
  for (int q = 0; q < kQueries; ++q) {
    for (int l = 0; l < kLanes; ++l) store(sums + q * width + 16 * l, totals[q][l]);
  }
}

template <int kQueries, class Source, class Scales>
inline void score_block(const float* queries, int head_width, const Source* keys, Scales scales,
                        float* scores) {
  if constexpr (kQueries <= kWideQueries) {
    score<kQueries, 2>(queries, head_width, keys, scales, scores);
  } else {
    score<kQueries, 1>(queries, head_width, keys, scales, scores);
    score<kQueries, 1>(queries, head_width, keys + 16, scales + 16, scores + 16);
  }
}

template <int kQueries, class Source>
inline void gather_block(const float* weights, int num_keys, const Source* values, int width,
                         float* sums) {
  constexpr int kLanes = kQueries == 1 ? kLoneLanes : kQueries <= kWideQueries ? 2 : 1;
  int column = 0;
  for (; column + 16 * kLanes <= width; column += 16 * kLanes) {
    gather<kQueries, kLanes>(weights, num_keys, values + column, width, sums + column);
  }
  for (; column < width; column += 16) {
    gather<kQueries, 1>(weights, num_keys, values + column, width, sums + column);
  }
}

// Calls visit(std::integral_constant<int, n>, query) over [first, end): runs of kMostQueries, then
// the rest as one run.
template <int kQueries = kMostQueries, class Visit>
inline void each_queries(int first, int end, Visit visit) {
  for (; first + kQueries <= end; first += kQueries) {
    visit(std::integral_constant<int, kQueries>(), first);
  }
  if constexpr (kQueries > 1) each_queries<kQueries - 1>(first, end, visit);
}

// The block as the queries [first, end) of a tile see it.
struct Block {
  int start;     // position of its first key
  int num_keys;  // written so far
  int first, end;
};

// Folds the scores of one query into its running maximum and sum; scores become weights. A scale
// of values goes into the weight that is stored, not into the sum of weights.
template <class Scales>
inline void fold(const AttendTile& tile, const State& state, const Block& block,
                 Scales value_scales, int query) {
  const int high = tile.positions[query] - block.start;
  const int low = tile.window == 0 ? 0 : std::max(0, high - tile.window + 1);
  float* scores = state.scores + query * kBlockKeys;
  Lanes a = load(scores);
  Lanes b = load(scores + 16);
  if (tile.softcap > 0) {
    a = rows::capped(a, broadcast(tile.softcap));
    b = rows::capped(b, broadcast(tile.softcap));
  }
  const bool whole = low == 0 && high >= kBlockKeys - 1;
  if (!whole) {
    a = keep(a, low, high, broadcast(kLowest));
    b = keep(b, low - 16, high - 16, broadcast(kLowest));
  }
  const float before = state.maxima[query];
  const float after = std::max(before, largest(maximum(a, b)));
  a = exponential(a - broadcast(after));
  b = exponential(b - broadcast(after));
  if (!whole) {
    a = keep(a, low, high, broadcast(0.0f));
    b = keep(b, low - 16, high - 16, broadcast(0.0f));
  }
  if constexpr (std::is_same_v<Scales, Unscaled>) {
    store(scores, a);
    store(scores + 16, b);
  } else {
    store(scores, a * load(value_scales));
    store(scores + 16, b * load(value_scales + 16));
  }

  Lanes weights = load(state.weights + query * 16);
  if (after > before) {
    const Lanes shrink = exponential(broadcast(before - after));
    weights = weights * shrink;
    float* sums = state.sums + size_t(query) * padded_width(tile.head_width);
    for (int column = 0; column < padded_width(tile.head_width); column += 16) {
      store(sums + column, load(sums + column) * shrink);
    }
    state.maxima[query] = after;
  }
  store(state.weights + query * 16, weights + (a + b));
}

template <class Source, class Scales>
inline void visit_block(const AttendTile& tile, const State& state, const Block& block,
                        const Source* keys, Scales key_scales, const Source* values,
                        Scales value_scales) {
  const int width = padded_width(tile.head_width);
  each_queries(block.first, block.end, [&](auto count, int query) {
    score_block<count()>(tile.queries + size_t(query) * tile.head_width, tile.head_width, keys,
                         key_scales, state.scores + query * kBlockKeys);
  });
  for (int query = block.first; query < block.end; ++query) {
    fold(tile, state, block, value_scales, query);
  }
  each_queries(block.first, block.end, [&](auto count, int query) {
    gather_block<count()>(state.scores + query * kBlockKeys, block.num_keys, values, width,
                          state.sums + size_t(query) * width);
  });
}

template <class Stored>
inline void widen(const Stored* from, int count, float* to) {
  for (int i = 0; i < count; i += 16) store(to + i, load_lanes(from + i));
}

// Many queries read a block that was widened once; few read it as it is.
template <class Stored, class Scales>
inline void visit_page(const AttendTile& tile, const State& state, const Block& block,
                       const StoredBlock<Stored, Scales>& stored) {
  if (block.end - block.first <= kMostQueries) {
    visit_block(tile, state, block, stored.keys, stored.key_scales, stored.values,
                stored.value_scales);
    return;
  }
  widen(stored.keys, kBlockKeys * tile.head_width, state.keys);
  widen(stored.values, block.num_keys * padded_width(tile.head_width), state.values);
  visit_block(tile, state, block, state.keys, stored.key_scales, state.values,
              stored.value_scales);
}

inline void begin(const AttendTile& tile, const State& state) {
  std::fill_n(state.maxima, tile.num_queries, kLowest);
  std::fill_n(state.weights, size_t(tile.num_queries) * 16, 0.0f);
  std::fill_n(state.sums, size_t(tile.num_queries) * padded_width(tile.head_width), 0.0f);
}

inline void finish(const AttendTile& tile, const State& state) {
  const int width = padded_width(tile.head_width);
  for (int query = 0; query < tile.num_queries; ++query) {
    const Lanes inverse = broadcast(1.0f / sum(load(state.weights + query * 16)));
    float* sums = state.sums + size_t(query) * width;
    for (int column = 0; column < width; column += 16) {
      store(sums + column, load(sums + column) * inverse);
    }
  }
}

// The queries that see a block are adjacent, for positions ascend within a tile: those at the front
// lie before the block, and the windows of those at the end begin after it.
inline void narrow(const AttendTile& tile, Block& block) {
  while (tile.positions[block.first] < block.start) ++block.first;
  if (tile.window == 0) return;
  const int past = block.start + kBlockKeys + tile.window - 1;
  while (block.end < tile.num_queries && tile.positions[block.end] < past) ++block.end;
}

inline uint8_t* block_of(const AttendTile& tile, int start) {
  const size_t page = size_t(tile.page_table[start / kBlockKeys]);
  return const_cast<uint8_t*>(tile.head_blocks) + page * tile.page_bytes;
}

// Blocks lie a page apart, too far for the processor to guess the next one.
inline void prefetch(const uint8_t* block, size_t num_bytes) {
  for (size_t line = 0; line < num_bytes; line += 64) __builtin_prefetch(block + line);
}

template <class Stored>
inline void attend(const AttendTile& tile) {
  const State state = state_of(tile);
  begin(tile, state);
  const int last = tile.positions[tile.num_queries - 1];
  const int seen = tile.window == 0 ? 0 : std::max(0, tile.positions[0] - tile.window + 1);
  Block block = {seen / kBlockKeys * kBlockKeys, 0, 0, tile.window == 0 ? tile.num_queries : 0};
  const size_t block_bytes = head_block_bytes(tile.head_width, kTypeOf<Stored>);
  for (; block.start <= last; block.start += kBlockKeys) {
    narrow(tile, block);
    block.num_keys = std::min(kBlockKeys, last + 1 - block.start);
    const int next = block.start + kBlockKeys;
    if (next <= last) prefetch(block_of(tile, next), block_bytes);
    visit_page(tile, state, block,
               stored_block<Stored>(block_of(tile, block.start), tile.head_width));
  }
  finish(tile, state);
}

constexpr AttentionKernels kTable = {
    scratch_floats,
    {{store_halves, attend<uint16_t>}, {store_integers, attend<int8_t>}}};

}  // namespace attention
