/**
 * Measures the CPU time that a piece of work costs this process.
 *
 * A wall clock would also count the work of other processes, which on a busy machine is most of the elapsed time.
 */

/** Returns the CPU time of `work` in milliseconds. */
export function measureCpuMs(work: () => void): number {
  const before = process.cpuUsage()
  work()
  return cpuMsSince(before)
}

/** Measures asynchronous work; other work of this process in the same period counts too. */
export async function measureAsyncCpuMs(run: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await run()
  return cpuMsSince(before)
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}
