// Types whose blocks are 32 columns under a float16 scale of their own, and plain 16-bit floats.

// 16 nibbles of columns j and j + 16.
PYRITE_INLINE void put_nibbles(const uint8_t* codes, uint8_t* out) {
  for (int j = 0; j < 16; ++j) out[j] = uint8_t((codes[j] & 15) | (codes[j + 16] << 4));
}

// Bit j is bit 4 of code j.
PYRITE_INLINE void put_fifth_bits(const uint8_t* codes, uint8_t* out) {
  uint32_t bits = 0;
  for (int j = 0; j < 32; ++j) bits |= uint32_t(codes[j] >> 4 & 1) << j;
  std::memcpy(out, &bits, sizeof bits);
}

template <int kBits>
PYRITE_INLINE void put_codes(const uint8_t* codes, uint8_t* out) {
  if constexpr (kBits == 8) std::memcpy(out, codes, 32);
  if constexpr (kBits == 5) put_fifth_bits(codes, out);
  if constexpr (kBits < 8) put_nibbles(codes, out + (kBits == 5 ? 4 : 0));
}

// Search: Levels, kBits, kPlaces, kRefits. A block is its scale, then its codes.
template <class Search>
struct ScaledBlocks {
  static constexpr int kTileColumns = 16 * 32;
  static constexpr int kBlockBytes = 2 + 4 * Search::kBits;
  static constexpr int kTileBytes = 16 * kBlockBytes;

  template <bool kWeighted>
  static void write(const float* values, const float* importance, uint8_t* blocks) {
    const Tile<32, kWeighted> tile(values, importance);
    uint16_t half[16];
    const Lanes scale = as_half(best_scale<Search>(tile).scale, half);
    uint8_t codes[kTileColumns];
    write_codes<typename Search::Levels>(tile, inverse(scale), codes);
    for (int i = 0; i < 16; ++i) {
      std::memcpy(blocks + i * kBlockBytes, half + i, 2);
      put_codes<Search::kBits>(codes + 32 * i, blocks + i * kBlockBytes + 2);
    }
  }
};

// The extreme value takes the extreme level: with 8 bits a search finds nothing to gain.
struct Q8_0 {
  static constexpr int kTileColumns = 16 * 32;
  static constexpr int kTileBytes = 16 * 34;

  template <bool kWeighted>
  static void write(const float* values, const float*, uint8_t* blocks) {
    const Tile<32, false> tile(values, nullptr);
    uint16_t half[16];
    const Lanes scale = as_half(magnitude(extreme(tile)) * broadcast(1.0f / 127), half);
    uint8_t codes[kTileColumns];
    write_codes<Signed>(tile, inverse(scale), codes);
    for (int i = 0; i < 16; ++i) {
      std::memcpy(blocks + i * 34, half + i, 2);
      std::memcpy(blocks + i * 34 + 2, codes + 32 * i, 32);
    }
  }

  struct Signed {
    PYRITE_INLINE static Lanes code(Lanes a) { return Whole<-127, 127>::nearest(a); }
  };
};

// Search: kHigh, kBits, kPlaces, kRefits. A block is its step, its least value, then its codes.
template <class Search>
struct LineBlocks {
  static constexpr int kTileColumns = 16 * 32;
  static constexpr int kBlockBytes = 4 + 4 * Search::kBits;
  static constexpr int kTileBytes = 16 * kBlockBytes;

  template <bool kWeighted>
  static void write(const float* values, const float* importance, uint8_t* blocks) {
    const Tile<32, kWeighted> tile(values, importance);
    const Survey all = survey(tile);
    const Fit line = best_line<Search>(tile, all, all.low, broadcast(65504.0f));
    uint16_t steps[16], leasts[16];
    const Lanes step = as_half(line.step, steps);
    const Lanes least = as_half(line.least, leasts);
    uint8_t codes[kTileColumns];
    write_line_codes<Search::kHigh>(tile, least, inverse(step), codes);
    for (int i = 0; i < 16; ++i) {
      std::memcpy(blocks + i * kBlockBytes, steps + i, 2);
      std::memcpy(blocks + i * kBlockBytes + 2, leasts + i, 2);
      put_codes<Search::kBits>(codes + 32 * i, blocks + i * kBlockBytes + 4);
    }
  }
};

struct Float16 {
  static constexpr int kTileColumns = 16;
  static constexpr int kTileBytes = 32;

  template <bool>
  static void write(const float* values, const float*, uint8_t* blocks) {
    uint16_t half[16];
    store_half(half, load(values));
    std::memcpy(blocks, half, sizeof half);
  }
};

struct BrainFloat16 {
  static constexpr int kTileColumns = 16;
  static constexpr int kTileBytes = 32;

  template <bool>
  static void write(const float* values, const float*, uint8_t* blocks) {
    for (int i = 0; i < 16; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
      const uint16_t rounded = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      std::memcpy(blocks + 2 * i, &rounded, 2);
    }
  }
};
