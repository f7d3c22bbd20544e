// The softmax of attention: what a query has of a span of keys, and how spans are joined. Written
// against Lanes. See attention.h.
//
// A key that a query does not see has weight 0.

namespace attention {

constexpr float kLowest = -3.4e38f;  // below every score, and finite: differences are not NaN

// A query's part of partial_width floats. No key was seen while `largest()` is kLowest.
struct Partial {
  float* sums;
  int width;  // padded

  float* weights() const { return sums + width; }
  float& largest() const { return sums[width + 16]; }
};

// (num_queries,) of them, adjacent.
struct Partials {
  float* data;
  int width;  // padded

  int stride() const { return width + 32; }
  float* sums(int query) const { return data + size_t(query) * stride(); }
  Partial operator[](int query) const { return {sums(query), width}; }
};

inline void begin(const Partials& partials, int num_queries) {
  for (int query = 0; query < num_queries; ++query) {
    std::fill_n(partials.sums(query), partials.width + 16, 0.0f);
    partials[query].largest() = kLowest;
  }
}

// e^x for x of 0 or less, to 2 ulp and never 0; e^0 is 1 exactly; NaN stays NaN. With n = round(y),
// y = x / ln 2, it is 2^n times 2^(y - n), a polynomial that is off by 9.2e-8 of it at most.
PYRITE_INLINE Lanes weight_of(Lanes x) {
  const Lanes y = maximum(broadcast(-126.0f), x * broadcast(1.44269504f));
  const Lanes n = round_even(y);
  const Lanes r = y - n;
  Lanes series = broadcast(0x1.5bba14p-10f);
  series = fused(series, r, broadcast(0x1.3cea88p-7f));
  series = fused(series, r, broadcast(0x1.c6b752p-5f));
  series = fused(series, r, broadcast(0x1.ebf9bcp-3f));
  series = fused(series, r, broadcast(0x1.62e42ap-1f));
  series = fused(series, r, broadcast(1.0f));
  return series * power2(n);
}

// The keys of a span that a query sees, both included; those of a whole block are looked at.
struct Sight {
  int low, high;

  bool empty() const { return high < 0 || low >= kSpanTokens; }
  int first() const { return low / kBlockKeys * kBlockKeys; }
  int end() const { return (high / kBlockKeys + 1) * kBlockKeys; }
  // Lanes of keys from `key` on, `other` where one is not seen.
  PYRITE_INLINE Lanes only(Lanes a, int key, float other) const {
    if (low <= key && key + 15 <= high) return a;
    return keep(a, low - key, high - key, broadcast(other));
  }
};

inline Sight sight_of(const AttendTile& tile, int span, int query) {
  const int high = tile.positions[query] - span * kSpanTokens;
  const int low = tile.window == 0 ? 0 : std::max(0, high - tile.window + 1);
  return {low, std::min(high, kSpanTokens - 1)};
}

inline float cap_and_find_largest(const Sight& sight, float softcap, float* scores) {
  Lanes most = broadcast(kLowest);
  for (int key = sight.first(); key < sight.end(); key += 16) {
    Lanes a = load(scores + key);
    if (softcap > 0) {
      a = rows::capped(a, broadcast(softcap));
      store(scores + key, a);
    }
    most = maximum(most, sight.only(a, key, kLowest));
  }
  return largest(most);
}

inline Lanes scaled(Lanes a, Unscaled) { return a; }
inline Lanes scaled(Lanes a, const float* scales) { return a * load(scales); }

// Scores become weights. A scale of values goes into the weight that is stored, not into the sum of
// weights. `scales_of(key)` gives those of 16 keys.
template <class ScalesOf>
inline void weigh(const Sight& sight, float softcap, ScalesOf scales_of, float* scores,
                  Partial partial) {
  const float largest = cap_and_find_largest(sight, softcap, scores);
  Lanes total = broadcast(0.0f);
  for (int key = sight.first(); key < sight.end(); key += 16) {
    const Lanes weight =
        sight.only(weight_of(load(scores + key) - broadcast(largest)), key, 0.0f);
    total = total + weight;
    store(scores + key, scaled(weight, scales_of(key)));
  }
  store(partial.weights(), total);
  // Scores that are all NaN have no largest: the span was seen all the same.
  const bool is_lost = largest == kLowest && !sight.empty();
  partial.largest() = is_lost ? std::numeric_limits<float>::quiet_NaN() : largest;
}

// Weights of the keys that the tile looks at and the query does not see.
inline void clear_unseen(const Sight& sight, const Sight& whole, float* weights) {
  const int low = sight.empty() ? kSpanTokens : sight.first();
  const int high = sight.empty() ? kSpanTokens : sight.end();
  for (int key = whole.low; key <= whole.high; key += 16) {
    if (key < low || key >= high) store(weights + key, broadcast(0.0f));
  }
}

// Adds what a query has of the next span.
inline void join(Partial total, Partial next) {
  if (next.largest() == kLowest) return;
  if (total.largest() == kLowest) {
    std::copy_n(next.sums, total.width + 17, total.sums);
    return;
  }
  const float largest = std::max(total.largest(), next.largest());
  const Lanes old_share = weight_of(broadcast(total.largest() - largest));
  const Lanes new_share = weight_of(broadcast(next.largest() - largest));
  for (int column = 0; column < total.width + 16; column += 16) {
    const Lanes old = load(total.sums + column) * old_share;
    store(total.sums + column, fused(load(next.sums + column), new_share, old));
  }
  total.largest() = largest;
}

inline void join(const Partials& totals, const Partials& next, int num_queries) {
  for (int query = 0; query < num_queries; ++query) join(totals[query], next[query]);
}

inline float first(Lanes a) {
  float lane[16];
  store(lane, a);
  return lane[0];
}

// What the sums of values are multiplied by: one by the sum of weights, a sink's among them.
inline float share_of(Partial total, const float* sink) {
  const float weights = sum(load(total.weights()));
  if (sink == nullptr) return 1.0f / weights;
  const float largest = std::max(total.largest(), *sink);
  const float share = first(weight_of(broadcast(total.largest() - largest)));
  return share / std::fma(weights, share, first(weight_of(broadcast(*sink - largest))));
}

inline void finish(const AttendTile& tile, const Partials& totals) {
  const int width = tile.shape.value_width;
  for (int query = 0; query < tile.num_queries; ++query) {
    const int head = query % tile.num_heads;
    const float* sink = tile.sinks == nullptr ? nullptr : tile.sinks + head;
    const Lanes share = broadcast(share_of(totals[query], sink));
    float* out = tile.out + size_t(query / tile.num_heads) * tile.out_stride + size_t(head) * width;
    rows::each_run(width, [&](int column, int count) {
      rows::store_run(out + column, load(totals.sums(query) + column) * share, count);
    });
  }
}

}  // namespace attention
