/** `settledMemory` measures this process behind a garbage collection, which shows what it really keeps. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

export interface MemoryMib {
  readonly heap: number
  readonly rss: number
}

export function settledMemory(): MemoryMib {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  const { heapUsed, rss } = process.memoryUsage()
  return { heap: heapUsed / 1024 / 1024, rss: rss / 1024 / 1024 }
}
