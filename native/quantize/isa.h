#pragma once
// The tables that were compiled in.

#include "quantize/table.h"

namespace pyrite {

namespace scalar {
extern const QuantizerTable kQuantizers;
}
#if defined(__x86_64__)
namespace avx2 {
extern const QuantizerTable kQuantizers;
}
namespace avx512 {
extern const QuantizerTable kQuantizers;
}
#elif defined(__aarch64__)
namespace neon {
extern const QuantizerTable kQuantizers;
}
#endif

}  // namespace pyrite
