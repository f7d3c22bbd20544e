// Scales of groups without an offset: value = scale * level. For given levels the best scale is a
// quotient of sums, and what it takes off the squared error is what the search compares.

struct Products {
  Lanes value, square;  // sums over the group of value * level and level * level, weighted

  PYRITE_INLINE Lanes scale() const { return quotient(value, square); }
  PYRITE_INLINE Lanes gain() const { return quotient(value * value, square); }
};

template <class Levels, class Tile>
PYRITE_PASS Products products(const Tile& tile, Lanes inverse_scale) {
  Products sums{broadcast(0.0f), broadcast(0.0f)};
  _Pragma("GCC unroll 4")
  for (int j = 0; j < Tile::kColumns; ++j) {
    const Lanes value = tile.value(j);
    const Lanes level = Levels::nearest(value * inverse_scale);
    const Lanes weighted = tile.weighted(j, level);
    sums.value = sums.value + weighted * value;
    sums.square = sums.square + weighted * level;
  }
  return sums;
}

// The value of largest magnitude in each group.
template <class Tile>
PYRITE_PASS Lanes extreme(const Tile& tile) {
  Lanes low = tile.value(0), high = low;
  _Pragma("GCC unroll 3")
  for (int j = 1; j < Tile::kColumns; ++j) {
    low = minimum(low, tile.value(j));
    high = maximum(high, tile.value(j));
  }
  return choose_less(high, broadcast(0.0f) - low, low, high);
}

struct Best {
  Lanes scale, gain;

  PYRITE_INLINE void consider(const Products& found) {
    const Lanes gained = found.gain();
    scale = choose_less(gain, gained, found.scale(), scale);
    gain = maximum(gained, gain);
  }
};

// The best scale found with the extreme value at each of `Search::kPlaces`, then refined: levels for
// the scale, the scale for the levels.
template <class Search, class Tile>
PYRITE_INLINE Best best_scale(const Tile& tile) {
  const Lanes unit = inverse(extreme(tile));
  Best best{broadcast(0.0f), broadcast(0.0f)};
  for (float place : Search::kPlaces) {
    best.consider(products<typename Search::Levels>(tile, unit * broadcast(place)));
  }
  constexpr bool more = Tile::kWeighted && requires { Search::kMore; };
  if constexpr (more) {
    for (float place : Search::kMore) {
      best.consider(products<typename Search::Levels>(tile, unit * broadcast(place)));
    }
  }
  for (int i = 0; i < Search::kRefits + (more ? 2 : 0); ++i) {
    best.consider(products<typename Search::Levels>(tile, inverse(best.scale)));
  }
  return best;
}

// The codes of all columns, by group.
template <class Levels, class Tile>
PYRITE_PASS void write_codes(const Tile& tile, Lanes inverse_scale, uint8_t* groups) {
  uint8_t codes[16 * Tile::kColumns];
  _Pragma("GCC unroll 4")
  for (int j = 0; j < Tile::kColumns; ++j) {
    store_bytes(reinterpret_cast<int8_t*>(codes + 16 * j), Levels::code(tile.value(j) * inverse_scale));
  }
  turn_back<Tile::kColumns>(codes, groups);
}
