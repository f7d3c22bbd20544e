// How superblocks store their codes and whole numbers. Source: ggml's block structures; the readers
// are pyrite.quant.dequant and kernels/file_block.cpp.

// What a superblock is made of, before it is stored.
struct Parts {
  const uint8_t* codes;     // (256,) from 0 on
  const uint8_t* factors;   // of each group, from 0 on
  const uint8_t* drops;     // of each group
  const uint16_t* scale;    // float16
  const uint16_t* depth;    // float16
};

// Two bits of each code: 128 columns in 32 bytes, 2 bits higher for each 32 of them.
PYRITE_INLINE void put_pairs_of_bits(const uint8_t* codes, int shift, uint8_t* out) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t* from = codes + 128 * half;
    for (int j = 0; j < 32; ++j) {
      out[32 * half + j] =
          uint8_t((from[j] >> shift & 3) | (from[j + 32] >> shift & 3) << 2 |
                  (from[j + 64] >> shift & 3) << 4 | (from[j + 96] >> shift & 3) << 6);
    }
  }
}

// One bit of each code: bit i of byte j is of column 32 * i + j.
PYRITE_INLINE void put_bits(const uint8_t* codes, int bit, uint8_t* out) {
  for (int j = 0; j < 32; ++j) {
    int bits = 0;
    for (int i = 0; i < 8; ++i) bits |= (codes[32 * i + j] >> bit & 1) << i;
    out[j] = uint8_t(bits);
  }
}

// Low nibbles: `width` columns in the low halves of as many bytes, the next in their high ones.
template <int kWidth>
PYRITE_INLINE void put_nibble_groups(const uint8_t* codes, uint8_t* out) {
  for (int first = 0; first < 256; first += 2 * kWidth) {
    for (int j = 0; j < kWidth; ++j) {
      out[first / 2 + j] =
          uint8_t((codes[first + j] & 15) | (codes[first + kWidth + j] & 15) << 4);
    }
  }
}

// Eight factors and eight drops of 6 bits in 12 bytes.
PYRITE_INLINE void put_six_bits(const uint8_t* factors, const uint8_t* drops, uint8_t* out) {
  for (int i = 0; i < 4; ++i) {
    out[i] = uint8_t(factors[i] | (factors[i + 4] >> 4) << 6);
    out[i + 4] = uint8_t(drops[i] | (drops[i + 4] >> 4) << 6);
    out[i + 8] = uint8_t((factors[i + 4] & 15) | (drops[i + 4] & 15) << 4);
  }
}

struct LayoutQ2K {
  static constexpr int kBytes = 84;
  static void put(const Parts& from, uint8_t* out) {
    for (int i = 0; i < 16; ++i) out[i] = uint8_t(from.factors[i] | from.drops[i] << 4);
    put_pairs_of_bits(from.codes, 0, out + 16);
    std::memcpy(out + 80, from.scale, 2);
    std::memcpy(out + 82, from.depth, 2);
  }
};

struct LayoutQ3K {
  static constexpr int kBytes = 110;
  static void put(const Parts& from, uint8_t* out) {
    put_bits(from.codes, 2, out);
    put_pairs_of_bits(from.codes, 0, out + 32);
    for (int i = 0; i < 8; ++i) {
      out[96 + i] = uint8_t((from.factors[i] & 15) | (from.factors[i + 8] & 15) << 4);
    }
    for (int i = 0; i < 4; ++i) {
      const uint8_t* high = from.factors + i;
      out[104 + i] = uint8_t(high[0] >> 4 | (high[4] >> 4) << 2 | (high[8] >> 4) << 4 |
                             (high[12] >> 4) << 6);
    }
    std::memcpy(out + 108, from.scale, 2);
  }
};

struct LayoutQ4K {
  static constexpr int kBytes = 144;
  static void put(const Parts& from, uint8_t* out) {
    std::memcpy(out, from.scale, 2);
    std::memcpy(out + 2, from.depth, 2);
    put_six_bits(from.factors, from.drops, out + 4);
    put_nibble_groups<32>(from.codes, out + 16);
  }
};

