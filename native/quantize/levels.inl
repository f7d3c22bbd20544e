// What one value of a group may become once it is divided by the scale: whole numbers within limits,
// or the sixteen values of IQ4_NL. `kFactors` are the places, beside the group's extreme value, that
// a search for the scale puts it at.

template <int kLow, int kHigh>
struct Whole {
  PYRITE_INLINE static Lanes nearest(Lanes a) {
    return minimum(broadcast(kHigh), maximum(broadcast(kLow), round_even(a)));
  }
  // The number that a block stores for a level.
  PYRITE_INLINE static Lanes code(Lanes a) { return nearest(a) - broadcast(kLow); }
};

struct Nonlinear {
  static constexpr float kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

  // kStep(i) summed over the values that `a` lies above the middle of.
  template <class Step>
  PYRITE_INLINE static Lanes walk(Lanes a, float start, Step step) {
    Lanes found = broadcast(start);
    for (int i = 0; i < 15; ++i) {
      const Lanes middle = broadcast((kValues[i] + kValues[i + 1]) / 2);
      found = found + choose_less(middle, a, broadcast(step(i)), broadcast(0.0f));
    }
    return found;
  }
  PYRITE_INLINE static Lanes nearest(Lanes a) {
    return walk(a, kValues[0], [](int i) { return kValues[i + 1] - kValues[i]; });
  }
  PYRITE_INLINE static Lanes code(Lanes a) {
    return walk(a, 0, [](int) { return 1.0f; });
  }
};
