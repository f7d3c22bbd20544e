#pragma once
// A thread team: the caller and size - 1 threads of its own, which do one kind of work together,
// again and again, and are parked in between. It knows nothing of what the work is.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace pyrite {

class Team {
 public:
  // `work(context, member, epoch)` is called by every member, the caller being member 0.
  using Work = void (*)(void* context, int member, uint32_t epoch);

  // Throws std::runtime_error when the system has no threads left; none is left behind then.
  Team(int size, Work work, void* context);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }
  // The epoch that the next run() will have; work is laid out for it beforehand.
  uint32_t next_epoch() const;
  // Returns when the caller's own part returns. Other members may still be on their way out.
  void run();

 private:
  // What the members share. After a fork the child leaves the parent's behind and starts anew.
  struct Shared {
    std::atomic<uint32_t> epoch{0};
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
  };

  void start();
  void dismiss();
  void serve(Shared* shared, int member, uint32_t done);

  const int size_;
  const Work work_;
  void* const context_;
  std::unique_ptr<Shared> shared_;
  pid_t owner_ = 0;
  uint32_t epoch_ = 0;
};

}  // namespace pyrite
