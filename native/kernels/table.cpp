#include "kernels/table.h"

#include <cstring>

#include "kernels/isa.h"

namespace pyrite {

namespace {

struct Choice {
  const KernelTable* table;
  bool (*present)();
};

bool always() { return true; }

#if defined(__x86_64__)
// The compiler's check covers the operating system's part too: that it keeps the wide registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

// Best first.
const Choice kChoices[] = {
#if defined(__x86_64__)
    {&avx512::kKernelTable, has_avx512},
    {&avx2::kKernelTable, has_avx2},
#endif
    {&portable::kKernelTable, always},
};

bool is_known(const char* name) {
  for (const char* known : kIsaNames) {
    if (std::strcmp(known, name) == 0) return true;
  }
  return false;
}

}  // namespace

const KernelTable* kernel_table(const char* name, const char** error) {
  const bool best = name == nullptr || *name == 0;
  for (const Choice& choice : kChoices) {
    const bool wanted = best || std::strcmp(choice.table->isa, name) == 0;
    if (wanted && choice.present()) return choice.table;
  }
  *error = is_known(name) ? "this processor or build lacks that instruction set"
                          : "the instruction sets are scalar, avx2 and avx512";
  return nullptr;
}

}  // namespace pyrite
