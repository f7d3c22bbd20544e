#include "program/step.h"

#include <algorithm>

namespace pyrite {

void Step::lay_out(const Batch& next) {
  batch = next;
  ++number;
  end_position = 0;
  for (int row = 0; row < batch.num_tokens; ++row) {
    end_position = std::max(end_position, batch.positions[row] + 1);
  }
  tiles.clear();
  one_tile_each = true;
  for (int sequence = 0; sequence < batch.num_sequences; ++sequence) {
    const int start = batch.sequence_starts[sequence];
    const int end = batch.sequence_starts[sequence + 1];
    one_tile_each &= end - start <= tile_rows;
    for (int row = start; row < end; row += tile_rows) {
      tiles.push_back({sequence, row, std::min(tile_rows, end - row)});
    }
  }
}

}  // namespace pyrite
