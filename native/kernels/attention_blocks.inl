// Blocks of keys and values of one head, of either KvType: where their parts are, and how
// positions are written to them. Written against Lanes. See attention.h.

namespace attention {

constexpr int kBlockKeys = kPageTokens;

// What multiplies keys, (key groups, 32), and values, (32,), as they are folded in: nothing, or
// floats, a position a lane. Values that are columns of keys have the keys' scales.
struct Unscaled {
  Unscaled operator+(int) const { return {}; }
};

// `Stored` is what a block holds: uint16_t for float16, or int8_t.

template <class Stored>
constexpr KvType kTypeOf = std::is_same_v<Stored, int8_t> ? KvType::kQ8 : KvType::kF16;

// One head's block of a page.
template <class Stored, class Scales>
struct StoredBlock {
  Stored* keys;
  Stored* values;
  Scales key_scales;
  Scales value_scales;
};

template <class Stored>
inline auto stored_block(uint8_t* bytes, HeadShape shape) {
  Stored* keys = reinterpret_cast<Stored*>(bytes);
  Stored* values = keys + shape.keys();
  if constexpr (kTypeOf<Stored> == KvType::kF16) {
    return StoredBlock<Stored, Unscaled>{keys, values, {}, {}};
  } else {
    float* scales = reinterpret_cast<float*>(values + shape.values());
    return StoredBlock<Stored, float*>{keys, values, scales,
                                       scales + kBlockKeys * key_groups(shape.key_width)};
  }
}

// What columns are divided by to be whole numbers up to 127. NaN where one is not finite; 0 where
// all are too small to be kept.
inline float scale_of(const float* columns, int width) {
  Lanes most = broadcast(0.0f);
  bool all_finite = true;
  rows::each_run(width, [&](int column, int count) {
    const Lanes a = rows::load_run(columns + column, count);
    all_finite &= finite(a);
    most = maximum(most, maximum(a, broadcast(0.0f) - a));
  });
  if (!all_finite) return std::numeric_limits<float>::quiet_NaN();
  return largest(most) < kSmallestKept ? 0.0f : largest(most) / 127.0f;
}

// Where the scale is no number to divide by, it alone tells: the columns become zeros.
inline Lanes divisor_of(float scale) {
  return broadcast(scale > 0 ? scale : std::numeric_limits<float>::infinity());
}

// 16 columns, as whole multiples of `divisor` where they are kept as integers.
inline void store_lanes(uint16_t* to, Lanes a, Lanes) { store_half(to, a); }
inline void store_lanes(int8_t* to, Lanes a, Lanes divisor) { store_bytes(to, a / divisor); }

// A run of columns of every key, to a transposed block, whose columns are kBlockKeys apart: whole
// lines of it are written, where position by position would come back to each line 32 times.
// `divisor_of_key(i)` is that of key i.
template <class Stored, class Divisors>
inline void store_keys(const StoreRun& run, int start, int width, Divisors divisor_of_key,
                       Stored* to) {
  Stored lanes[kBlockKeys][16];
  rows::each_run(width, [&](int column, int count) {
    for (int key = 0; key < run.count; ++key) {
      const float* from = run.keys + size_t(key) * run.shape.key_width + start + column;
      store_lanes(lanes[key], rows::load_run(from, count), divisor_of_key(key));
    }
    for (int i = 0; i < count; ++i) {
      Stored* line = to + size_t(start + column + i) * kBlockKeys + run.first_slot;
      for (int key = 0; key < run.count; ++key) line[key] = lanes[key][i];
    }
  });
}

template <class Stored>
inline void store_value(const float* value, int width, Lanes divisor, Stored* to) {
  rows::each_run(width, [&](int column, int count) {
    store_lanes(to + column, rows::load_run(value + column, count), divisor);
  });
}

// 16 columns of every key as float16, in which whole numbers up to 127 are exact. Where there are
// fewer, or they are integers, they are brought to `held`.
inline const uint16_t* halves_of(const uint16_t* lines, int count, uint16_t* held) {
  if (count == 16) return lines;
  std::fill_n(held, 16 * kBlockKeys, uint16_t(0));
  std::copy_n(lines, count * kBlockKeys, held);
  return held;
}
inline const uint16_t* halves_of(const int8_t* lines, int count, uint16_t* held) {
  std::fill_n(held + count * kBlockKeys, (16 - count) * kBlockKeys, uint16_t(0));
  for (int i = 0; i < count * kBlockKeys; i += 16) store_half(held + i, load_bytes(lines + i));
  return held;
}

inline Lanes scaled_by(Lanes value, Unscaled, int) { return value; }
inline Lanes scaled_by(Lanes value, const float* scales, int key) {
  return value * broadcast(scales[key]);
}

inline void store_halves(const StoreRun& run) {
  const auto block = stored_block<uint16_t>(run.block, run.shape);
  const Lanes unused = broadcast(1.0f);
  store_keys(run, 0, run.shape.key_width, [&](int) { return unused; }, block.keys);
  if (run.shape.values_in_keys) return;
  for (int i = 0; i < run.count; ++i) {
    store_value(run.values + i * run.value_stride, run.shape.value_width, unused,
                block.values + size_t(run.first_slot + i) * run.shape.padded());
  }
}

inline void store_integers(const StoreRun& run) {
  const auto block = stored_block<int8_t>(run.block, run.shape);
  const int key_width = run.shape.key_width;
  for (int start = 0; start < key_width; start += kKeyGroup) {
    const int width = std::min(kKeyGroup, key_width - start);
    float* scales = block.key_scales + start / kKeyGroup * kBlockKeys + run.first_slot;
    for (int i = 0; i < run.count; ++i) {
      scales[i] = scale_of(run.keys + size_t(i) * key_width + start, width);
    }
    store_keys(run, start, width, [&](int i) { return divisor_of(scales[i]); }, block.keys);
  }
  if (run.shape.values_in_keys) return;
  for (int i = 0; i < run.count; ++i) {
    const float* value = run.values + i * run.value_stride;
    const int slot = run.first_slot + i;
    block.value_scales[slot] = scale_of(value, run.shape.value_width);
    store_value(value, run.shape.value_width, divisor_of(block.value_scales[slot]),
                block.values + size_t(slot) * run.shape.padded());
  }
}

}  // namespace attention
