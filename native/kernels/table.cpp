#include "kernels/table.h"

#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
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

template <const KernelTable& kTable>
const KernelTable& the() {
  return kTable;
}

#if defined(__x86_64__)
// The compiler's check covers the operating system's part too: that it keeps the wide registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

// GCC 12 has no name for what follows here: leaf 7 of CPUID, AVX-VNNI, AMX-TILE and AMX-INT8.
bool has_avxvnni() {
  unsigned a, b, c, d;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

bool has_amx() {
  unsigned a, b, c, d;
  if (!has_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  return (d >> 24 & 1) && (d >> 25 & 1) && amx::request_tiles();
}
#elif defined(__aarch64__)
#if defined(__linux__)
bool has_dotprod() { return getauxval(AT_HWCAP) >> 20 & 1; }                 // HWCAP_ASIMDDP
bool has_i8mm() { return has_dotprod() && (getauxval(AT_HWCAP2) >> 13 & 1); }  // HWCAP2_I8MM
#else
bool has_dotprod() { return false; }
bool has_i8mm() { return false; }
#endif
#endif

// Best first.
const Choice kChoices[] = {
#if defined(__x86_64__)
    {"amx", has_amx, amx::kernel_table},
    {"avx512", has_avx512, the<avx512::kKernelTable>},
    {"avxvnni", has_avxvnni, the<avxvnni::kKernelTable>},
    {"avx2", has_avx2, the<avx2::kKernelTable>},
#elif defined(__aarch64__)
    {"i8mm", has_i8mm, the<i8mm::kKernelTable>},
    {"dotprod", has_dotprod, the<dotprod::kKernelTable>},
    {"neon", always, the<neon::kKernelTable>},
#endif
    {"scalar", always, the<scalar::kKernelTable>},
};

bool is_known(const char* name) {
  for (const char* known : kIsaNames) {
    if (std::strcmp(known, name) == 0) return true;
  }
  return false;
}

const Choice* choice_named(const char* name) {
  for (const Choice& choice : kChoices) {
    if (std::strcmp(choice.isa, name) == 0) return choice.present() ? &choice : nullptr;
  }
  return nullptr;
}

std::string listed(bool present_only) {
  std::string names;
  for (const char* name : kIsaNames) {
    if (present_only && choice_named(name) == nullptr) continue;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

const char* why_unknown() {
  static const std::string reason = "no instruction set that is known (" + listed(false) +
                                    "); this machine has " + listed(true);
  return reason.c_str();
}

const char* why_absent() {
  static const std::string reason =
      "this processor or build lacks that instruction set; it has " + listed(true);
  return reason.c_str();
}

}  // namespace

const KernelTable* kernel_table(const char* name, const char** error) {
  if (name == nullptr || *name == 0) {
    for (const Choice& choice : kChoices) {
      if (choice.present()) return &choice.table();
    }
  }
  if (const Choice* choice = choice_named(name)) return &choice->table();
  *error = is_known(name) ? why_absent() : why_unknown();
  return nullptr;
}

}  // namespace pyrite