struct LayoutQ5K {
  static constexpr int kBytes = 176;
  static void put(const Parts& from, uint8_t* out) {
    std::memcpy(out, from.scale, 2);
    std::memcpy(out + 2, from.depth, 2);
    put_six_bits(from.factors, from.drops, out + 4);
    put_bits(from.codes, 4, out + 16);
    put_nibble_groups<32>(from.codes, out + 48);
  }
};

struct LayoutQ6K {
  static constexpr int kBytes = 210;
  static void put(const Parts& from, uint8_t* out) {
    put_nibble_groups<64>(from.codes, out);
    put_pairs_of_bits(from.codes, 4, out + 128);
    for (int i = 0; i < 16; ++i) out[192 + i] = uint8_t(from.factors[i] - 128);
    std::memcpy(out + 208, from.scale, 2);
  }
};

struct LayoutIQ4XS {
  static constexpr int kBytes = 136;
  static void put(const Parts& from, uint8_t* out) {
    std::memcpy(out, from.scale, 2);
    uint16_t high = 0;
    for (int i = 0; i < 8; ++i) high = uint16_t(high | (from.factors[i] >> 4) << (2 * i));
    std::memcpy(out + 2, &high, 2);
    for (int i = 0; i < 4; ++i) {
      out[4 + i] = uint8_t((from.factors[2 * i] & 15) | (from.factors[2 * i + 1] & 15) << 4);
    }
    put_nibble_groups<16>(from.codes, out + 8);
  }
};

// Whole numbers of 16 groups, counted from `low`.
PYRITE_INLINE void put_whole(Lanes a, float low, uint8_t* out) {
  float lane[16];
  store(lane, a - broadcast(low));
  for (int i = 0; i < 16; ++i) out[i] = uint8_t(lane[i]);
}

// Groups of kColumns columns in a tile of superblocks.
template <class Layout, int kColumns>
PYRITE_INLINE void put_superblocks(const uint8_t* codes, const uint8_t* factors,
                                   const uint8_t* drops, const uint16_t* scales,
                                   const uint16_t* depths, uint8_t* blocks) {
  constexpr int kSpan = 256 / kColumns;
  for (int i = 0; i < 16 / kSpan; ++i) {
    const int group = i * kSpan;
    Layout::put({codes + 256 * i, factors + group, drops + group, scales + group, depths + group},
                blocks + i * Layout::kBytes);
  }
}

template <class Search, class Layout, int kColumns>
struct ScaledSuperblocks {
  static constexpr int kTileColumns = 16 * kColumns;
  static constexpr int kTileBytes = kTileColumns / 256 * Layout::kBytes;

  template <bool kWeighted>
  static void write(const float* values, const float* importance, uint8_t* blocks) {
    const Tile<kColumns, kWeighted> tile(values, importance);
    const ScaledState best = best_scales<Search, 256 / kColumns>(tile);
    uint16_t scales[16];
    uint8_t codes[kTileColumns], factors[16];
    store_half(scales, best.scale);
    put_whole(best.factor, Search::kLow, factors);
    write_codes<typename Search::Levels>(tile, inverse(best.scale * best.factor), codes);
    put_superblocks<Layout, kColumns>(codes, factors, factors, scales, scales, blocks);
  }
};

template <class Search, class Layout, int kColumns>
struct LineSuperblocks {
  static constexpr int kTileColumns = 16 * kColumns;
  static constexpr int kTileBytes = kTileColumns / 256 * Layout::kBytes;

  template <bool kWeighted>
  static void write(const float* values, const float* importance, uint8_t* blocks) {
    const Tile<kColumns, kWeighted> tile(values, importance);
    const LineState best = best_lines<Search, 256 / kColumns>(tile);
    uint16_t scales[16], depths[16];
    uint8_t codes[kTileColumns], factors[16], drops[16];
    store_half(scales, best.scale);
    store_half(depths, best.depth);
    put_whole(best.factor, 0, factors);
    put_whole(best.drop, 0, drops);
    write_line_codes<Search::kHigh>(tile, best.least(), inverse(best.step()), codes);
    put_superblocks<Layout, kColumns>(codes, factors, drops, scales, depths, blocks);
  }
};
