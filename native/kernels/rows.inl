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

// Four sums side by side, for one would wait for itself; the order is fixed all the same. `fold(total,
// lanes, count)` adds `count` lanes to a total; those past them are 0.
template <class Fold>
PYRITE_INLINE float sum_over(const float* row, int width, Fold fold) {
  Lanes sums[4] = {broadcast(0.0f), broadcast(0.0f), broadcast(0.0f), broadcast(0.0f)};
  int column = 0;
  for (; column + 64 <= width; column += 64) {
    for (int i = 0; i < 4; ++i) sums[i] = fold(sums[i], load(row + column + 16 * i), 16);
  }
  each_run(width - column, [&](int rest, int count) {
    sums[0] = fold(sums[0], load_run(row + column + rest, count), count);
  });
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

inline float sum_of(const float* row, int width) {
  return sum_over(row, width, [](Lanes total, Lanes a, int) { return total + a; });
}

inline float sum_of_squares(const float* row, int width) {
  return sum_over(row, width, [](Lanes total, Lanes a, int) { return fused(a, a, total); });
}

// Of the distances to `mean`.
inline float sum_of_squares(const float* row, int width, Lanes mean) {
  return sum_over(row, width, [&](Lanes total, Lanes a, int count) {
    const Lanes distance = keep(a - mean, 0, count - 1, broadcast(0.0f));
    return fused(distance, distance, total);
  });
}

// (row - shift) * factor * weight
inline void shift_and_scale(const float* row, Lanes shift, Lanes factor, const float* weight,
                            int width, float* out) {
  if (weight == nullptr) {
    map(width, row, out, [&](Lanes a) { return (a - shift) * factor; });
  } else {
    map(width, row, weight, out, [&](Lanes a, Lanes w) { return (a - shift) * factor * w; });
  }
}

inline void add_rows(const float* left, const float* right, int width, float* out) {
  map(width, left, right, out, [](Lanes a, Lanes b) { return a + b; });
}

inline void normalize(const Norm& norm, const float* row, int width, float* out) {
  float mean = 0;
  float divisor;
  if (norm.kind == NormKind::kL2) {
    divisor = std::max(std::sqrt(sum_of_squares(row, width)), norm.eps);
  } else if (norm.kind == NormKind::kRms) {
    divisor = std::sqrt(sum_of_squares(row, width) / float(width) + norm.eps);
  } else {
    mean = sum_of(row, width) / float(width);
    divisor = std::sqrt(sum_of_squares(row, width, broadcast(mean)) / float(width) + norm.eps);
  }
  shift_and_scale(row, broadcast(mean), broadcast(1.0f / divisor), norm.weight, width, out);
  if (norm.bias != nullptr) add_rows(out, norm.bias, width, out);
}

inline void gate(Activation activation, const float* gate, const float* up, int width, float* out) {
  if (activation == Activation::kClampedSwiglu) {
    map(width, gate, up, out, [](Lanes g, Lanes u) { return curves::clamped_swiglu(g, u); });
    return;
  }
  curves::with(activation, [&](auto curve) {
    map(width, gate, up, out, [&](Lanes g, Lanes u) { return curve(g) * u; });
  });
}

inline void activate(Activation activation, const float* row, int width, float* out) {
  curves::with(activation, [&](auto curve) { map(width, row, out, curve); });
}

inline void multiply_rows(const float* left, const float* right, int width, float* out) {
  map(width, left, right, out, [](Lanes a, Lanes b) { return a * b; });
}

inline void blend(const float* left, const float* right, const float* share, int width,
                  float* out) {
  each_run(width, [&](int column, int count) {
    const Lanes a = load_run(left + column, count);
    const Lanes b = load_run(right + column, count);
    store_run(out + column, fused(b - a, load_run(share + column, count), a), count);
  });
}

inline void dot(const float* left, const float* right, const float* weight, const float* value,
                int width, float* out) {
  Lanes total = broadcast(0.0f);
  each_run(width, [&](int column, int count) {
    const Lanes product = load_run(left + column, count) * load_run(right + column, count);
    total = fused(product, load_run(weight + column, count), total);
  });
  const Lanes all = broadcast(sum(total));
  map(width, value, out, [&](Lanes a) { return a * all; });
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

// Compilers make vectors of this, no slower than by hand.
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

constexpr RowKernels kTable = {normalize, gate,    activate, add_rows, multiply_rows, scale,
                               blend,     dot,     softcap,  rotate,   all_finite};

}  // namespace rows
