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

// Rows are asked for this far ahead, for they lie too far apart for the processor to guess the next.
constexpr int kRowsAhead = 4;

PYRITE_INLINE void ask(const Strip& strip, int row, int num_rows, int width) {
  if (row + kRowsAhead >= num_rows) return;
  const float* next = strip.row(row + kRowsAhead);
  for (int column = 0; column < width; column += 16) __builtin_prefetch(next + column);
}

// --- convolutions

inline void convolve_row(const float* const* from, const ConvWork& work, float* out) {
  const int num_taps = work.num_taps;
  each_width(work.width, [&](int column, int count, auto is_full) {
    constexpr bool kFull = decltype(is_full)::value;
    Lanes total = broadcast(0.0f);
    for (int tap = 0; tap < num_taps; ++tap) {
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
  const int count = kFull ? 16 : work.width;
  const int state_width = work.state_width;
  const Lanes d = load_columns<kFull>(work.d, count);
  const Lanes bias = work.step_bias == nullptr ? broadcast(0.0f)
                                               : load_columns<kFull>(work.step_bias, count);
  for (int row = 0; row < work.num_rows; ++row) {
    ask(work.x, row, work.num_rows, count);
    ask(work.step, row, work.num_rows, count);
    const Lanes dt = step_of(work, load_columns<kFull>(work.step.row(row), count) + bias);
    const Lanes x = load_columns<kFull>(work.x.row(row), count);
    const Lanes added = dt * x;
    const float* b = work.b.row(row);
    const float* c = work.c.row(row);
    float* state = work.state;
    const float* a = work.a;
    Lanes total = d * x;
    for (int n = 0; n < state_width; ++n, state += count, a += count) {
      const Lanes kept = exponential(dt * load_columns<kFull>(a, count));
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
  const int state_width = work.state_width;
  float* state = work.state + size_t(column) * size_t(state_width);
  for (int n = 0; n < state_width; ++n, state += count) {
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
    ask({work.key.data + column, work.key.stride}, row, work.num_rows, count);
    ask({work.value.data + column, work.value.stride}, row, work.num_rows, count);
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

// --- states of values by keys

// One head: a matrix of values by keys, of which each token keeps, removes and adds something.
struct Head {
  int num_rows, key_width, value_width;
  Strip removal, value;
  float* state;
  OutStrip out;
};

// What one token does to a head's state, by keys.
struct KeyRows {
  alignas(64) float kept[kMostHeadColumns];     // what a state is multiplied by
  alignas(64) float removed[kMostHeadColumns];  // what the sum over `removal` is taken from it by
  const float* added;                           // what values are added by
  const float* asked;                           // what the result is the sum over
  const float* next_removal;                    // of the token after
};

// Calls run(column, count, runs, is_full) for pairs of runs of 16 columns, and for what is left one
// by one, with `runs` and `is_full` as types.
template <class Run>
PYRITE_INLINE void each_pair(int width, Run run) {
  int column = 0;
  for (; column + 32 <= width; column += 32) {
    run(column, 16, std::integral_constant<int, 2>(), std::true_type());
  }
  for (; column < width; column += 16) {
    run(column, std::min(16, width - column), std::integral_constant<int, 1>(), std::false_type());
  }
}

// Where the runs of values from column `column` on have their part of the state: for each key all of
// them.
PYRITE_INLINE float* state_of(const Head& head, int column) {
  return head.state + size_t(column) * size_t(head.key_width);
}

// What the first token takes: the state's sums over keys, weighed by `removal`.
template <int kRuns, bool kFull>
PYRITE_INLINE void sum_removed(const Head& head, int column, int count, float* taken) {
  const int num_keys = head.key_width;
  const int stride = kFull ? 16 * kRuns : count;
  const float* removal = head.removal.row(0);
  const float* state = state_of(head, column);
  Lanes total[kRuns];
  for (int i = 0; i < kRuns; ++i) total[i] = broadcast(0.0f);
  for (int key = 0; key < num_keys; ++key, state += stride) {
    for (int i = 0; i < kRuns; ++i) {
      const Lanes s = load_columns<kFull>(state + 16 * i, count);
      total[i] = fused(s, broadcast(removal[key]), total[i]);
    }
  }
  for (int i = 0; i < kRuns; ++i) store_columns<kFull>(taken + column + 16 * i, total[i], count);
}

// One token. On the way it sums what the next one takes.
template <int kRuns, bool kFull>
PYRITE_INLINE void advance(const Head& head, const KeyRows& keys, int row, int column, int count,
                           float* taken) {
  const int num_keys = head.key_width;
  const int stride = kFull ? 16 * kRuns : count;
  const float* kept = keys.kept;
  const float* removed = keys.removed;
  const float* added = keys.added;
  const float* asked = keys.asked;
  const float* next_removal = keys.next_removal;
  float* state = state_of(head, column);
  Lanes value[kRuns], less[kRuns], total[kRuns], next[kRuns];
  for (int i = 0; i < kRuns; ++i) {
    const int at = column + 16 * i;
    value[i] = load_columns<kFull>(head.value.row(row) + at, count);
    less[i] = broadcast(0.0f) - load_columns<kFull>(taken + at, count);
    total[i] = next[i] = broadcast(0.0f);
  }
  for (int key = 0; key < num_keys; ++key, state += stride) {
    for (int i = 0; i < kRuns; ++i) {
      const Lanes before = load_columns<kFull>(state + 16 * i, count);
      Lanes s = fused(less[i], broadcast(removed[key]), before * broadcast(kept[key]));
      s = fused(value[i], broadcast(added[key]), s);
      store_columns<kFull>(state + 16 * i, s, count);
      total[i] = fused(s, broadcast(asked[key]), total[i]);
      next[i] = fused(s, broadcast(next_removal[key]), next[i]);
    }
  }
  for (int i = 0; i < kRuns; ++i) {
    store_columns<kFull>(taken + column + 16 * i, next[i], count);
    store_columns<kFull>(head.out.row(row) + column + 16 * i, total[i], count);
  }
}

// All tokens. `fill(row, keys)` says what one does, but for what the next one removes.
template <class Fill>
PYRITE_INLINE void walk(const Head& head, Fill fill) {
  alignas(64) float taken[kMostHeadColumns];
  KeyRows keys;
  each_pair(head.value_width, [&](int column, int count, auto runs, auto is_full) {
    sum_removed<decltype(runs)::value, decltype(is_full)::value>(head, column, count, taken);
  });
  for (int row = 0; row < head.num_rows; ++row) {
    fill(row, keys);
    keys.next_removal = head.removal.row(std::min(row + 1, head.num_rows - 1));
    each_pair(head.value_width, [&](int column, int count, auto runs, auto is_full) {
      advance<decltype(runs)::value, decltype(is_full)::value>(head, keys, row, column, count,
                                                              taken);
    });
  }
}

inline void wkv7(const Wkv7Work& work) {
  constexpr float kSlowest = -0.60653066f;  // -exp(-1/2)
  const int width = work.head_width;
  const Head head = {work.num_rows, width, width, work.removal, work.value, work.state, work.out};
  walk(head, [&](int row, KeyRows& keys) {
    for (const Strip* strip : {&work.receptance, &work.decay, &work.key, &work.value,
                               &work.removal, &work.rate}) {
      ask(*strip, row, work.num_rows, width);
    }
    rows::map(width, work.decay.row(row), keys.kept, [](Lanes decay) {
      return exponential(broadcast(kSlowest) * curves::sigmoid(decay));
    });
    rows::multiply_rows(work.removal.row(row), work.rate.row(row), width, keys.removed);
    keys.added = work.key.row(row);
    keys.asked = work.receptance.row(row);
  });
}

inline void delta(const DeltaWork& work) {
  const int width = work.key_width;
  const Head head = {work.num_rows, width,     work.value_width, work.key,
                     work.value,    work.state, work.out};
  alignas(64) float added[kMostHeadColumns];
  walk(head, [&](int row, KeyRows& keys) {
    ask(work.query, row, work.num_rows, width);
    ask(work.key, row, work.num_rows, width);
    ask(work.value, row, work.num_rows, work.value_width);
    const Lanes step = softplus(broadcast(*work.step.row(row) + work.step_bias));
    const Lanes kept = exponential(step * broadcast(work.a));
    const Lanes rate = curves::sigmoid(broadcast(*work.rate.row(row)));
    const Lanes removed = kept * rate;
    rows::map(width, work.key.row(row), keys.kept, [&](Lanes) { return kept; });
    rows::map(width, work.key.row(row), keys.removed, [&](Lanes key) { return key * removed; });
    rows::map(width, work.key.row(row), added, [&](Lanes key) { return key * rate; });
    keys.added = added;
    keys.asked = work.query.row(row);
  });
}

constexpr RecurrentKernels kTable = {convolve, scan_by_state, scan_by_head,
                                     wkv4,     wkv7,          delta};

}  // namespace recurrence
