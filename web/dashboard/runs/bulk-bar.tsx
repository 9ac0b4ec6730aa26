/** The bar of acts on all marked runs. An act says for how many of them it is possible, and does nothing to the others. */
import { waitsToPublish } from '../../../client/artifact-names.ts'
import type { Run } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { askBefore } from '../../elements/dialog.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { countOf } from '../../text/amounts.ts'
import { host } from '../state/host.ts'
import { runs } from '../state/records.ts'
import { factsOf } from './run-acts.ts'
import { whyNot } from './run-rules.ts'
import { marked, unmarkAll } from './selection.ts'

type BulkAct = 'retry' | 'followup' | 'cancel'

interface BulkWords {
  readonly button: string
  readonly busy: string
  readonly done: string
  readonly none: string
}

const WORDS: Readonly<Record<BulkAct, BulkWords>> = {
  retry: {
    button: 'Retry',
    busy: 'Retrying',
    done: 'queued again',
    none: 'None of them can be retried now.',
  },
  followup: {
    button: 'Send follow-ups',
    busy: 'Sending',
    done: 'followed up',
    none: 'None of them has an open pull request.',
  },
  cancel: { button: 'Cancel…', busy: 'Cancelling', done: 'cancelled', none: 'All of them have ended.' },
}
/** More at once would only wait for one another. */
const AT_ONCE = 8

export function BulkBar() {
  const chosen = [...marked.value].flatMap((id) => runs.value.get(id) ?? [])
  if (chosen.length === 0) return null
  return (
    <div class="bulk-bar" role="toolbar" aria-label="Acts on the marked runs">
      <strong>{countOf(chosen.length, 'run')} marked</strong>
      {(['retry', 'followup', 'cancel'] as const).map((act) => (
        <BulkButton key={act} act={act} chosen={chosen} />
      ))}
      <Button kind="plain-quiet" act={unmarkAll}>
        Unmark all
      </Button>
    </div>
  )
}

function BulkButton({ act, chosen }: { readonly act: BulkAct; readonly chosen: readonly Run[] }) {
  // Work that waits is published by itself; a run of its own asks its agent again.
  const possible = chosen.filter(
    (run) => whyNot(act, run, factsOf(run)) === undefined && !(act === 'retry' && waitsToPublish(run)),
  )
  const words = WORDS[act]
  return (
    <Button
      kind={act === 'cancel' ? 'destructive' : 'plain'}
      busyWord={words.busy}
      unavailable={possible.length === 0 ? words.none : undefined}
      act={() => start(act, possible)}
    >
      {words.button} {possible.length > 0 && possible.length < chosen.length ? `(${possible.length})` : ''}
    </Button>
  )
}

async function start(act: BulkAct, chosen: readonly Run[]): Promise<void> {
  if (act === 'cancel' && !(await confirmCancel(chosen))) return
  let done = 0
  const waiting = [...chosen]
  const work = async (): Promise<void> => {
    for (let run = waiting.shift(); run !== undefined; run = waiting.shift()) {
      try {
        await CALLS[act](run.id)
        done += 1
      } catch (error) {
        showError(error)
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  unmarkAll()
  if (done > 0) showOutcome(`${countOf(done, 'run')} ${WORDS[act].done}.`)
}

const CALLS: Readonly<Record<BulkAct, (id: string) => Promise<unknown>>> = {
  retry: (id) => host.retryRun({ id }),
  followup: (id) => host.followUpRun({ id }),
  cancel: (id) => host.cancelRun({ id }),
}

function confirmCancel(chosen: readonly Run[]): Promise<boolean> {
  const working = chosen.filter(({ status }) => status !== 'queued').length
  return askBefore({
    title: `Cancel ${countOf(chosen.length, 'run')}?`,
    loses: `${working === 0 ? 'None of them' : countOf(working, 'run')} ${working === 1 || working === 0 ? 'has' : 'have'} begun to work. What their agents have not pushed stays in their sandboxes until retention ends.`,
    keep: 'Keep runs',
    act: `Cancel ${countOf(chosen.length, 'run')}`,
  })
}
