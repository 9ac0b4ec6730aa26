/**
 * The terminal of a run, in a frame: its document is the only one whose library may write styles.
 *
 * Every key belongs to the terminal while it has the focus.
 */

import { useEffect, useRef } from 'preact/hooks'
import type { Run } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { navigate } from '../../router.ts'
import { runAddress } from '../addresses.ts'
import { factsOf } from '../runs/run-acts.ts'
import { whyNot } from '../runs/run-rules.ts'
import { workers } from '../state/records.ts'

export function TerminalFrame({ run }: { readonly run: Run }) {
  const reason = whyNot('attach', run, factsOf(run))
  const worker = workers.value.find(({ id }) => id === run.sandbox.workerId)
  const open = worker?.attachSessions ?? 0
  const wasOpen = useRef(worker?.attachedRuns?.includes(run.id) === true)
  useEffect(() => {
    const onMessage = ({ origin, data }: MessageEvent) => {
      if (origin === location.origin && data === 'leave terminal') navigate(runAddress(run.id))
    }
    addEventListener('message', onMessage)
    return () => removeEventListener('message', onMessage)
  }, [run.id])
  if (reason !== undefined)
    return (
      <div class="card empty">
        <strong>The terminal cannot be opened</strong>
        <p>{reason}</p>
      </div>
    )
  return (
    <section class="card terminal-panel" aria-label="Terminal">
      <div class="terminal-bar">
        <strong>Terminal</strong>
        <span class="quiet">
          {wasOpen.current ? 'Somebody had it open before you, and may type too. ' : ''}
          {open > 1 ? `${open} terminals are open on ${worker?.name}. ` : ''}The sandbox is released soon
          after everybody has left.
        </span>
        <Button small act={() => navigate(runAddress(run.id))}>
          Leave
        </Button>
      </div>
      <iframe
        class="terminal-frame"
        title={`Terminal of ${run.ticket.identifier}`}
        src={`/terminal.html?run=${encodeURIComponent(run.id)}`}
      />
    </section>
  )
}
