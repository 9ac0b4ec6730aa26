/** Keeps the output of a pseudo-terminal flowing. */
import type { IPty } from '@lydell/node-pty'

/**
 * On a busy machine, a process that reads several terminals sometimes misses the notice of new output and would wait
 * for ever. Pausing and resuming the terminal reads the output.
 */
const REREAD_EVERY_MS = 500

/** Returns the function that ends it. */
export function keepReading(pty: Pick<IPty, 'pause' | 'resume'>): () => void {
  const timer = setInterval(() => {
    pty.pause()
    pty.resume()
  }, REREAD_EVERY_MS)
  return () => clearInterval(timer)
}
