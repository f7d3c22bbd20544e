// The entry: which kernel a weight type and a number of planes have on this instruction set.

namespace product {

using Multiply = void (*)(const PackedMatrix& matrix, int first_panel, int num_panels,
                          const Activations& activations, int first_row, int num_rows, float* out,
                          size_t out_stride);

struct Kernel {
  uint32_t form;
  Multiply multiply;
};

template <WeightType kType, int kPlaneCount>
constexpr Kernel kernel() {
  constexpr WeightTraits kTraits = traits_of(kType);
  if constexpr (kTraits.is_scaled_float()) {
    return {kFloats, multiply_scaled_floats<kType>};
  } else if constexpr (kTraits.is_float()) {
    return {kFloats, multiply_floats<kType>};
  } else {
    return {DotOf<kType, kPlaneCount>::kForm, multiply<kType, kPlaneCount>};
  }
}

template <int kPlaneCount>
inline Kernel kernel_of(WeightType type) {
  switch (type) {
    case WeightType::F32: return kernel<WeightType::F32, kPlaneCount>();
    case WeightType::F16: return kernel<WeightType::F16, kPlaneCount>();
    case WeightType::BF16: return kernel<WeightType::BF16, kPlaneCount>();
    case WeightType::Q4_0: return kernel<WeightType::Q4_0, kPlaneCount>();
    case WeightType::Q4_1: return kernel<WeightType::Q4_1, kPlaneCount>();
    case WeightType::Q5_0: return kernel<WeightType::Q5_0, kPlaneCount>();
    case WeightType::Q5_1: return kernel<WeightType::Q5_1, kPlaneCount>();
    case WeightType::Q8_0: return kernel<WeightType::Q8_0, kPlaneCount>();
    case WeightType::Q2_K: return kernel<WeightType::Q2_K, kPlaneCount>();
    case WeightType::Q3_K: return kernel<WeightType::Q3_K, kPlaneCount>();
    case WeightType::Q4_K: return kernel<WeightType::Q4_K, kPlaneCount>();
    case WeightType::Q5_K: return kernel<WeightType::Q5_K, kPlaneCount>();
    case WeightType::Q6_K: return kernel<WeightType::Q6_K, kPlaneCount>();
    case WeightType::IQ4_NL: return kernel<WeightType::IQ4_NL, kPlaneCount>();
    case WeightType::IQ4_XS: return kernel<WeightType::IQ4_XS, kPlaneCount>();
    case WeightType::IQ1_S: return kernel<WeightType::IQ1_S, kPlaneCount>();
    case WeightType::IQ1_M: return kernel<WeightType::IQ1_M, kPlaneCount>();
    case WeightType::IQ2_XXS: return kernel<WeightType::IQ2_XXS, kPlaneCount>();
    case WeightType::IQ2_XS:
    case WeightType::IQ2_S: return kernel<WeightType::IQ2_XS, kPlaneCount>();  // packed alike
    case WeightType::IQ3_XXS: return kernel<WeightType::IQ3_XXS, kPlaneCount>();
    case WeightType::IQ3_S: return kernel<WeightType::IQ3_S, kPlaneCount>();
    case WeightType::TQ1_0:
    case WeightType::TQ2_0: return kernel<WeightType::TQ2_0, kPlaneCount>();  // packed alike
    case WeightType::MXFP4: return kernel<WeightType::MXFP4, kPlaneCount>();
    case WeightType::NVFP4: return kernel<WeightType::NVFP4, kPlaneCount>();
    case WeightType::Q1_0: return kernel<WeightType::Q1_0, kPlaneCount>();
    case WeightType::Q2_0: return kernel<WeightType::Q2_0, kPlaneCount>();
    case WeightType::E4M3: return kernel<WeightType::E4M3, kPlaneCount>();
    case WeightType::E5M2: return kernel<WeightType::E5M2, kPlaneCount>();
  }
  return {};
}

inline Kernel kernel_of(WeightType type, int planes) {
  return planes == 1 ? kernel_of<1>(type) : kernel_of<2>(type);
}

inline uint32_t activation_forms(WeightType type, int planes) {
  return kernel_of(type, planes).form;
}

inline void matmul(const PackedMatrix& matrix, int first_panel, int num_panels,
                   const Activations& activations, int first_row, int num_rows, float* out,
                   size_t out_stride) {
  kernel_of(matrix.type, activations.planes)
      .multiply(matrix, first_panel, num_panels, activations, first_row, num_rows, out, out_stride);
}

}  // namespace product
