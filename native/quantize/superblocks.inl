// Superblocks of 256 columns: groups whose scales are whole numbers under one float16. A tile holds
// one superblock of 16 groups or two of 8; what belongs to a superblock is repeated in its lanes.
//
// First each group's own best fit is found, then the float16 that serves all of them, then rounds of
// refinement: levels for the scales, scales for the levels, and the best round is kept.

// The float16 for numbers `own` that are to become whole numbers of at most kMost times it: one of
// some near the largest number's, by the error that rounding leaves in numbers of such `curvature`.
template <int kSpan, int kLow, int kHigh>
PYRITE_INLINE Lanes shared_scale(Lanes own, Lanes curvature, uint16_t* half) {
  const Lanes unit = extreme_of_span<kSpan>(own);
  Lanes best = broadcast(0.0f), least = broadcast(3e38f);
  constexpr int kMost = kLow < 0 ? -kLow : kHigh;
  constexpr float kSign = kLow < 0 ? -1.0f : 1.0f;
  for (float beyond : {0.0f, 0.4f, -0.5f, 0.8f, -1.0f, 1.2f, -1.5f, -2.0f}) {
    const Lanes scale = as_half(unit * broadcast(kSign / (kMost + beyond)), half);
    const Lanes off = own - scale * Whole<kLow, kHigh>::nearest(own * inverse(scale));
    const Lanes error = sum_of_span<kSpan>(off * off * curvature);
    best = choose_less(error, least, scale, best);
    least = minimum(error, least);
  }
  return as_half(best, half);
}

struct ScaledState {
  Lanes scale, factor, error;  // of the superblock; of the group, a whole number; of the superblock

  PYRITE_INLINE void consider(const ScaledState& other) {
    scale = choose_less(other.error, error, other.scale, scale);
    factor = choose_less(other.error, error, other.factor, factor);
    error = minimum(other.error, error);
  }
};

// Search: Levels, kLow and kHigh of the factors, kPlaces, kRefits, kRounds.
template <class Search, int kSpan, class Tile>
PYRITE_INLINE ScaledState best_scales(const Tile& tile) {
  using Factors = Whole<Search::kLow, Search::kHigh>;
  uint16_t half[16];
  const Lanes own = best_scale<Search>(tile).scale;
  Products fit = products<typename Search::Levels>(tile, inverse(own));
  Lanes scale = shared_scale<kSpan, Search::kLow, Search::kHigh>(own, fit.square, half);
  Lanes factor = Factors::nearest(own * inverse(scale));
  ScaledState best{scale, factor, broadcast(3e38f)};
  for (int round = 0; round <= Search::kRounds; ++round) {
    const Lanes used = scale * factor;
    fit = products<typename Search::Levels>(tile, inverse(used));
    const Lanes error = used * (used * fit.square - broadcast(2.0f) * fit.value);
    best.consider({scale, factor, sum_of_span<kSpan>(error)});
    const Lanes above = sum_of_span<kSpan>(factor * fit.value);
    const Lanes below = sum_of_span<kSpan>(factor * factor * fit.square);
    const Lanes refit = as_half(quotient(above, below), half);
    scale = choose_less(broadcast(0.0f), magnitude(refit), refit, scale);
    factor = Factors::nearest(fit.scale() * inverse(scale));
  }
  return best;
}

struct LineState {
  Lanes scale, factor;  // step = scale * factor
  Lanes depth, drop;    // least = -(depth * drop)
  Lanes error;

  PYRITE_INLINE Lanes step() const { return scale * factor; }
  PYRITE_INLINE Lanes least() const { return broadcast(0.0f) - depth * drop; }
  PYRITE_INLINE void consider(const LineState& other) {
    scale = choose_less(other.error, error, other.scale, scale);
    factor = choose_less(other.error, error, other.factor, factor);
    depth = choose_less(other.error, error, other.depth, depth);
    drop = choose_less(other.error, error, other.drop, drop);
    error = minimum(other.error, error);
  }
};

// What a line of a step and a least value leaves, less the sum of squares of all values.
PYRITE_INLINE Lanes error_of(const Moments& m, const Totals& all, Lanes step, Lanes least) {
  const Lanes two = broadcast(2.0f);
  return step * (step * m.square - two * m.product + two * least * m.level) +
         least * (least * all.weight - two * all.value);
}

// Both float16s by least squares over the superblock, then each group's whole numbers.
template <class Search, int kSpan>
PYRITE_INLINE LineState refitted(LineState now, const Moments& m, const Totals& all) {
  using Factors = Whole<0, Search::kMost>;
  const Lanes zero = broadcast(0.0f);
  uint16_t half[16];
  const Lanes ss = sum_of_span<kSpan>(now.factor * now.factor * m.square);
  const Lanes sd = sum_of_span<kSpan>(now.factor * now.drop * m.level);
  const Lanes dd = sum_of_span<kSpan>(now.drop * now.drop * all.weight);
  const Lanes sx = sum_of_span<kSpan>(now.factor * m.product);
  const Lanes dx = sum_of_span<kSpan>(now.drop * all.value);
  const Lanes spread = ss * dd - sd * sd;
  const Lanes scale = as_half(quotient(sx * dd - sd * dx, spread), half);
  const Lanes depth = as_half(quotient(sx * sd - ss * dx, spread), half);
  now.scale = choose_less(zero, scale, scale, now.scale);
  now.depth = choose_less(zero, depth, depth, now.depth);
  const Line own = fitted(m, all, zero);
  now.factor = Factors::nearest(own.step * inverse(now.scale));
  const Lanes drop = quotient(now.step() * m.level - all.value, all.weight);
  now.drop = Factors::nearest(drop * inverse(now.depth));
  return now;
}

// Search: kHigh, kMost of the factors, kPlaces, kRefits, kRounds.
template <class Search, int kSpan, class Tile>
PYRITE_INLINE LineState best_lines(const Tile& tile) {
  constexpr int kHigh = Search::kHigh;
  using Factors = Whole<0, Search::kMost>;
  const Lanes zero = broadcast(0.0f);
  uint16_t half[16];
  const Survey values = survey(tile);
  const Totals all = totals(values, zero);
  const Fit own = best_line<Search>(tile, values, minimum(values.low, zero), zero);
  Lanes unit = inverse(own.step);
  Moments fit = moments<kHigh>(tile, zero, unit, own.least * unit);
  LineState now{};
  now.scale = shared_scale<kSpan, 0, Search::kMost>(maximum(own.step, zero), fit.square, half);
  now.factor = Factors::nearest(own.step * inverse(now.scale));
  // With the step as it will be, the least value is better than the line's own.
  const Lanes drop = maximum(zero, quotient(now.step() * fit.level - all.value, all.weight));
  now.depth = shared_scale<kSpan, 0, Search::kMost>(drop, all.weight, half);
  now.drop = Factors::nearest(drop * inverse(now.depth));
  LineState best = now;
  best.error = broadcast(3e38f);
  for (int round = 0; round <= Search::kRounds; ++round) {
    unit = inverse(now.step());
    fit = moments<kHigh>(tile, zero, unit, now.least() * unit);
    now.error = sum_of_span<kSpan>(error_of(fit, all, now.step(), now.least()));
    best.consider(now);
    now = refitted<Search, kSpan>(now, fit, all);
  }
  return best;
}
