// Activations, lane by lane. Each stays a number where an exponential would overflow, and NaN stays
// NaN: the second operand of minimum and maximum is given when either is.

namespace curves {

constexpr float kSwigluLimit = 7.0f;  // SWIGLU_LIMIT and SWIGLU_SLOPE of pyrite.graph.values
constexpr float kSwigluSlope = 1.702f;

// x / (1 + e^-x)
PYRITE_INLINE Lanes silu(Lanes x) {
  return x / (broadcast(1.0f) + exponential(broadcast(0.0f) - x));
}

// x (1 + tanh u) / 2 = x / (1 + e^-2u), with u = sqrt(2 / pi) (x + 0.044715 x^3)
PYRITE_INLINE Lanes gelu_tanh(Lanes x) {
  const Lanes cubic = fused(x * x, broadcast(0.044715f), broadcast(1.0f)) * x;
  return x / (broadcast(1.0f) + exponential(cubic * broadcast(-1.5957691216f)));
}

PYRITE_INLINE Lanes relu(Lanes x) { return maximum(broadcast(0.0f), x); }

// x (1 + erf(x / sqrt 2)) / 2 = max(x, 0) - |x| q, with q = erfc(|x| / sqrt 2) / 2 by formula 7.1.26
// of Abramowitz and Stegun's handbook, whose error is below 1.5e-7: of q half as much.
PYRITE_INLINE Lanes gelu(Lanes x) {
  const Lanes size = maximum(x, broadcast(0.0f) - x);
  const Lanes t = broadcast(1.0f) / fused(size, broadcast(0.3275911f * 0.70710678f), broadcast(1.0f));
  Lanes series = broadcast(0.5f * 1.061405429f);
  series = fused(series, t, broadcast(0.5f * -1.453152027f));
  series = fused(series, t, broadcast(0.5f * 1.421413741f));
  series = fused(series, t, broadcast(0.5f * -0.284496736f));
  series = fused(series, t, broadcast(0.5f * 0.254829592f));
  const Lanes q = series * t * exponential(x * x * broadcast(-0.5f));
  return relu(x) - size * q;
}

PYRITE_INLINE Lanes sigmoid(Lanes x) {
  return broadcast(1.0f) / (broadcast(1.0f) + exponential(broadcast(0.0f) - x));
}

PYRITE_INLINE Lanes clamped_swiglu(Lanes gate, Lanes up) {
  const Lanes limit = broadcast(kSwigluLimit);
  const Lanes g = minimum(limit, gate);
  const Lanes u = maximum(broadcast(-kSwigluLimit), minimum(limit, up));
  return g * sigmoid(broadcast(kSwigluSlope) * g) * (u + broadcast(1.0f));
}

// Calls use(curve) with the activation as a function of Lanes; kIdentity for what has none.
template <class Use>
PYRITE_INLINE void with(Activation activation, Use use) {
  switch (activation) {
    case Activation::kSilu: return use([](Lanes x) { return silu(x); });
    case Activation::kGelu: return use([](Lanes x) { return gelu(x); });
    case Activation::kGeluTanh: return use([](Lanes x) { return gelu_tanh(x); });
    case Activation::kRelu: return use([](Lanes x) { return relu(x); });
    case Activation::kReluSquared: return use([](Lanes x) { return relu(x) * relu(x); });
    case Activation::kSigmoid: return use([](Lanes x) { return sigmoid(x); });
    case Activation::kTanh: return use([](Lanes x) { return hyperbolic_tangent(x); });
    default: return use([](Lanes x) { return x; });
  }
}

}  // namespace curves
