#include "kernels/table.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/isa.h"

namespace pyrite {

namespace {

struct Choice {
  const char* isa;
  bool (*present)();
  const KernelTable& (*table)();
};

bool always() { return true; }
const KernelTable& portable_table() { return portable::kKernelTable; }

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

// GCC 12 has no name for AMX here: leaf 7 of CPUID, AMX-TILE and AMX-INT8.
bool has_amx() {
  unsigned a, b, c, d;
  if (!has_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  return (d >> 24 & 1) && (d >> 25 & 1) && amx::request_tiles();
}

const KernelTable& avx2_table() { return avx2::kKernelTable; }
const KernelTable& avx512_table() { return avx512::kKernelTable; }
#endif

// Best first.
const Choice kChoices[] = {
#if defined(__x86_64__)
    {"amx", has_amx, amx::kernel_table},
    {"avx512", has_avx512, avx512_table},
    {"avx2", has_avx2, avx2_table},
#endif
    {"scalar", always, portable_table},
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
    const bool wanted = best || std::strcmp(choice.isa, name) == 0;
    if (wanted && choice.present()) return &choice.table();
  }
  *error = is_known(name) ? "this processor or build lacks that instruction set"
                          : "the instruction sets are scalar, avx2, avx512 and amx";
  return nullptr;
}

}  // namespace pyrite
