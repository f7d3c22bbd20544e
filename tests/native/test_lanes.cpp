// Kernels over rows and attention on every instruction set that is here, against the plain ones. The
// order of sums is the same everywhere, so that the results are the same bits where both fuse the
// same multiplications and additions, and a few roundings apart where plain C++ cannot.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/table.h"

using namespace pyrite;

namespace {

#if defined(__aarch64__)
constexpr float kTolerance = 0;
#else
constexpr float kTolerance = 2e-5f;
#endif

using Floats = std::vector<float>;

Floats gaussian(size_t size, std::mt19937& random, float spread = 1) {
  std::normal_distribution<float> normal(0, spread);
  Floats out(size);
  for (float& value : out) value = normal(random);
  return out;
}

void check_close(const Floats& found, const Floats& expected) {
  CHECK(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(std::fabs(found[i] - expected[i]) <= kTolerance * std::fmax(1.0f, std::fabs(expected[i])));
  }
}

// The results of every row kernel, one after the other.
Floats of_rows(const RowKernels& rows, int width) {
  std::mt19937 random(unsigned(width) + 1);
  const Floats a = gaussian(size_t(2 * width), random, 3);
  const Floats b = gaussian(size_t(2 * width), random);
  Floats all;
  Floats out(size_t(2 * width), -7);
  const auto keep = [&](int count) { all.insert(all.end(), out.begin(), out.begin() + count + 1); };
  const auto run = [&](auto kernel) {
    std::fill(out.begin(), out.end(), -7.0f);
    kernel(out.data());
    keep(width);
  };
  run([&](float* to) { rows.normalize(a.data(), b.data(), 1e-6f, width, to); });
  run([&](float* to) { rows.gate(Activation::kSilu, a.data(), b.data(), width, to); });
  run([&](float* to) { rows.gate(Activation::kGeluTanh, a.data(), b.data(), width, to); });
  run([&](float* to) { rows.add(a.data(), b.data(), width, to); });
  run([&](float* to) { rows.scale(a.data(), 0.3f, width, to); });
  run([&](float* to) { rows.softcap(a.data(), 2.5f, width, to); });
  for (bool pairs : {false, true}) {
    run([&](float* to) {
      rows.rotate(a.data(), b.data(), b.data() + width, width / 2, pairs, to);
    });
  }
  return all;
}

void check_finite(const RowKernels& rows) {
  for (int width : {1, 15, 16, 40}) {
    for (int place = 0; place < width; ++place) {
      Floats row(size_t(width), 1e38f);
      CHECK(rows.all_finite(row.data(), width));
      for (float bad : {NAN, INFINITY, -INFINITY}) {
        row[size_t(place)] = bad;
        CHECK(!rows.all_finite(row.data(), width));
      }
    }
  }
}

// Keys and values of one head written to its pages, then queries over them.
Floats of_attention(const AttentionKernels& kernels, KvType type, int num_queries, int head_width,
                    int window, float softcap) {
  constexpr int kKeys = 70;
  std::mt19937 random(3);
  const size_t page_bytes = head_block_bytes(head_width, type);
  const size_t padded = size_t(padded_width(head_width));
  std::vector<uint8_t> pages(page_bytes * 3 + 64);
  uint8_t* blocks = pages.data() + (64 - reinterpret_cast<uintptr_t>(pages.data()) % 64);
  const int32_t page_table[] = {2, 0, 1};
  for (int key = 0; key < kKeys; ++key) {
    const Floats k = gaussian(size_t(head_width), random);
    const Floats v = gaussian(size_t(head_width), random);
    kernels.of(type).store(k.data(), v.data(), head_width, key % kPageTokens,
                           blocks + size_t(page_table[key / kPageTokens]) * page_bytes);
  }
  const Floats queries = gaussian(size_t(num_queries * head_width), random, 0.3f);
  std::vector<int32_t> positions;
  for (int q = 0; q < num_queries; ++q) positions.push_back(kKeys - num_queries + q);
  Floats scratch(kernels.scratch_floats(num_queries, head_width));
  Floats out(size_t(num_queries) * padded);
  AttendTile tile{};
  tile.queries = queries.data();
  tile.positions = positions.data();
  tile.num_queries = num_queries;
  tile.head_width = head_width;
  tile.window = window;
  tile.softcap = softcap;
  tile.head_blocks = blocks;
  tile.page_bytes = page_bytes;
  tile.page_table = page_table;
  tile.scratch = scratch.data();
  tile.out = out.data();
  kernels.of(type).attend(tile);
  return out;
}

template <class Of>
void check_all(Of of) {
  const char* error = nullptr;
  const auto expected = of(*kernel_table("scalar", &error));
  for (const char* name : kIsaNames) {
    const KernelTable* table = kernel_table(name, &error);
    if (table != nullptr) check_close(of(*table), expected);
  }
}

}  // namespace

int main() {
  for (int width : {2, 16, 30, 64, 200}) {
    check_all([&](const KernelTable& table) { return of_rows(table.rows, width); });
  }
  check_all([&](const KernelTable& table) {
    check_finite(table.rows);
    return Floats();
  });
  for (KvType type : {KvType::kF16, KvType::kQ8}) {
    for (int queries : {1, 2, 5, 6, 7, 13}) {
      for (int head_width : {24, 64}) {
        for (int window : {0, 20}) {
          check_all([&](const KernelTable& table) {
            return of_attention(table.attention, type, queries, head_width, window,
                                window ? 30.0f : 0.0f);
          });
        }
      }
    }
  }
}
