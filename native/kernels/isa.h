#pragma once
// The tables that were compiled in; table.cpp chooses among them.

#include "kernels/table.h"

namespace pyrite {

namespace portable {
extern const KernelTable kKernelTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable kKernelTable;
}
namespace avx512 {
extern const KernelTable kKernelTable;
}
namespace amx {
bool request_tiles();
const KernelTable& kernel_table();
}
#endif

}  // namespace pyrite
