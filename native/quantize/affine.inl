// Groups with an offset: value = step * level + least, levels from 0 to kHigh. For given levels both
// are found by least squares over values counted from the group's lowest one, which keeps digits.

struct Moments {
  Lanes level, square, product;  // weighted sums of level, level * level and value * level
};

// Levels of (value - origin) * inverse_step - shift.
template <int kHigh, class Tile>
PYRITE_PASS Moments moments(const Tile& tile, Lanes origin, Lanes inverse_step, Lanes shift) {
  const Lanes zero = broadcast(0.0f);
  Moments sums{zero, zero, zero};
  _Pragma("GCC unroll 4")
  for (int j = 0; j < Tile::kColumns; ++j) {
    const Lanes value = tile.value(j) - origin;
    const Lanes level = Whole<0, kHigh>::nearest(value * inverse_step - shift);
    const Lanes weighted = tile.weighted(j, level);
    sums.level = sums.level + weighted;
    sums.square = sums.square + weighted * level;
    sums.product = sums.product + weighted * value;
  }
  return sums;
}

// What a look at all values of a group tells.
struct Survey {
  Lanes low, high;
  Lanes weight, value;  // weighted sums of 1 and of the values
};

template <class Tile>
PYRITE_PASS Survey survey(const Tile& tile) {
  const Lanes first = tile.value(0);
  Survey found{first, first, tile.weight(0), tile.weighted(0, first)};
  _Pragma("GCC unroll 3")
  for (int j = 1; j < Tile::kColumns; ++j) {
    const Lanes value = tile.value(j);
    found.low = minimum(found.low, value);
    found.high = maximum(found.high, value);
    found.weight = found.weight + tile.weight(j);
    found.value = found.value + tile.weighted(j, value);
  }
  return found;
}

struct Totals {
  Lanes weight, value;  // weighted sums of 1 and of value - origin
};

PYRITE_INLINE Totals totals(const Survey& all, Lanes origin) {
  return {all.weight, all.value - origin * all.weight};
}

struct Line {
  Lanes step, least, gain;  // `least` counts from the origin

  PYRITE_INLINE void consider(const Line& other) {
    step = choose_less(gain, other.gain, other.step, step);
    least = choose_less(gain, other.gain, other.least, least);
    gain = maximum(other.gain, gain);
  }
};

// The line through levels and values; where `least` would pass `highest`, the one that passes there.
PYRITE_INLINE Line fitted(const Moments& m, const Totals& all, Lanes highest) {
  const Lanes spread = all.weight * m.square - m.level * m.level;
  Lanes step = quotient(all.weight * m.product - all.value * m.level, spread);
  Lanes least = quotient(all.value - step * m.level, all.weight);
  const Lanes bound = quotient(m.product - highest * m.level, m.square);
  step = choose_less(highest, least, bound, step);
  least = minimum(highest, least);
  const Lanes two = broadcast(2.0f);
  const Lanes gain = step * (two * m.product - step * m.square - two * least * m.level) +
                     least * (two * all.value - least * all.weight);
  return {step, least, gain};
}

struct Fit {
  Lanes step, least;
};

// The best line found with the range's ends at each of the search's levels outside of the codes, then
// refined. `least` is at most `highest`.
template <class Search, class Tile>
PYRITE_INLINE Fit best_line(const Tile& tile, const Survey& values, Lanes origin, Lanes highest) {
  constexpr int kHigh = Search::kHigh;
  const Totals all = totals(values, origin);
  const Lanes unit = inverse(values.high - origin);
  // Without a step: the mean, or as near to it as may be.
  const Lanes mean = minimum(highest - origin, quotient(all.value, all.weight));
  Line best{broadcast(0.0f), mean, mean * (broadcast(2.0f) * all.value - mean * all.weight)};
  const auto look = [&](float below, float above) {
    const Lanes inverse_step = unit * broadcast(kHigh + below + above);
    const Moments found = moments<kHigh>(tile, origin, inverse_step, broadcast(below));
    best.consider(fitted(found, all, highest - origin));
  };
  for (float below : Search::kClips) {
    for (float above : Search::kClips) look(below, above);
  }
  constexpr bool more = Tile::kWeighted && requires { Search::kMore; };
  if constexpr (more) {
    for (float below : Search::kMore) {
      for (float above : Search::kMore) look(below, above);
    }
  }
  for (int i = 0; i < Search::kRefits + (more ? 2 : 0); ++i) {
    const Lanes inverse_step = inverse(best.step);
    const Moments found = moments<kHigh>(tile, origin, inverse_step, best.least * inverse_step);
    best.consider(fitted(found, all, highest - origin));
  }
  return {best.step, best.least + origin};
}

// The codes of all columns, by group.
template <int kHigh, class Tile>
PYRITE_PASS void write_line_codes(const Tile& tile, Lanes least, Lanes inverse_step,
                                    uint8_t* groups) {
  uint8_t codes[16 * Tile::kColumns];
  _Pragma("GCC unroll 4")
  for (int j = 0; j < Tile::kColumns; ++j) {
    const Lanes code = Whole<0, kHigh>::nearest((tile.value(j) - least) * inverse_step);
    store_bytes(reinterpret_cast<int8_t*>(codes + 16 * j), code);
  }
  turn_back<Tile::kColumns>(codes, groups);
}
