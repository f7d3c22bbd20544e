// Attention over spans of blocks of 32 keys. See attention.h.
//
// For each span: the scores of every block, then the softmax, then the weighted sum of values.
// Positions after the last one written are never read as values.

namespace attention {

// What a tile keeps between blocks, in its scratch.
struct State {
  float* scores;  // (num_queries, kSpanTokens), then weights
  float* wide;    // keys of a block or some columns of a span's values, widened
  Partials span, total;
};

// Columns of values that the most queries of a kernel take at once: a span of them stays in the
// first-level cache while all queries of a tile go over it.
constexpr int kPanelLanes = kMostQueries <= kWideQueries ? 2 : 1;

constexpr int wide_floats(HeadShape shape) {
  return std::max(kBlockKeys * padded_width(shape.key_width), kSpanTokens * 16 * kPanelLanes);
}

inline size_t scratch_floats(int num_queries, HeadShape shape) {
  return size_t(num_queries) * (kSpanTokens + 2 * partial_width(shape.value_width)) +
         size_t(wide_floats(shape));
}

inline State state_of(const AttendTile& tile) {
  const int width = tile.shape.padded();
  State state;
  state.wide = tile.scratch;
  state.scores = state.wide + wide_floats(tile.shape);
  state.span = {state.scores + size_t(tile.num_queries) * kSpanTokens, width};
  state.total = {state.span.sums(tile.num_queries), width};
  return state;
}

// A block as the queries [first, end) of a tile see it.
struct Block {
  int start;  // position of its first key
  int first, end;
  uint8_t* bytes;
};

// Those of a span that some query of the tile sees, in ascending order.
struct Blocks {
  int count = 0;
  int last_position = 0;
  Block block[kSpanTokens / kBlockKeys];

