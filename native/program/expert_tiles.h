#pragma once
// Tiles of a mixture's products: some pairs of one expert, by some panels of one of its matrices. How
// the phases cut their work into them.

#include <algorithm>
#include <cstdint>

#include "program/experts.h"
#include "program/tiles.h"

namespace pyrite {

constexpr int kFewRows = 16;  // with more, a product no longer waits for memory

struct ExpertTile {
  int expert;
  int first_pair, num_pairs;
  int first_panel, num_panels;

  int first_lane() const { return first_panel * kPanelRows; }
  int num_lanes(const MatrixStack& weight) const {
    return std::min(num_panels * kPanelRows, weight.first.rows - first_lane());
  }
};

// Units of work that one chunk takes.
struct UnitRange {
  int first, end;

  // Chunk `chunk` of `chunks`, in which there are `least` at least.
  UnitRange(int units, int chunks, int chunk, int least) {
    const int each = std::max(least, divide_up(units, chunks));
    first = std::min(chunk * each, units);
    end = std::min(first + each, units);
  }
};

// Calls visit(tile) for the tile's panels, at most kTilePanels at a time.
template <class Visit>
void each_panels(ExpertTile tile, Visit visit) {
  const int end = tile.first_panel + tile.num_panels;
  for (; tile.first_panel < end; tile.first_panel += kTilePanels) {
    tile.num_panels = std::min(kTilePanels, end - tile.first_panel);
    visit(tile);
  }
}

// Chunks of few rows, whose units are some panels of an expert: so many of a member.
constexpr int kChunksOfMixture = 24;
constexpr size_t kSmallestMixtureBytes = 16 * 1024;  // of weights, in a chunk

inline int unit_chunks(const Step& step, int pairs, int panels) {
  return int(std::min(int64_t(pairs) * panels, int64_t(step.num_members) * kChunksOfMixture));
}

inline int least_units(size_t unit_bytes) {
  return std::max(1, int(kSmallestMixtureBytes / unit_bytes));
}

// Sums (num_pairs, kTileStride) of a tile with its bias, from prepared rows `first_row` on.
inline void multiply(const ExpertProduct& product, const Activations& in, int first_row,
                     const ExpertTile& tile, const Step& step, float* sums) {
  step.kernels.matmul(product.weight.at(tile.expert), tile.first_panel, tile.num_panels, in,
                      first_row, tile.num_pairs, sums, kTileStride);
  const float* bias = product.bias_of(tile.expert, tile.first_lane());
  if (bias == nullptr) return;
  for (int i = 0; i < tile.num_pairs; ++i) {
    float* lanes = sums + size_t(i) * kTileStride;
    step.kernels.rows.add(lanes, bias, tile.num_lanes(product.weight), lanes);
  }
}

// The prepared rows of a tile's pairs, adjacent: where they are, or copied by the member, who keeps
// them for the next chunk.
Activations rows_of(const ExpertsOp& op, const Step& step, Member& member, const ExpertTile& tile);

// Calls visit(adapter, first, end) for the tile's pairs that adapters are for, those of one together.
template <class Visit>
void each_adapter(const Mixture& mixture, const ExpertTile& tile, Visit visit) {
  if (!mixture.is_adapted) return;
  const int32_t* adapters = mixture.pair_adapters.data();
  const int end = tile.first_pair + tile.num_pairs;
  for (int first = tile.first_pair, after; first < end; first = after) {
    after = first + 1;
    while (after < end && adapters[after] == adapters[first]) ++after;
    if (adapters[first] >= 0) visit(adapters[first], first, after);
  }
}

// Of the products of a mixture, which keep what adapters made of their rows side by side.
enum class Slot : uint8_t { kFirst, kSecond };

// Adds to the sums of a tile what adapters give for its pairs.
void add_adapters(const ExpertsOp& op, const ExpertProduct& product, Slot slot,
                  const ExpertTile& tile, const Step& step, Member& member, float* sums);

}  // namespace pyrite
