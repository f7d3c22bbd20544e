// Kernels over single rows, written against Lanes. See rows.h.

namespace rows {

// Calls visit(column, count) for each run of 16 columns; the last one may be shorter. One place
// that calls, so that the compiler puts `visit` there.
template <class Visit>
PYRITE_INLINE void each_run(int width, Visit visit) {
  for (int column = 0; column < width; column += 16) visit(column, std::min(16, width - column));
}

PYRITE_INLINE Lanes load_run(const float* from, int count) {
  return count == 16 ? load(from) : load_part(from, count);
}

PYRITE_INLINE void store_run(float* to, Lanes a, int count) {
  if (count == 16) {
    store(to, a);
  } else {
    store_part(to, a, count);
  }
}

template <class Of>
PYRITE_INLINE void map(int width, const float* a, float* out, Of of) {
  each_run(width, [&](int column, int count) {
    store_run(out + column, of(load_run(a + column, count)), count);
  });
}

template <class Of>
PYRITE_INLINE void map(int width, const float* a, const float* b, float* out, Of of) {
  each_run(width, [&](int column, int count) {
    store_run(out + column, of(load_run(a + column, count), load_run(b + column, count)), count);
  });
}

// Four sums side by side, for one would wait for itself; the order is fixed all the same.
inline float sum_of_squares(const float* row, int width) {
  Lanes sums[4] = {broadcast(0.0f), broadcast(0.0f), broadcast(0.0f), broadcast(0.0f)};
  int column = 0;
  for (; column + 64 <= width; column += 64) {
    for (int i = 0; i < 4; ++i) {
      const Lanes a = load(row + column + 16 * i);
      sums[i] = fused(a, a, sums[i]);
    }
  }
  each_run(width - column, [&](int rest, int count) {
    const Lanes a = load_run(row + column + rest, count);
    sums[0] = fused(a, a, sums[0]);
  });
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

inline void normalize(const float* row, const float* weight, float eps, int width, float* out) {
  const float mean = sum_of_squares(row, width) / float(width);
  const Lanes factor = broadcast(1.0f / std::sqrt(mean + eps));
  map(width, row, weight, out, [&](Lanes a, Lanes w) { return a * factor * w; });
}

// x / (1 + e^-x)
PYRITE_INLINE Lanes silu(Lanes x) {
  return x / (broadcast(1.0f) + exponential(broadcast(0.0f) - x));
}

// x (1 + tanh u) / 2 = x / (1 + e^-2u), with u = sqrt(2 / pi) (x + 0.044715 x^3)
PYRITE_INLINE Lanes gelu_tanh(Lanes x) {
  const Lanes cubic = fused(x * x, broadcast(0.044715f), broadcast(1.0f)) * x;
  return x / (broadcast(1.0f) + exponential(cubic * broadcast(-1.5957691216f)));
}

inline void gate(Activation activation, const float* gate, const float* up, int width, float* out) {
  if (activation == Activation::kSilu) {
    map(width, gate, up, out, [](Lanes g, Lanes u) { return silu(g) * u; });
  } else {
    map(width, gate, up, out, [](Lanes g, Lanes u) { return gelu_tanh(g) * u; });
  }
}

inline void add_rows(const float* left, const float* right, int width, float* out) {
  map(width, left, right, out, [](Lanes a, Lanes b) { return a + b; });
}

inline void scale(const float* row, float factor, int width, float* out) {
  const Lanes all = broadcast(factor);
  map(width, row, out, [&](Lanes a) { return a * all; });
}

PYRITE_INLINE Lanes capped(Lanes a, Lanes cap) { return cap * hyperbolic_tangent(a / cap); }

inline void softcap(const float* row, float cap, int width, float* out) {
  const Lanes all = broadcast(cap);
  map(width, row, out, [&](Lanes a) { return capped(a, all); });
}

inline void rotate_halves(const float* row, const float* cosines, const float* sines, int half,
                          float* out) {
  each_run(half, [&](int column, int count) {
    const Lanes a = load_run(row + column, count);
    const Lanes b = load_run(row + half + column, count);
    const Lanes cosine = load_run(cosines + column, count);
    const Lanes sine = load_run(sines + column, count);
    store_run(out + column, a * cosine - b * sine, count);
    store_run(out + half + column, b * cosine + a * sine, count);
  });
}

inline void rotate_pairs(const float* row, const float* cosines, const float* sines, int half,
                         float* out) {
  for (int i = 0; i < half; ++i) {
    const float a = row[2 * i];
    const float b = row[2 * i + 1];
    out[2 * i] = a * cosines[i] - b * sines[i];
    out[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

inline void rotate(const float* row, const float* cosines, const float* sines, int half, bool pairs,
                   float* out) {
  if (pairs) {
    rotate_pairs(row, cosines, sines, half, out);
  } else {
    rotate_halves(row, cosines, sines, half, out);
  }
}

inline bool all_finite(const float* row, int width) {
  bool all = true;
  each_run(width, [&](int column, int count) { all &= finite(load_run(row + column, count)); });
  return all;
}

constexpr RowKernels kTable = {normalize, gate, add_rows, scale, softcap, rotate, all_finite};

}  // namespace rows
