/**
 * Reads how late a host's event loop was at most, from its metrics: the host's own longest turn, and on a busy machine
 * the time that other processes took from it.
 */
import type { Target } from './figures.ts'
import type { ServedHost } from './served-host.ts'

export const TURN_TARGET: Target = { of: 'ours', is: 'at most', bound: 50 }

const LINE = /^nodejs_eventloop_lag_max_seconds (\S+)$/m

/** Returns the longest lag in milliseconds since the last call. */
export async function longestTurnMs({ port, token }: Pick<ServedHost, 'port' | 'token'>): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const text = await response.text()
  const seconds = Number(LINE.exec(text)?.[1])
  if (!response.ok || Number.isNaN(seconds)) throw new Error(`no lag in the metrics (${response.status})`)
  return seconds * 1_000
}
