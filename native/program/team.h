#pragma once
// A thread team: the caller and size - 1 threads of its own, which do one step of work together, again
// and again, and are parked in between. A step is a list of phases, one after the other; a phase is a
// number of chunks, in any order. It knows nothing of what the work is.
//
// One word says which phase is open. Every member watches it, takes chunks of that phase (share.h),
// and whoever finishes the last one opens the next. So a phase does not wait for members, only for
// its chunks; and a member that the system held back joins whatever it finds open, of this step or a
// later one. It reads nothing of a step without holding a chunk of it.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "program/attendance.h"
#include "program/share.h"
#include "program/stopwatch.h"

namespace pyrite {

class Team {
 public:
  // Does one chunk; the caller of run() is member 0.
  using Work = void (*)(void* context, int member, int phase, int chunk);

  // Processors that each member keeps to; none where all may run anywhere.
  using Places = std::vector<std::vector<int>>;

  // Throws std::runtime_error when the system has no threads left; none is left behind then.
  Team(int size, int num_phases, Work work, void* context, Places places = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }
  // One step: so many chunks of each phase. Returns when all are finished. Phases without chunks cost
  // nothing.
  void run(std::span<const int> chunks);

  Stopwatch& stopwatch() { return stopwatch_; }

 private:
  // What is open: its number since the beginning, which of the step's phases it is, and how many
  // tickets it has: of some chunks each, so that their number fits. Without tickets, nothing is open.
  struct Open {
    uint32_t number;
    int phase;
    int tickets;

    static Open of(uint64_t word);
    uint64_t word() const;
  };
  // One of the step that runs. `next` is the one after it that has chunks, or kOver.
  struct Phase {
    int chunks;
    int chunks_a_ticket;
    int next;

    int tickets() const { return (chunks + chunks_a_ticket - 1) / chunks_a_ticket; }
  };
  static constexpr int kOver = -1;
  // What the members share. After a fork the child leaves the parent's behind and starts anew.
  struct Shared {
    explicit Shared(int size) : present(size), shares(new Share[size_t(size)]) {}

    alignas(64) std::atomic<uint64_t> open{0};
    alignas(64) std::atomic<int> unfinished{0};  // tickets
    alignas(64) std::atomic<int64_t> stalled{0};  // nanoseconds that members were idle past spins
    // Members that take part. Not at the start of a line, for the library finds who waits by the low
    // bits of an address, and whoever waits here would make each opening of a phase wake somebody.
    std::atomic<int> present;
    std::atomic<bool> stop{false};
    std::unique_ptr<Share[]> shares;
    std::vector<std::thread> threads;
  };

  void start();
  void dismiss();
  void serve(Shared* shared, int member);
  int plan(std::span<const int> chunks);
  void choose_present(Clock::time_point begun);
  void open(Shared& shared, uint32_t number, int phase);
  void work(Shared& shared, int member, const Open& open);
  int take(Shared& shared, int member, const Open& open) const;
  void finish(Shared& shared, int tickets, const Open& open);
  uint64_t wait(Shared& shared, int member, uint64_t seen);

  const int size_;
  const Work work_;
  void* const context_;
  const Places places_;
  const int spins_;
  std::unique_ptr<Shared> shared_;
  pid_t owner_ = 0;
  std::vector<Phase> phases_;  // of the step that runs
  Attendance attendance_;
  Stopwatch stopwatch_;
};

}  // namespace pyrite
