/**
 * What a piece of work costs this process, for bounds that are about the work.
 *
 * A clock on the wall would also count what others do on the machine meanwhile, and on a busy one that is most of it.
 */

/** Of the processor, in milliseconds. */
export function measureCpuMs(work: () => void): number {
  const before = process.cpuUsage()
  work()
  return cpuMsSince(before)
}

/** The same of work that takes turns with others; what runs besides in this process counts too. */
export async function measureAsyncCpuMs(run: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await run()
  return cpuMsSince(before)
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}
