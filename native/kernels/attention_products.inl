// The two products of attention for the queries of one kernel: queries by keys, and weights by
// values. Written against Lanes. See attention.h.
//
// Scores have keys in lanes and go over the columns of the head in ascending order; sums of values
// have columns in lanes and go over keys in ascending order. How many queries or lanes a kernel
// takes at once, and whether a block was widened beforehand, changes no bit.

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

inline Lanes load_lanes(const float* from) { return load(from); }
inline Lanes load_lanes(const uint16_t* from) { return load_half(from); }
inline Lanes load_lanes(const int8_t* from) { return load_bytes(from); }

// What will be read next. Blocks lie a page apart, too far for the processor to guess, so each step
// of a kernel asks for as many bytes of the next block as it takes from its own: memory is then
// neither idle nor flooded. Asking in one burst leaves it idle while the block is computed.
template <class Stored>
struct Ahead {
  const Stored* next;

  Ahead operator+(int elements) const { return {next + elements}; }
  template <int kElements>
  PYRITE_INLINE void ask(int at) const {
    for (int i = 0; i < kElements * int(sizeof(Stored)); i += 64) {
      __builtin_prefetch(reinterpret_cast<const uint8_t*>(next + at) + i);
    }
  }
};

struct Nothing {
  Nothing operator+(int) const { return {}; }
  template <int kElements>
  PYRITE_INLINE void ask(int) const {}
};

// totals[q] = query q . key over `columns` columns; queries are `stride` apart.
template <int kQueries, int kLanes, class Source, class Next>
PYRITE_INLINE void dot(const float* queries, int stride, const Source* keys, int columns, Next next,
                       Lanes (&totals)[kQueries][kLanes]) {
  for (int q = 0; q < kQueries; ++q) {
    for (int l = 0; l < kLanes; ++l) totals[q][l] = broadcast(0.0f);
  }
  for (int column = 0; column < columns; ++column) {
    Lanes key[kLanes];
    for (int l = 0; l < kLanes; ++l) key[l] = load_lanes(keys + column * kBlockKeys + 16 * l);
    next.template ask<16 * kLanes>(16 * kLanes * column);
    for (int q = 0; q < kQueries; ++q) {
      const Lanes all = broadcast(queries[q * stride + column]);
      for (int l = 0; l < kLanes; ++l) totals[q][l] = fused(all, key[l], totals[q][l]);
    }
  }
}

// scores[q, 16 lanes by kLanes] = query q . key
template <int kQueries, int kLanes, class Source, class Next>
inline void score(const float* queries, int head_width, const Source* keys, Unscaled, Next next,
                  float* scores) {
  Lanes totals[kQueries][kLanes];
  dot<kQueries, kLanes>(queries, head_width, keys, head_width, next, totals);
  for (int q = 0; q < kQueries; ++q) {
    for (int l = 0; l < kLanes; ++l) store(scores + q * kSpanTokens + 16 * l, totals[q][l]);
  }
}

// The same, where each group of columns has scales (groups, 32).
template <int kQueries, int kLanes, class Source, class Next>
inline void score(const float* queries, int head_width, const Source* keys, const float* scales,
                  Next next, float* scores) {
  for (int start = 0; start < head_width; start += kKeyGroup) {
    Lanes totals[kQueries][kLanes];
    dot<kQueries, kLanes>(queries + start, head_width, keys + start * kBlockKeys,
                          std::min(kKeyGroup, head_width - start), next + 16 * kLanes * start,
                          totals);
    for (int l = 0; l < kLanes; ++l) {
      const Lanes scale = load(scales + start / kKeyGroup * kBlockKeys + 16 * l);
      for (int q = 0; q < kQueries; ++q) {
        float* out = scores + q * kSpanTokens + 16 * l;
        store(out, start == 0 ? totals[q][l] * scale : fused(totals[q][l], scale, load(out)));
      }
    }
  }
}

// Keys of a block past `num_keys` may be left out, for they are not seen.
template <int kQueries, class Source, class Scales, class Next>
inline void score_block(const float* queries, int head_width, int num_keys, const Source* keys,
                        Scales scales, Next next, float* scores) {
  if constexpr (kQueries <= kWideQueries) {
    score<kQueries, 2>(queries, head_width, keys, scales, next, scores);
  } else {
    score<kQueries, 1>(queries, head_width, keys, scales, next, scores);
    if (num_keys <= 16) return;
    score<kQueries, 1>(queries, head_width, keys + 16, scales + 16, next + 16 * head_width,
                       scores + 16);
  }
}

// sums[q, 16 columns by kLanes] += sum over keys of weight * value
template <int kQueries, int kLanes, class Source, class Next>
inline void gather(const float* weights, int num_keys, const Source* values, int width, Next next,
                   float* sums, int stride) {
  Lanes totals[kQueries][kLanes];
  for (int q = 0; q < kQueries; ++q) {
    for (int l = 0; l < kLanes; ++l) totals[q][l] = load(sums + q * stride + 16 * l);
  }
  for (int key = 0; key < num_keys; ++key) {
    Lanes value[kLanes];
    for (int l = 0; l < kLanes; ++l) value[l] = load_lanes(values + key * width + 16 * l);
    next.template ask<16 * kLanes>(16 * kLanes * key);
    for (int q = 0; q < kQueries; ++q) {
      const Lanes all = broadcast(weights[q * kSpanTokens + key]);
      for (int l = 0; l < kLanes; ++l) totals[q][l] = fused(all, value[l], totals[q][l]);
    }
  }
  for (int q = 0; q < kQueries; ++q) {
    for (int l = 0; l < kLanes; ++l) store(sums + q * stride + 16 * l, totals[q][l]);
  }
}

template <int kQueries, class Source, class Next>
inline void gather_block(const float* weights, int num_keys, const Source* values, int width,
                         Next next, float* sums, int stride) {
  constexpr int kLanes = kQueries == 1 ? kLoneLanes : kQueries <= kWideQueries ? 2 : 1;
  int column = 0;
  for (; column + 16 * kLanes <= width; column += 16 * kLanes) {
    gather<kQueries, kLanes>(weights, num_keys, values + column, width, next + column * kBlockKeys,
                             sums + column, stride);
  }
  for (; column < width; column += 16) {
    gather<kQueries, 1>(weights, num_keys, values + column, width, next + column * kBlockKeys,
                        sums + column, stride);
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

// Calls visit(std::integral_constant<int, n>) where n, from 1 to kMostQueries, is num_queries.
template <int kQueries = kMostQueries, class Visit>
inline void with_queries(int num_queries, Visit visit) {
  if (num_queries == kQueries) return visit(std::integral_constant<int, kQueries>());
  if constexpr (kQueries > 1) with_queries<kQueries - 1>(num_queries, visit);
}

template <class Stored>
inline void widen(const Stored* from, int count, float* to) {
  for (int i = 0; i < count; i += 16) store(to + i, load_lanes(from + i));
}

}  // namespace attention
