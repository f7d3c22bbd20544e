#pragma once
// The tables that were compiled in; table.cpp chooses among them.

#include "kernels/table.h"

namespace pyrite {

namespace scalar {
extern const KernelTable kKernelTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable kKernelTable;
}
namespace avxvnni {
extern const KernelTable kKernelTable;
}
namespace avx512 {
extern const KernelTable kKernelTable;
}
namespace amx {
bool request_tiles();
const KernelTable& kernel_table();
}
#elif defined(__aarch64__)
namespace neon {
extern const KernelTable kKernelTable;
}
namespace dotprod {
extern const KernelTable kKernelTable;
}
namespace i8mm {
extern const KernelTable kKernelTable;
}
#endif

}  // namespace pyrite
