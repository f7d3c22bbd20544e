#pragma once
// What one step of a program works on: the batch, and the scratch of each member of the team.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "program/region.h"

namespace pyrite {

struct Mixture;

enum class Rows : uint8_t { kTokens, kOutputs };

// One step's work, flat; the fields are those of `pyrite.backends.base.Batch`, checked.
struct Batch {
  int num_tokens = 0;
  int num_sequences = 0;
  int num_outputs = 0;
  const int32_t* token_ids = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* sequence_starts = nullptr;
  const int32_t* page_tables = nullptr;
  int page_table_width = 0;
  const int32_t* output_rows = nullptr;
  const int32_t* state_slots = nullptr;  // (sequences,), if the plan has states
  const int32_t* adapters = nullptr;     // (sequences,) -1: none; or absent: none for all
};

// Adjacent rows of one sequence, or some of its wanted rows: a tile, whose queries are attended together, or a run, whose keys
// and values lie in one page.
struct RowRange {
  int sequence;
  int first_row;
  int num_rows;
};

// Some spans of what a tile sees, that one member walks. `first_partial` counts the partials, one a
// row and span, of the pieces before; it is -1 where the piece is all that the tile sees.
struct Piece {
  int tile;
  int first_span, end_span;
  int first_partial;

  bool whole() const { return first_partial < 0; }
};

// How the tiles of tokens, or of wanted rows, are cut for the layers of one window and number of
// key heads. The cut follows the
// threads and the batch, and changes no bit: partials are of single spans, see kernels/attention.h.
struct TileCut {
  Rows rows;
  int window;
  int key_heads;
  std::vector<Piece> pieces;  // the largest first
  std::vector<Piece> joined;  // the tiles that were cut, whole
};

// The columns of a value: row r is at data + r * stride.
struct Slice {
  float* data = nullptr;
  size_t stride = 0;
  int width = 0;

  float* row(int index) const { return data + size_t(index) * stride; }
  explicit operator bool() const { return data != nullptr; }
};

// A member's own scratch. `activations` holds the rows of operation `prepared_by` in step
// `prepared_in`: of a mixture, those of the pairs from `prepared_pair` on.
struct Member {
  Region region;
  float* row = nullptr;         // one row of the widest input
  float* tile = nullptr;        // sums of three tiles that are combined before they are written
  float* attention = nullptr;   // queries, results and the kernel's scratch
  uint8_t* activations = nullptr;
  const void* prepared_by = nullptr;
  uint32_t prepared_in = 0;
  int prepared_pair = 0;
};

// Adds a cut unless it is there.
void add_cut(std::vector<TileCut>& cuts, Rows rows, int window, int key_heads);

struct Step {
  explicit Step(const KernelTable& table) : kernels(table) {}

  const KernelTable& kernels;
  int num_members = 1;
  int tile_rows = 1;               // of a query tile at most
  float* partials = nullptr;       // of the running AttendOp
  int max_partials = 0;            // that fit, one a row and span
  uint8_t* pages = nullptr;
  size_t page_bytes = 0;
  float* states = nullptr;
  size_t state_floats = 0;         // of a slot
  uint8_t* activations = nullptr;  // prepared rows of the running Linear, shared
  Mixture* mixture = nullptr;      // that runs
  uint8_t* finite = nullptr;       // (outputs,) set to 0 for a row of logits with NaN or infinity

  // Of the step that runs, filled by lay_out.
  uint32_t number = 0;
  Batch batch;
  std::vector<RowRange> tiles, runs;  // of the whole batch
  std::vector<RowRange> output_tiles;  // where some layer attends for wanted rows alone
  std::vector<TileCut> cuts;          // one a window and number of key heads, known beforehand
  bool one_tile_each = false;  // no sequence has a second tile
  int end_position = 0;        // one past the largest

  // Before the first step, when all else is known: steps allocate nothing.
  void reserve(int max_tokens);
  void lay_out(const Batch& next);
  const TileCut& cut(Rows rows, int window, int key_heads) const;
  const std::vector<RowRange>& tiles_of(Rows rows) const {
    return rows == Rows::kTokens ? tiles : output_tiles;
  }
  int position(Rows rows, int row) const {
    return batch.positions[rows == Rows::kTokens ? row : batch.output_rows[row]];
  }
  // What an operation whose state begins `offset` floats into a slot remembers of a sequence.
  float* state(int sequence, size_t offset) const {
    return states + size_t(batch.state_slots[sequence]) * state_floats + offset;
  }
  // Of a row of logits, by any member.
  void mark_broken(int row) const {
    std::atomic_ref<uint8_t>(finite[row]).store(0, std::memory_order_relaxed);
  }
  int num_rows(Rows rows) const {
    return rows == Rows::kTokens ? batch.num_tokens : batch.num_outputs;
  }

 private:
  bool attends_outputs() const;
  void lay_out_rows(int sequence);
  void lay_out_outputs();
  void lay_out(TileCut& cut) const;
  int64_t work_of(const TileCut& cut, const Piece& piece) const;
};

}  // namespace pyrite
