// Kernels over rows and attention on every instruction set that is here, against the plain ones. The
// order of sums is the same everywhere, so that the results are the same bits where both fuse the
// same multiplications and additions, and a few roundings apart where plain C++ cannot.

#include <algorithm>
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
  for (const Norm& norm : {Norm{NormKind::kRms, 1e-6f, b.data(), nullptr},
                           Norm{NormKind::kLayer, 1e-6f, b.data(), b.data() + width},
                           Norm{NormKind::kL2, 1e-6f, nullptr, nullptr}}) {
    run([&](float* to) { rows.normalize(norm, a.data(), width, to); });
  }
  for (int i = int(Activation::kIdentity); i <= int(Activation::kClampedSwiglu); ++i) {
    const auto activation = Activation(i);
    run([&](float* to) { rows.gate(activation, a.data(), b.data(), width, to); });
    if (activation == Activation::kClampedSwiglu) continue;
    run([&](float* to) { rows.activate(activation, a.data(), width, to); });
  }
  run([&](float* to) { rows.add(a.data(), b.data(), width, to); });
  run([&](float* to) { rows.multiply(a.data(), b.data(), width, to); });
  run([&](float* to) { rows.blend(a.data(), b.data(), b.data() + width, width, to); });
  run([&](float* to) {
    rows.dot(a.data(), a.data() + width, b.data(), b.data() + width, width, to);
  });
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

struct Sight {
  int num_queries, head_width, window;
  float softcap;
};

constexpr int kKeys = kSpanTokens + 70;
constexpr int kPages = (kKeys + kPageTokens - 1) / kPageTokens;

// Pages of one head, the last one first in memory.
struct Pages {
  Pages(const BlockKernels& kernels, KvType type, int head_width)
      : page_bytes(head_block_bytes({head_width, head_width}, type)), bytes(page_bytes * kPages + 64) {
    std::mt19937 random(3);
    for (int page = 0; page < kPages; ++page) {
      table.push_back(kPages - 1 - page);
      const int count = std::min(kPageTokens, kKeys - page * kPageTokens);
      const Floats keys = gaussian(size_t(count * head_width), random);
      const Floats values = gaussian(size_t(count * head_width), random);
      kernels.store({keys.data(), values.data(), size_t(head_width),
                     {head_width, head_width}, 0, count,
                     blocks() + size_t(table.back()) * page_bytes});
    }
  }
  uint8_t* blocks() { return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64); }

  size_t page_bytes;
  std::vector<uint8_t> bytes;
  std::vector<int32_t> table;
};

// Queries at the last positions, over all spans at once. Spans that are joined give the same bits.
Floats of_attention(const AttentionKernels& kernels, KvType type, const Sight& sight) {
  Pages pages(kernels.of(type), type, sight.head_width);
  const size_t queries = size_t(sight.num_queries);
  std::mt19937 random(4);
  const Floats q = gaussian(queries * size_t(sight.head_width), random, 0.3f);
  std::vector<int32_t> positions;
  for (int i = 0; i < sight.num_queries; ++i) positions.push_back(kKeys - sight.num_queries + i);
  const HeadShape shape = {sight.head_width, sight.head_width};
  Floats scratch(kernels.scratch_floats(sight.num_queries, shape));
  Floats partials(2 * queries * size_t(partial_width(sight.head_width)));
  Floats out(queries * size_t(sight.head_width));
  Floats joined(out.size());
  AttendTile tile = {};
  tile.queries = q.data();
  tile.positions = positions.data();
  tile.num_queries = sight.num_queries;
  tile.num_heads = 1;
  tile.shape = shape;
  tile.window = sight.window;
  tile.softcap = sight.softcap;
  tile.head_blocks = pages.blocks();
  tile.page_bytes = pages.page_bytes;
  tile.page_table = pages.table.data();
  tile.end_span = 2;
  tile.scratch = scratch.data();
  tile.partials = partials.data();
  tile.partial_stride = queries * size_t(partial_width(sight.head_width));
  tile.out = out.data();
  tile.out_stride = size_t(sight.head_width);
  kernels.of(type).attend(tile);
  tile.out = joined.data();
  kernels.of(type).attend_spans(tile);
  kernels.join(tile);
  CHECK(std::memcmp(out.data(), joined.data(), out.size() * sizeof(float)) == 0);
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
            return of_attention(table.attention, type,
                                {queries, head_width, window, window ? 30.0f : 0.0f});
          });
        }
      }
    }
  }
}
