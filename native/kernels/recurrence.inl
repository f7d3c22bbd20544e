// Kernels that carry a state from token to token, written against Lanes: a lane is a column, so that
// no sum goes across lanes. See recurrence.h.

namespace recurrence {

using rows::load_run;
using rows::store_run;

// A run of columns. Full ones know it when they are compiled.
template <bool kFull>
PYRITE_INLINE Lanes load_columns(const float* from, int count) {
  return kFull ? load(from) : load_run(from, count);
}

template <bool kFull>
PYRITE_INLINE void store_columns(float* to, Lanes a, int count) {
  if constexpr (kFull) {
    store(to, a);
  } else {
    store_run(to, a, count);
  }
}

// Calls run(column, count, is_full) for each run of 16 columns, with `is_full` as a type.
template <class Run>
PYRITE_INLINE void each_width(int width, Run run) {
  int column = 0;
  for (; column + 16 <= width; column += 16) run(column, 16, std::true_type());
  if (column < width) run(column, width - column, std::false_type());
}

// --- convolutions

inline void convolve_row(const float* const* from, const ConvWork& work, float* out) {
  each_width(work.width, [&](int column, int count, auto is_full) {
    constexpr bool kFull = decltype(is_full)::value;
    Lanes total = broadcast(0.0f);
    for (int tap = 0; tap < work.num_taps; ++tap) {
      total = fused(load_columns<kFull>(from[tap] + column, count),
                    load_columns<kFull>(work.taps.row(tap) + column, count), total);
    }
    if (work.bias != nullptr) total = total + load_columns<kFull>(work.bias + column, count);
    store_columns<kFull>(out + column, total, count);
  });
}

inline void convolve(const ConvWork& work) {
  const int before = work.num_taps - 1;
  const auto row_at = [&](int row) -> const float* {
    return row < 0 ? work.state.row(before + row) : work.in.row(row);
  };
  for (int row = 0; row < work.num_rows; ++row) {
    const float* from[kMostTaps];
    for (int tap = 0; tap < work.num_taps; ++tap) from[tap] = row_at(row - before + tap);
    float* out = work.out.row(row);
    convolve_row(from, work, out);
    if (work.activation != Activation::kIdentity) {
      rows::activate(work.activation, out, work.width, out);
    }
  }
  for (int i = 0; i < before; ++i) {  // ascending: what is moved has not been written yet
    const float* kept = row_at(work.num_rows - before + i);
    std::memmove(work.state.row(i), kept, size_t(work.width) * sizeof(float));
  }
}

// --- the selective scan

// log(1 + e^x) = max(x, 0) + log(1 + y) with y = e^-|x|; log(1 + y) = 2 artanh(s), s = y / (2 + y) up
// to 1/3, by its series to s^15: the next term is a 10^9th of the sum.
PYRITE_INLINE Lanes softplus(Lanes x) {
  const Lanes y = exponential(minimum(x, broadcast(0.0f) - x));
  const Lanes s = y / (broadcast(2.0f) + y);
  const Lanes square = s * s;
  Lanes series = broadcast(2.0f / 15);
  series = fused(series, square, broadcast(2.0f / 13));
  series = fused(series, square, broadcast(2.0f / 11));
  series = fused(series, square, broadcast(2.0f / 9));
  series = fused(series, square, broadcast(2.0f / 7));
  series = fused(series, square, broadcast(2.0f / 5));
  series = fused(series, square, broadcast(2.0f / 3));
  series = fused(series, square, broadcast(2.0f));
  return fused(series, s, curves::relu(x));
}

PYRITE_INLINE Lanes step_of(const ScanWork& work, Lanes step) {
  const Lanes clipped = minimum(broadcast(work.step_high), softplus(step));
  return maximum(broadcast(work.step_low), clipped);
}

template <bool kFull>
inline void scan_columns(const ScanWork& work) {
  const int count = work.width;
  const Lanes d = load_columns<kFull>(work.d, count);
  const Lanes bias = work.step_bias == nullptr ? broadcast(0.0f)
                                               : load_columns<kFull>(work.step_bias, count);
  for (int row = 0; row < work.num_rows; ++row) {
    const Lanes dt = step_of(work, load_columns<kFull>(work.step.row(row), count) + bias);
    const Lanes x = load_columns<kFull>(work.x.row(row), count);
    const Lanes added = dt * x;
    const float* b = work.b.row(row);
    const float* c = work.c.row(row);
    Lanes total = d * x;
    for (int n = 0; n < work.state_width; ++n) {
      float* state = work.state + n * count;
      const Lanes kept = exponential(dt * load_columns<kFull>(work.a + n * count, count));
      const Lanes s = fused(load_columns<kFull>(state, count), kept, added * broadcast(b[n]));
      store_columns<kFull>(state, s, count);
      total = fused(s, broadcast(c[n]), total);
    }
    store_columns<kFull>(work.out.row(row), total, count);
  }
}

inline void scan_by_state(const ScanWork& work) {
  if (work.width == 16) {
    scan_columns<true>(work);
  } else {
    scan_columns<false>(work);
  }
}

// Of up to 16 tokens: steps, and what each leaves of the state.
struct Steps {
  alignas(64) float dt[16] = {};
  alignas(64) float kept[16];
};

inline Steps steps_of(const ScanWork& work, int first_row, int num_rows) {
  Steps steps;
  for (int i = 0; i < num_rows; ++i) steps.dt[i] = *work.step.row(first_row + i);
  const float bias = work.step_bias == nullptr ? 0.0f : *work.step_bias;
  const Lanes dt = step_of(work, load(steps.dt) + broadcast(bias));
  store(steps.dt, dt);
  store(steps.kept, exponential(dt * broadcast(*work.a)));
  return steps;
}

// Some tokens for one run of columns: the state is read and written once for all of them.
template <int kTokens, bool kFull>
PYRITE_INLINE void scan_tokens(const ScanWork& work, const Steps& steps, int first_row, int token,
                               int column, int count) {
  Lanes added[kTokens], kept[kTokens], total[kTokens];
  const float* b[kTokens];
  const float* c[kTokens];
  for (int i = 0; i < kTokens; ++i) {
    const int row = first_row + token + i;
    const Lanes x = load_columns<kFull>(work.x.row(row) + column, count);
    added[i] = x * broadcast(steps.dt[token + i]);
    kept[i] = broadcast(steps.kept[token + i]);
    total[i] = x * broadcast(*work.d);
    b[i] = work.b.row(row);
    c[i] = work.c.row(row);
  }
  float* state = work.state + size_t(column) * work.state_width;
  for (int n = 0; n < work.state_width; ++n, state += count) {
    Lanes s = load_columns<kFull>(state, count);
    for (int i = 0; i < kTokens; ++i) {
      s = fused(s, kept[i], added[i] * broadcast(b[i][n]));
      total[i] = fused(s, broadcast(c[i][n]), total[i]);
    }
    store_columns<kFull>(state, s, count);
  }
  for (int i = 0; i < kTokens; ++i) {
    store_columns<kFull>(work.out.row(first_row + token + i) + column, total[i], count);
  }
}

inline void scan_by_head(const ScanWork& work) {
  for (int row = 0; row < work.num_rows; row += 16) {
    const int num_rows = std::min(16, work.num_rows - row);
    const Steps steps = steps_of(work, row, num_rows);
    each_width(work.width, [&](int column, int count, auto is_full) {
      constexpr bool kFull = decltype(is_full)::value;
      int token = 0;
      for (; token + 4 <= num_rows; token += 4) {
        scan_tokens<4, kFull>(work, steps, row, token, column, count);
      }
      for (; token < num_rows; ++token) {
        scan_tokens<1, kFull>(work, steps, row, token, column, count);
      }
    });
  }
}

// --- RWKV

template <bool kFull>
PYRITE_INLINE void wkv4_columns(const Wkv4Work& work, int column, int count) {
  const Lanes decay = load_columns<kFull>(work.decay + column, count);
  const Lanes first = load_columns<kFull>(work.first + column, count);
  Lanes above = load_columns<kFull>(work.state.row(0) + column, count);
  Lanes below = load_columns<kFull>(work.state.row(1) + column, count);
  Lanes exponent = load_columns<kFull>(work.state.row(2) + column, count);
  for (int row = 0; row < work.num_rows; ++row) {
    const Lanes key = load_columns<kFull>(work.key.row(row) + column, count);
    const Lanes value = load_columns<kFull>(work.value.row(row) + column, count);
    const Lanes boosted = first + key;
    Lanes largest = maximum(exponent, boosted);
    Lanes old = exponential(exponent - largest);
    Lanes now = exponential(boosted - largest);
    store_columns<kFull>(work.out.row(row) + column,
                         fused(old, above, now * value) / fused(old, below, now), count);
    const Lanes faded = exponent + decay;
    largest = maximum(faded, key);
    old = exponential(faded - largest);
    now = exponential(key - largest);
    above = fused(old, above, now * value);
    below = fused(old, below, now);
    exponent = largest;
  }
  store_columns<kFull>(work.state.row(0) + column, above, count);
  store_columns<kFull>(work.state.row(1) + column, below, count);
  store_columns<kFull>(work.state.row(2) + column, exponent, count);
}

inline void wkv4(const Wkv4Work& work) {
  each_width(work.width, [&](int column, int count, auto is_full) {
    wkv4_columns<decltype(is_full)::value>(work, column, count);
  });
}

// What one token does to a head's state, by keys.
struct KeyRows {
  alignas(64) float kept[kMostHeadColumns];     // exp(-exp(-1/2) sigmoid(decay))
  alignas(64) float removed[kMostHeadColumns];  // removal * rate
  const float* key;
  const float* receptance;
  const float* next_removal;  // of the token after
};

inline void fill(const Wkv7Work& work, int row, KeyRows& keys) {
  constexpr float kSlowest = -0.60653066f;  // -exp(-1/2)
  rows::map(work.head_width, work.decay.row(row), keys.kept, [](Lanes decay) {
    return exponential(broadcast(kSlowest) * curves::sigmoid(decay));
  });
  rows::multiply_rows(work.removal.row(row), work.rate.row(row), work.head_width, keys.removed);
  keys.key = work.key.row(row);
  keys.receptance = work.receptance.row(row);
  keys.next_removal = work.removal.row(std::min(row + 1, work.num_rows - 1));
}

// What the first token takes: the state's sums over keys, weighed by `removal`.
inline void sum_removed(const Wkv7Work& work, const float* removal, float* taken) {
  each_width(work.head_width, [&](int column, int count, auto is_full) {
    constexpr bool kFull = decltype(is_full)::value;
    Lanes total = broadcast(0.0f);
    for (int key = 0; key < work.head_width; ++key) {
      const float* state = work.state + size_t(key) * work.head_width + column;
      total = fused(load_columns<kFull>(state, count), broadcast(removal[key]), total);
    }
    store_columns<kFull>(taken + column, total, count);
  });
}

// One token for `kRuns` runs of values. On the way it sums what the next token takes.
template <int kRuns, bool kFull>
PYRITE_INLINE void wkv7_columns(const Wkv7Work& work, const KeyRows& keys, const float* values,
                                float* state, float* taken, float* out, int count) {
  Lanes value[kRuns], less[kRuns], total[kRuns], next[kRuns];
  for (int i = 0; i < kRuns; ++i) {
    value[i] = load_columns<kFull>(values + 16 * i, count);
    less[i] = broadcast(0.0f) - load_columns<kFull>(taken + 16 * i, count);
    total[i] = next[i] = broadcast(0.0f);
  }
  for (int key = 0; key < work.head_width; ++key, state += work.head_width) {
    for (int i = 0; i < kRuns; ++i) {
      const Lanes before = load_columns<kFull>(state + 16 * i, count);
      Lanes s = fused(less[i], broadcast(keys.removed[key]), before * broadcast(keys.kept[key]));
      s = fused(value[i], broadcast(keys.key[key]), s);
      store_columns<kFull>(state + 16 * i, s, count);
      total[i] = fused(s, broadcast(keys.receptance[key]), total[i]);
      next[i] = fused(s, broadcast(keys.next_removal[key]), next[i]);
    }
  }
  for (int i = 0; i < kRuns; ++i) {
    store_columns<kFull>(taken + 16 * i, next[i], count);
    store_columns<kFull>(out + 16 * i, total[i], count);
  }
}

inline void wkv7(const Wkv7Work& work) {
  const int width = work.head_width;
  alignas(64) float taken[kMostHeadColumns];
  KeyRows keys;
  sum_removed(work, work.removal.row(0), taken);
  for (int row = 0; row < work.num_rows; ++row) {
    fill(work, row, keys);
    const float* values = work.value.row(row);
    float* out = work.out.row(row);
    int i = 0;
    for (; i + 32 <= width; i += 32) {
      wkv7_columns<2, true>(work, keys, values + i, work.state + i, taken + i, out + i, 16);
    }
    for (; i < width; i += 16) {
      const int count = std::min(16, width - i);
      wkv7_columns<1, false>(work, keys, values + i, work.state + i, taken + i, out + i, count);
    }
  }
}

constexpr RecurrentKernels kTable = {convolve, scan_by_state, scan_by_head, wkv4, wkv7};

}  // namespace recurrence
