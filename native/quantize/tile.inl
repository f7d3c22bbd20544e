// A tile of values, turned so that a lane holds a group: column j of the 16 groups is at 16 * j.

// A walk over all columns of a tile: a call each, for inlined they take minutes to compile.
#define PYRITE_PASS [[gnu::noinline]]

using Four = float __attribute__((vector_size(16)));
using Codes = uint8_t __attribute__((vector_size(16)));

PYRITE_INLINE Four four(const float* from) {
  Four all;
  std::memcpy(&all, from, sizeof all);
  return all;
}

template <int kColumns>
void turn(const float* groups, float* columns) {
  for (int group = 0; group < 16; group += 4) {
    const float* from = groups + group * kColumns;
    for (int j = 0; j < kColumns; j += 4) {
      const Four a = four(from + j), b = four(from + kColumns + j);
      const Four c = four(from + 2 * kColumns + j), d = four(from + 3 * kColumns + j);
      const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const Four high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const Four turned[] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                             __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                             __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5),
                             __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7)};
      for (int i = 0; i < 4; ++i) std::memcpy(columns + 16 * (j + i) + group, turned + i, 16);
    }
  }
}

template <int kGroupColumns, bool kHasImportance>
struct Tile {
  static constexpr int kColumns = kGroupColumns;
  static constexpr bool kWeighted = kHasImportance;

  alignas(64) float values[16 * kColumns];
  alignas(64) float weights[kWeighted ? 16 * kColumns : 16];

  Tile(const float* from, const float* importance) {
    turn<kColumns>(from, values);
    if constexpr (kWeighted) turn<kColumns>(importance, weights);
  }

  PYRITE_INLINE Lanes value(int column) const { return load(values + 16 * column); }
  // a times the column's weights
  PYRITE_INLINE Lanes weighted(int column, Lanes a) const {
    if constexpr (kWeighted) return load(weights + 16 * column) * a;
    return a;
  }
  PYRITE_INLINE Lanes weight(int column) const {
    if constexpr (kWeighted) return load(weights + 16 * column);
    return broadcast(1.0f);
  }
};

// From codes[16 * column + group] to groups[kColumns * group + column].
template <int kColumns>
void turn_back(const uint8_t* codes, uint8_t* groups) {
  for (int j = 0; j < kColumns; j += 16) {
    Codes row[16], next[16];
    std::memcpy(row, codes + 16 * j, sizeof row);
    for (int stage = 0; stage < 4; ++stage) {  // a perfect shuffle of the 256 bytes each time
      for (int i = 0; i < 8; ++i) {
        next[2 * i] = __builtin_shufflevector(row[i], row[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                              5, 21, 6, 22, 7, 23);
        next[2 * i + 1] = __builtin_shufflevector(row[i], row[i + 8], 8, 24, 9, 25, 10, 26, 11, 27,
                                                  12, 28, 13, 29, 14, 30, 15, 31);
      }
      std::memcpy(row, next, sizeof row);
    }
    for (int group = 0; group < 16; ++group) {
      std::memcpy(groups + kColumns * group + j, row + group, 16);
    }
  }
}
