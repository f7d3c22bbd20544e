#include <cstring>

#include "kernels/layout.h"
#include "kernels/table.h"

namespace pyrite {

namespace {

struct Name {
  const char* text;
  WeightType type;
};

constexpr Name kNames[] = {
    {"F32", WeightType::F32},         {"F16", WeightType::F16},         {"BF16", WeightType::BF16},
    {"Q4_0", WeightType::Q4_0},       {"Q4_1", WeightType::Q4_1},       {"Q5_0", WeightType::Q5_0},
    {"Q5_1", WeightType::Q5_1},       {"Q8_0", WeightType::Q8_0},       {"Q2_K", WeightType::Q2_K},
    {"Q3_K", WeightType::Q3_K},       {"Q4_K", WeightType::Q4_K},       {"Q5_K", WeightType::Q5_K},
    {"Q6_K", WeightType::Q6_K},       {"IQ4_NL", WeightType::IQ4_NL},   {"IQ4_XS", WeightType::IQ4_XS},
    {"IQ1_S", WeightType::IQ1_S},     {"IQ1_M", WeightType::IQ1_M},     {"IQ2_XXS", WeightType::IQ2_XXS},
    {"IQ2_XS", WeightType::IQ2_XS},   {"IQ2_S", WeightType::IQ2_S},     {"IQ3_XXS", WeightType::IQ3_XXS},
    {"IQ3_S", WeightType::IQ3_S},     {"TQ1_0", WeightType::TQ1_0},     {"TQ2_0", WeightType::TQ2_0},
    {"MXFP4", WeightType::MXFP4},     {"NVFP4", WeightType::NVFP4},     {"Q1_0", WeightType::Q1_0},
    {"Q2_0", WeightType::Q2_0},       {"E4M3", WeightType::E4M3},       {"E5M2", WeightType::E5M2},
};

}  // namespace

bool weight_type_of(const char* name, WeightType* type) {
  for (const Name& known : kNames) {
    if (std::strcmp(known.text, name) != 0) continue;
    *type = known.type;
    return true;
  }
  return false;
}

int column_multiple(WeightType type) { return traits_of(type).file_columns; }

}  // namespace pyrite