  // One past the last key that is seen.
  int end() const {
    return std::min(last_position + 1, block[0].start + count * kBlockKeys);
  }
};

inline uint8_t* block_of(const AttendTile& tile, int start) {
  const size_t page = size_t(tile.page_table[start / kBlockKeys]);
  return const_cast<uint8_t*>(tile.head_blocks) + page * tile.page_bytes;
}

// The queries that see a block are adjacent, for positions ascend within a tile: those at the front
// lie before the block, and the windows of those at the end begin after it.
inline Block seen_block(const AttendTile& tile, int start, const Block& before) {
  Block block = {start, before.first, before.end, block_of(tile, start)};
  while (tile.positions[block.first] < start) ++block.first;
  if (tile.window == 0) return block;
  const int past = start + kBlockKeys + tile.window - 1;
  while (block.end < tile.num_queries && tile.positions[block.end] < past) ++block.end;
  return block;
}

inline Blocks blocks_of(const AttendTile& tile, int span) {
  const int seen = tile.window == 0 ? 0 : std::max(0, tile.positions[0] - tile.window + 1);
  const int begin = std::max(span * kSpanTokens, seen / kBlockKeys * kBlockKeys);
  const int end = std::min((span + 1) * kSpanTokens, tile.positions[tile.num_queries - 1] + 1);
  Blocks blocks;
  blocks.last_position = tile.positions[tile.num_queries - 1];
  Block last = {0, 0, tile.window == 0 ? tile.num_queries : 0, nullptr};
  for (int start = begin; start < end; start += kBlockKeys) {
    last = seen_block(tile, start, last);
    blocks.block[blocks.count++] = last;
  }
  return blocks;
}

// Keys from position `start` on, `most` of them at the most, that queries up to `last` see.
inline int num_keys(const AttendTile& tile, int start, int most, int last) {
  return std::min(most, tile.positions[last] + 1 - start);
}

template <class Stored>
inline auto parts_of(const AttendTile& tile, const Block& block) {
  return stored_block<Stored>(block.bytes, tile.shape);
}

// Scores of kQueries queries from `query` on, with a block whose keys are `keys`, widened or not.
template <class Stored, int kQueries, class Source, class Next>
PYRITE_INLINE void score_page(const AttendTile& tile, const Block& block, int query,
                              const Source* keys, Next next, float* scores) {
  const int width = tile.shape.key_width;
  score_block<kQueries>(tile.queries + size_t(query) * width, width,
                        num_keys(tile, block.start, kBlockKeys, query + kQueries - 1), keys,
                        parts_of<Stored>(tile, block).key_scales, next,
                        scores + query * kSpanTokens);
}

// Scores of the span's blocks become weights.
template <class Stored>
inline void weigh_span(const AttendTile& tile, const State& state, const Blocks& blocks, int span,
                       const Partials& out) {
  const int start = span * kSpanTokens;
  const Sight whole = {blocks.block[0].start - start, blocks.end() - 1 - start};
  const auto scales_of = [&](int key) {
    const Block& block = blocks.block[(key - whole.low) / kBlockKeys];
    return parts_of<Stored>(tile, block).value_scales + key % kBlockKeys;
  };
  for (int query = 0; query < tile.num_queries; ++query) {
    const Sight sight = sight_of(tile, span, query);
    float* scores = state.scores + query * kSpanTokens;
    if (!sight.empty() && tile.shape.values_in_keys) {
      weigh(sight, tile.softcap, [](int) { return Unscaled(); }, scores, out[query]);
    } else if (!sight.empty()) {
      weigh(sight, tile.softcap, scales_of, scores, out[query]);
    }
    clear_unseen(sight, whole, scores);
  }
}

// Few queries read keys and values as they are stored. After the keys of a span come its values,
// where it has some, and then the keys of `following`.
template <class Stored>
inline void score_with_few(const AttendTile& tile, const State& state, int span,
                           const Blocks& blocks, const Blocks& following) {
  const int last = blocks.count - 1;
  for (int i = 0; i <= last; ++i) {
    const Block& block = blocks.block[i];
    const Block& after = i < last              ? blocks.block[i + 1]
                         : following.count > 0 ? following.block[0]
                                               : block;
    const bool values = i == last && !tile.shape.values_in_keys;
    const Ahead<Stored> next = {values ? parts_of<Stored>(tile, blocks.block[0]).values
                                       : parts_of<Stored>(tile, after).keys};
    with_queries(block.end - block.first, [&](auto count) {
      score_page<Stored, count()>(tile, block, block.first, parts_of<Stored>(tile, block).keys, next,
                                  state.scores + (block.start - span * kSpanTokens));
    });
  }
}

template <class Stored>
inline void gather_with_few(const AttendTile& tile, const State& state, int span,
                            const Blocks& blocks, const Blocks& following, const Partials& out) {
  const int last = blocks.count - 1;
  for (int i = 0; i <= last; ++i) {
    const Block& block = blocks.block[i];
    const Block& after = i < last              ? blocks.block[i + 1]
                         : following.count > 0 ? following.block[0]
                                               : block;
    const auto parts = parts_of<Stored>(tile, after);
    const Ahead<Stored> next = {i < last ? parts.values : parts.keys};
    const float* weights = state.scores + (block.start - span * kSpanTokens);
    const int keys = num_keys(tile, block.start, kBlockKeys, tile.num_queries - 1);
    with_queries(tile.num_queries, [&](auto count) {
      gather_block<count()>(weights, keys, parts_of<Stored>(tile, block).values, out.width, next,
                            out.data, out.stride());
    });
  }
}

// kLanes by 16 columns of the values of a block's first `keys` keys, widened: (keys, 16 * kLanes).
template <class Stored, int kLanes, class Parts>
inline void widen_values(const Parts& parts, HeadShape shape, int column, int keys, float* to) {
  const Stored* from = parts.values + column;
  for (int key = 0; key < keys; ++key) {
    for (int l = 0; l < kLanes; ++l) {
      store(to + 16 * l, load_lanes(from + key * shape.padded() + 16 * l));
    }
    to += 16 * kLanes;
  }
}

// The same where the columns are the keys'. Those past the values' last are zeros.
template <class Stored, int kLanes, class Parts>
inline void widen_columns(const Parts& parts, HeadShape shape, int column, int keys, float* to) {
  uint16_t held[kTurnedLines * kBlockKeys], rows[kBlockKeys * kTurnedLines];
  for (int l = 0; l < kLanes; ++l) {
    const int first = column + 16 * l;
    const int lines = std::min(16, shape.value_width - first);
    turn_lines(halves_of(parts.keys + first * kBlockKeys, lines, held), rows);
    const auto scales = parts.key_scales + first / kKeyGroup * kBlockKeys;
    for (int key = 0; key < keys; ++key) {
      const Lanes value = load_half(rows + key * kTurnedLines);
      store(to + key * 16 * kLanes + 16 * l, scaled_by(value, scales, key));
    }
  }
}

template <class Stored, int kLanes>
inline void gather_panel(const AttendTile& tile, const State& state, int span,
                         const Blocks& blocks, int column, const Partials& out) {
  const int end = blocks.end();
  for (int i = 0; i < blocks.count; ++i) {
    const auto parts = parts_of<Stored>(tile, blocks.block[i]);
    const int keys = std::min(kBlockKeys, end - blocks.block[i].start);
    float* to = state.wide + size_t(i) * kBlockKeys * 16 * kLanes;
    tile.shape.values_in_keys
        ? widen_columns<Stored, kLanes>(parts, tile.shape, column, keys, to)
        : widen_values<Stored, kLanes>(parts, tile.shape, column, keys, to);
  }
  const int start = blocks.block[0].start;
  const float* weights = state.scores + (start - span * kSpanTokens);
  each_queries(0, tile.num_queries, [&](auto count, int query) {
    gather<count(), kLanes>(weights + query * kSpanTokens,
                            num_keys(tile, start, end - start, query + count() - 1), state.wide,
                            16 * kLanes, Nothing(), out.sums(query) + column, out.stride());
  });
}

template <class Stored>
inline void gather_by_panels(const AttendTile& tile, const State& state, int span,
                             const Blocks& blocks, const Partials& out) {
  int column = 0;
  for (; column + 16 * kPanelLanes <= out.width; column += 16 * kPanelLanes) {
    gather_panel<Stored, kPanelLanes>(tile, state, span, blocks, column, out);
  }
  for (; column < out.width; column += 16) {
    gather_panel<Stored, 1>(tile, state, span, blocks, column, out);
  }
}

// Many queries read keys that were widened once. While the first of them go over a block of keys,
// the next block is asked for, then the block's values.
template <class Stored>
inline void score_with_many(const AttendTile& tile, const State& state, int span,
                            const Blocks& blocks, const Blocks& following) {
  for (int i = 0; i < blocks.count; ++i) {
    const Block& block = blocks.block[i];
    const Block& after = i + 1 < blocks.count  ? blocks.block[i + 1]
                         : following.count > 0 ? following.block[0]
                                               : block;
    const auto parts = parts_of<Stored>(tile, block);
    widen(parts.keys, int(tile.shape.keys()), state.wide);
    const Ahead<Stored> keys = {parts_of<Stored>(tile, after).keys}, values = {parts.values};
    each_queries(block.first, block.end, [&](auto count, int query) {
      const auto visit = [&](auto next) {
        score_page<Stored, count()>(tile, block, query, state.wide, next,
                                    state.scores + (block.start - span * kSpanTokens));
      };
      if (query == block.first) return visit(keys);
      if (query - block.first < 2 * kMostQueries && !tile.shape.values_in_keys) return visit(values);
      visit(Nothing());
    });
  }
}

template <class Stored>
inline void visit_span(const AttendTile& tile, const State& state, int span, const Blocks& blocks,
                       const Blocks& following, const Partials& out) {
  const bool few = tile.num_queries <= kMostQueries;
  if (few) {
    score_with_few<Stored>(tile, state, span, blocks, following);
  } else {
    score_with_many<Stored>(tile, state, span, blocks, following);
  }
  weigh_span<Stored>(tile, state, blocks, span, out);
  if (few && !tile.shape.values_in_keys) {
    gather_with_few<Stored>(tile, state, span, blocks, following, out);
  } else {
    gather_by_panels<Stored>(tile, state, span, blocks, out);
  }
}

// Calls take(partials, span) after each span, whose partials where(span) gives.
template <class Stored, class Where, class Take>
inline void each_span(const AttendTile& tile, const State& state, Where where, Take take) {
  Blocks blocks = blocks_of(tile, tile.first_span);
  for (int span = tile.first_span; span < tile.end_span; ++span) {
    const Blocks following = span + 1 < tile.end_span ? blocks_of(tile, span + 1) : Blocks();
    const Partials partials = where(span);
    begin(partials, tile.num_queries);
    visit_span<Stored>(tile, state, span, blocks, following, partials);
    take(partials);
    blocks = following;
  }
}

template <class Stored>
inline void attend(const AttendTile& tile) {
  const State state = state_of(tile);
  begin(state.total, tile.num_queries);
  each_span<Stored>(
      tile, state, [&](int) { return state.span; },
      [&](const Partials& span) { join(state.total, span, tile.num_queries); });
  finish(tile, state.total);
}

inline Partials partials_of(const AttendTile& tile, int span) {
  return {tile.partials + size_t(span - tile.first_span) * tile.partial_stride,
          tile.shape.padded()};
}

template <class Stored>
inline void attend_spans(const AttendTile& tile) {
  each_span<Stored>(
      tile, state_of(tile), [&](int span) { return partials_of(tile, span); },
      [](const Partials&) {});
}

inline void join_spans(const AttendTile& tile) {
  const State state = state_of(tile);
  begin(state.total, tile.num_queries);
  for (int span = tile.first_span; span < tile.end_span; ++span) {
    join(state.total, partials_of(tile, span), tile.num_queries);
  }
  finish(tile, state.total);
}

constexpr AttentionKernels kTable = {scratch_floats,
                                     join_spans,
                                     {{store_halves, attend<uint16_t>, attend_spans<uint16_t>},
                                      {store_integers, attend<int8_t>, attend_spans<int8_t>}}};

}  // namespace attention
