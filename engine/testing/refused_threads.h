#ifndef TESSERA_ENGINE_TESTING_REFUSED_THREADS_H_
#define TESSERA_ENGINE_TESTING_REFUSED_THREADS_H_

namespace tessera::engine_internal {

// A program that links this gets a pthread_create that fails when it is told to, as where the
// system gives no more threads; or that makes threads which begin late.

/// From here on so many threads are made, and then no more.
void RefuseThreadsAfter(int count);
/// As ever.
void AllowThreads();

/// After the next so many threads the one that follows begins nothing before BeginDelayedThread.
void DelayThreadAfter(int count);
void BeginDelayedThread();
/// Whether there is such a thread.
bool HasDelayedThread();

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_REFUSED_THREADS_H_
