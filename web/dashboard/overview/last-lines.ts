/**
 * The last line of each run in progress, read every two seconds while somebody looks.
 *
 * The dashboard socket could push all lines of all runs; thousands of lines a second would come for one line a row.
 */
import { type ReadonlySignal, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { host } from '../state/host.ts'
import { live } from '../state/live.ts'

const EVERY_MS = 2_000
/** Events that are no line stand between the last lines. */
const EVENTS_READ = 5
/** More rows than fit on a screen. */
const RUNS_MAX = 24

const lines = signal<ReadonlyMap<string, string>>(new Map())

/** @param runIds in the order of the rows */
export function useLastLines(runIds: readonly string[]): ReadonlySignal<ReadonlyMap<string, string>> {
  const key = runIds.slice(0, RUNS_MAX).join(' ')
  useEffect(() => {
    const asked = key.split(' ').filter(Boolean)
    let isOver = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const read = async (): Promise<void> => {
      if (!document.hidden && live.value.state === 'live') await readLines(asked).catch(ignore)
      if (!isOver) timer = setTimeout(() => void read(), EVERY_MS)
    }
    void read()
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [key])
  return lines
}

/** Rows have no line when the part that finds it could not be loaded. */
const ignore = (): void => {}

async function readLines(runIds: readonly string[]): Promise<void> {
  // The first picture does without.
  const { newestLine } = await import('../../../client/newest-line.ts')
  const found = await Promise.all(
    runIds.map(async (id) => {
      const events = await host.readRunEvents({ id, tail: EVENTS_READ }).catch(() => [])
      return [id, newestLine(events)] as const
    }),
  )
  const changed = new Map(lines.value)
  for (const [id, line] of found) if (line !== undefined) changed.set(id, line)
  lines.value = changed
}
