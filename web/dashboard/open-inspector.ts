import { hasEnded } from '../../client/run-events.ts'
import type { Run } from '../../protocol/run.ts'

/** A run that has ended is a record; its actor has ended too. */
export const whyNoActor = (run: Run): string | undefined =>
  hasEnded(run) ? 'The run has ended, and the inspector shows what is alive.' : undefined

/** Opens the inspector, where one is served, at an actor: `run/ID`. */
export async function openInspector(actor: string): Promise<void> {
  // A window that is opened later would be taken for one that nobody asked for.
  const opened = window.open('', '_blank')
  const response = await fetch('/inspector').catch(() => undefined)
  const body: unknown = await response?.json().catch(() => undefined)
  const link: unknown = Reflect.get(Object(body), 'link')
  if (opened !== null && typeof link === 'string') {
    const address = new URL(link)
    address.searchParams.set('actor', actor)
    opened.opener = null
    opened.location.href = address.href
    return
  }
  opened?.close()
  const reason: unknown = Reflect.get(Object(body), 'error')
  throw new Error(typeof reason === 'string' ? reason : 'The inspector cannot be reached.')
}
